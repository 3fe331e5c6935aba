"""Neighbours sorted by tag for biased sampling, and weights by degree."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import require_graph
from ..structure import Adjacency, Compressed
from ..structure.distinct import numbered
from ..structure.ids import array_of


@explained
def norm_by_dst(g: DGLGraph, etype: Any = None) -> Tensor:
    """Return for each edge one over the in-degree of its destination, float32 (num_edges,)."""
    require_graph(g)
    adjacency = g.adjacency(etype)
    rows, row_of_edge = numbered(adjacency.endpoints()[1])
    degrees = np.bincount(row_of_edge, minlength=len(rows))[row_of_edge]
    return g.as_tensor((1 / degrees).astype(np.float32))


@explained
def sort_csr_by_tag(g: DGLGraph, tag: Any, tag_offset_name: str = "_TAG_OFFSET", tag_type: str = "node") -> DGLGraph:
    """Return the graph with the out-edges of each node, in its CSR, sorted by tag.

    Raises DGLError: there are several edge types, or there is not one number for each node or edge.

    Parameters
    ----------
    tag
        a number from 0 up for each destination node, or with ``tag_type="edge"`` for each edge.
    tag_offset_name
        the source feature (num_src, number of tags + 1) to write: out-edges of node i with tag t are the entries from
        ``offset[i, t]`` to ``offset[i, t + 1]`` of its row.
    tag_type
        ``"node"`` or ``"edge"``.

    Edge ids stay. Where out-edges are listed, they come by tag and then by id, no longer by id alone.
    """
    require_graph(g)
    adjacency = _only(g, "sort_csr_by_tag")
    tags = _tags(tag, tag_type, adjacency.num_dst, adjacency.num_edges)
    result = g.clone()
    relation, offsets = _sorted(adjacency, tags, tag_type)
    result.adjacencies = (relation,)
    result.src_frame()[tag_offset_name] = result.ids_tensor(offsets)
    return result


@explained
def sort_csc_by_tag(g: DGLGraph, tag: Any, tag_offset_name: str = "_TAG_OFFSET", tag_type: str = "node") -> DGLGraph:
    """Return the graph with the in-edges of each node, in its CSC, sorted by the tag of their source or their own.

    The destination feature ``tag_offset_name`` says where each tag starts. Everything else is as in
    :func:`sort_csr_by_tag`, reversed.
    """
    require_graph(g)
    adjacency = _only(g, "sort_csc_by_tag")
    tags = _tags(tag, tag_type, adjacency.num_src, adjacency.num_edges)
    result = g.clone()
    relation, offsets = _sorted(adjacency.reverse(), tags, tag_type)
    result.adjacencies = (relation.reverse(),)
    result.dst_frame()[tag_offset_name] = result.ids_tensor(offsets)
    return result


def _only(g: DGLGraph, caller: str) -> Adjacency:
    if len(g.adjacencies) != 1:
        raise DGLError(f"{caller}: the graph has edge types {g.canonical_etypes}; sort one, e.g. g['etype']")
    return g.adjacencies[0]


def _tags(tag: Any, tag_type: str, num_nodes: int, num_edges: int) -> np.ndarray:
    if tag_type not in ("node", "edge"):
        raise DGLError(f"tag_type={tag_type!r} is not understood; expected 'node' or 'edge'")
    tags = array_of(tag, "tag")
    expected = num_nodes if tag_type == "node" else num_edges
    if tags.shape != (expected,) or tags.dtype.kind not in "iu" or (len(tags) and tags.min() < 0):
        raise DGLError(
            f"got tags {tags.dtype} of shape {tags.shape}; expected a number from 0 up for each of the {expected} "
            f"{'neighbours' if tag_type == 'node' else 'edges'}"
        )
    return tags.astype(np.int64)


def _sorted(adjacency: Adjacency, tags: np.ndarray, tag_type: str) -> tuple[Adjacency, np.ndarray]:
    """Return the relation with its CSR sorted by tag, and where in its row each tag starts, (num_src, tags + 1)."""
    src, dst = adjacency.endpoints()
    num_tags = int(tags.max(initial=-1)) + 1
    of_edge = tags[dst] if tag_type == "node" else tags
    by_tag = Adjacency.from_coo(adjacency.num_src, num_tags, src, of_edge, validate=False, copy=False).sorted_csr()
    edge_ids = by_tag.entry_edge_ids()
    matrix = Compressed(by_tag.indptr, dst[edge_ids], edge_ids)
    result = Adjacency.from_rows(adjacency.num_dst, adjacency.num_src, matrix, adjacency.idtype, (dst, src)).reverse()
    result.allowed = adjacency.allowed
    # Counted for the rows that have edges: of a table for all nodes, untouched pages are zeros that cost nothing.
    rows, row_of_edge = numbered(src)
    counts = np.bincount(row_of_edge * num_tags + of_edge, minlength=len(rows) * num_tags)
    offsets = np.zeros((adjacency.num_src, num_tags + 1), np.int64)
    offsets[rows, 1:] = np.cumsum(counts.reshape(len(rows), num_tags), axis=1)
    return result, offsets
