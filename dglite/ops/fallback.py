"""The same operations composed of the tensor library's own: messages are written down for every edge.

They run on devices that dglite has no kernels for, carry tangents in forward mode, and are what programs that shall run
without dglite are made of. Gradients are the library's.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ..backend import Tensor, active
from ..expr import Expr, Operand, Side, operands_of
from ..kernels.spec import compute_dtype
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from ..structure.arrays import arrays_on
from .devices import why_no_kernels
from .operands import evaluated
from .traced import is_traced

_WARNED: list[bool] = []


def lacks_kernels(x: Tensor) -> bool:
    """Whether ``x`` is on a device on which no kernel can be started; the first time a warning says why."""
    if active.on_cpu(x):
        return False
    reason = why_no_kernels(active.device(x))
    if not reason:
        return False
    if not _WARNED:
        _WARNED.append(True)
        warnings.warn(
            f"{reason}, so operations on {active.device(x)} are composed of the tensor library's own, which write down "
            "a message for every edge; results and gradients are the same, slower",
            RuntimeWarning,
            stacklevel=3,
        )
    return True


def sddmm(adj: Adjacency, expr: Expr, operands: Sequence[Tensor], dot: bool = False) -> Tensor:
    """Return ``expr`` for every edge; see :func:`~.sparse.sddmm`."""
    axes = max(len(active.shape(x)) for x in operands)
    values: list[Tensor | None] = [None] * len(operands)
    for operand in operands_of(expr):
        x = operands[operand.slot]
        count, *feat = active.shape(x)
        x = active.reshape(x, (count, *(1,) * (axes - 1 - len(feat)), *feat))
        if operand.side in (Side.U, Side.V):
            x = active.take(x, _ends(adj, x)[operand.side is Side.V])
        values[operand.slot] = x
    result = evaluated(expr, values)
    if active.shape(result)[0] != adj.num_edges:  # all operands are shared
        result = active.take(result, _ends(adj, result)[0] * 0)
    return active.sum(result, -1, keepdims=True) if dot else result


def spmm(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> Tensor:
    """Return ``expr`` reduced over the in-edges of every node; see :func:`~.sparse.spmm`."""
    if reducer.selects:
        return _extreme(adj, sddmm(adj, expr, operands), reducer)
    if expr == Operand(Side.U, 0) and _has_sparse_products(operands[0]) and not is_traced(adj, operands):
        total = _product(adj, adj.endpoints(), adj.num_src, operands[0])
    else:
        total = _sums(adj, sddmm(adj, expr, operands))
    if reducer is Reducer.MEAN:
        counts = degrees(adj, Side.V, active.dtype(total), total).clip(1)
        total = total / active.reshape(counts, (-1, *(1,) * (len(active.shape(total)) - 1)))
    return total


def degrees(adj: Adjacency, side: Side, dtype: str, like: Tensor | None = None) -> Tensor:
    """Return the out-degrees of sources or the in-degrees of destinations, on the device of ``like``."""
    ends = adj.tensors if like is None else _ends(adj, like)
    index, count = (ends[0], adj.num_src) if side is Side.U else (ends[1], adj.num_dst)
    return active.put_sum(active.astype(index * 0 + 1, dtype), index, count)


def _ends(adj: Adjacency, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two ends of every edge on the device of ``like``; kept with the structure once they are copied."""
    device = active.device(like)
    if active.on_cpu(like) or is_traced(adj, (like,)):
        src, dst = (active.to_device(x, device) for x in adj.tensors)
        return src, dst
    return adj.ends(arrays_on(device))


def _sums(adj: Adjacency, messages: Tensor) -> Tensor:
    """Return the sums of messages, added up in float32 or wider."""
    dtype = active.dtype(messages)
    wide = active.astype(messages, compute_dtype(dtype))
    return active.astype(active.put_sum(wide, _ends(adj, messages)[1], adj.num_dst), dtype)


def _has_sparse_products(x: Tensor) -> bool:
    """Whether the library multiplies sparse matrices on the device of ``x``; on MPS and others some sizes fail."""
    return str(active.device(x)).partition(":")[0] in ("cpu", "cuda")


def _product(adj: Adjacency, ends: tuple[np.ndarray, np.ndarray], num_cols: int, x: Tensor) -> Tensor:
    """Return the sums of rows of ``x``: row ``ends[0][i]`` is added to row ``ends[1][i]``."""
    dtype, device, (rows, *feat) = active.dtype(x), active.device(x), active.shape(x)
    width = int(np.prod(feat))
    ones = active.full((adj.num_edges,), 1.0, compute_dtype(dtype), device)
    matrix = active.sparse_coo(np.stack([ends[1], ends[0]]), ones, (adj.num_dst, num_cols))
    dense = active.reshape(active.astype(x, compute_dtype(dtype)), (rows, width))
    return active.astype(active.reshape(matrix @ dense, (adj.num_dst, *feat)), dtype)


def _extreme(adj: Adjacency, messages: Tensor, reducer: Reducer) -> Tensor:
    """Return the largest or smallest message of every node, from the first edge that has it; 0 without edges."""
    if not active.requires_grad(messages) and not active.is_forward_mode((messages,)):
        return _extremes(adj, messages, reducer)
    nothing = active.sum(messages[:0], 0, keepdims=True)
    return active.pick(active.concat([messages, nothing]), _first_winner(adj, messages, reducer))


def _extremes(adj: Adjacency, values: Tensor, reducer: Reducer) -> Tensor:
    return active.put_extreme(values, _ends(adj, values)[1], adj.num_dst, reducer is Reducer.MAX, 0)


def _first_winner(adj: Adjacency, messages: Tensor, reducer: Reducer) -> Tensor:
    """Return the first edge with the largest or smallest message, (num_dst, *feat); ``num_edges`` without edges."""
    where, dst, values = active.functions["where"], _ends(adj, messages)[1], active.detach(messages)
    top = active.take(_extremes(adj, values, reducer), dst)
    wins = (values == top) | (values != values)
    ones = active.astype(dst * 0 + 1, "int64")
    numbers = active.reshape(ones.cumsum(0) - 1, (-1, *(1,) * (len(active.shape(messages)) - 1)))
    return active.put_extreme(where(wins, numbers, ones.sum()), dst, adj.num_dst, False, ones.sum())


def edge_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """Return the softmax of the edges with one destination; see :func:`~.softmax.edge_softmax`."""
    score, row = Operand(Side.E, 0), Operand(Side.V, 1)
    top = _extremes(adj, active.detach(logits), Reducer.MAX)
    below = sddmm(adj, (score - row).call("exp"), (logits, top))
    return sddmm(adj, score / row, (below, spmm(adj, score, Reducer.SUM, (below,))))
