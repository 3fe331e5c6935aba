"""Renumber the nodes and edges of a graph, so that data used together is close in memory.

The order by locality is a hierarchy of clusters, each a range of ids.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import kernels
from ..arguments import explained
from ..errors import DGLError
from ..frame import EID, NID, Frame
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import make_graph, require_graph
from ..progress import progress
from ..structure import Adjacency
from ..structure.compressed import check_permutation, compress
from ..structure.distinct import distinct
from ..structure.ids import count_of, integer_array

GROWTH = 16
"""Nodes in a cluster of the first level, and clusters in one of the next."""

SWEEPS = 4
"""The most sweeps per level: later ones move few nodes."""

_Graph = tuple[np.ndarray, np.ndarray, np.ndarray]


def locality_order(adjacency: Adjacency) -> np.ndarray:
    """Return the nodes of a square relation in an order that keeps closely linked ones together, int64.

    Takes O(levels * (num_nodes + num_edges)) time in one thread, and 16 bytes per edge while it runs.
    """
    num_nodes = adjacency.num_src
    src, dst = adjacency.endpoints()
    if 2 * adjacency.num_edges >= 2**31:
        src, dst = src.astype(np.int64), dst.astype(np.int64)
    both = compress(np.concatenate([src, dst]), np.concatenate([dst, src]), num_nodes)
    graph = both.indptr, both.indices, np.ones(both.num_edges, np.float32)
    return _ordered(graph, np.ones(num_nodes, np.int64), GROWTH)


def _ordered(graph: _Graph, sizes: np.ndarray, most: int) -> np.ndarray:
    """Return the order of a level's nodes: by the order of their clusters, inside a cluster by id."""
    labels = _clusters(graph, sizes, most)
    starts, members = _members(labels)
    num_clusters = len(starts) - 1
    if num_clusters == len(labels) and most >= sizes.sum():
        return members  # nothing is linked any more
    if num_clusters > 1:
        coarse, sums = _cluster_graph(graph, labels, starts, members), np.add.reduceat(sizes[members], starts[:-1])
        inner = _ordered(coarse, sums, most * GROWTH)
        place = np.empty(num_clusters, np.int64)
        place[inner] = np.arange(num_clusters)
        return np.argsort(place[labels], kind="stable")
    return members


def _cluster_graph(graph: _Graph, labels: np.ndarray, starts: np.ndarray, members: np.ndarray) -> _Graph:
    """Return the graph of the clusters, whose weights are sums."""
    indptr, indices, _ = graph
    coarse, neighbours = np.zeros(len(starts), indptr.dtype), np.empty_like(indices)
    sums = np.empty(len(indices), np.float32)
    merge = kernels.compiled("graph.cluster").cluster_graph
    count = merge(*graph, labels, starts, members, coarse, neighbours, sums)
    return coarse, neighbours[:count].copy(), sums[:count].copy()


def _clusters(graph: _Graph, sizes: np.ndarray, most: int) -> np.ndarray:
    """Return the cluster of each node, numbered from 0."""
    indptr, indices, weights = graph
    labels, label_sizes = np.arange(len(sizes), dtype=indices.dtype), sizes.copy()
    scores, sweep = np.zeros(len(sizes), np.float32), kernels.compiled("graph.cluster").sweep
    for _ in progress(range(SWEEPS), f"clusters of {len(sizes):,} nodes", "sweep"):
        moved = sweep(indptr, indices, weights, sizes, most, labels, label_sizes, scores)
        if moved * 100 < len(labels):
            break
    number = np.cumsum(np.bincount(labels, minlength=len(labels)) > 0) - 1
    return number[labels].astype(indices.dtype)


