"""A layer's product with bias and ReLU is the steps; its gradients are of any order, and its sums accurate."""

from __future__ import annotations

import itertools

import pytest
import torch

from dglite.backend import torch_memory
from dglite.ops.products import bias_gradient, product


@pytest.fixture(autouse=True)
def pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take memory of the pool for all results."""
    monkeypatch.setattr(torch_memory, "LARGE", 1)


@pytest.mark.parametrize(("with_bias", "relu"), list(itertools.product([False, True], repeat=2)))
def test_it_is_the_steps_with_gradients_of_any_order(with_bias: bool, relu: bool) -> None:
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((6, 3), (3, 4), (4,)))
    inputs = (x, weight, bias) if with_bias else (x, weight)

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return product(x, weight, bias, relu)

    expected = x @ weight + (bias if with_bias else 0)
    assert torch.equal(function(*inputs), expected.relu() if relu else expected)
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)
    for each in inputs:  # some need none
        alone = [y if y is each else y.detach() for y in inputs]
        assert torch.autograd.gradcheck(function, alone)


@pytest.mark.parametrize("width", [1, 7, 16, 37, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("strided", [False, True])
def test_gradients_of_bias_and_relu(width: int, dtype: torch.dtype, strided: bool) -> None:
    torch.manual_seed(width)
    grad = torch.randn(width, 1000, dtype=dtype).t() if strided else torch.randn(1000, width, dtype=dtype)
    result = torch.randn(1000, width, dtype=dtype).relu()
    result[3, 0] = torch.nan  # torch lets the gradient pass there
    expected = torch.where(result <= 0, 0, grad)
    masked, sums = bias_gradient(grad, result, True)
    assert torch.equal(masked, expected)
    torch.testing.assert_close(sums, expected.double().sum(0).to(dtype), rtol=1e-5, atol=1e-4)
    same, sums = bias_gradient(grad, None, True)
    assert torch.equal(same, grad)
    torch.testing.assert_close(sums, grad.double().sum(0).to(dtype), rtol=1e-5, atol=1e-4)
    masked, none = bias_gradient(grad, result, False)
    assert torch.equal(masked, expected) and none is None


def test_no_rows_and_half_precision() -> None:
    masked, sums = bias_gradient(torch.zeros(0, 3), torch.zeros(0, 3), True)
    assert masked.shape == (0, 3) and torch.equal(sums, torch.zeros(3))
    ones = torch.ones(4096, 2, dtype=torch.bfloat16)
    assert torch.equal(bias_gradient(ones, ones, True)[1], torch.full((2,), 4096.0, dtype=torch.bfloat16))


def test_sums_of_many_rows_stay_accurate() -> None:
    rows = 1_000_000
    sums = bias_gradient(torch.full((rows, 1), 0.1), None, True)[1]
    assert abs(sums.item() / (rows * torch.tensor(0.1).double().item()) - 1) < 1e-5
