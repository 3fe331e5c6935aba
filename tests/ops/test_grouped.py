"""Products of rows with the matrix of their group, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dglite import ops
from dglite.errors import DGLError
from dglite.ops.core import group_rows, grouped_mm


def double(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


GROUPS = {"mixed": [2, 0, 2, 0, 3], "sorted": [0, 0, 2, 3, 3], "one": [1] * 5, "none": []}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_rows_meet_the_matrix_of_their_group(groups: list[int], batch: tuple[int, ...]) -> None:
    x, w = double(len(groups), *batch, 2), double(4, *batch, 2, 3)
    result = group_rows(np.array(groups, np.int64), 4)
    expected = torch.einsum("n...i,n...io->n...o", x, w[torch.tensor(groups, dtype=torch.int64)])
    torch.testing.assert_close(grouped_mm(result, x, w), expected)
    assert torch.autograd.gradcheck(lambda x, w: grouped_mm(result, x, w), (x, w), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x, w: grouped_mm(result, x, w), (x, w), fast_mode=True)


def test_matrices_that_are_not_contiguous() -> None:
    x, w = double(5, 2), double(4, 3, 2)
    result = group_rows([2, 0, 2, 0, 3], 4)
    expected = torch.einsum("ni,noi->no", x, w[torch.tensor([2, 0, 2, 0, 3])])
    torch.testing.assert_close(grouped_mm(result, x, w.transpose(1, 2)), expected)


def test_dgls_names() -> None:
    a, b = double(3, 2), double(2, 2, 4)
    expected = torch.cat([a[:1] @ b[0], a[1:] @ b[1]])
    torch.testing.assert_close(ops.segment_mm(a, b, torch.tensor([1, 2])), expected)
    torch.testing.assert_close(ops.gather_mm(a, b, idx_b=torch.tensor([0, 1, 1])), expected)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ops.segment_mm(double(3, 2), double(2, 2, 4), torch.tensor([1, 1])), r"lengths \[1, 1\] for 3 rows"),
        (lambda: ops.gather_mm(double(3, 2), double(2, 2, 4), idx_b=torch.tensor([0, 2, 1])), "idx_b hold 2"),
        (lambda: ops.gather_mm(double(3, 2), double(2, 2, 4), idx_b=torch.tensor([0, 1])), "2 indices for 3 rows"),
        (lambda: group_rows([0.5], 2), "types must be integers"),
        (lambda: group_rows([[0]], 2), r"shape \(1, 1\)"),
        (lambda: group_rows([-1], 2), "types hold -1; expected numbers from 0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused(call: object, text: str) -> None:
    with pytest.raises(DGLError, match=text):
        call()  # type: ignore[operator]
