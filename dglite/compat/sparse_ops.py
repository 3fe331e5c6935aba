"""``dgl._sparse_ops``: g-SpMM and g-SDDMM on a graph's index, for autograd functions that projects write themselves."""

from __future__ import annotations

from ..backend import Tensor
from ..errors import DGLError
from ..graph import DGLGraph
from ..ops import gsddmm, gspmm

_COMPOSED = "mean", "logsumexp"
"""Reducers of ``dglite.ops`` that DGL's function does not have."""


def _gspmm(
    gidx: DGLGraph, op: str, reduce_op: str, u: Tensor | None, e: Tensor | None
) -> tuple[Tensor, tuple[None, None]]:
    """Return the reduced messages ``(num_dst, *feat)``, and two Nones, where DGL returns the indices of max and min.

    Nodes without in-edges get 0.

    Raises DGLError: the reducer is not "sum", "max" or "min".
    """
    if reduce_op in _COMPOSED:
        raise DGLError(f"_gspmm reduces by sum, max or min, got {reduce_op!r}; dgl.ops.gspmm has {reduce_op}")
    return gspmm(gidx, op, reduce_op, u, e), (None, None)


def _gsddmm(
    gidx: DGLGraph, op: str, lhs: Tensor | None, rhs: Tensor | None, lhs_target: str = "u", rhs_target: str = "v"
) -> Tensor:
    """Return ``op`` of two features for every edge: ``(num_edges, *feat)``."""
    return gsddmm(gidx, op, lhs, rhs, lhs_target, rhs_target)
