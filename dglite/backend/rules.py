"""The table of the tape's operations: what each computes, and its gradient for each operand.

A rule is ``value(*arrays, **static)`` and, for each operand, ``gradient(g, out, *arrays, **static)``, which makes
d(loss)/d(operand) from d(loss)/d(result) ``g``, or None. A gradient may have the shape to which its
operand was broadcast: the tape sums it to the operand's. Everything is said in NumPy's functions, which CuPy's arrays
take over.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DGLError
from ..expr import Operand, Side, derivative, evaluate
from ..formulas import FORMULAS, Formula
from ..opspec import COMPARISONS, OPERATORS

WORTH_THREADS = 1 << 28
"""Minimum number of multiplications at which threads are faster in spite of waiting: 10 ms on one core."""
_NAMES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")


class _Threads(NamedTuple):
    """OpenBLAS's functions that tell and set its number of threads."""

    get: Any
    set: Any


def product(x: Any, y: Any) -> Any:
    """Return ``x @ y``."""
    threads = _threads() if type(x) is np.ndarray else None
    if threads is None or x.size * y.shape[-1] >= WORTH_THREADS:
        return x @ y
    before = threads.get()
    if before == 1:
        return x @ y
    threads.set(1)
    try:
        return x @ y
    finally:
        threads.set(before)


@cache
def _threads() -> _Threads | None:
    """Return the functions of the OpenBLAS in this process; None without one, or if its threads are set already.

    Looked for on Linux alone: elsewhere NumPy comes with other libraries, or no list of what is loaded.
    """
    maps = Path("/proc/self/maps")
    if "OPENBLAS_NUM_THREADS" in os.environ or not maps.is_file():
        return None
    files = {line.split(maxsplit=5)[-1] for line in maps.read_text(encoding="utf-8").splitlines() if "openblas" in line}
    numpys = Path(np.__file__).parents[1] / "numpy.libs"
    for path in sorted(files, key=lambda file: not file.startswith(str(numpys))):  # SciPy may bring another one
        library = ctypes.CDLL(path)
        for name in _NAMES:
            functions = [getattr(library, name.format(verb), None) for verb in ("get", "set")]
            if None not in functions:
                return _Threads(*functions)
    return None


Array = Any
"""A NumPy or CuPy array."""


class ArrayRule(NamedTuple):
    """One operation."""

    value: Callable[..., Array]
    gradients: tuple[Callable[..., Array] | None, ...] = ()
    each: Callable[..., Array] | None = None
    """For any number of operands: ``each(place, g, out, *arrays, **static)``."""


