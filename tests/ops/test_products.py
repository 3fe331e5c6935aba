"""A layer's product with bias and ReLU is the steps; its gradients are of any order, and its sums accurate."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from dglite import DGLError
from dglite.backend import torch_memory
from dglite.kernels.cpu.rows import products
from dglite.kernels.cpu.run import launch
from dglite.nn.functional.given import activated, formula_of
from dglite.ops import biases
from dglite.ops.biases import bias_gradient
from dglite.ops.products import product, sum_of_products, weight_gradient


@pytest.fixture(autouse=True, params=[True, False], ids=["our kernels", "narrow ones by our kernels"])
def pooled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take memory of the pool for all results, and be on a CPU where our kernels are faster, or are not."""
    monkeypatch.setattr(torch_memory, "LARGE", 1)
    monkeypatch.setattr(products, "_outruns_libraries", lambda: request.param)


@pytest.mark.parametrize(("with_bias", "relu"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("sizes", [(3, 4), (8, 8)])
def test_it_is_the_steps_with_gradients_of_any_order(with_bias: bool, relu: bool, sizes: tuple[int, int]) -> None:
    torch.manual_seed(0)
    shapes = (4, sizes[0]), sizes, sizes[1:]
    x, weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    inputs = (x, weight, bias) if with_bias else (x, weight)

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return product(x, weight, bias, relu)

    expected = x @ weight + (bias if with_bias else 0)
    torch.testing.assert_close(function(*inputs), expected.relu() if relu else expected)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)
    for each in inputs:  # some need none
        alone = [y if y is each else y.detach() for y in inputs]
        assert torch.autograd.gradcheck(function, alone, fast_mode=True)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("sizes", [(3, 4), (8, 8)])
def test_a_sum_of_products_has_gradients_of_any_order(with_bias: bool, sizes: tuple[int, int]) -> None:
    shapes = (4, sizes[0]), sizes, sizes[1:], (4, 6), (6, sizes[1])
    inputs = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    x, weight, bias, y, other = inputs
    if not with_bias:
        inputs[2], bias = None, torch.zeros(())
    torch.testing.assert_close(sum_of_products(*inputs), x @ weight + bias + y @ other)
    for expected in [each for each in inputs if each is not None]:  # some need none
        alone = [None if each is None else each if each is expected else each.detach() for each in inputs]
        assert torch.autograd.gradcheck(sum_of_products, alone, fast_mode=True)
    assert torch.autograd.gradcheck(sum_of_products, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(sum_of_products, inputs, fast_mode=True)
    with torch.autocast("cpu", torch.bfloat16):
        single = [None if each is None else each.detach().float().requires_grad_() for each in inputs]
        result = sum_of_products(*single)
    assert result.dtype is torch.bfloat16
    result.sum().backward()


SIZES = [(16, 16), (32, 64), (64, 32), (16, 48), (64, 8), (8, 40), (7, 16), (3, 300), (150, 37)]


@pytest.mark.parametrize(("inner", "outer"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("relu", [False, True])
def test_narrow_and_wide_products_agree_with_torch(
    inner: int, outer: int, dtype: torch.dtype, relu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)
    torch.manual_seed(inner)
    x, weight = torch.randn(inner, 1001, dtype=dtype).t(), torch.randn(outer, inner, dtype=dtype).t()
    bias, grad = torch.randn(2 * outer, dtype=dtype)[::2], torch.randn(outer, 1001, dtype=dtype).t()
    for needs in itertools.product([False, True], repeat=3):
        ours, theirs = (
            [y.detach().clone().requires_grad_(n) for y, n in zip((x, weight, bias), needs, strict=True)] for _ in "ab"
        )
        expected = theirs[0].double() @ theirs[1].double() + theirs[2].double()
        expected, result = expected.relu() if relu else expected, product(*ours, relu)
        torch.testing.assert_close(result, expected.to(dtype), rtol=1e-5, atol=1e-4)
        if any(needs):
            result.backward(grad)
            expected.backward(grad.double())
        for ours_one, theirs_one in zip(ours, theirs, strict=True):
            torch.testing.assert_close(ours_one.grad, theirs_one.grad, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(("inner", "outer"), [(64, 16), (16, 8), (40, 40), (7, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_gradient_of_a_weight_alone(inner: int, outer: int, dtype: torch.dtype) -> None:
    x, grad = torch.randn(inner, 1001, dtype=dtype).t(), torch.randn(1001, outer, dtype=dtype)
    expected = x.double().t() @ grad.double()
    loose = 1e-1 if dtype is torch.bfloat16 else 1e-3
    torch.testing.assert_close(weight_gradient(x, grad).double(), expected, rtol=loose, atol=loose * 10)


def test_a_product_of_no_rows_or_columns() -> None:
    for rows, inner in ((0, 16), (5, 0)):
        x, weight = torch.zeros(rows, inner, requires_grad=True), torch.ones(inner, 16, requires_grad=True)
        bias = torch.ones(16, requires_grad=True)
        result = product(x, weight, bias, True)
        result.sum().backward()
        assert torch.equal(result, torch.ones(rows, 16)) and torch.equal(
            x.grad, torch.zeros(rows, inner) + 16 * bool(inner)
        )
        assert torch.equal(weight.grad, torch.zeros(inner, 16)) and torch.equal(
            bias.grad, torch.full((16,), float(rows))
        )


def test_nan_goes_through_relu_as_in_torch() -> None:
    x = torch.tensor([[torch.nan], [1.0], [-1.0]]).expand(3, 16).clone().requires_grad_()
    result = product(x, torch.eye(16), None, True)
    result.sum().backward()
    same = x.detach().clone().requires_grad_()
    (same @ torch.eye(16)).relu().sum().backward()
    assert torch.equal(x.grad, same.grad) and torch.equal(result.isnan(), same.isnan())


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


ACTIVATIONS = [
    None,
    torch.tanh,
    F.elu,
    F.relu,
    torch.nn.LeakyReLU(0.3),
    torch.nn.ELU(0.5),
    torch.nn.Softplus(2.0),
    F.gelu,
]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda x: getattr(x, "__name__", str(x)))
@pytest.mark.parametrize(("rows", "feat", "strided"), [(5, (3, 4), False), (4, (19,), True), (300, (40,), False)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_bias_and_an_activation_are_torchs(activation, rows, feat, strided, with_bias) -> None:
    torch.manual_seed(rows)
    x = torch.randn(rows, *feat, dtype=torch.float64)
    x = (x.movedim(0, -1).contiguous().movedim(-1, 0) if strided else x).requires_grad_()
    bias = torch.randn(*feat, dtype=torch.float64, requires_grad=True) if with_bias else None
    inputs = (x, bias) if with_bias else (x,)
    if with_bias or activation is not None:
        assert biases.has_kernel(x, bias)
    expected = x + bias if with_bias else x
    expected = expected if activation is None else activation(expected)
    result = activated(x, bias, activation)
    torch.testing.assert_close(result, expected)
    grad = torch.randn_like(result)
    for ours, theirs in zip(
        torch.autograd.grad(result, inputs, grad),
        torch.autograd.grad(expected, inputs, grad, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
    if rows < 10:
        assert torch.autograd.gradgradcheck(
            lambda *given: activated(*given, *(() if with_bias else (None,)), activation), inputs, fast_mode=True
        )
    if with_bias:
        alone = torch.autograd.grad(activated(x.detach(), bias, activation), bias, grad)[0]
        torch.testing.assert_close(alone, torch.autograd.grad(expected, bias, grad)[0])


def test_other_activations_are_called() -> None:
    x, called = torch.randn(8, 3), []

    class Halving(torch.nn.ELU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2

    hooked = torch.nn.ELU()
    hooked.register_forward_hook(lambda *_: called.append(1))
    for activation in (lambda x: x * 2, Halving(), hooked, torch.nn.PReLU(), torch.nn.Softmax(1), torch.cumsum):
        assert formula_of(activation) is None
    assert torch.equal(activated(x, torch.ones(3), Halving()), (x + 1) / 2)
    assert torch.equal(activated(x, None, hooked), F.elu(x)) and called
    assert torch.equal(activated(x.half(), None, F.elu), F.elu(x.half()))
    assert activated(x[:0], torch.ones(3), F.elu).shape == (0, 3)


@pytest.mark.parametrize("recipe", ["1 0 0", "1 1 0", "1 1 1", "1 0 1", "2 0 0", "2 1 0"])
def test_the_operator_of_programs_is_the_steps(recipe: str) -> None:
    count, bias, relu = map(int, recipe.split())
    torch.manual_seed(0)
    shapes = [(4, 3), (3, 5), (4, 2), (2, 5)][: 2 * count] + [(5,)] * bias
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def run(*inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.dglite.products.default(list(inputs), inputs[1], inputs[1], 0, 0, recipe)[0]

    expected = sum((inputs[i] @ inputs[i + 1] for i in range(0, 2 * count, 2)), inputs[-1] if bias else 0)
    torch.testing.assert_close(run(*inputs), expected.relu() if relu else expected)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
    with pytest.raises(DGLError, match=r"expected \(rows, in\) and \(in, out\)"):
        run(inputs[0], inputs[1].T, *inputs[2:])
