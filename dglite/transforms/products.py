"""Line graphs, powers, products and sums of adjacency matrices."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import graphs_of, make_graph, require_graph
from ..structure import Adjacency
from ..structure.compressed import expand_ranges
from ..structure.distinct import numbered
from ..structure.ids import LARGEST_COUNT, count_of
from ..structure.metagraph import HOMOGENEOUS
from .parts import matrix, node_frames, one_relation, require_homogeneous, without_parallel


@explained
def line_graph(g: DGLGraph, backtracking: bool = True, shared: bool = False) -> DGLGraph:
    """Return the graph whose nodes are the edges of ``g``: edge ``(u, v)`` points to every edge ``(v, w)`` but itself.

    Raises DGLError: the graph has several types.

    Parameters
    ----------
    backtracking
        whether ``(u, v)`` points to ``(v, u)``.
    shared
        give the nodes the edge features of ``g``.
    """
    adjacency = require_homogeneous(g, "line_graph")
    src, dst = adjacency.endpoints()
    count, csr = adjacency.num_edges, adjacency.csr()
    starts = csr.indptr[dst]
    degrees = csr.indptr[1:][dst] - starts
    tails = np.arange(count, dtype=dst.dtype).repeat(degrees)
    heads = csr.edge_ids_of(expand_ranges(starts, degrees))
    onward = heads != tails
    if not backtracking:
        onward &= dst[heads] != src[tails]
    tails, heads = tails[onward], heads[onward]
    result = make_graph(
        HOMOGENEOUS,
        (Adjacency.from_coo(count, count, tails, heads, g.numpy_idtype, validate=False, copy=False),),
        [count],
        like=g,
    )
    if shared and g.edge_frames[0]:
        result.node_frame_at(0).update(g.edge_frame_at(0))
    return result


@explained
def khop_adj(g: DGLGraph, k: int) -> Tensor:
    """Return the ``k``-th power of the adjacency matrix, float32 (num_nodes, num_nodes): how many paths join a pair.

    Raises DGLError: the graph has several types, or ``k`` is negative.
    """
    require_graph(g)
    return g.as_tensor(
        _power(require_homogeneous(g, "khop_adj"), count_of(k, "khop_adj: k"), "khop_adj").toarray().astype(np.float32)
    )


@explained
def khop_graph(g: DGLGraph, k: int, copy_ndata: bool = True) -> DGLGraph:
    """Return the graph with an edge ``u -> v`` for each path of ``k`` edges from u to v, by source and destination.

    Raises DGLError: the graph has several types, or ``k`` is negative.
    """
    adjacency, num_nodes = require_homogeneous(g, "khop_graph"), g.num_nodes()
    k = count_of(k, "khop_graph: k")
    nodes = None
    if adjacency.few_edges and k > 0:  # a path has edges only: nodes without any need no row of a matrix
        nodes, adjacency = _with_edges(adjacency)
    paths = _power(adjacency, k, "khop_graph")
    times = paths.data.astype(np.int64)
    src = np.repeat(np.repeat(np.arange(adjacency.num_src), np.diff(paths.indptr)), times)
    dst = np.repeat(paths.indices, times)
    if nodes is not None:
        src, dst = nodes[src], nodes[dst]
    relation = Adjacency.from_coo(num_nodes, num_nodes, src, dst, g.numpy_idtype, validate=False)
    result = make_graph(g.type_graph, (relation,), [num_nodes], like=g)
    result.node_frames = node_frames(g, copy_ndata)
    return result


def _with_edges(adjacency: Adjacency) -> tuple[np.ndarray, Adjacency]:
    """Return the nodes that have edges, ascending, and the square relation among them, numbered in this order."""
    nodes, numbers = numbered(np.concatenate(adjacency.endpoints()))
    src, dst = np.split(numbers, 2)
    return nodes, Adjacency.from_coo(len(nodes), len(nodes), src, dst, adjacency.idtype, validate=False)


def _power(adjacency: Adjacency, k: int, caller: str) -> Any:
    """Return the number of paths of length ``k`` as a sorted CSR matrix of int64."""
    # Floats are exact up to 2**53 and do not wrap beyond.
    paths = (matrix(adjacency, dtype=np.float64) ** k).tocsr()
    total = paths.data.sum()
    if not total <= LARGEST_COUNT:
        raise DGLError(f"{caller}: there are about {total:.0e} paths of length {k}, too many for a graph to hold")
    paths = paths.astype(np.int64)
    paths.eliminate_zeros()
    paths.sort_indices()
    return paths


@explained
def metapath_reachable_graph(g: DGLGraph, metapath: Sequence[Any]) -> DGLGraph:
    """Return the graph with an edge ``u -> v`` where the edge types of ``metapath``, one after the other, lead.

    Its nodes are all of the first type and all of the last, with their features; one type gives a homogeneous graph.
    Each pair is joined once, by source and destination.

    Raises DGLError: the path is empty, an edge type does not exist, or one does not start where the one before ends.
    """
    require_graph(g)
    metapath = list(metapath)
    if not metapath:
        raise DGLError("metapath_reachable_graph: the metapath is empty; give at least one edge type")
    indices = [g.etype_id(etype) for etype in metapath]
    ends = g.type_graph.ends
    for before, after in itertools.pairwise(indices):
        if ends[before][1] != ends[after][0]:
            etypes = g.canonical_etypes
            raise DGLError(
                f"metapath_reachable_graph: {etypes[after]} does not start from {etypes[before][2]!r}, where "
                f"{etypes[before]} ends"
            )
    reached = matrix(g.adjacencies[indices[0]], dtype=bool)
    for index in indices[1:]:
        reached = reached @ matrix(g.adjacencies[index], dtype=bool)
    reached = reached.tocsr()
    reached.sort_indices()
    num_src, num_dst = reached.shape
    relation = Adjacency.from_csr(num_src, num_dst, reached.indptr, reached.indices, None, g.numpy_idtype)
    src_set, dst_set = ends[indices[0]][0], ends[indices[-1]][1]
    src_type, dst_type = g.canonical_etypes[indices[0]][0], g.canonical_etypes[indices[-1]][2]
    if src_set != dst_set and src_type == dst_type:  # the two sides of a block
        src_type, dst_type = f"{src_type}_src", f"{dst_type}_dst"
    result = one_relation(relation, src_type, "_E", dst_type, g)
    for name, node_set in ((src_type, src_set), (dst_type, dst_set)):
        frame = g.node_frames[node_set]
        result.node_frames[result.type_graph.node_set(name)] = None if frame is None else frame.copy()
    return result


# -- weighted graphs -------------------------------------------------------------------------------------------------
@explained
def adj_product_graph(A: DGLGraph, B: DGLGraph, weight_name: str, etype: str = "_E") -> DGLGraph:
    """Return the graph whose weighted adjacency matrix is the product of those of ``A`` and ``B``.

    Edges are ordered by source and destination; one of weight 0 stays. Weights are differentiable, and are computed
    from one product per path of an edge of ``A`` and one of ``B``.

    Raises DGLError: a graph has several edge types, numbers of nodes do not match, or weights are not scalars.

    Parameters
    ----------
    A, B
        graphs of one edge type, as many nodes where A ends as where B starts.
    weight_name
        the edge feature that holds the weight, (num_edges,), in both and in the result.
    etype
        the edge type of the result, from A's source type to B's destination type.
    """
    left, right = _weighted(A, weight_name, "adj_product_graph"), _weighted(B, weight_name, "adj_product_graph")
    (first, first_weights), (second, second_weights) = left, right
    if first.num_dst != second.num_src:
        raise DGLError(
            f"adj_product_graph: A ends at {first.num_dst} nodes, B starts from {second.num_src}; they must be the same"
        )
    src, middle = first.endpoints()
    csr = second.csr()
    starts = csr.indptr[middle].astype(np.int64)
    degrees = csr.indptr[middle.astype(np.int64) + 1] - starts
    entries = expand_ranges(starts, degrees)
    first_edges = np.repeat(np.arange(first.num_edges), degrees)
    products = active.take(first_weights, first_edges) * active.take(second_weights, csr.edge_ids_of(entries))
    sizes = first.num_src, second.num_dst
    relation, weights = _summed(src[first_edges], csr.indices[entries], products, sizes, A)
    result = one_relation(relation, A.canonical_etypes[0][0], etype, B.canonical_etypes[0][2], A)
    result.edge_frame_at(0)[weight_name] = weights
    return result


@explained
def adj_sum_graph(graphs: Sequence[DGLGraph], weight_name: str) -> DGLGraph:
    """Return the graph whose weighted adjacency matrix is the sum of those of the graphs. Weights are differentiable.

    Edges are ordered by source and destination; one of weight 0 stays.

    Raises DGLError: there is no graph, types or numbers of nodes differ, or weights are not scalars.
    """
    graphs = graphs_of(graphs, "adj_sum_graph")
    if not graphs:
        raise DGLError("adj_sum_graph: the list of graphs is empty; give at least one graph")
    parts = [_weighted(g, weight_name, "adj_sum_graph") for g in graphs]
    first = graphs[0]
    for i, g in enumerate(graphs):
        if g.canonical_etypes != first.canonical_etypes or g.node_counts != first.node_counts:
            raise DGLError(f"adj_sum_graph: graph {i} must have the types and numbers of nodes of graph 0")
    sizes = parts[0][0].num_src, parts[0][0].num_dst
    src, dst = (np.concatenate(ends) for ends in zip(*(adjacency.endpoints() for adjacency, _ in parts), strict=True))
    relation, weights = _summed(src, dst, active.concat([weights for _, weights in parts]), sizes, first)
    result = make_graph(first.type_graph, (relation,), first.node_counts, like=first)
    result.edge_frame_at(0)[weight_name] = weights
    return result


def _weighted(g: DGLGraph, weight_name: str, caller: str) -> tuple[Adjacency, Tensor]:
    if len(g.adjacencies) != 1:
        raise DGLError(f"{caller}: a graph has edge types {g.canonical_etypes}; expected one, e.g. g['etype']")
    weights = g.edge_frame_at(0)[weight_name]
    if len(active.shape(weights)) != 1:
        raise DGLError(f"{caller}: weights {weight_name!r} must be one number per edge, got {active.shape(weights)}")
    return g.adjacencies[0], weights


def _summed(
    src: np.ndarray, dst: np.ndarray, weights: Tensor, sizes: tuple[int, int], like: DGLGraph
) -> tuple[Adjacency, Tensor]:
    """Return the relation of the distinct pairs and the sum of the weights of each."""
    every = Adjacency.from_coo(*sizes, src, dst, like.numpy_idtype, validate=False, copy=False)
    relation, order, counts = without_parallel(every)
    return relation, ops.segment_reduce(counts, active.take(weights, order), "sum")


attach(line_graph=line_graph)
