"""Every operation of the tape: value and gradient are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dglite.backend import toolkit
from dglite.backend.rules import RULES
from dglite.formulas import FORMULAS

RNG = np.random.default_rng(0)
WIDE = RNG.standard_normal((3, 4))
OTHER = RNG.standard_normal((3, 4))
ROW, COLUMN, DEEP = RNG.standard_normal(4), RNG.standard_normal((3, 1)), RNG.standard_normal((2, 3, 4))
POSITIVE = np.abs(WIDE) + 0.1
TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
ZEROS = np.array([[1.0, 0.0, 3.0], [0.0, 0.0, 2.0], [4.0, 5.0, 6.0]])
ROWS, TWICE = np.array([2, 0]), np.array([2, 0, 2, -1])
MASK = np.array([True, False, True])

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

UNARY = "neg exp expm1 sqrt abs sign sin cos tanh sigmoid square relu"
POSITIVE_ONLY = "log log1p rsqrt reciprocal sqrt"
CASES: dict[str, Case] = {
    **{
        name: (lambda lib, x, name=name: getattr(x, name)(), (POSITIVE if name == "sqrt" else WIDE,))
        for name in UNARY.split()
    },
    **{name: (lambda lib, x, name=name: getattr(x, name)(), (POSITIVE,)) for name in POSITIVE_ONLY.split()},
    "silu": (lambda lib, x: lib.nn.functional.silu(x), (WIDE,)),
    "softplus": (lambda lib, x: lib.nn.functional.softplus(x), (30 * WIDE,)),
    "softplus steep": (lambda lib, x: lib.nn.functional.softplus(x, 2.0, 0.5), (WIDE,)),
    "leaky_relu": (lambda lib, x: lib.nn.functional.leaky_relu(x, 0.1), (WIDE,)),
    "elu": (lambda lib, x: lib.nn.functional.elu(x, 0.7), (WIDE,)),
    "clamp": (lambda lib, x: x.clamp(-0.5, 0.5), (WIDE,)),
    "clamp one side": (lambda lib, x: x.clamp(min=0), (WIDE,)),
    "astype": (lambda lib, x: x.float().double(), (WIDE,)),
    "clone": (lambda lib, x: x.clone() * x, (WIDE,)),
    # -- two operands
    "add": (lambda lib, x, y: x + y, (WIDE, ROW)),
    "sub": (lambda lib, x, y: x - y, (ROW, DEEP)),
    "mul": (lambda lib, x, y: x * y, (WIDE, COLUMN)),
    "div": (lambda lib, x, y: x / y, (WIDE, POSITIVE)),
    "numbers": (lambda lib, x: 2 - 3 / (1 + x * x) ** 2, (WIDE,)),
    "power": (lambda lib, x, y: x**y, (POSITIVE, ROW)),
    "power of zero": (lambda lib, x: x**2 + x**1, (ZEROS,)),
    "maximum": (lambda lib, x, y: lib.maximum(x, y), (WIDE, ROW)),
    "minimum": (lambda lib, x, y: lib.minimum(x, y), (TIES, np.full(3, 2.0))),
    "where": (lambda lib, x, y: lib.where(x > 0, x, y), (WIDE, ROW)),
    "masked_fill": (lambda lib, x: x.masked_fill(x > 0, 3.0), (WIDE,)),
    "used twice": (lambda lib, x: x * x + x, (WIDE,)),
    # -- reductions
    "sum": (lambda lib, x: x.sum(), (WIDE,)),
    "sum of an axis": (lambda lib, x: x.sum(1), (DEEP,)),
    "sum of axes": (lambda lib, x: x.sum((0, -1), keepdim=True), (DEEP,)),
    "mean": (lambda lib, x: x.mean(-1), (DEEP,)),
    "amax": (lambda lib, x: x.amax(1), (TIES,)),
    "amin": (lambda lib, x: x.amin(1, keepdim=True), (TIES,)),
    "max": (lambda lib, x: x.max(), (TIES,)),
    "max of an axis": (lambda lib, x: x.max(1).values, (WIDE,)),
    "min of an axis": (lambda lib, x: x.min(0, keepdim=True)[0], (WIDE,)),
    "prod": (lambda lib, x: x.prod(1), (ZEROS,)),
    "prod of all": (lambda lib, x: x.prod(), (WIDE,)),
    "cumsum": (lambda lib, x: x.cumsum(1), (WIDE,)),
    "var": (lambda lib, x: x.var(1), (WIDE,)),
    "std": (lambda lib, x: x.std(0, correction=0), (WIDE,)),
    "norm": (lambda lib, x: x.norm(2, 1), (WIDE,)),
    "logsumexp": (lambda lib, x: x.logsumexp(1), (200 * WIDE,)),
    "softmax": (lambda lib, x: x.softmax(1), (DEEP,)),
    "log_softmax": (lambda lib, x: x.log_softmax(-1), (100 * WIDE,)),
    "cross_entropy": (lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor([0, 3, 1])), (WIDE,)),
    "nll_loss": (lambda lib, x: lib.nn.functional.nll_loss(x, lib.tensor([0, 3, 1])), (WIDE,)),
    "mse_loss": (lambda lib, x, y: lib.nn.functional.mse_loss(x, y), (WIDE, OTHER)),
    "bce": (
        lambda lib, x: lib.nn.functional.binary_cross_entropy_with_logits(x, lib.ones_like(x)),
        (30 * WIDE,),
    ),
    "normalize": (lambda lib, x: lib.nn.functional.normalize(x), (WIDE,)),
    "sort": (lambda lib, x: x.sort(1, descending=True).values, (WIDE,)),
    "topk": (lambda lib, x: x.topk(2, 1)[0], (WIDE,)),
    "gather": (lambda lib, x: x.gather(1, lib.tensor([[0, 1], [3, 2], [1, 0]])), (WIDE,)),
    # -- products
    "matmul": (lambda lib, x, y: x @ y, (WIDE, OTHER.T)),
    "matmul of stacks": (lambda lib, x, y: x @ y, (DEEP, OTHER.T)),
    "matrix times vector": (lambda lib, x, y: x @ y, (WIDE, ROW)),
    "vector times matrix": (lambda lib, x, y: x @ y, (ROW, OTHER.T)),
    "vector times vector": (lambda lib, x, y: x @ y, (ROW, ROW + 1)),
    "linear": (lambda lib, x, w, b: lib.nn.functional.linear(x, w, b), (DEEP, OTHER, RNG.standard_normal(3))),
    "linear without bias": (lambda lib, x, w: lib.nn.functional.linear(x, w), (WIDE, OTHER)),
    # -- shapes and places
    "reshape": (lambda lib, x: x.reshape(2, -1), (WIDE,)),
    "view": (lambda lib, x: x.view((4, 3)), (WIDE,)),
    "flatten": (lambda lib, x: x.flatten(1), (DEEP,)),
    "squeeze": (lambda lib, x: x.unsqueeze(-1).squeeze(-1).unsqueeze(0).squeeze(), (WIDE,)),
    "permute": (lambda lib, x: x.permute(2, 0, 1), (DEEP,)),
    "transpose": (lambda lib, x: x.transpose(0, -1), (DEEP,)),
    "T": (lambda lib, x: x.T @ x, (WIDE,)),
    "mT": (lambda lib, x: x.mT.contiguous(), (DEEP,)),
    "expand": (lambda lib, x: x.expand(2, -1, 4), (COLUMN,)),
    "slice": (lambda lib, x: x[1:, ::2], (WIDE,)),
    "new axis": (lambda lib, x: x[:, None, -1], (WIDE,)),
    "rows": (lambda lib, x: x[lib.tensor([2, 0])], (WIDE,)),
    "rows twice": (lambda lib, x: x[lib.tensor([2, 0, 2, -1])], (WIDE,)),
    "rows by a list": (lambda lib, x: x[[1, 1]], (WIDE,)),
    "mask": (lambda lib, x: x[lib.tensor([True, False, True])], (WIDE,)),
    "elements": (lambda lib, x: x[lib.tensor([0, 0, 2]), lib.tensor([1, 1, 3])], (WIDE,)),
    "columns": (lambda lib, x: x[:, lib.tensor([3, 3, 0])], (WIDE,)),
    "index_select": (lambda lib, x: lib.index_select(x, 0, lib.tensor([1, 1, 0])), (WIDE,)),
    "index_select of columns": (lambda lib, x: x.index_select(1, lib.tensor([1, 1, 0])), (WIDE,)),
    "cat": (lambda lib, x, y: lib.cat([x, y, x], 1), (WIDE, COLUMN)),
    "stack": (lambda lib, x, y: lib.stack([x, y], 1), (WIDE, OTHER)),
    "split": (lambda lib, x: x.split([1, 2])[1] * x.split(2, 1)[0][0, 0], (WIDE,)),
    "chunk": (lambda lib, x: x.chunk(2, 1)[1], (WIDE,)),
}


def _run(lib: Any, function: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Return the value and the gradients of its product with numbers that depend on the place."""
    xs = [lib.tensor(array, requires_grad=True) for array in arrays]
    out = function(lib, *xs)
    weights = lib.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)))
    (out * weights).sum().backward()
    return [out.detach().numpy(), *(x.grad.numpy() for x in xs)]


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients_are_torchs(name: str) -> None:
    function, arrays = CASES[name]
    for ours, theirs in zip(_run(toolkit, function, arrays), _run(torch, function, arrays), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)