def _members(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(starts, members)``: the nodes sorted by cluster, and where each cluster starts."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    return starts, np.argsort(labels, kind="stable")


Config = Mapping[str, Any]


@explained
def reorder_graph(
    g: DGLGraph,
    node_permute_algo: str | None = None,
    edge_permute_algo: str | None = "src",
    store_ids: bool = True,
    permute_config: Config | None = None,
) -> DGLGraph:
    """Return the same graph with its nodes and edges in another order. Features follow.

    Kernels gather the features of a node's neighbours. Where these have near ids, the features are in cache more
    often; a graph without clusters gains nothing. Nodes are renumbered first, then edges. ``g`` stays as it is.

    Raises DGLError: the graph has several types or is a block; an order is not known; what it needs is missing from
    ``permute_config`` or not installed; a permutation does not have every id once.

    Parameters
    ----------
    g
        a graph of one node type and one edge type.
    node_permute_algo
        None keeps the order of nodes. ``"locality"`` makes runs of closely linked nodes, clusters inside clusters;
        ``"rcmk"`` is SciPy's reverse Cuthill-McKee, for meshes and roads; ``"degree"`` puts nodes with many edges
        first; ``"metis"`` makes ``permute_config["k"]`` partitions with pymetis, which must be installed;
        ``"custom"`` takes ``permute_config["nodes_perm"]``, whose entry i is the old id of new node i.
    edge_permute_algo
        ``"src"`` sorts edges by (source, destination), ``"dst"`` by (destination, source), which is the order that
        aggregation reads them in; ``"custom"`` takes ``permute_config["edges_perm"]``, whose entry i is the old id of
        new edge i; None keeps the order of edges. Parallel edges keep theirs.
    store_ids
        keep the ids that nodes and edges have in ``g`` as ``ndata[dglite.NID]`` and ``edata[dglite.EID]``.

    Returns
    -------
    DGLGraph
        Without batch sizes: graphs of a batch may have been mixed. It may have all sparse formats, whatever ``g`` may.

    Examples
    --------
    >>> import dglite
    >>> g = dglite.graph(([0, 1, 2], [3, 3, 0]))
    >>> made = reorder_graph(g, "degree")
    >>> made.ndata["_ID"].tolist(), made.edata["_ID"].tolist()
    ([0, 3, 1, 2], [0, 1, 2])
    """
    require_graph(g)
    if not g.is_homogeneous or g.is_block:
        kind = "a block" if g.is_block else f"{len(g.ntypes)} node types and {len(g.canonical_etypes)} edge types"
        raise DGLError(f"reorder_graph takes a graph of one node type and one edge type, got {kind}")
    config = permute_config or {}
    adjacency = g.adjacencies[0]
    nodes = _node_order(adjacency, node_permute_algo, config)
    reordered, edges = _reordered(_renumbered(adjacency, nodes), edge_permute_algo, config)
    result = make_graph(g.type_graph, (reordered,), g.node_counts, g.device)
    result.node_frames = [_rows_of(g.node_frames[0], nodes)]
    result.edge_frames = [_rows_of(g.edge_frames[0], edges)]
    if store_ids:
        columns = ((result.ndata, NID, nodes, adjacency.num_src), (result.edata, EID, edges, adjacency.num_edges))
        for data, name, ids, count in columns:
            data[name] = g.ids_tensor(np.arange(count) if ids is None else ids.copy())
    return result


# -- nodes -------------------------------------------------------------------------------------------------------------
def _node_order(adjacency: Adjacency, algorithm: str | None, config: Config) -> np.ndarray | None:
    """Return the old id of each new node, None where nothing moves."""
    if algorithm is None:
        return None
    if algorithm not in _NODE_ORDERS:
        raise DGLError(f"node_permute_algo={algorithm!r} is not known; expected None or one of {list(_NODE_ORDERS)}")
    return _NODE_ORDERS[algorithm](adjacency, config)


def _by_locality(adjacency: Adjacency, config: Config) -> np.ndarray:
    return locality_order(adjacency)


def _by_degree(adjacency: Adjacency, config: Config) -> np.ndarray:
    """Order by falling number of edges; nodes with equally many keep their order."""
    return np.argsort(-(adjacency.in_degrees() + adjacency.out_degrees()), kind="stable")


def _by_cuthill_mckee(adjacency: Adjacency, config: Config) -> np.ndarray:
    """Order by breadth-first search from an end of the graph, backwards: Cuthill and McKee, 1969; George, 1971."""
    import scipy.sparse.csgraph  # 0.2 s, which `import dglite` must not pay

    if not adjacency.num_src:
        return np.empty(0, np.int64)
    csr, shape = adjacency.csr(), (adjacency.num_src, adjacency.num_dst)
    matrix = scipy.sparse.csr_matrix((np.ones(adjacency.num_edges, np.float32), csr.indices, csr.indptr), shape)
    return scipy.sparse.csgraph.reverse_cuthill_mckee(matrix).astype(np.int64)


def _by_metis(adjacency: Adjacency, config: Config) -> np.ndarray:
    """Order by the partition that METIS puts a node in: Karypis and Kumar, 1998."""
    parts = count_of(config.get("k"), "metis: the number of partitions, permute_config={'k': ...},", least=1)
    try:
        pymetis = importlib.import_module("pymetis")
    except ImportError as error:
        raise DGLError(
            "node_permute_algo='metis' needs the package pymetis; install it, or use 'locality', which needs none"
        ) from error
    src, dst = adjacency.endpoints()
    low, high = np.sort(np.stack([src, dst])[:, src != dst].astype(np.int64), axis=0)
    pairs = np.divmod(distinct(low * adjacency.num_src + high), max(adjacency.num_src, 1))
    ends = Adjacency.from_coo(
        adjacency.num_src, adjacency.num_src, np.concatenate(pairs), np.concatenate(pairs[::-1]), validate=False
    ).csr()
    _, part_of = pymetis.part_graph(parts, xadj=ends.indptr, adjncy=ends.indices)
    return np.argsort(part_of, kind="stable")


def _given_nodes(adjacency: Adjacency, config: Config) -> np.ndarray:
    return _permutation_of(config, "node_permute_algo", "nodes_perm", adjacency.num_src)


_NODE_ORDERS: dict[str, Callable[[Adjacency, Config], np.ndarray]] = {
    "locality": _by_locality,
    "rcmk": _by_cuthill_mckee,
    "degree": _by_degree,
    "metis": _by_metis,
    "custom": _given_nodes,
}


def _permutation_of(config: Config, algorithm: str, name: str, count: int) -> np.ndarray:
    """Return the permutation called ``name`` that the user gave."""
    if name not in config:
        raise DGLError(f"{algorithm}='custom' needs permute_config[{name!r}], a permutation of 0 .. {count - 1}")
    order = integer_array(config[name], name)
    try:
        check_permutation(order, count)
    except DGLError as error:
        raise DGLError(f"{name} is not a permutation of 0 .. {count - 1}") from error
    return order.astype(np.int64)


# -- edges -------------------------------------------------------------------------------------------------------------
def _renumbered(adjacency: Adjacency, nodes: np.ndarray | None) -> Adjacency:
    """Return the relation with node ``nodes[i]`` called i; edges keep their ids."""
    if nodes is None:
        return adjacency
    place = np.empty(len(nodes), adjacency.index_dtype)
    place[nodes] = np.arange(len(nodes))
    src, dst = (place[end] for end in adjacency.endpoints())
    return Adjacency.from_coo(len(nodes), len(nodes), src, dst, adjacency.idtype, validate=False)


def _reordered(adjacency: Adjacency, algorithm: str | None, config: Config) -> tuple[Adjacency, np.ndarray | None]:
    """Return the relation with its edges in another order, and the old id of each new edge; None where none moves."""
    num_nodes = adjacency.num_src
    if algorithm is None:
        return adjacency, None
    if algorithm in ("src", "dst"):
        by_row = (adjacency if algorithm == "src" else adjacency.reverse()).sorted_csr()
        reordered = Adjacency.from_csc(
            num_nodes, num_nodes, by_row.indptr, by_row.indices, None, adjacency.idtype, copy=False
        )
        return reordered.reverse() if algorithm == "src" else reordered, by_row.entry_edge_ids()
    if algorithm == "custom":
        edges = _permutation_of(config, "edge_permute_algo", "edges_perm", adjacency.num_edges)
        src, dst = (end[edges] for end in adjacency.endpoints())
        return Adjacency.from_coo(num_nodes, num_nodes, src, dst, adjacency.idtype, validate=False), edges
    raise DGLError(f"edge_permute_algo={algorithm!r} is not known; expected 'src', 'dst', 'custom' or None")


def _rows_of(frame: Frame | None, rows: np.ndarray | None) -> Frame | None:
    return None if frame is None else frame.copy() if rows is None else frame.take(rows)


attach(reorder_graph=reorder_graph)
