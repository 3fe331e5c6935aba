"""From the nodes of batched graphs to one row per graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...expr import Expr, Operand, Side
from ...graph import DGLGraph
from ...graph.base import sizes_in_program
from ...graph.storage import require_graph
from ...ops import core
from ...opspec import Reducer
from ...readout import topk_nodes
from ...structure.adjacency import Adjacency
from .given import by_head

_ROW: Expr = Operand(Side.E, 0)
_WEIGHTED: Expr = Operand(Side.E, 0) * Operand(Side.E, 1)
_DOT = core.Attention(core.Score.DOT)


def batch_sizes(layer: Any, graph: DGLGraph, feat: Tensor) -> Any:
    """Return the number of nodes in each batched graph, (batch_size,): an array, in a program a tensor.

    Raises ``DGLError``, naming the layer, for a graph of several node types, no features and another number of rows.
    """
    require_graph(graph)
    if len(graph.node_counts) != 1:
        raise DGLError(
            f"{type(layer).__name__} reads nodes of one type; got a graph with the node types {graph.ntypes}. Pass "
            "graph.node_type_subgraph([ntype]), or use dglite.sum_nodes(graph, name, ntype=ntype) or a similar readout"
        )
    if feat is None:
        raise DGLError(f"{type(layer).__name__}: feat is missing; expected (num_nodes, ...)")
    if feat.ndim == 0 or feat.shape[0] != graph.node_counts[0]:
        raise DGLError(
            f"{type(layer).__name__}: feat has shape {tuple(feat.shape)}; expected a row for each of the "
            f"{graph.node_counts[0]} nodes"
        )
    recorded = graph.batch_node_counts
    if active.compiling():
        return sizes_in_program(recorded, 0, graph.node_counts[0])
    return np.array(graph.node_counts) if recorded is None else recorded[0]


Members = Adjacency | core.TracedSegments


def graph_members(sizes: Any, feat: Tensor) -> Members:
    """Return which nodes are of which graph: an edge from every node to its graph, edge i being node i's."""
    if core.is_program_of(sizes):
        return core.TracedSegments(sizes, feat.shape[0])
    return core.segments(sizes)


def top_rows(graph: DGLGraph, sizes: Any, feat: Tensor, k: int) -> Tensor:
    """Return the k rows of each graph whose last element is largest, largest first, and zeros where there are fewer.

    feat (num_nodes, d) -> (batch_size, k, d)
    """
    members = graph_members(sizes, feat)
    if isinstance(members, core.TracedSegments):
        return _top_in_program(members, feat, k)
    graph = graph.local_var()
    graph.ndata["h"] = feat
    return topk_nodes(graph, "h", k, sortby=-1)[0]


def _top_in_program(members: core.TracedSegments, feat: Tensor, k: int) -> Tensor:
    order, owners = framework.argsort(feat[:, -1], descending=True, stable=True), members.owners_on(feat.device)
    order = order[framework.argsort(owners[order], stable=True)]
    owners, sizes = owners[order], members.lengths_on(feat.device)
    ranks = framework.arange(order.shape[0], device=feat.device) - (sizes.cumsum(0) - sizes)[owners]
    last = members.num_dst * k  # of the rows that are too many
    places = framework.where(ranks < k, owners * k + ranks, last)
    rows = feat.new_zeros(last + 1, feat.shape[1]).index_copy(0, places, feat[order])
    return rows[:last].reshape(members.num_dst, k, feat.shape[1])


def pooled(members: Members, feat: Tensor, reducer: Reducer, weight: Tensor | None = None) -> Tensor:
    r"""Reduce the rows of each graph, multiplied by ``weight`` (num_nodes, 1), in one kernel.

    feat (num_nodes, \*feat) -> (batch_size, \*feat), 0 for a graph without nodes.
    """
    if isinstance(members, core.TracedSegments):
        return members.reduce(feat, reducer) if weight is None else members.weighted_sum(feat, weight)
    if weight is None:
        return core.spmm(members, _ROW, reducer, (feat,))
    return core.spmm(members, _WEIGHTED, reducer, (feat, weight))


def graph_softmax(members: Members, scores: Tensor) -> Tensor:
    """Return the softmax of scores (num_nodes, ...) among the nodes of each graph."""
    return members.softmax(scores) if isinstance(members, core.TracedSegments) else core.edge_softmax(members, scores)


def attended_by_graph(members: Members, feat: Tensor, queries: Tensor) -> Tensor:
    """Return the mean of each graph's rows, weighted by the softmax of their products with the graph's query.

    feat (num_nodes, d), queries (batch_size, d) -> (batch_size, d), 0 for a graph without nodes. One kernel.
    """
    if isinstance(members, core.TracedSegments):
        return members.attended(feat, queries)
    return core.attention(members, _DOT, by_head(feat, 1), (by_head(queries, 1),))[:, 0]
