"""``dgl.backend``: operations on graphs and tensors. They take a graph where DGL takes a graph index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import convert, ops, transforms
from ...errors import DGLError
from ...graph import DGLGraph
from ...structure import ALL
from ..relations import (
    edge_softmax_hetero,
    gather_mm,
    gsddmm_hetero,
    gspmm_hetero,
    scatter_add,
    segment_mm,
    segment_reduce,
)

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

_WEIGHT = "weight"


# -- one relation ------------------------------------------------------------------------------------------------------
def gspmm(gidx: Any, op: str, reduce_op: str, lhs_data: Tensor | None, rhs_data: Tensor | None) -> Tensor:
    """Return :func:`dglite.ops.gspmm`."""
    out: Tensor = ops.gspmm(gidx, op, reduce_op, lhs_data, rhs_data)
    return out


def gsddmm(
    gidx: Any, op: str, lhs_data: Tensor | None, rhs_data: Tensor | None, lhs_target: str = "u", rhs_target: str = "v"
) -> Tensor:
    """Return :func:`dglite.ops.gsddmm`."""
    out: Tensor = ops.gsddmm(gidx, op, lhs_data, rhs_data, lhs_target, rhs_target)
    return out


def edge_softmax(gidx: Any, logits: Tensor, eids: Any = ALL, norm_by: str = "dst") -> Tensor:
    """Return :func:`dglite.ops.edge_softmax`."""
    weights: Tensor = ops.edge_softmax(gidx, logits, eids, norm_by)
    return weights


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
        g = convert.graph(edges, num_nodes=shape[0])
    else:
        g = convert.heterograph({("_U", "_E", "_V"): edges}, {"_U": shape[0], "_V": shape[1]})
    return g, product.edata[_WEIGHT]


def csrsum(gidxs: Sequence[DGLGraph], weights: Sequence[Tensor]) -> tuple[DGLGraph, Tensor]:
    """Add weighted adjacency matrices; return a graph of the sum's entries and their values."""
    total = transforms.adj_sum_graph([_weighted(g, w) for g, w in zip(gidxs, weights, strict=True)], _WEIGHT)
    return total, total.edata.pop(_WEIGHT)


def csrmask(gidxA: DGLGraph, A_weights: Tensor, gidxB: DGLGraph) -> Tensor:
    """Return the entries of one weighted adjacency matrix at another graph's edges, 0 where it has none."""
    src, dst = gidxB.edges()
    positions = torch.as_tensor(gidxA.adjacency().edge_ids(src.numpy(force=True), dst.numpy(force=True)))
    padded = torch.cat([A_weights, A_weights.new_zeros(1)])  # -1, which says that there is no edge, reads the last
    return padded[positions.to(A_weights.device)]


def _weighted(g: DGLGraph, weights: Tensor) -> DGLGraph:
    """Return the graph with these weights and no other feature."""
    weighted = g.local_var()
    weighted.edata.clear()
    weighted.edata[_WEIGHT] = weights
    return weighted
