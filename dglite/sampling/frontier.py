"""Rows to choose from and the graph of what was chosen: what every neighbour sampler starts and ends with."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..backend import active
from ..errors import DGLError
from ..frame import EID
from ..graph import DGLGraph
from ..graph.base import copies
from ..graph.storage import make_graph
from ..structure import Adjacency

__all__ = ["NO_EDGES", "Chosen", "IncidentEdges", "compiled", "edge_frame", "frontier"]

_NO_IDS = np.empty(0, np.int64)


@cache
def compiled() -> SimpleNamespace:
    """Return the compiled kernels' modules."""
    # Imported at the first sample: importing Numba takes 0.5 s, and `import dglite` must not pay it.
    from ..kernels.cpu import block, hashing, labor, rows, sample, walk

    return SimpleNamespace(block=block, hashing=hashing, labor=labor, rows=rows, sample=sample, walk=walk)


class Chosen(NamedTuple):
    """Edges chosen from one relation: their sources, destinations and ids.

    ``indptr`` says where the edges of each seed begin, seed after seed, and where the last ones end; None where edges
    are ordered otherwise.
    """

    src: np.ndarray
    dst: np.ndarray
    edge_ids: np.ndarray
    indptr: np.ndarray | None = None


NO_EDGES = Chosen(_NO_IDS, _NO_IDS, _NO_IDS)


class IncidentEdges:
    """The in-edges or out-edges of some nodes of one relation, and room for those that are chosen.

    Attributes
    ----------
    starts, offsets
        each row's first entry, and where its choices go: at most ``offsets[i + 1] - offsets[i]`` of them.
    longest, entries
        entries of the longest row, and of all of them.
    """

    __slots__ = ("_inward", "edges", "entries", "far", "longest", "matrix", "near", "offsets", "seeds", "starts")

    def __init__(
        self, adjacency: Adjacency, seeds: np.ndarray, inward: bool, fanout: int, replace: bool = False
    ) -> None:
        self._inward, self.seeds = inward, seeds
        stored = adjacency.csc() if inward else adjacency.csr()
        edge_ids = stored.edge_ids
        self.matrix = stored.indptr, stored.indices, stored.indices[:0] if edge_ids is None else edge_ids
        self.starts, self.offsets = np.empty(len(seeds), np.int64), np.empty(len(seeds) + 1, np.int64)
        bounds = compiled().sample.row_bounds
        self.longest, self.entries = bounds(stored.indptr, seeds, fanout, replace, self.starts, self.offsets)
        self.allocate(adjacency)

    def allocate(self, adjacency: Adjacency) -> None:
        """Make room for as many choices as ``offsets`` asks for."""
        size = self.room
        self.far, self.near = np.empty(size, adjacency.index_dtype), np.empty(size, adjacency.index_dtype)
        self.edges = np.empty(size, adjacency.idtype)

    @property
    def room(self) -> int:
        """The most edges that can be chosen."""
        return int(self.offsets[-1])

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """What every kernel starts with."""
        return *self.matrix, self.seeds, self.starts, self.offsets

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """Where every kernel writes to."""
        return self.far, self.near, self.edges

    def run(self, function: Any, *arguments: Any, scan: bool = True) -> None:
        """Run a kernel over the rows, in threads where that pays; one with ``scan`` looks at all entries of a row."""
        work, run = max(self.room, self.entries) if scan else self.room, compiled().rows.run_rows
        run(function, len(self.seeds), work, active.num_threads(), *self.inputs, *arguments)

    def chosen(self, counts: np.ndarray | None = None) -> Chosen:
        """Return what was chosen; ``counts`` by row where rows may have fewer choices than room."""
        (far, near, edges), indptr = self.outputs, self.offsets
        if counts is not None and counts.sum() < self.room:
            total = compiled().sample.compact(self.offsets, counts, far, near, edges)
            far, near, edges = far[:total].copy(), near[:total].copy(), edges[:total].copy()
            indptr = np.concatenate([indptr[:1], np.cumsum(counts)])
        return self.ordered(far, near, edges, indptr)

    def ordered(self, far: np.ndarray, near: np.ndarray, edges: np.ndarray, indptr: np.ndarray | None = None) -> Chosen:
        """Return edges given from the rows' view, far end first, as source, destination and id."""
        return Chosen(far, near, edges, indptr) if self._inward else Chosen(near, far, edges, indptr)


def check_weights(bad: np.ndarray, what: str) -> None:
    """Raise :class:`DGLError` when a kernel met a weight that it cannot use."""
    if bad[0] >= 0:
        raise DGLError(f"the weight of {what} {bad[0]} is negative, infinite or NaN; weights must be finite and >= 0")


def frontier(
    g: DGLGraph, chosen: list[Chosen], copy_ndata: bool, copy_edata: bool, output_device: Any = None
) -> DGLGraph:
    """Return the graph of all nodes of ``g`` and of the chosen edges of each type, numbered as they were chosen.

    Node features are shared where ``copy_ndata``; edge features are gathered when first read, and ``edata[EID]`` has
    the ids in ``g``, where ``copy_edata``.
    """
    adjacencies = tuple(
        Adjacency.from_coo(old.num_src, old.num_dst, edges.src, edges.dst, old.idtype, validate=False, copy=False)
        for old, edges in zip(g.adjacencies, chosen, strict=True)
    )
    made = make_graph(g._metagraph, adjacencies, g._num_nodes, g._device)
    made._idtype = g._idtype
    if copy_ndata:
        made._node_frames = copies(g._node_frames)
    if copy_edata:
        made._edge_frames = [edge_frame(g, made, i, edges.edge_ids) for i, edges in enumerate(chosen)]
    return made if output_device is None else made.to(output_device)


def edge_frame(g: DGLGraph, made: DGLGraph, index: int, edge_ids: np.ndarray) -> Any:
    """Return the features of chosen edges of relation ``index`` of ``g``, and their ids."""
    frame = g._edge_frames[index]
    # Columns wait for their rows: the tensor of ids, which users may write to, must not share them.
    taken = made._edge_frame(index) if frame is None or not len(frame) else frame.take(edge_ids.copy())
    taken[EID] = made._ids_tensor(edge_ids if len(edge_ids) else edge_ids.copy())
    return taken