def test_every_rule_is_among_the_cases() -> None:
    used: set[str] = set()

    class Seen(dict):  # type: ignore[type-arg]
        def __getitem__(self, name: str) -> Any:
            used.add(name)
            return super().__getitem__(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dglite.backend.autograd.RULES", Seen(RULES))
        for function, arrays in CASES.values():
            _run(toolkit, function, arrays)
    left = RULES.keys() - used - FORMULAS.keys()  # which tests/test_formulas.py computes
    assert left == {"put"}, "operations that no case computes (put is the frames', tested there)"


@pytest.mark.parametrize("lib", [toolkit, torch], ids=["toolkit", "torch"])
def test_dtypes_meet_as_in_torch(lib: Any) -> None:
    floats, ints = lib.tensor([1.0, 2.0]), lib.tensor([1, 2])
    wide = lib.tensor(np.array([1.0, 2.0]))
    results = [
        (floats * 2.5).dtype,
        (floats + np.float64(1)).dtype,
        (floats * ints).dtype,
        (ints / ints).dtype,
        (ints * 0.5).dtype,
        (2 / ints).dtype,
        (ints + 1).dtype,
        ints.exp().dtype,
        (floats * wide[0]).dtype,
        (floats + wide).dtype,
        (ints > 1).dtype,
        lib.tensor([[1.5], [2.5]]).dtype,
        lib.tensor(np.float64(2)).dtype,
    ]
    single, double, integer = lib.float32, lib.float64, lib.int64
    assert results == [single] * 4 + [single] * 2 + [integer, single, single, double, lib.bool, single, double]


@pytest.mark.parametrize("lib", [toolkit, torch], ids=["toolkit", "torch"])
def test_empty_and_single(lib: Any) -> None:
    empty = lib.zeros(0, 3, requires_grad=True)
    (empty.softmax(1).sum() + empty.sum() + empty[lib.tensor([], dtype=lib.int64)].sum()).backward()
    assert tuple(empty.grad.shape) == (0, 3) and empty.sum().item() == 0
    assert lib.tensor(3.0).item() == 3 and int(lib.tensor(4)) == 4 and f"{lib.tensor(0.5):.2f}" == "0.50"


@pytest.mark.parametrize("name", ["rsqrt", "reciprocal"])
def test_inverses_of_zero_are_silent_as_torchs(name: str) -> None:
    x = toolkit.zeros(2, requires_grad=True)
    with np.errstate(all="raise"):
        out = getattr(x, name)()
        out.backward([0.0, 1.0])
    theirs = torch.zeros(2, requires_grad=True)
    getattr(theirs, name)().backward(torch.tensor([0.0, 1.0]))
    assert out.tolist() == [np.inf] * 2
    np.testing.assert_array_equal(x.grad.numpy(), theirs.grad.numpy())


def test_numpy_functions_take_tensors() -> None:
    x = toolkit.tensor([1.0, -2.0], requires_grad=True)
    out = np.exp(x) + np.maximum(np.ones(2, np.float32), x) - np.array([1.0, 1.0], np.float32) * x
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, -2.0]) + [0.5, 0] - 1, rtol=1e-6)
    assert (np.greater(x, 0)).tolist() == [True, False]
