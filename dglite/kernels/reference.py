"""The oracle: every kernel in readable NumPy. Tests judge the fast kernels by these; nothing else calls them.

Structure is given as COO ``(src, dst)`` in edge-id order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expr import Expr, Operand, Side, evaluate, operands_of
from ..opspec import Reducer

__all__ = ["edge_softmax", "sddmm", "segment_reduce", "spmm"]


FUNCTIONS: dict[str, Any] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sign": np.sign,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "where": np.where,
}
"""What the operator table's sources call."""

_COPY_U = Operand(Side.U, 0)


def messages(expr: Expr, src: np.ndarray, dst: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Return ``expr`` for every edge, (num_edges, *feat), with the feature axes aligned from the right."""
    used = operands_of(expr)
    axes = max((operands[operand.slot].ndim for operand in used), default=1)
    rows = {Side.U: src, Side.V: dst, Side.E: np.arange(len(src)), Side.G: np.zeros(len(src), int)}
    values: list[np.ndarray | None] = [None] * len(operands)
    for operand in used:
        taken = operands[operand.slot][rows[operand.side]]
        values[operand.slot] = taken.reshape(len(src), *(1,) * (axes - taken.ndim), *taken.shape[1:])
    return np.asarray(evaluate(expr, values, FUNCTIONS))


def sddmm(
    expr: Expr, src: np.ndarray, dst: np.ndarray, operands: Sequence[np.ndarray], dot: bool = False
) -> np.ndarray:
    """Return ``expr`` for every edge; with ``dot`` summed over the last feature axis, which is kept."""
    result = messages(expr, src, dst, operands)
    return result.sum(-1, keepdims=True) if dot else result


def spmm(
    expr: Expr, reducer: Reducer, src: np.ndarray, dst: np.ndarray, num_dst: int, operands: Sequence[np.ndarray]
) -> np.ndarray:
    """Return ``expr`` reduced over the in-edges of every destination; 0 where there are none."""
    values = messages(expr, src, dst, operands)
    out = np.zeros((num_dst, *values.shape[1:]), values.dtype)
    reduce: Any = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}[reducer.value]
    for node in range(num_dst):
        if (dst == node).any():
            out[node] = reduce(values[dst == node], axis=0)
    return out


def segment_reduce(reducer: Reducer, offsets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the reduction of ``values[offsets[i]:offsets[i + 1]]`` for every i; 0 for an empty segment."""
    dst = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    from_values = np.arange(len(values))
    return spmm(_COPY_U, reducer, from_values, dst, len(offsets) - 1, (values,))


def edge_softmax(dst: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Return exp(logit) over its sum, among the edges that share a destination."""
    out = np.empty_like(logits)
    for node in np.unique(dst):
        scores = logits[dst == node]
        weights = np.exp(scores - scores.max(0))
        out[dst == node] = weights / weights.sum(0)
    return out
