"""From the nodes of batched graphs to one row per graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...expr import Expr, Operand, Side
from ...graph.storage import require_graph
from ...ops import core
from ...opspec import Reducer
from ...readout import broadcast_nodes, topk_nodes
from ...structure.adjacency import Adjacency
from .given import by_head

if TYPE_CHECKING:
    from ...graph import DGLGraph

__all__ = [
    "attended_by_graph",
    "batch_sizes",
    "graph_members",
    "graph_softmax",
    "pooled",
    "repeated_by_graph",
    "top_rows",
]

_ROW: Expr = Operand(Side.E, 0)
_WEIGHTED: Expr = Operand(Side.E, 0) * Operand(Side.E, 1)
_DOT = core.Attention(core.Score.DOT)


def batch_sizes(layer: Any, graph: DGLGraph, feat: Tensor) -> np.ndarray:
    """Return the number of nodes in each batched graph, (batch_size,).

    Raises ``DGLError``, naming the layer, for a graph of several node types, no features and another number of rows.
    """
    require_graph(graph)
    if len(graph._num_nodes) != 1:
        raise DGLError(
            f"{type(layer).__name__} reads nodes of one type; got a graph with the node types {graph.ntypes}. Pass "
            "graph.node_type_subgraph([ntype]), or use dglite.sum_nodes(graph, name, ntype=ntype) or a similar readout"
        )
    known = graph._batch_num_nodes
    sizes = np.array(graph._num_nodes) if known is None else known[0]
    if feat is None:
        raise DGLError(f"{type(layer).__name__}: feat is missing; expected (num_nodes, ...)")
    if feat.ndim == 0 or feat.shape[0] != graph._num_nodes[0]:
        raise DGLError(
            f"{type(layer).__name__}: feat has shape {tuple(feat.shape)}; expected a row for each of the "
            f"{graph._num_nodes[0]} nodes"
        )
    return sizes


class _Numbers(NamedTuple):
    """The number of each node's graph, (num_nodes,), and how many graphs there are: members in a compiled program."""

    of_nodes: Tensor
    num_graphs: int

    def sums(self, feat: Tensor) -> Tensor:
        return feat.new_zeros(self.num_graphs, *feat.shape[1:]).index_add(0, self.of_nodes, feat)

    def max_of_each(self, feat: Tensor) -> Tensor:
        """Return the maximum of each graph, minus infinity for one without nodes."""
        lowest = feat.new_full((self.num_graphs, *feat.shape[1:]), -float("inf"))
        places = self.of_nodes.reshape(-1, *(1,) * (feat.ndim - 1)).expand_as(feat)
        return lowest.scatter_reduce(0, places, feat, "amax")

    def top(self, feat: Tensor, k: int, key: Tensor) -> Tensor:
        """Return the rows of the k largest keys in each graph, largest first, and zeros: (num_graphs, k, d)."""
        order = framework.argsort(key, descending=True, stable=True)
        order = order[framework.argsort(self.of_nodes[order], stable=True)]
        sizes = self.sums(framework.ones_like(self.of_nodes))
        owners = self.of_nodes[order]
        ranks = framework.arange(len(order), device=feat.device) - (sizes.cumsum(0) - sizes)[owners]
        last = self.num_graphs * k  # of the rows that are too many
        places = framework.where(ranks < k, owners * k + ranks, last)
        made = feat.new_zeros(last + 1, feat.shape[1]).index_copy(0, places, feat[order])
        return made[:last].reshape(self.num_graphs, k, feat.shape[1])

    def reduce(self, feat: Tensor, reducer: Reducer) -> Tensor:
        if reducer is Reducer.SUM:
            return self.sums(feat)
        sizes = self.sums(feat.new_ones(len(feat), *(1,) * (feat.ndim - 1)))
        if reducer is Reducer.MAX:
            return self.max_of_each(feat).masked_fill(sizes == 0, 0.0)
        return self.sums(feat) / sizes.clamp(min=1)


Members = Adjacency | _Numbers


def graph_members(sizes: np.ndarray, feat: Tensor) -> Members:
    """Return which nodes are of which graph: an edge from every node to its graph, edge i being node i's.

    A program that torch compiles cannot hold a structure made while it runs; it has the numbers of graphs instead.
    """
    if active.compiling():
        repeats = framework.from_numpy(sizes).to(feat.device)
        of_nodes = framework.repeat_interleave(repeats, output_size=feat.shape[0])
        return _Numbers(of_nodes, len(sizes))
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    count = int(offsets[-1])
    return Adjacency.from_csc(count, len(sizes), offsets, np.arange(count), copy=False)


def repeated_by_graph(graph: DGLGraph, sizes: np.ndarray, values: Tensor, feat: Tensor) -> Tensor:
    """Return the row of each node's graph: values (batch_size, d), feat (num_nodes, ...) -> (num_nodes, d)."""
    if not active.compiling():
        return broadcast_nodes(graph, values)
    members = graph_members(sizes, feat)
    assert isinstance(members, _Numbers)
    return values[members.of_nodes]


def top_rows(graph: DGLGraph, sizes: np.ndarray, feat: Tensor, k: int) -> Tensor:
    """Return the k rows of each graph whose last element is largest, largest first, and zeros where there are fewer.

    feat (num_nodes, d) -> (batch_size, k, d)
    """
    if not active.compiling():
        with graph.local_scope():
            graph.ndata["h"] = feat
            return topk_nodes(graph, "h", k, sortby=-1)[0]
    members = graph_members(sizes, feat)
    assert isinstance(members, _Numbers)
    return members.top(feat, k, feat[:, -1])


def pooled(members: Members, feat: Tensor, reducer: Reducer, weight: Tensor | None = None) -> Tensor:
    r"""Reduce the rows of each graph, multiplied by ``weight`` (num_nodes, 1), in one kernel.

    feat (num_nodes, \*feat) -> (batch_size, \*feat), 0 for a graph without nodes.
    """
    if isinstance(members, _Numbers):
        return members.reduce(feat if weight is None else feat * weight, reducer)
    if weight is None:
        return core.spmm(members, _ROW, reducer, (feat,))
    return core.spmm(members, _WEIGHTED, reducer, (feat, weight))


def graph_softmax(members: Members, scores: Tensor) -> Tensor:
    """Return the softmax of scores (num_nodes, ...) among the nodes of each graph."""
    if not isinstance(members, _Numbers):
        return core.edge_softmax(members, scores)
    powers = (scores - members.max_of_each(scores.detach())[members.of_nodes]).exp()
    return powers / members.sums(powers)[members.of_nodes]


def attended_by_graph(members: Members, feat: Tensor, queries: Tensor) -> Tensor:
    """Return the mean of each graph's rows, weighted by the softmax of their products with the graph's query.

    feat (num_nodes, d), queries (batch_size, d) -> (batch_size, d), 0 for a graph without nodes. One kernel.
    """
    if isinstance(members, _Numbers):
        scores = (feat * queries[members.of_nodes]).sum(-1, keepdim=True)
        return members.sums(graph_softmax(members, scores) * feat)
    return core.attention(members, _DOT, by_head(feat, 1), (by_head(queries, 1),))[:, 0]