def sum_to(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the axes that broadcasting added or stretched, so that ``g`` has ``shape``."""
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        extra + axis for axis, size in enumerate(shape) if size == 1 and g.shape[extra + axis] != 1
    )
    return (g.sum(axis=axes) if axes else g).reshape(shape)


# -- element-wise ------------------------------------------------------------------------------------------------------
_silent = np.errstate(divide="ignore", invalid="ignore")
"""Decorates what is infinite at 0, where layers take it for nodes without edges and read none of it."""
FUNCTIONS = {name: entry.numpy for name, entry in OPERATORS.items() if entry.numpy is not None}
"""What operators that are not arithmetic call, on arrays."""


def _by_formula(formula: Formula) -> ArrayRule:
    """Return the rule of a formula; its static arguments are the names of the operands given, and options."""

    @_silent
    def value(*arrays: Array, names: tuple[str, ...] = formula.operands, **options: Any) -> Array:
        expr = formula.bind(names, tuple(options.items()))
        if expr is None:
            raise DGLError(f"{formula.name} has no formula for {options}; use torch, or write it out")
        return evaluate(expr, arrays, FUNCTIONS)

    def each(
        place: int, g: Array, out: Array, *arrays: Array, names: tuple[str, ...] = formula.operands, **options: Any
    ) -> Array:
        return _slope(formula.bind(names, tuple(options.items())), place, g, out, arrays)

    return ArrayRule(value, each=each)


@_silent
def _slope(expr: Any, place: int, g: Array, out: Array, arrays: tuple[Array, ...]) -> Array:
    """Return the gradient of an expression for one of its operands; ``out`` is its value."""
    slope = evaluate(derivative(expr, Operand(Side.E, place)), arrays, FUNCTIONS, {expr: out})
    gradient = g * slope
    return gradient if gradient.dtype == g.dtype else gradient.astype(g.dtype)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _clamp(x: Array, *bounds: Any, names: tuple[str, ...]) -> Array:
    """Return integers as integers, which the formula, for the sake of NaN, does not."""
    limits = dict(zip(names[1:], bounds, strict=True))
    return np.clip(x, limits.get("min"), limits.get("max"))


_POWER = Formula("power", lambda input, exponent: input.call("power", exponent), ("input", "exponent"), 2, {})
_ELEMENTWISE = {
    **{name: _by_formula(formula) for name, formula in FORMULAS.items() if name not in COMPARISONS},
    **{name: _by_formula(FORMULAS[name])._replace(value=_clamp) for name in ("clamp", "clamp_min", "clamp_max")},
    "power": _by_formula(_POWER),
    "log1p": ArrayRule(np.log1p, (lambda g, out, x: g / (1 + x),)),
    "sin": ArrayRule(np.sin, (lambda g, out, x: g * np.cos(x),)),
    "cos": ArrayRule(np.cos, (lambda g, out, x: -g * np.sin(x),)),
    "astype": ArrayRule(lambda x, dtype: x.astype(dtype), (lambda g, out, x, dtype: g.astype(x.dtype),)),
    "clone": ArrayRule(lambda x: x.copy(), (lambda g, out, x: g,)),
    "where": ArrayRule(
        np.where, (None, lambda g, out, c, x, y: np.where(c, g, 0), lambda g, out, c, x, y: np.where(c, 0, g))
    ),
    # The rest says again what its formula says, in fewer passes over the arrays.
    "relu": ArrayRule(_relu, (lambda g, out, x: g * (out > 0),)),
    "add": ArrayRule(np.add, (lambda g, out, x, y: g, lambda g, out, x, y: g)),
    "sub": ArrayRule(np.subtract, (lambda g, out, x, y: g, lambda g, out, x, y: -g)),
    "mul": ArrayRule(np.multiply, (lambda g, out, x, y: g * y, lambda g, out, x, y: g * x)),
    "div": ArrayRule(np.divide, (lambda g, out, x, y: g / y, lambda g, out, x, y: -g * out / y)),
}


# -- reductions --------------------------------------------------------------------------------------------------------
def _wide(x: Array, like: Array, axis: Any) -> Array:
    """Return a reduced array with the reduced axes back, of length 1."""
    if x.ndim == like.ndim:
        return x
    return np.expand_dims(x, tuple(range(like.ndim)) if axis is None else axis)


def _spread(g: Array, out: Array, x: Array, axis: Any, keepdims: bool) -> Array:
    return np.broadcast_to(_wide(g, x, axis), x.shape)


def _spread_mean(g: Array, out: Array, x: Array, axis: Any, keepdims: bool) -> Array:
    return _spread(g, out, x, axis, keepdims) / g.dtype.type(x.size / max(out.size, 1))


def _shared(g: Array, out: Array, x: Array, axis: Any, keepdims: bool) -> Array:
    """Share g among the elements that attain the extremum."""
    attains = (x == _wide(out, x, axis)).astype(g.dtype)
    return _wide(g, x, axis) * attains / attains.sum(axis=axis, keepdims=True)


def _of_product(g: Array, out: Array, x: Array, axis: Any, keepdims: bool) -> Array:
    """Multiply g by the product of all other elements: what is before along the axis, times what is behind."""
    x = np.moveaxis(x, axis, -1) if axis is not None else x.reshape(-1)
    ones = np.ones_like(x[..., :1])
    before = np.cumprod(np.concatenate([ones, x[..., :-1]], -1), -1)
    behind = np.cumprod(np.concatenate([ones, x[..., :0:-1]], -1), -1)[..., ::-1]
    others = before * behind
    others = np.moveaxis(others, -1, axis) if axis is not None else others
    return _wide(g, others, axis) * others if axis is not None else g.reshape(-1) * others


def _softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True, initial=-math.inf))
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers


def _log_softmax(x: Array, axis: int) -> Array:
    shifted = x - x.max(axis=axis, keepdims=True, initial=-math.inf)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _logsumexp(x: Array, axis: Any, keepdims: bool) -> Array:
    top = x.max(axis=axis, keepdims=True, initial=-math.inf)
    top = np.where(np.isfinite(top), top, 0)
    result = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return result if keepdims else np.squeeze(result, axis)


def _cross_entropy(x: Array, target: Array) -> Array:
    picked = np.take_along_axis(_log_softmax(x, -1), target[:, None], -1)
    return -picked.mean(dtype=x.dtype)


def _of_cross_entropy(g: Array, out: Array, x: Array, target: Array) -> Array:
    result = _softmax(x, -1)
    result[np.arange(len(target), like=target), target] -= 1
    result *= g / len(target)
    return result


def _of_pick(g: Array, out: Array, x: Array, indices: Array, axis: int) -> Array:
    result = np.zeros_like(x)
    np.put_along_axis(result, indices, g, axis)
    return result


_REDUCTIONS = {
    "sum": ArrayRule(lambda x, axis, keepdims: x.sum(axis=axis, keepdims=keepdims), (_spread,)),
    "mean": ArrayRule(lambda x, axis, keepdims: x.mean(axis=axis, keepdims=keepdims), (_spread_mean,)),
    "amax": ArrayRule(lambda x, axis, keepdims: x.max(axis=axis, keepdims=keepdims), (_shared,)),
    "amin": ArrayRule(lambda x, axis, keepdims: x.min(axis=axis, keepdims=keepdims), (_shared,)),
    "prod": ArrayRule(lambda x, axis, keepdims: x.prod(axis=axis, keepdims=keepdims), (_of_product,)),
    "cumsum": ArrayRule(
        lambda x, axis: np.cumsum(x, axis), (lambda g, out, x, axis: np.flip(np.cumsum(np.flip(g, axis), axis), axis),)
    ),
    "logsumexp": ArrayRule(
        _logsumexp, (lambda g, out, x, axis, keepdims: _wide(g, x, axis) * np.exp(x - _wide(out, x, axis)),)
    ),
    "softmax": ArrayRule(_softmax, (lambda g, out, x, axis: out * (g - (g * out).sum(axis=axis, keepdims=True)),)),
    "log_softmax": ArrayRule(
        _log_softmax, (lambda g, out, x, axis: g - np.exp(out) * g.sum(axis=axis, keepdims=True),)
    ),
    "cross_entropy": ArrayRule(_cross_entropy, (_of_cross_entropy,)),
    "pick": ArrayRule(lambda x, indices, axis: np.take_along_axis(x, indices, axis), (_of_pick,)),
}


# -- products ----------------------------------------------------------------------------------------------------------
def _flat(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    result = product(x, weight.T)
    if bias is not None:
        result += bias
    return result


_PRODUCTS = {
    "matmul": ArrayRule(
        product,
        (
            lambda g, out, x, y: product(g, np.swapaxes(y, -1, -2)),
            lambda g, out, x, y: product(np.swapaxes(x, -1, -2), g),
        ),
    ),
    "linear": ArrayRule(
        _linear,
        (
            lambda g, out, x, weight, *bias: product(g, weight),
            lambda g, out, x, weight, *bias: product(_flat(g).T, _flat(x)),
            lambda g, out, x, weight, bias: g,
        ),
    ),
}


# -- shapes and places -------------------------------------------------------------------------------------------------
def _of_index(g: Array, out: Array, x: Array, key: Any) -> Array:
    """Put g to the places that ``key`` names, adding up where one is named twice."""
    if _is_rows(key):
        return _of_take(g, out, x, key)
    result = np.zeros_like(x, dtype=g.dtype)
    if not _may_repeat(key):
        result[key] = g
        return result
    places = np.arange(x.size, like=x).reshape(x.shape)[key]
    flat = _of_take(g.reshape(-1), out, result.reshape(-1), places.reshape(-1))
    return flat.reshape(x.shape)


def _is_rows(key: Any) -> bool:
    return getattr(key, "ndim", 0) == 1 and key.dtype.kind in "iu"


def _may_repeat(key: Any) -> bool:
    """Whether an element can be named twice: by integer arrays alone."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(getattr(part, "ndim", 0) and part.dtype.kind in "iu" for part in parts)


def _of_take(g: Array, out: Array, x: Array, rows: Array) -> Array:
    """Add rows of g where they were taken from: a sum over runs of equal rows after sorting, no scatter."""
    result = np.zeros_like(x, dtype=g.dtype)
    if len(rows):
        rows = np.where(rows < 0, rows + len(x), rows)
        if not (rows[1:] > rows[:-1]).all():
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            starts = np.flatnonzero(np.concatenate([rows[:1] == rows[:1], rows[1:] != rows[:-1]]))
            g, rows = np.add.reduceat(g[order], starts, axis=0), rows[starts]
        result[rows] = g
    return result


def _put(x: Array, values: Array, rows: Array) -> Array:
    result = x.copy()
    result[rows] = values
    return result


def _without(g: Array, out: Array, x: Array, values: Array, rows: Array) -> Array:
    result = g.copy()
    result[rows] = 0
    return result


def _part(place: int, g: Array, out: Array, *parts: Array, axis: int) -> Array:
    start = sum(part.shape[axis] for part in parts[:place])
    cut = slice(start, start + parts[place].shape[axis])
    return g[(slice(None),) * (axis % g.ndim) + (cut,)]


_PLACES = {
    "reshape": ArrayRule(lambda x, shape: x.reshape(shape), (lambda g, out, x, shape: g.reshape(x.shape),)),
    "permute": ArrayRule(
        lambda x, axes: x.transpose(axes),
        (lambda g, out, x, axes: g.transpose(sorted(range(x.ndim), key=lambda i: axes[i] % x.ndim)),),
    ),
    "broadcast_to": ArrayRule(lambda x, shape: np.broadcast_to(x, shape), (lambda g, out, x, shape: g,)),
    "index": ArrayRule(lambda x, key: x[key], (_of_index,)),
    "take": ArrayRule(lambda x, rows: x.take(rows, axis=0), (_of_take,)),
    "put": ArrayRule(_put, (_without, lambda g, out, x, values, rows: g[rows])),
    "concat": ArrayRule(lambda *xs, axis: np.concatenate(xs, axis), each=_part),
}

RULES: dict[str, ArrayRule] = _ELEMENTWISE | _REDUCTIONS | _PRODUCTS | _PLACES
"""Every operation by name."""
