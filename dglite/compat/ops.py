"""``dgl.ops``: dglite's operations, extended to heterogeneous graphs as in DGL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..backend import Tensor
from ..graph import DGLGraph
from ..ops import edge_softmax, gather_mm, segment_mm
from . import relations

__all__ = ["copy_e", "edge_softmax", "gather_mm", "gsddmm", "gspmm", "segment_mm"]


def gspmm(g: Any, op: str, reduce_op: str, lhs_data: Any, rhs_data: Any) -> Any:
    """Return :func:`dglite.ops.gspmm`; of several relations at once, a tuple by destination node type.

    There ``lhs_data`` and ``rhs_data`` are lists of tensors by node type and by edge type.
    """
    if not _several(g):
        return ops.gspmm(g, op, reduce_op, lhs_data, rhs_data)
    lhs, rhs = _listed(lhs_data, len(g.ntypes)), _listed(rhs_data, len(g.etypes))
    return relations.gspmm_hetero(g, op, reduce_op, len(lhs), *lhs, *rhs)


def gsddmm(g: Any, op: str, lhs_data: Any, rhs_data: Any, lhs_target: str = "u", rhs_target: str = "v") -> Any:
    """Return :func:`dglite.ops.gsddmm`; of several relations at once, a tuple by edge type.

    There the operands are lists of tensors, by node type, or by edge type where the target is "e".
    """
    if not _several(g):
        return ops.gsddmm(g, op, lhs_data, rhs_data, lhs_target, rhs_target)
    counts = {"u": len(g.ntypes), "v": len(g.ntypes), "e": len(g.etypes)}
    lhs, rhs = _listed(lhs_data, counts[lhs_target]), _listed(rhs_data, counts[rhs_target])
    return relations.gsddmm_hetero(g, op, len(lhs), lhs_target, rhs_target, *lhs, *rhs)


def copy_e(g: Any, x: Tensor) -> Tensor:
    """Return the edge feature itself, (num_edges, *feat)."""
    return x


def _several(g: Any) -> bool:
    return isinstance(g, DGLGraph) and len(g.adjacencies) > 1


def _listed(data: Sequence[Tensor | None] | None, count: int) -> Sequence[Tensor | None]:
    return [None] * count if data is None else data
