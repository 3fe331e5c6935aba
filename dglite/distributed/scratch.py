"""Edges that do not fit into memory: arrays in scratch files, and edge lists on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..io.container import local_path
from ..structure import Adjacency, Compressed
from ..structure.distinct import distinct
from ..structure.formats import index_dtype_for
from ..structure.metagraph import HOMOGENEOUS

IN_MEMORY = 1 << 28
"""Bytes up to which an array is in memory."""
EDGES_AT_A_TIME = 1 << 20


def scratch_array(count: int, dtype: Any, folder: Path) -> np.ndarray:
    """Return an array to be written, in an unnamed file of the folder if it is large."""
    dtype = np.dtype(dtype)
    if count * dtype.itemsize <= IN_MEMORY:
        return np.empty(count, dtype)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:  # the array keeps what is in it
        return np.memmap(file, dtype, "w+", shape=(count,)).view(np.ndarray)


def edges_at_a_time(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that have about a million entries each, or one row that has more."""
    last = len(indptr) - 1
    cuts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]), EDGES_AT_A_TIME), "right") - 1
    cuts = distinct(np.concatenate([[0], cuts, [last]]))
    yield from zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)


def graph_of_edge_file(path: Any, folder: Any) -> DGLGraph:
    """Return the graph of edges in a NumPy file: integers of shape (2, num_edges), sources and destinations.

    The file is read twice, in order; memory is by nodes, and what is made of the edges lies in unnamed files of the
    folder. Nodes are 0 to the greatest id.

    Raises ``DGLError``: the file cannot be read, or has something else in it.
    """
    try:
        edges = np.load(local_path(path), mmap_mode="r")
    except (OSError, ValueError) as error:
        raise DGLError(f"{path} cannot be read: {error}; expected a file that numpy.save wrote") from error
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise DGLError(f"{path} has {edges.dtype} of shape {edges.shape}; expected integers of shape (2, num_edges)")
    degrees = np.zeros(0, np.int64)
    for first, src, dst in _pieces(edges):
        if min(src.min(), dst.min()) < 0:
            raise DGLError(f"{path} has a negative id among edges {first} to {first + len(src) - 1}")
        count = max(len(degrees), int(src.max()) + 1, int(dst.max()) + 1)
        degrees = np.bincount(dst, minlength=count) + np.pad(degrees, (0, count - len(degrees)))
    dtype, place = index_dtype_for(len(degrees), len(degrees), edges.shape[1]), local_path(folder)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    indices, edge_ids = (scratch_array(edges.shape[1], dtype, place) for _ in range(2))
    ends = indptr[:-1].copy()
    for first, src, dst in _pieces(edges):
        order = np.argsort(dst, kind="stable")
        rows, begins, counts = np.unique(dst[order], return_index=True, return_counts=True)
        at = np.repeat(ends[rows] - begins, counts) + np.arange(len(order))
        indices[at], edge_ids[at] = src[order], first + order
        ends[rows] += counts
    csc = Compressed(indptr.astype(dtype), indices, edge_ids)
    adjacency = Adjacency.from_rows(len(degrees), len(degrees), csc)
    return make_graph(HOMOGENEOUS, (adjacency,), (len(degrees),))


def _pieces(edges: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield a million edges after the other: the id of the first, sources, destinations."""
    for first in range(0, edges.shape[1], EDGES_AT_A_TIME):
        src, dst = edges[:, first : first + EDGES_AT_A_TIME].astype(np.int64)
        yield first, src, dst
