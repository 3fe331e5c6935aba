"""The same operations built from the tensor library's own, for a GPU without CuPy.

Messages are written down for every edge, and summed by a product with a sparse matrix. Gradients are the library's.
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
from ..structure.distinct import distinct
from .devices import can_launch, require_gpu
from .operands import evaluated

__all__ = ["edge_softmax", "lacks_kernels", "sddmm", "spmm"]

_told: list[bool] = []


def lacks_kernels(x: Tensor) -> bool:
    """Whether ``x`` is on a GPU on which no kernel can be started; the first time a warning says what to install.

    A device that is neither the CPU nor a GPU is refused with ``DGLError``.
    """
    if active.on_cpu(x):
        return False
    require_gpu(active.device(x))
    if can_launch():
        return False
    if not _told:
        _told.append(True)
        warnings.warn(
            "CuPy is not installed, so tensors on a GPU go through the tensor library's own sparse operations, which "
            "write down a message for every edge. For dglite's fused kernels: pip install cupy-cuda12x (or "
            "cupy-cuda13x, as the GPU's driver has it)",
            RuntimeWarning,
            stacklevel=3,
        )
    return True


def sddmm(adj: Adjacency, expr: Expr, operands: Sequence[Tensor], dot: bool = False) -> Tensor:
    """Return ``expr`` for every edge; see :func:`~.sparse.sddmm`."""
    src, dst = adj.endpoints()
    rows = {Side.U: src, Side.V: dst, Side.G: np.zeros(adj.num_edges, np.int64)}
    axes = max(len(active.shape(x)) for x in operands)
    values: list[Tensor | None] = [None] * len(operands)
    for operand in operands_of(expr):
        x = operands[operand.slot]
        if operand.side in rows:
            x = active.take(x, rows[operand.side].astype(np.int64))
        count, *feat = active.shape(x)
        values[operand.slot] = active.reshape(x, (count, *(1,) * (axes - 1 - len(feat)), *feat))
    result = evaluated(expr, values)
    return active.sum(result, -1, keepdims=True) if dot else result


def spmm(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> Tensor:
    """Return ``expr`` reduced over the in-edges of every node; see :func:`~.sparse.spmm`."""
    if reducer.selects:
        return _extreme(adj, sddmm(adj, expr, operands), reducer)
    if expr == Operand(Side.U, 0):
        total = _product(adj, adj.endpoints(), adj.num_src, operands[0])
    else:
        ends = np.arange(adj.num_edges), adj.endpoints()[1]
        total = _product(adj, ends, adj.num_edges, sddmm(adj, expr, operands))
    if reducer is Reducer.MEAN:
        counts = np.maximum(adj.in_degrees(), 1).reshape(-1, *(1,) * (len(active.shape(total)) - 1))
        total = total / active.astype(active.from_numpy(counts, active.device(total)), active.dtype(total))
    return total


def _product(adj: Adjacency, ends: tuple[np.ndarray, np.ndarray], num_cols: int, x: Tensor) -> Tensor:
    """Return the sums of rows of ``x``: row ``ends[0][i]`` is added to row ``ends[1][i]``."""
    dtype, device, (rows, *feat) = active.dtype(x), active.device(x), active.shape(x)
    width = int(np.prod(feat))
    ones = active.full((adj.num_edges,), 1.0, compute_dtype(dtype), device)
    matrix = active.sparse_coo(np.stack([ends[1], ends[0]]), ones, (adj.num_dst, num_cols))
    dense = active.reshape(active.astype(x, compute_dtype(dtype)), (rows, width))
    return active.astype(active.reshape(matrix @ dense, (adj.num_dst, *feat)), dtype)


def _extreme(adj: Adjacency, messages: Tensor, reducer: Reducer) -> Tensor:
    """Return the largest or smallest message of every node: nodes with equally many are taken at once."""
    csc, degrees, (_, *feat) = adj.csc(), adj.in_degrees(), active.shape(messages)
    dtype, device = active.dtype(messages), active.device(messages)
    parts, nodes = [], []
    for degree in distinct(degrees):
        same = np.flatnonzero(degrees == degree)
        nodes.append(same)
        if degree == 0:
            parts.append(active.full((len(same), *feat), 0.0, dtype, device))
            continue
        entries = csc.indptr[same].astype(np.int64)[:, None] + np.arange(degree)
        edges = csc.edge_ids_of(entries.ravel()).astype(np.int64)
        mailbox = active.reshape(active.take(messages, edges), (len(same), int(degree), *feat))
        parts.append(active.max(mailbox, 1) if reducer is Reducer.MAX else active.min(mailbox, 1))
    if not parts:
        return active.full((0, *feat), 0.0, dtype, device)
    order = np.argsort(np.concatenate(nodes), kind="stable")
    return active.take(active.concat(parts), order)


def edge_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """Return the softmax of the edges with one destination; see :func:`~.softmax.edge_softmax`."""
    score, row = Operand(Side.E, 0), Operand(Side.V, 1)
    top = active.detach(spmm(adj, score, Reducer.MAX, (logits,)))
    below = sddmm(adj, (score - row).call("exp"), (logits, top))
    return sddmm(adj, score / row, (below, spmm(adj, score, Reducer.SUM, (below,))))
