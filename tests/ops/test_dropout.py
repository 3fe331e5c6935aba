"""Dropout of features by our kernel: what is kept is scaled, gradients see the same draw, seeds repeat it."""

from __future__ import annotations

import pytest
import torch

from dglite.backend import active, torch_memory
from dglite.kernels.cpu.run import launch
from dglite.ops.dropout import dropout


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the kernel, on all threads."""
    monkeypatch.setattr(torch_memory, "LARGE", 1)
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.9])
def test_what_is_kept_is_scaled_and_gradients_see_the_same_draw(p: float, dtype: torch.dtype) -> None:
    x = torch.arange(1.0, 301 * 101 + 1, dtype=dtype).view(301, 101).requires_grad_()
    y = dropout(x, p)
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(1 - p, abs=0.01)
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))
    for part in (kept[:, 0], kept[0], kept[:, -1]):  # nothing follows from the place
        assert part.double().mean().item() == pytest.approx(1 - p, abs=0.15)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad, kept.to(dtype) / (1 - p))


def test_equal_seeds_drop_the_same_on_any_number_of_threads() -> None:
    x, threads = torch.rand(77, 33), torch.get_num_threads()
    results = []
    for count in (1, 2, 2):
        torch.set_num_threads(count)
        torch.manual_seed(5)
        results.append(dropout(x, 0.5))
    torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1]) and torch.equal(results[1], results[2])
    assert not torch.equal(dropout(x, 0.5), results[0])


def test_everything_nothing_and_corner_cases() -> None:
    assert torch.equal(dropout(torch.rand(5, 7), 1.0), torch.zeros(5, 7))
    assert dropout(torch.zeros(0, 3), 0.5).shape == (0, 3)
    column = torch.rand(9, 40).t()  # not contiguous
    y = dropout(column, 0.5)
    assert torch.equal(y[y != 0], 2 * column[y != 0])
    assert dropout(torch.ones(4, 4, dtype=torch.bfloat16), 0.5).dtype is torch.bfloat16


def test_gradients_of_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active, "draw_seed", lambda: 7)
    x = torch.rand(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: dropout(x, 0.4), x, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: dropout(x, 0.4), x, fast_mode=True)
