"""The first and last step of every neighbour sampler: the rows to draw from, and the graph of the drawn edges."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..backend import active
from ..errors import DGLError
from ..frame import EID
from ..graph import DGLGraph
from ..graph.scope import copies
from ..graph.storage import make_graph
from ..structure import Adjacency, Compressed
from ..structure.arrays import HOST
from ..structure.packed import PackedRows

_NO_IDS = np.empty(0, np.int64)


@cache
def compiled() -> SimpleNamespace:
    """Return the compiled kernels' modules."""
    # Imported at the first sample: importing LLVM takes 0.05 s, and `import dglite` must not pay it.
    from ..kernels.cpu.run import rows
    from ..kernels.cpu.sample import block, hashing, labor, sample, walk, weigh

    return SimpleNamespace(block=block, hashing=hashing, labor=labor, rows=rows, sample=sample, walk=walk, weigh=weigh)


class Chosen(NamedTuple):
    """Edges chosen from one relation: their sources, destinations and ids.

    ``indptr`` says where the edges of each seed begin, seed after seed, and where the last ones end; None where edges
    are ordered otherwise. ``weights`` are what their messages are multiplied by; None where that is 1 for all, or
    nothing says it here.
    """

    src: Any
    dst: Any
    edge_ids: Any
    indptr: np.ndarray | None = None
    weights: Any = None

    @property
    def on_device(self) -> bool:
        """Whether these are tensors on a device."""
        return not isinstance(self.src, np.ndarray)


NO_EDGES = Chosen(_NO_IDS, _NO_IDS, _NO_IDS)


class Drawn(NamedTuple):
    """Edges drawn around the seeds of one relation: those of seed i from ``offsets[i]`` up to ``offsets[i + 1]``.

    Attributes
    ----------
    far
        their ends that are no seeds.
    edges
        their ids, or entries of ``stored``.
    stored
        the relation by destination, or by source, where edges are its entries.
    weights
        what their messages are to be multiplied by; None where that is 1 for all.
    """

    offsets: np.ndarray
    far: np.ndarray
    edges: np.ndarray
    stored: Compressed | None = None
    weights: np.ndarray | None = None


