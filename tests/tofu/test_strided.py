"""as_strided of dense tensors is written as views of dimensions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dglite.tofu.strided import strided_view


@st.composite
def views(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a dense tensor, its dimensions in any order of memory, and a view of it."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    base = torch.randn(shape).permute(draw(st.permutations(range(len(shape)))))
    x = base
    for _ in range(draw(st.integers(0, 3))):
        d = draw(st.integers(0, x.dim() - 1))
        kind = draw(st.sampled_from(["narrow", "select", "permute", "unsqueeze"]))
        if kind == "narrow":
            start = draw(st.integers(0, x.shape[d] - 1))
            x = x.narrow(d, start, draw(st.integers(1, x.shape[d] - start)))
        elif kind == "select" and x.dim() > 1:
            x = x.select(d, draw(st.integers(0, x.shape[d] - 1)))
        elif kind == "permute":
            x = x.permute(draw(st.permutations(range(x.dim()))))
        elif kind == "unsqueeze":
            x = x.unsqueeze(d)
    return base, x


@given(views())
def test_a_view_is_written_by_dimensions(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    base, x = pair
    view = strided_view(base, x.shape, x.stride(), x.storage_offset())
    assert view is not None
    assert torch.equal(view(base), x)
    assert view(base).data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((4, 4), (0, 1), 0), ((3, 3), (1, 1), 0), ((5,), (3,), 0), ((2, 8), (8, 1), 8)],
    ids=["expanded", "overlapping", "not a dimension", "beyond the end"],
)
def test_other_places_in_memory_are_left_alone(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> None:
    assert strided_view(torch.empty(4, 4), size, stride, offset) is None


def test_the_base_has_to_be_dense() -> None:
    assert strided_view(torch.empty(4, 4)[:, :2], (4, 2), (4, 1), 0) is None
