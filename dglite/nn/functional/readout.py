"""From the nodes of batched graphs to one row per graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...expr import Expr, Operand, Side
from ...ops import core
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from .given import by_head

if TYPE_CHECKING:
    from ...graph import DGLGraph

__all__ = ["attended_by_graph", "batch_sizes", "graph_members", "pooled", "recurrent"]

_ROW: Expr = Operand(Side.E, 0)
_WEIGHTED: Expr = Operand(Side.E, 0) * Operand(Side.E, 1)
_DOT = core.Attention(core.Score.DOT)


def batch_sizes(layer: Any, graph: DGLGraph, feat: Tensor) -> np.ndarray:
    """Return the number of nodes in each batched graph, (batch_size,).

    Raises ``DGLError``, naming the layer, for a graph of several node types and for another number of rows.
    """
    if len(graph._num_nodes) != 1:
        raise DGLError(
            f"{type(layer).__name__} reads nodes of one type; got a graph with the node types {graph.ntypes}. Pass "
            "graph.node_type_subgraph([ntype]), or use dglite.sum_nodes(graph, name, ntype=ntype) and its kin"
        )
    known = graph._batch_num_nodes
    sizes = np.array(graph._num_nodes) if known is None else known[0]
    if feat.ndim == 0 or feat.shape[0] != graph._num_nodes[0]:
        raise DGLError(
            f"{type(layer).__name__}: feat has shape {tuple(feat.shape)}; expected a row for each of the "
            f"{graph._num_nodes[0]} nodes"
        )
    return sizes


def graph_members(sizes: np.ndarray) -> Adjacency:
    """Return the structure that has an edge from every node to its graph; edge i is node i's."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    count = int(offsets[-1])
    return Adjacency.from_csc(count, len(sizes), offsets, np.arange(count), copy=False)


def pooled(members: Adjacency, feat: Tensor, reducer: Reducer, weight: Tensor | None = None) -> Tensor:
    r"""Reduce the rows of each graph, multiplied by ``weight`` (num_nodes, 1), in one kernel.

    feat (num_nodes, \*feat) -> (batch_size, \*feat), 0 for a graph without nodes.
    """
    if weight is None:
        return core.spmm(members, _ROW, reducer, (feat,))
    return core.spmm(members, _WEIGHTED, reducer, (feat, weight))


def attended_by_graph(members: Adjacency, feat: Tensor, queries: Tensor) -> Tensor:
    """Return the mean of each graph's rows, weighted by the softmax of their products with the graph's query.

    feat (num_nodes, d), queries (batch_size, d) -> (batch_size, d), 0 for a graph without nodes. One kernel.
    """
    return core.attention(members, _DOT, by_head(feat, 1), (by_head(queries, 1),))[:, 0]


def recurrent(network: Any, *inputs: Any) -> Any:
    """Run a recurrent network, under autocast in the dtype of its parameters.

    torch's recurrent networks in bfloat16 run on some processors only.
    """
    if active.autocast_dtype() is None:
        return network(*inputs)
    dtype = next(network.parameters()).dtype

    def cast(x: Any) -> Any:
        return tuple(map(cast, x)) if isinstance(x, tuple) else x.to(dtype)

    with framework.autocast("cpu", enabled=False):
        return network(*map(cast, inputs))