class IncidentEdges:
    """The in-edges or out-edges of some nodes of one relation.

    Parameters
    ----------
    by_entry
        let kernels write entries of the matrix instead of edge ids, which would take another read.

    Attributes
    ----------
    rows
        what every kernel starts with.
    by_entry_of
        the matrix whose entries replace edge ids, or None.
    longest, entries
        entries of the longest row, and of all of them.

    Raises ``DGLError``: the structure comes from a mapped file that is damaged.
    """

    __slots__ = ("_adjacency", "_inward", "_stored", "by_entry_of", "entries", "longest", "rows")

    def __init__(
        self,
        adjacency: Adjacency,
        seeds: np.ndarray,
        inward: bool,
        fanout: int,
        replace: bool = False,
        by_entry: bool = False,
    ) -> None:
        self._adjacency, self._inward = adjacency, inward
        stored, sample = adjacency.csc() if inward else adjacency.csr(), compiled().sample
        self.by_entry_of = stored if by_entry else None
        edge_ids = None if by_entry else stored.edge_ids
        packed: tuple[Any, ...] = ()
        if isinstance(stored, PackedRows):
            packed = stored.packed.words, stored.packed.heads, stored.num_cols, np.full(1, -1, np.int64)
        self._stored, nothing = stored, stored.indptr[:0]
        matrix = stored.indptr, nothing if packed else stored.indices, nothing if edge_ids is None else edge_ids
        places = np.empty(len(seeds), np.int64), np.empty(len(seeds) + 1, np.int64)
        self.rows = sample.Rows(*matrix, seeds, *places, *packed)
        sizes = np.empty(4, np.int64)
        sample.row_bounds(self.rows, fanout, replace, sizes)
        self.longest, self.entries, least, highest = sizes.tolist()
        if least < 0 or highest > stored.num_edges:
            raise stored.damaged(f"it says that a row has entries {highest:,} of {stored.num_edges:,}")

    @property
    def room(self) -> int:
        """The most edges that can be chosen."""
        return int(self.rows.offsets[-1])

    def places(self, near: bool = True) -> Any:
        """Return output arrays for the most picks possible, which a kernel fills; ``near``: also for the seeds."""
        room, index, ids = self.room, self._adjacency.index_dtype, self._adjacency.idtype
        return compiled().sample.Choices(
            np.empty(room, index), np.empty(room if near else 0, index), np.empty(room, ids)
        )

    def run(self, function: Any, *arguments: Any, scan: bool = True) -> None:
        """Run a kernel over the rows, in threads if that is faster; ``scan``: it reads all entries of a row."""
        work, run = max(self.room, self.entries) if scan else self.room, compiled().rows.run_rows
        run(function, len(self.rows.seeds), work, active.num_threads(), self.rows, *arguments)
        if isinstance(self._stored, PackedRows):
            self._stored.packed.check(self.rows.bad)

    def packed(self, places: Any, counts: np.ndarray | None = None) -> Chosen:
        """Return the picked edges; ``counts`` has each row's number of picks if it may be below its capacity."""
        (far, near, edges), indptr = places, self.rows.offsets
        if counts is not None and counts.sum() < self.room:
            total = compiled().sample.compact(indptr, counts, far, near, edges)
            far, near, edges = far[:total].copy(), near[:total].copy(), edges[:total].copy()
            indptr = np.concatenate([indptr[:1], np.cumsum(counts)])
        return self.ordered(far, near, edges, indptr)

    def ordered(self, far: np.ndarray, near: np.ndarray, edges: np.ndarray, indptr: np.ndarray | None = None) -> Chosen:
        """Return edges given from the rows' view, far end first, as source, destination and id."""
        return Chosen(far, near, edges, indptr) if self._inward else Chosen(near, far, edges, indptr)


def check_weights(bad: np.ndarray, label: str) -> None:
    """Raise :class:`DGLError` if a kernel reported a weight that is not valid."""
    if bad[0] >= 0:
        raise DGLError(f"the weight of {label} {bad[0]} is negative, infinite or NaN; weights must be finite and >= 0")


def frontier(
    g: DGLGraph, packed: list[Chosen], copy_ndata: bool, copy_edata: bool, output_device: Any = None
) -> DGLGraph:
    """Return the graph of all nodes of ``g`` and of the chosen edges of each type, numbered as they were chosen.

    Node features are shared where ``copy_ndata``; edge features are gathered when first read, and ``edata[EID]`` has
    the ids in ``g``, where ``copy_edata``.
    """
    adjacencies = tuple(
        Adjacency.from_ends(
            old.num_src, old.num_dst, edges.src, edges.dst, old.idtype, g.id_arrays if edges.on_device else HOST
        )
        for old, edges in zip(g.adjacencies, packed, strict=True)
    )
    result = make_graph(g.type_graph, adjacencies, g.node_counts, like=g)
    if copy_ndata:
        result.node_frames = copies(g.node_frames)
    if copy_edata:
        result.edge_frames = [edge_frame(g, result, i, edges.edge_ids) for i, edges in enumerate(packed)]
    return result if output_device is None else result.to(output_device)


def edge_frame(g: DGLGraph, result: DGLGraph, index: int, edge_ids: Any) -> Any:
    """Return the features of chosen edges of relation ``index`` of ``g``, and their ids."""
    frame = g.edge_frames[index]
    # Columns wait for their rows: the tensor of ids, which users may write to, must not share them.
    if active.is_tensor(edge_ids):
        columns = result.edge_frame_at(index) if frame is None or not len(frame) else frame.take(edge_ids)
        columns[EID] = result.ids_copy(edge_ids)
        return columns
    columns = result.edge_frame_at(index) if frame is None or not len(frame) else frame.take(edge_ids.copy())
    columns[EID] = result.ids_tensor(edge_ids if len(edge_ids) else edge_ids.copy())
    return columns
