"""The oracle: every kernel in readable NumPy, by which the fast kernels are judged.

Structure is given as COO ``(src, dst)`` in edge-id order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dglite.expr import Expr, Operand, Side, evaluate, operands_of
from dglite.opspec import OPERATORS, Reducer

__all__ = [
    "attention",
    "dropout_multipliers",
    "edge_softmax",
    "leaky_relu",
    "philox",
    "sddmm",
    "segment_reduce",
    "spmm",
]


FUNCTIONS = {name: entry.numpy for name, entry in OPERATORS.items() if entry.numpy is not None}
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
    """Return ``expr`` for every edge; with ``dot`` summed over the last feature axis, kept if there is one."""
    result = messages(expr, src, dst, operands)
    return result.sum(-1, keepdims=True) if dot and result.ndim > 1 else result


def spmm(
    expr: Expr, reducer: Reducer, src: np.ndarray, dst: np.ndarray, num_dst: int, operands: Sequence[np.ndarray]
) -> np.ndarray:
    """Return ``expr`` reduced over the in-edges of every destination, 0 without in-edges."""
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


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Return Philox4x32-10 of ``counter`` (..., 4), uint32, as Salmon et al., 2011, define it."""
    words, low = [counter[..., i].astype(np.uint64) for i in range(4)], np.uint64(0xFFFFFFFF)
    key0, key1 = key
    for _ in range(10):
        first, third = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            third >> np.uint64(32) ^ words[1] ^ np.uint64(key0),
            third & low,
            first >> np.uint64(32) ^ words[3] ^ np.uint64(key1),
            first & low,
        ]
        key0, key1 = (key0 + 0x9E3779B9) % 2**32, (key1 + 0xBB67AE85) % 2**32
    return np.stack(words, -1).astype(np.uint32)


def dropout_multipliers(edges: np.ndarray, heads: int, probability: float, seed: int) -> np.ndarray:
    """Return what dropout multiplies the weights of ``edges`` with, (len(edges), heads): 0 or 1 / (1 - probability).

    Word h % 4 of the draw with the counter (edge, h // 4, 0) and the key ``seed`` keeps head h when it is no less than
    probability * 2**32.
    """
    ids, groups = edges.astype(np.uint64), -(-heads // 4)
    counter = np.zeros((len(edges), groups, 4), np.uint32)
    counter[..., 0] = (ids & np.uint64(0xFFFFFFFF))[:, None]
    counter[..., 1] = (ids >> np.uint64(32))[:, None]
    counter[..., 2] = np.arange(groups)
    words = philox(counter, (seed % 2**32, seed // 2**32)).reshape(len(edges), 4 * groups)[:, :heads]
    kept = 1 / (1 - probability) if probability < 1 else 0.0
    return np.where(words >= min(round(probability * 2**32), 2**32 - 1), kept, 0.0)


def attention(
    scores: np.ndarray, src: np.ndarray, dst: np.ndarray, num_dst: int, x: np.ndarray, factors: np.ndarray | float = 1.0
) -> np.ndarray:
    """Return the sum over in-edges of softmax(scores) * factors * x[src], (num_dst, heads, d), 0 without in-edges.

    ``scores`` are (num_edges, heads); ``factors``, dropout and edge weights, broadcast to them.
    """
    out = np.zeros((num_dst, *x.shape[1:]), x.dtype)
    np.add.at(out, dst, (edge_softmax(dst, scores) * factors)[..., None] * x[src])
    return out


def leaky_relu(x: np.ndarray, slope: float) -> np.ndarray:
    """Return x where it is positive, slope * x elsewhere."""
    return np.where(x > 0, x, slope * x)
