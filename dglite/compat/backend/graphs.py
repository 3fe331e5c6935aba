"""Operations on graphs and tensors by ``dgl.backend``'s names. Where DGL takes a graph's index, a graph is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ... import convert, ops, transforms
from ...errors import DGLError
from ...graph import DGLGraph
from ...structure import ALL, Adjacency, is_all

__all__ = [
    "csrmask",
    "csrmm",
    "csrsum",
    "edge_softmax",
    "edge_softmax_hetero",
    "gather_mm",
    "gsddmm",
    "gsddmm_hetero",
    "gspmm",
    "gspmm_hetero",
    "scatter_add",
    "segment_mm",
    "segment_reduce",
]

Tensor = torch.Tensor
Tensors = tuple[Tensor | None, ...]
Operands = tuple[Tensor | None, Tensor | None]

_WEIGHT = "weight"


# -- one relation ------------------------------------------------------------------------------------------------------
def gspmm(gidx: Any, op: str, reduce_op: str, lhs_data: Tensor | None, rhs_data: Tensor | None) -> Tensor:
    """Return :func:`dglite.ops.gspmm`."""
    found: Tensor = ops.gspmm(gidx, op, reduce_op, lhs_data, rhs_data)
    return found


def gsddmm(
    gidx: Any,
    op: str,
    lhs_data: Tensor | None,
    rhs_data: Tensor | None,
    lhs_target: str = "u",
    rhs_target: str = "v",
) -> Tensor:
    """Return :func:`dglite.ops.gsddmm`."""
    found: Tensor = ops.gsddmm(gidx, op, lhs_data, rhs_data, lhs_target, rhs_target)
    return found


def edge_softmax(gidx: Any, logits: Tensor, eids: Any = ALL, norm_by: str = "dst") -> Tensor:
    """Return :func:`dglite.ops.edge_softmax`."""
    found: Tensor = ops.edge_softmax(gidx, logits, eids, norm_by)
    return found


# -- all relations of a graph at once ----------------------------------------------------------------------------------
def gspmm_hetero(g: DGLGraph, op: str, reduce_op: str, lhs_len: int, *lhs_and_rhs_tuple: Tensor | None) -> Tensors:
    """Return :func:`gspmm` over all relations together: what arrives at a node along any of them is reduced at once.

    The first ``lhs_len`` tensors are source features by node type, the others edge features by edge type. Returns one
    tensor by destination node type: 0 for a node without in-edges, None for a type that no relation with features
    points to. ``reduce_op`` is ``sum``, ``max`` or ``min``; raises ``DGLError`` for another one.
    """
    if reduce_op not in ("sum", "max", "min"):
        raise DGLError(f"no reduce operation {reduce_op!r} over several relations; expected sum, max or min")
    lhs, rhs = lhs_and_rhs_tuple[:lhs_len], lhs_and_rhs_tuple[lhs_len:]
    arrived: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for i, adjacency in enumerate(g.adjacencies):
        operands = _operands(op, lhs, g.src_type_id(i), rhs, i)
        if operands is not None:
            received = torch.from_numpy(adjacency.in_degrees() > 0)
            result = gspmm(adjacency, op, reduce_op, *operands)
            arrived.setdefault(g.dst_type_id(i), []).append((result, received.to(result.device)))
    counts = len(g._node_frames)
    return tuple(_joined(arrived[i], reduce_op) if i in arrived else None for i in range(counts))


def _joined(parts: list[tuple[Tensor, Tensor]], reduce_op: str) -> Tensor:
    """Reduce what arrived along several relations; a node that one of them does not reach is not reduced with its 0."""
    result, received = parts[0]
    for other, also in parts[1:]:
        if reduce_op == "sum":
            result = result + other
            continue
        better = torch.maximum(result, other) if reduce_op == "max" else torch.minimum(result, other)
        feat = (-1, *(1,) * (result.dim() - 1))
        result = torch.where((received & also).reshape(feat), better, result + other)  # of the other two, one is 0
        received = received | also
    return result


def gsddmm_hetero(
    g: DGLGraph, op: str, lhs_len: int, lhs_target: str = "u", rhs_target: str = "v", *lhs_and_rhs_tuple: Tensor | None
) -> Tensors:
    """Return :func:`gsddmm` of each relation: a tensor by edge type, None where an operand of it is None.

    The first ``lhs_len`` tensors are left operands, the others right ones, by node type, or by edge type for "e".
    """
    lhs, rhs = lhs_and_rhs_tuple[:lhs_len], lhs_and_rhs_tuple[lhs_len:]
    found: list[Tensor | None] = []
    for i, adjacency in enumerate(g.adjacencies):
        place = {"u": g.src_type_id(i), "v": g.dst_type_id(i), "e": i}
        operands = _operands(op, lhs, place[lhs_target], rhs, place[rhs_target])
        found.append(None if operands is None else ops.gsddmm(adjacency, op, *operands, lhs_target, rhs_target))
    return tuple(found)


def _operands(op: str, lhs: Tensors, i: int, rhs: Tensors, j: int) -> Operands | None:
    """Return the two operands of a relation, None for one that is not read; None where one that is read is missing."""
    x, y = None if op == "copy_rhs" else lhs[i], None if op == "copy_lhs" else rhs[j]
    missing = (x is None and op != "copy_rhs") or (y is None and op != "copy_lhs")
    return None if missing else (x, y)


def edge_softmax_hetero(gidx: DGLGraph, eids: Any = ALL, norm_by: str = "dst", *logits: Tensor | None) -> Tensors:
    """Return a softmax of edge scores over all edges that enter (``norm_by="src"``: leave) a node, of every type.

    ``logits`` are by edge type, None for types that take no part. ``eids`` must be ``ALL``.
    """
    if not is_all(eids):
        raise DGLError("a softmax over several relations takes all edges; use an edge_subgraph for fewer")
    g = gidx.reverse() if norm_by == "src" else gidx
    # Scores of a node minus their maximum, of which no gradient is wanted: the result does not depend on it.
    fixed = [None if x is None else x.detach() for x in logits]
    highest = gspmm_hetero(g, "copy_rhs", "max", 0, *fixed)
    centred = gsddmm_hetero(g, "sub", len(logits), "e", "v", *logits, *highest)
    weights = [None if x is None else x.exp() for x in centred]
    totals = gspmm_hetero(g, "copy_rhs", "sum", 0, *weights)
    return gsddmm_hetero(g, "div", len(weights), "e", "v", *weights, *totals)


# -- rows and matrices -------------------------------------------------------------------------------------------------
def segment_reduce(op: str, x: Tensor, offsets: Tensor) -> Tensor:
    """Reduce rows ``offsets[i]`` up to ``offsets[i + 1]`` to row i by ``sum``, ``max``, ``min`` or ``mean``."""
    return ops.segment_reduce(offsets.diff(), x, op)


def scatter_add(x: Tensor, idx: Tensor, m: int) -> Tensor:
    """Return ``m`` rows: row i is the sum of the rows of ``x`` with ``idx`` i, 0 for none."""
    rows = np.arange(len(idx))
    return gspmm(Adjacency.from_coo(len(idx), m, rows, idx.numpy(force=True)), "copy_lhs", "sum", x, None)


def segment_mm(A: Tensor, B: Tensor, seglen_A: Tensor) -> Tensor:
    """Multiply the first ``seglen_A[0]`` rows of ``A`` by ``B[0]``, the next ``seglen_A[1]`` by ``B[1]``, ...

    (N, D1) and (R, D1, D2) give (N, D2). Raises ``DGLError`` where the lengths do not sum to N.
    """
    sizes = seglen_A.tolist()
    if len(sizes) != len(B) or sum(sizes) != len(A):
        raise DGLError(f"segment_mm: got lengths {sizes} for {len(A)} rows and {len(B)} matrices; they must match")
    return torch.cat([rows @ matrix for rows, matrix in zip(A.split(sizes), B, strict=True)])


def gather_mm(A: Tensor, B: Tensor, idx_A: Tensor | None = None, idx_B: Tensor | None = None) -> Tensor:
    """Multiply row ``idx_A[i]`` of ``A`` by matrix ``idx_B[i]`` of ``B``; without an index, row or matrix i.

    (N, D1) and (R, D1, D2) give (K, D2). Rows that meet one matrix are multiplied together.
    """
    rows = A if idx_A is None else A.index_select(0, idx_A.long())
    if idx_B is None:
        return torch.bmm(rows.unsqueeze(1), B).squeeze(1)
    order = idx_B.long().argsort(stable=True)
    sorted_result = segment_mm(rows.index_select(0, order), B, torch.bincount(idx_B.long(), minlength=len(B)))
    return sorted_result.index_select(0, order.argsort())


# -- weighted adjacency matrices ---------------------------------------------------------------------------------------
def csrmm(
    gidxA: DGLGraph, A_weights: Tensor, gidxB: DGLGraph, B_weights: Tensor, num_vtypes: int
) -> tuple[DGLGraph, Tensor]:
    """Multiply two weighted adjacency matrices; return a graph of the product's entries and their values.

    ``num_vtypes`` is the number of node types of the result: 1, whose ends must be as many, or 2.
    """
    product = transforms.adj_product_graph(_weighted(gidxA, A_weights), _weighted(gidxB, B_weights), _WEIGHT)
    edges, shape = product.edges(), (product.num_src_nodes(), product.num_dst_nodes())
    if num_vtypes == 1:
        if shape[0] != shape[1]:
            raise DGLError(f"the product is {shape}; a graph of one node type needs as many rows as columns")
        made = convert.graph(edges, num_nodes=shape[0])
    else:
        made = convert.heterograph({("_U", "_E", "_V"): edges}, {"_U": shape[0], "_V": shape[1]})
    return made, product.edata[_WEIGHT]


def csrsum(gidxs: Sequence[DGLGraph], weights: Sequence[Tensor]) -> tuple[DGLGraph, Tensor]:
    """Add weighted adjacency matrices; return a graph of the sum's entries and their values."""
    made = transforms.adj_sum_graph([_weighted(g, w) for g, w in zip(gidxs, weights, strict=True)], _WEIGHT)
    return made, made.edata.pop(_WEIGHT)


def csrmask(gidxA: DGLGraph, A_weights: Tensor, gidxB: DGLGraph) -> Tensor:
    """Return the entries of one weighted adjacency matrix at another graph's edges, 0 where it has none."""
    src, dst = gidxB.edges()
    found = torch.as_tensor(gidxA.adjacency().edge_ids(src.numpy(force=True), dst.numpy(force=True)))
    padded = torch.cat([A_weights, A_weights.new_zeros(1)])  # -1, which says that there is no edge, reads the last
    return padded[found.to(A_weights.device)]


def _weighted(g: DGLGraph, weights: Tensor) -> DGLGraph:
    """Return the graph with these weights and no other feature."""
    made = g.local_var()
    made.edata.clear()
    made.edata[_WEIGHT] = weights
    return made
