"""Helpers that several transforms share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DGLError
from ..frame import Frame
from ..graph import DGLGraph
from ..graph.scope import copies
from ..graph.storage import make_graph, require_graph
from ..structure import Adjacency, Metagraph
from ..structure.metagraph import HOMOGENEOUS


def without_parallel(relation: Adjacency) -> tuple[Adjacency, np.ndarray, np.ndarray]:
    """Return the relation with parallel edges merged, ordered by source, then destination.

    Also the ids of all old edges, grouped by the merged edge and ascending in each group, and the size of each group,
    int64.
    """
    src, dst, edge_ids = relation.sorted_edges()
    new = np.ones(len(src), np.bool_)
    new[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    first = new.nonzero()[0]
    simple = Adjacency.from_coo(
        relation.num_src, relation.num_dst, src[first], dst[first], relation.idtype, validate=False, copy=False
    )
    return simple, edge_ids, np.diff(first, append=len(src))


def node_frames(g: DGLGraph, keep: bool) -> list[Frame | None]:
    """Return copies of the node frames of a graph, or none of them."""
    return copies(g.node_frames) if keep else [None] * len(g.node_frames)


def require_homogeneous(g: DGLGraph, caller: str) -> Adjacency:
    """Return the only relation of a graph with one node type and one edge type, else raise :class:`DGLError`."""
    require_graph(g)
    if not g.is_homogeneous or g.is_block:
        raise DGLError(
            f"{caller}: the graph must have one node type and one edge type, got node types {g.ntypes} and edge types "
            f"{g.canonical_etypes}; use dglite.to_homogeneous(g) first"
        )
    return g.adjacencies[0]


def matrix(adjacency: Adjacency, values: Any = None, dtype: Any = np.float64) -> Any:
    """Return the relation as a SciPy CSR matrix, rows sources; parallel edges add up. Values are ones by default."""
    import scipy.sparse  # 0.2 s, which `import dglite` must not pay

    src, dst = adjacency.endpoints()
    data = np.ones(len(src), dtype) if values is None else np.asarray(values, dtype)
    result = scipy.sparse.csr_matrix((data, (src, dst)), shape=(adjacency.num_src, adjacency.num_dst))
    result.sum_duplicates()  # which SciPy 1.13 leaves
    return result


def one_relation(adjacency: Adjacency, src_type: str, etype: str, dst_type: str, like: DGLGraph) -> DGLGraph:
    """Return a graph of one relation, homogeneous when both types are the same, with ids and device as ``like``."""
    if src_type == dst_type:
        names, counts = [src_type], [adjacency.num_src]
    else:
        both = sorted([(src_type, adjacency.num_src), (dst_type, adjacency.num_dst)])
        names, counts = [name for name, _ in both], [count for _, count in both]
    relation = (src_type, etype, dst_type)
    homogeneous = HOMOGENEOUS.canonical_etypes[0]
    metagraph = HOMOGENEOUS if relation == homogeneous else Metagraph(names, [relation])
    result = make_graph(metagraph, (adjacency.as_idtype(like.numpy_idtype),), counts, like=like)
    return result
