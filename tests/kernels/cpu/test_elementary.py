"""Elementary functions in the lanes of a vector: a few units in the last place from the exact value, special values."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import scipy.special
import torch

from dglite.expr import Call, Constant, Expr, Operand, Side
from dglite.ops import core
from dglite.opspec import OPERATORS
from dglite.structure import Adjacency
from tests import reference
from tests.pairs import cases

WIDTHS = [1, 13, 16, *([5, 64] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]
PAIRS = ["maximum", "minimum", "gt", "ge", "lt", "le", "eq", "ne"]
EXPONENTS = [1.5, -0.5, 0.3, -2.7]
X, Y = Operand(Side.E, 0), Operand(Side.E, 1)
TINY = {"float32": 2.0**-149, "float64": 2.0**-1074}
LOWEST = {"float32": -104.0, "float64": -746.0}
HIGHEST = {"float32": 88.7, "float64": 709.7}


def on_edges(expr: Expr, *columns: np.ndarray, width: int) -> np.ndarray:
    """Return ``expr`` of the columns, which are laid out as features of this many numbers."""
    count = -(-len(columns[0]) // width)
    padded = [np.concatenate([x, np.ones(count * width - len(x), x.dtype)]).reshape(count, width) for x in columns]
    ends = np.zeros(count, np.int64)
    adj = Adjacency.from_coo(1, 1, ends, ends)
    return core.sddmm(adj, expr, [torch.from_numpy(x) for x in padded]).numpy().reshape(-1)[: len(columns[0])]


def exact_sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def exact_erf(x: np.ndarray) -> np.ndarray:
    return scipy.special.erf(x.astype(float))


EXACT = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sign": np.sign,
    "tanh": np.tanh,
    "sigmoid": exact_sigmoid,
    "erf": exact_erf,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
}
"""Each function in extended precision."""


def either_sign(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([sizes, -sizes])


def wide(name: str, dtype: str) -> np.ndarray:
    """Return numbers over the whole range in which the function is neither 0 nor infinite."""
    low, high = LOWEST[dtype], HIGHEST[dtype]
    if name in ("log", "sqrt"):
        exponents = np.linspace(math.log2(TINY[dtype]), 127.9 if dtype == "float32" else 1023.9, 20_000)
        return np.concatenate([np.exp2(exponents), np.linspace(0.5, 2.0, 20_001), np.linspace(0.99, 1.01, 1001)])
    if name == "expm1":
        return np.concatenate([np.linspace(low + 1, high, 20_000), either_sign(np.exp2(np.linspace(-30, 5, 20_000)))])
    if name == "exp":
        return np.concatenate([np.linspace(low + 1, high, 40_000), either_sign(np.exp2(np.linspace(-30, 5, 2000)))])
    if name == "sigmoid":
        return np.linspace(-high, 60, 40_000)
    if name in ("tanh", "softplus", "erf"):
        spread = np.linspace(-high if name == "softplus" else -25, 25, 40_000)
        return np.concatenate([spread, either_sign(np.exp2(np.linspace(-30, 4, 2000)))])
    return either_sign(np.exp2(np.linspace(-140, 127, 2000)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_is_the_same_number_in_any_lanes(dtype):
    """Also where a vector register has an instruction of its own: 16 numbers of float32, 8 of float64."""
    ends = [math.inf, -math.inf, math.nan, 0.0, -0.0, LOWEST[dtype], HIGHEST[dtype], 3e38, -3e38]
    x = np.concatenate([wide("exp", dtype), np.linspace(LOWEST[dtype] - 3, LOWEST[dtype] + 25, 5000), ends])
    alone, *others = (on_edges(X.call("exp"), x.astype(dtype), width=width) for width in (1, 8, 16))
    for actual in others:
        assert np.array_equal(actual, alone, equal_nan=True)


@pytest.mark.parametrize(("name", "dtype", "width"), cases(sorted(EXACT), ["float32", "float64"], WIDTHS))
def test_within_a_few_units_in_the_last_place(name, dtype, width):
    x = wide(name, dtype).astype(dtype)
    with np.errstate(all="ignore"):
        want = EXACT[name](x.astype(np.longdouble))
    result = on_edges(Call(OPERATORS[name], (X,)), x, width=width)
    assert result.dtype == x.dtype
    error = np.abs(result.astype(np.longdouble) - want) / np.spacing(np.abs(want).astype(dtype))
    worst = int(error.argmax())
    assert error[worst] <= 4, f"{name}({x[worst]!r}) is {result[worst]!r}, off by {error[worst]} units"


SPECIAL = {
    "exp": [(-0.0, 1.0), (0.0, 1.0), (math.inf, math.inf), (-math.inf, 0.0), (1e30, math.inf), (-1e30, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (math.inf, math.inf), (-math.inf, -1.0), (1e30, math.inf), (1e-30, 1e-30)],
    "log": [(0.0, -math.inf), (-0.0, -math.inf), (1.0, 0.0), (math.inf, math.inf), (-1.0, math.nan)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (math.inf, math.inf), (-1.0, math.nan), (-math.inf, math.nan)],
    "abs": [(0.0, 0.0), (-0.0, 0.0), (math.inf, math.inf), (-math.inf, math.inf), (-2.5, 2.5)],
    "sign": [(0.0, 0.0), (math.inf, 1.0), (-math.inf, -1.0), (1e-30, 1.0), (-1e-30, -1.0)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (math.inf, 1.0), (-math.inf, -1.0), (1e30, 1.0), (-1e30, -1.0), (1e-30, 1e-30)],
    "erf": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (math.inf, 1.0),
        (-math.inf, -1.0),
        (1e30, 1.0),
        (7.0, 1.0),
    ],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (math.inf, 1.0), (-math.inf, 0.0), (1e30, 1.0), (-1e30, 0.0)],
    "softplus": [(0.0, math.log(2)), (math.inf, math.inf), (-math.inf, 0.0), (1e30, 1e30), (-1e30, 0.0)],
}


@pytest.mark.parametrize(("name", "dtype", "width"), cases(sorted(SPECIAL), ["float32", "float64"], WIDTHS))
def test_special_values(name, dtype, width):
    x, want = (np.array(part, dtype) for part in zip(*SPECIAL[name], (math.nan, math.nan), strict=True))
    if name == "sign":
        want[-1] = torch.sign(torch.tensor(math.nan)).item()
    result = on_edges(Call(OPERATORS[name], (X,)), x, width=width)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(want))
    np.testing.assert_allclose(result, want, rtol=4 * np.finfo(dtype).eps)
    kept = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(result[kept]), np.signbit(want[kept]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", WIDTHS)
def test_thresholds_and_subnormals(dtype, width):
    """The exponential is finite up to ln of the largest number and not 0 down to ln of the smallest; log takes both."""
    info, tiny = np.finfo(dtype), TINY[dtype]
    top = np.log(np.array(info.max, dtype))
    top = top if np.exp(top.astype(np.longdouble)) <= info.max else np.nextafter(top, np.array(0, dtype))
    x = np.array([top, top * 1.001, math.log(tiny) + 0.5, math.log(tiny) - 2.0, math.log(tiny) + 9], dtype)
    result = on_edges(Call(OPERATORS["exp"], (X,)), x, width=width)
    assert np.isfinite(result[0]) and result[0] > info.max * 0.99 and np.isinf(result[1])
    assert 0 < result[2] <= 2 * tiny and result[3] == 0.0
    np.testing.assert_allclose(result[4], np.exp(x[4].astype(np.longdouble)).astype(dtype), rtol=1e-3)
    x = np.array([tiny, 3 * tiny, info.tiny, info.max], dtype)
    want = np.log(x.astype(np.longdouble)).astype(dtype)
    np.testing.assert_allclose(on_edges(Call(OPERATORS["log"], (X,)), x, width=width), want, rtol=4 * info.eps)
    want = np.sqrt(x.astype(np.longdouble)).astype(dtype)
    np.testing.assert_allclose(on_edges(Call(OPERATORS["sqrt"], (X,)), x, width=width), want, rtol=4 * info.eps)


@pytest.mark.parametrize(("exponent", "dtype", "width"), cases(EXPONENTS, ["float32", "float64"], WIDTHS))
def test_power_is_the_c_library_s(exponent, dtype, width):
    sizes = np.exp2(np.linspace(-4, 4, 3000))
    x = np.concatenate([either_sign(sizes), [0.0, math.inf, math.nan]]).astype(dtype)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), np.longdouble(exponent))
    result = on_edges(Call(OPERATORS["power"], (X, Constant(exponent))), x, width=width)
    # e^(y ln x) carries the error of the logarithm times the size of the exponent.
    tolerance = 4 * np.finfo(dtype).eps * (1 + abs(exponent) * 4)
    np.testing.assert_allclose(result.astype(np.float64), want.astype(np.float64), rtol=tolerance)


@pytest.mark.parametrize(("name", "dtype", "width"), cases(PAIRS, ["float32", "float64"], WIDTHS))
def test_two_arguments_among_special_values(name, dtype, width):
    special = np.array([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, TINY[dtype], 7.0], dtype)
    x, y = (part.ravel() for part in np.meshgrid(special, special))
    expr = Call(OPERATORS[name], (X, Y))
    if name in ("maximum", "minimum"):
        want = reference.FUNCTIONS[name](x, y)
    else:
        expr = Call(OPERATORS["where"], (expr, X, Constant(-3.0)))
        chosen = {"gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y, "eq": x == y, "ne": x != y}[name]
        want = np.where(chosen, x, np.array(-3.0, dtype))
    np.testing.assert_array_equal(on_edges(expr, x, y, width=width), want)


@pytest.mark.parametrize("width", [1, 13])
@pytest.mark.parametrize("name", PAIRS[2:])
def test_a_number_is_compared_in_the_lanes_dtype(name, width):
    """float32 has no 0.1, so a comparison in float64 would find a difference that float32 does not have."""
    tenth = np.float32(0.1)
    x = np.tile(np.array([np.nextafter(tenth, np.float32(0)), tenth, np.nextafter(tenth, np.float32(1))]), 5)
    expr = Call(OPERATORS["where"], (Call(OPERATORS[name], (X, Constant(0.1))), Constant(1.0), X))
    chosen = {"gt": x > tenth, "ge": x >= tenth, "lt": x < tenth, "le": x <= tenth, "eq": x == tenth, "ne": x != tenth}
    np.testing.assert_array_equal(on_edges(expr, x, width=width), np.where(chosen[name], np.float32(1), x))


@pytest.mark.parametrize(("name", "dtype", "width"), cases(sorted(EXACT), ["float16", "bfloat16"], WIDTHS))
def test_16_bit_columns_are_rounded_once(name, dtype, width):
    """They are computed in float32, so the result is the exact one rounded, give or take a rounding of float32."""
    kind = getattr(torch, dtype)
    x = torch.linspace(0.01 if name in ("log", "sqrt") else -9, 9, 13 * 64, dtype=torch.float64).to(kind)
    ends = np.zeros(len(x) // width, np.int64)
    x = x[: len(ends) * width]
    result = core.sddmm(
        Adjacency.from_coo(1, 1, ends, ends), Call(OPERATORS[name], (X,)), [x.reshape(-1, width)]
    ).reshape(-1)
    assert result.dtype == kind
    want = torch.from_numpy(EXACT[name](x.double().numpy()))
    eps = torch.finfo(kind).eps
    torch.testing.assert_close(result.double(), want, rtol=0.51 * eps, atol=1e-7)
