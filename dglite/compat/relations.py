"""DGL's operations beyond ``dglite.ops``: over all relations of a graph at once, and on rows by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure import ALL, Adjacency
from ..structure.ids import integer_array

Tensors = tuple[Tensor | None, ...]
Operands = tuple[Tensor | None, Tensor | None]


# -- all relations of a graph at once ----------------------------------------------------------------------------------
def gspmm_hetero(g: DGLGraph, op: str, reduce_op: str, lhs_len: int, *lhs_and_rhs_tuple: Tensor | None) -> Tensors:
    """Return ``gspmm`` over all relations together: what arrives at a node along any of them is reduced at once.

    The first ``lhs_len`` tensors are source features by node type, the others edge features by edge type. Returns one
    tensor by destination node type: 0 for a node without in-edges, None for a type that no relation with features
    points to. ``reduce_op`` is ``sum``, ``max`` or ``min``; raises ``DGLError`` for another one.
    """
    if reduce_op not in ("sum", "max", "min"):
        raise DGLError(f"no reduce operation {reduce_op!r} over several relations; expected sum, max or min")
    lhs, rhs = lhs_and_rhs_tuple[:lhs_len], lhs_and_rhs_tuple[lhs_len:]
    arrived: dict[int, list[tuple[Tensor, np.ndarray]]] = {}
    for i, adjacency in enumerate(g.adjacencies):
        operands = _operands(op, lhs, g.src_type_id(i), rhs, i)
        if operands is not None:
            result = ops.gspmm(adjacency, op, reduce_op, *operands)
            arrived.setdefault(g.dst_type_id(i), []).append((result, adjacency.in_degrees() > 0))
    counts = len(g.node_frames)
    return tuple(_joined(arrived[i], reduce_op) if i in arrived else None for i in range(counts))


def _joined(parts: list[tuple[Tensor, np.ndarray]], reduce_op: str) -> Tensor:
    """Reduce what arrived along several relations; a node that one of them does not reach is not reduced with its 0."""
    result, received = parts[0]
    for other, also in parts[1:]:
        if reduce_op == "sum":
            result = result + other
            continue
        better = active.functions["maximum" if reduce_op == "max" else "minimum"](result, other)
        feat = (len(received), *(1,) * (len(active.shape(result)) - 1))
        both = active.from_numpy((received & also).reshape(feat), active.device(result))
        result = active.functions["where"](both, better, result + other)  # of the other two, one is 0
        received = received | also
    return result


def gsddmm_hetero(
    g: DGLGraph, op: str, lhs_len: int, lhs_target: str = "u", rhs_target: str = "v", *lhs_and_rhs_tuple: Tensor | None
) -> Tensors:
    """Return ``gsddmm`` of each relation: a tensor by edge type, None where an operand of it is None.

    The first ``lhs_len`` tensors are left operands, the others right ones, by node type, or by edge type for "e".
    """
    lhs, rhs = lhs_and_rhs_tuple[:lhs_len], lhs_and_rhs_tuple[lhs_len:]
    results: list[Tensor | None] = []
    for i, adjacency in enumerate(g.adjacencies):
        place = {"u": g.src_type_id(i), "v": g.dst_type_id(i), "e": i}
        operands = _operands(op, lhs, place[lhs_target], rhs, place[rhs_target])
        results.append(None if operands is None else ops.gsddmm(adjacency, op, *operands, lhs_target, rhs_target))
    return tuple(results)


def _operands(op: str, lhs: Tensors, i: int, rhs: Tensors, j: int) -> Operands | None:
    """Return the two operands of a relation, None for one that is not read; None where one that is read is missing."""
    x, y = None if op == "copy_rhs" else lhs[i], None if op == "copy_lhs" else rhs[j]
    missing = (x is None and op != "copy_rhs") or (y is None and op != "copy_lhs")
    return None if missing else (x, y)


def edge_softmax_hetero(gidx: DGLGraph, eids: Any = ALL, norm_by: str = "dst", *logits: Tensor | None) -> Tensors:
    """Return a softmax of edge scores over all edges that enter (``norm_by="src"``: leave) a node, of every type.

    ``logits`` are by edge type, None for types that take no part. ``eids`` must be ``ALL``.
    """
    scores = {etype: x for etype, x in zip(gidx.canonical_etypes, logits, strict=True) if x is not None}
    weights = ops.edge_softmax(gidx, scores, eids, norm_by)
    return tuple(weights.get(etype) for etype in gidx.canonical_etypes)


# -- rows and matrices -------------------------------------------------------------------------------------------------
def segment_reduce(op: str, x: Tensor, offsets: Tensor) -> Tensor:
    """Reduce rows ``offsets[i]`` up to ``offsets[i + 1]`` to row i by ``sum``, ``max``, ``min`` or ``mean``."""
    return ops.segment_reduce(np.diff(integer_array(offsets, "offsets")), x, op)


def scatter_add(x: Tensor, idx: Tensor, m: int) -> Tensor:
    """Return ``m`` rows: row i is the sum of the rows of ``x`` with ``idx`` i, 0 for none."""
    targets = integer_array(idx)
    rows = np.arange(len(targets), dtype=targets.dtype)
    return ops.gspmm(Adjacency.from_coo(len(targets), m, rows, targets), "copy_lhs", "sum", x, None)


def segment_mm(A: Tensor, B: Tensor, seglen_A: Tensor) -> Tensor:
    """Multiply the first ``seglen_A[0]`` rows of ``A`` by ``B[0]``, the next ``seglen_A[1]`` by ``B[1]``, ..."""
    return ops.segment_mm(A, B, seglen_A)


def gather_mm(A: Tensor, B: Tensor, idx_A: Tensor | None = None, idx_B: Tensor | None = None) -> Tensor:
    """Multiply row ``idx_A[i]`` of ``A`` by matrix ``idx_B[i]`` of ``B``; without an index, row or matrix i.

    (N, D1) and (R, D1, D2) give (K, D2).
    """
    rows = A if idx_A is None else active.take(A, idx_A)
    return ops.gather_mm(rows, B, idx_b=np.arange(len(B)) if idx_B is None else idx_B)
