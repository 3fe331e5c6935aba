"""``to_block``: bipartite graphs of the nodes and edges that one layer needs, renumbered from 0."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import active
from ..errors import DGLError
from ..frame import EID, NID, Frame
from ..graph import DGLGraph
from ..graph.scope import copies
from ..graph.storage import make_graph, require_graph
from ..ops.devices import Gpu, device_on
from ..structure import Adjacency, Metagraph
from ..structure.arrays import HOST
from ..structure.distinct import Pairs, distinct


@explained
def to_block(g: DGLGraph, dst_nodes: Any = None, include_dst_in_src: bool = True, src_nodes: Any = None) -> DGLGraph:
    """Return the block of a graph's edges: sources and destinations are separate sets, without nodes that have no edge.

    Destination nodes are ``dst_nodes``, in their order. Source nodes are first those again, then the other ends of the
    edges in the order in which they first appear, edge type after edge type. Edges keep their ids.

    ``srcdata[NID]``, ``dstdata[NID]`` and ``edata[EID]`` have the ids in ``g``. Features follow; those of nodes are
    gathered when they are first read.

    Raises DGLError: the graph is a block, a node or type does not exist, or an end of an edge is not among the nodes
    given.

    Parameters
    ----------
    g
        the graph, commonly a sample of a larger one.
    dst_nodes
        node ids, or a dictionary of them by node type: of each type that is given, all nodes with in-edges must be
        among them; edges into the other types are left out. An id that is repeated gets a node each time, the last of
        which has its edges. By default the nodes that have in-edges, in ascending order.
    include_dst_in_src
        whether the source nodes begin with the destination nodes.
    src_nodes
        the source nodes, in this order: ids, or a dictionary of them by node type; every node with an out-edge must be
        among them, and with ``include_dst_in_src`` they begin with the destination nodes.

    Examples
    --------
    >>> import dglite
    >>> block = to_block(dglite.graph(([1, 2], [2, 3])), [3, 2])
    >>> block.srcdata[dglite.NID]
    tensor([3, 2, 1])
    """
    require_graph(g)
    if g.is_block:
        raise DGLError("the graph is a block already")
    count, gpu = len(g.type_graph.ntypes), device_on(g.device)
    arrays = g.id_arrays if isinstance(gpu, Gpu) else HOST
    dst_given, src_given = _by_set(g, dst_nodes, "dst_nodes", arrays), _by_set(g, src_nodes, "src_nodes", arrays)
    dst_ids, edges = _destination_ids(g, dst_given, arrays), _kept_edges(g, dst_given, arrays)
    nodes = dst_ids, include_dst_in_src, src_given, edges
    sides = _SidesOnGpu(g, gpu, *nodes) if isinstance(gpu, Gpu) else _Sides(g, *nodes)
    ends: Pairs = [sides.renumber(i, *pair) for i, pair in enumerate(edges)]
    src_ids = [sides.src_ids(i) for i in range(count)]
    adjacencies = tuple(
        Adjacency.from_ends(len(src_ids[a]), len(dst_ids[b]), *pair, g.numpy_idtype, arrays)
        for (a, b), pair in zip(g.type_graph.ends, ends, strict=True)
    )
    counts = [len(ids) for ids in (*src_ids, *dst_ids)]
    block = make_graph(_block_metagraph(g.type_graph), adjacencies, counts, like=g)
    block.node_frames = [_node_frame(g, block, i % count, ids, i) for i, ids in enumerate((*src_ids, *dst_ids))]
    block.edge_frames = _edge_frames(g, block, dst_given)
    return block


_NO_IDS = np.empty(0, np.int64)


def _by_set(g: DGLGraph, nodes: Any, argument: str, arrays: Any) -> dict[int, Any] | None:
    """Return the ids given for each node set, or None for none given."""
    if nodes is None:
        return None
    if not isinstance(nodes, Mapping):
        if len(g.type_graph.ntypes) != 1:
            raise DGLError(f"{argument} has no types, but the graph has {g.ntypes}; give a dictionary by node type")
        nodes = {g.type_graph.ntypes[0]: nodes}
    sets = {g.type_graph.node_set(ntype): ids for ntype, ids in nodes.items()}
    # Copies: features wait to be gathered with them, and users may write to their tensors meanwhile.
    ids_by_set = {node_set: g.nodes_in(arrays, ids, node_set) for node_set, ids in sets.items()}
    return {node_set: ids.copy() if arrays is HOST else active.copy(ids) for node_set, ids in ids_by_set.items()}


def _kept_edges(g: DGLGraph, dst_given: dict[int, Any] | None, arrays: Any) -> Pairs:
    """Return the endpoints of each relation's edges, none of those into a type that is not asked for."""
    return [
        adjacency.ends(arrays) if dst_given is None or dst_set in dst_given else (arrays.arange(0), arrays.arange(0))
        for adjacency, (_, dst_set) in zip(g.adjacencies, g.type_graph.ends, strict=True)
    ]


def _destination_ids(g: DGLGraph, dst_given: dict[int, Any] | None, arrays: Any) -> list[Any]:
    """Return the ids of the destinations of each node set."""
    sets = range(len(g.type_graph.ntypes))
    if dst_given is not None:
        return [dst_given.get(i, arrays.arange(0)) for i in sets]
    return [_destinations(g, i) if arrays is HOST else _destinations_in(g, i, arrays) for i in sets]


def _destinations_in(g: DGLGraph, node_set: int, arrays: Any) -> Any:
    """Return the nodes of a set that have in-edges, ascending, on a device."""
    has_edges = arrays.full(g.node_counts[node_set], False, "bool")
    for adjacency, ends in zip(g.adjacencies, g.type_graph.ends, strict=True):
        if ends[1] == node_set:
            has_edges |= adjacency.degrees(arrays, 1) > 0
    return arrays.nonzero(has_edges)


def _destinations(g: DGLGraph, node_set: int) -> np.ndarray:
    """Return the nodes of a set that have in-edges, ascending."""
    parts = [x.endpoints()[1] for x, ends in zip(g.adjacencies, g.type_graph.ends, strict=True) if ends[1] == node_set]
    return distinct(np.concatenate([_NO_IDS, *parts]))


def index_dtype_of(g: DGLGraph) -> np.dtype:
    """Return the dtype in which nodes are numbered: the relations', or a wider one where ids ask for it."""
    dtypes = [x.index_dtype for x in g.adjacencies]
    wide = np.dtype(np.int64) in dtypes or max(g.node_counts, default=0) > np.iinfo(np.int32).max
    return np.dtype(np.int64 if wide else np.int32)


def _missing_node(g: DGLGraph, argument: str, node: int, node_set: int, edges: str) -> DGLError:
    name = g.type_graph.ntypes[node_set]
    return DGLError(f"{argument} lacks node {node} of type {name!r}, which has {edges}; give every node that has")


class _Sides:
    """The numbers that a block gives to the nodes of each type, on either side."""

    def __init__(
        self,
        g: DGLGraph,
        dst_ids: list[np.ndarray],
        include: bool,
        src_given: dict[int, np.ndarray] | None,
        edges: Pairs,
    ) -> None:
        # Imported here because it imports LLVM, which takes 0.05 s that `import dglite` must not pay.
        from ..kernels.cpu.sample.hashing import Numbering

        self._g, self._dst_ids, self._fixed = g, dst_ids, src_given is not None
        ends, counts, dtype = g.type_graph.ends, g.node_counts, index_dtype_of(g)
        self._sources: list[Numbering] = []
        self._destinations: list[Numbering] = []
        for i, ids in enumerate(dst_ids):
            first = src_given.get(i, _NO_IDS) if src_given is not None else ids if include else _NO_IDS
            if src_given is not None and include and not np.array_equal(first[: len(ids)], ids):
                raise _wrong_sources(g, i, len(ids))
            most = len(first) + sum(len(edges[j][0]) for j, pair in enumerate(ends) if pair[0] == i)
            sources = Numbering(counts[i], most, dtype)
            sources.place(first.astype(dtype))
            self._sources.append(sources)
            if include and src_given is None:
                self._destinations.append(sources)
            else:
                destinations = Numbering(counts[i], len(ids), dtype)
                destinations.place(ids.astype(dtype))
                self._destinations.append(destinations)

    def src_ids(self, node_set: int) -> np.ndarray:
        """Return the ids in ``g`` of a type's source nodes."""
        # A copy: the numbering has room for every end of an edge, which the block must not keep alive.
        return self._sources[node_set].ids.copy()

    def renumber(self, relation: int, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a relation's endpoints in the block's numbers."""
        src_set, dst_set = self._g.type_graph.ends[relation]
        destinations, missing = self._destinations[dst_set].find(dst, len(self._dst_ids[dst_set]))
        if missing >= 0:
            raise _missing_node(self._g, "dst_nodes", dst[missing], dst_set, "in-edges")
        if not self._fixed:
            return self._sources[src_set].add(src), destinations
        sources, missing = self._sources[src_set].find(src, len(self._sources[src_set].ids))
        if missing >= 0:
            raise _missing_node(self._g, "src_nodes", src[missing], src_set, "out-edges")
        return sources, destinations


def _wrong_sources(g: DGLGraph, node_set: int, num_dst: int) -> DGLError:
    return DGLError(
        f"src_nodes of type {g.type_graph.ntypes[node_set]!r} must begin with the {num_dst} destination nodes; "
        "or pass include_dst_in_src=False"
    )


class _SidesOnGpu:
    """:class:`_Sides` on a GPU; the host waits once, for how many sources there are and whether a node is missing."""

    def __init__(
        self, g: DGLGraph, gpu: Gpu, dst_ids: list[Any], include: bool, src_given: dict[int, Any] | None, edges: Pairs
    ) -> None:
        self._g, self._gpu, self._edges, self._fixed = g, gpu, edges, src_given is not None
        self._dst_ids, self._src_first, self._sides = dst_ids, list(dst_ids), []
        arrays, ends = g.id_arrays, g.type_graph.ends
        for i, ids in enumerate(dst_ids):
            first = src_given.get(i, ids[:0]) if src_given is not None else ids if include else ids[:0]
            if src_given is not None and include:
                begins = len(first) >= len(ids) and not arrays.read((first[: len(ids)] != ids).any())[0]
                if not begins:
                    raise _wrong_sources(g, i, len(ids))
            most = 0 if self._fixed else sum(len(edges[j][0]) for j, pair in enumerate(ends) if pair[0] == i)
            sources = numbering_on(g, gpu, first, most)
            self._src_first[i] = first
            self._sides.append((sources, sources if first is ids else numbering_on(g, gpu, ids, 0)))
        # By relation: whether a destination, or a source, is missing, and how many sources have a number then.
        self._read, self._sizes = arrays.full(3 * len(edges), 0), [-1] * len(dst_ids)
        self._numbers: list[int] | None = None

    def renumber(self, relation: int, src: Any, dst: Any) -> tuple[Any, Any]:
        """Return a relation's endpoints in the block's numbers."""
        src_set, dst_set = self._g.type_graph.ends[relation]
        destinations = self._find(dst_set, 1, dst, relation)
        if self._fixed:
            return self._find(src_set, 0, src, relation), destinations
        place, (numbering, _) = 3 * relation + 2, self._sides[src_set]
        self._sizes[src_set] = place
        ids = kernel_ids(self._g, self._gpu, src)
        numbers = numbering.add(ids, active.address(self._read) + 8 * place)
        return self._gpu.tensor(numbers, len(src), ids.dtype), destinations

    def _find(self, node_set: int, side: int, ids: Any, relation: int) -> Any:
        there, count = kernel_ids(self._g, self._gpu, ids), len((self._src_first, self._dst_ids)[side][node_set])
        missing = active.address(self._read) + 8 * (3 * relation + 1 - side)
        return self._gpu.tensor(self._sides[node_set][side].find(there, count, missing), len(ids), there.dtype)

    def src_ids(self, node_set: int) -> Any:
        """Return the ids in ``g`` of a type's source nodes."""
        if self._numbers is None:
            self._numbers = active.to_numpy(self._read).tolist()
            for i, ends in enumerate(self._g.type_graph.ends):
                for side in (1, 0):
                    if self._numbers[3 * i + 1 - side]:
                        self._raise_missing(i, side, ends[side])
        size, numbering = self._sizes[node_set], self._sides[node_set][0]
        count = len(self._src_first[node_set]) if size < 0 else self._numbers[size]
        return self._gpu.tensor(numbering.memory, count, str(index_dtype_of(self._g)))

    def _raise_missing(self, relation: int, side: int, node_set: int) -> None:
        """Raise the error for nodes given, on one side, that lack one which has edges there."""
        arrays, nodes = self._g.id_arrays, self._edges[relation][side]
        is_given = arrays.full(self._g.node_counts[node_set], False, "bool")
        is_given[(self._src_first, self._dst_ids)[side][node_set]] = True
        (node,) = arrays.read(nodes[arrays.nonzero(~is_given[nodes])[0]])
        names = ("dst_nodes", "in-edges") if side else ("src_nodes", "out-edges")
        raise _missing_node(self._g, names[0], node, node_set, names[1])


def kernel_ids(g: DGLGraph, gpu: Gpu, ids: Any, dtype: Any = None) -> Any:
    """Return ids on a GPU as its kernels take them, by default in the dtype that numbers nodes of ``g``."""
    dtype = index_dtype_of(g) if dtype is None else dtype
    tensor = active.contiguous(g.id_arrays.astype(ids, dtype))
    return gpu.kernels("sample.sample").Ids(active.address(tensor), len(tensor), 0, str(dtype), tensor)


def numbering_on(g: DGLGraph, gpu: Gpu, first: Any, room: int) -> Any:
    """Return a numbering on a GPU that begins with the ids ``first``, with room for others."""
    return gpu.kernels("sample.number").DeviceNumbering(gpu.queue, kernel_ids(g, gpu, first), room)


def block_of_rows(
    g: DGLGraph, dst_ids: list[np.ndarray], rows: list[tuple[np.ndarray, np.ndarray] | None], versions: int = 1
) -> tuple[DGLGraph, list[np.ndarray]]:
    """Return a block whose edges are listed by destination, without edge features, and the ids of its source nodes.

    For each relation, ``rows`` has ``indptr`` and the edges' sources: those into ``dst_ids[node set][i]`` are
    ``src[indptr[i]:indptr[i + 1]]``; None for no edges. Nodes are numbered as by :func:`to_block`, and the relations
    are made by destination at once, the format that training reads.

    With several versions of a node, each of which is a node of the block, all these ids are node * versions + version.
    """
    # Imported here because it imports LLVM, which takes 0.05 s that `import dglite` must not pay.
    from ..kernels.cpu.sample.hashing import Numbering

    ends = g.type_graph.ends
    dtype = index_dtype_of(g) if versions == 1 else np.dtype(np.int64)
    most = [len(ids) for ids in dst_ids]
    for (src_set, _), row in zip(ends, rows, strict=True):
        most[src_set] += 0 if row is None else len(row[1])
    numberings = [Numbering(n * versions, room, dtype) for n, room in zip(g.node_counts, most, strict=True)]
    for numbering, ids in zip(numberings, dst_ids, strict=True):
        numbering.place(ids.astype(dtype))
    sources = [
        None if row is None else numberings[src_set].add(row[1]) for (src_set, _), row in zip(ends, rows, strict=True)
    ]
    # A copy: the numbering has room for every end of an edge, which the block must not keep alive.
    keys = [numbering.ids.copy() for numbering in numberings]
    src_ids = keys if versions == 1 else [ids // versions for ids in keys]
    numbered = [
        None if row is None or numbers is None else (row[0], numbers)
        for row, numbers in zip(rows, sources, strict=True)
    ]
    return numbered_block(g, [len(ids) for ids in dst_ids], src_ids, numbered), keys


def numbered_block(
    g: DGLGraph, num_dst: list[int], src_ids: list[np.ndarray], rows: list[tuple[np.ndarray, np.ndarray] | None]
) -> DGLGraph:
    """Return a block of edges listed by destination, with sources in the block's numbers; without edge features.

    ``src_ids`` are the ids in ``g`` of each type's sources, which begin with its ``num_dst`` destinations.
    """
    adjacencies = []
    for (src_set, dst_set), row in zip(g.type_graph.ends, rows, strict=True):
        indptr, indices = (np.zeros(num_dst[dst_set] + 1, np.int64), _NO_IDS) if row is None else row
        sizes = len(src_ids[src_set]), num_dst[dst_set]
        adjacencies.append(
            Adjacency.from_csc(*sizes, indptr, indices, None, g.numpy_idtype, copy=False, validate=False)
        )
    return listed_block(g, num_dst, src_ids, adjacencies)


def listed_block(g: DGLGraph, num_dst: list[int], src_ids: list[Any], adjacencies: list[Adjacency]) -> DGLGraph:
    """Return a block of relations in the block's numbers; without edge features. Ids are as for numbered_block."""
    count = len(num_dst)
    counts = [*map(len, src_ids), *num_dst]
    block = make_graph(_block_metagraph(g.type_graph), tuple(adjacencies), counts, like=g)
    dst_ids = [ids[:size] for ids, size in zip(src_ids, num_dst, strict=True)]
    block.node_frames = [_node_frame(g, block, i % count, ids, i) for i, ids in enumerate((*src_ids, *dst_ids))]
    return block


@lru_cache(maxsize=64)
def _block_metagraph(metagraph: Metagraph) -> Metagraph:
    return Metagraph(metagraph.ntypes, metagraph.canonical_etypes, metagraph.ntypes)


def _node_frame(g: DGLGraph, block: DGLGraph, node_set: int, ids: Any, position: int) -> Frame:
    frame = g.node_frames[node_set]
    result = block.node_frame_at(position) if frame is None or not len(frame) else frame.take(ids)
    # A copy: the users' tensor of ids must not be what columns wait to be gathered with, nor what numbers nodes.
    result[NID] = block.ids_copy(ids)
    return result


def _edge_frames(g: DGLGraph, block: DGLGraph, dst_given: dict[int, np.ndarray] | None) -> list[Frame | None]:
    """Return the edges' features, shared: a relation has all of its edges or none."""
    frames = copies(g.edge_frames)
    for i, adjacency in enumerate(block.adjacencies):
        frame = frames[i]
        if frame is None or len(frame) == 0:
            frame = block.edge_frame_at(i)
        elif frame.num_rows != adjacency.num_edges:
            frame = frame.take(_NO_IDS)
        frame[EID] = block.ids_tensor(block.id_arrays.arange(adjacency.num_edges, block.numpy_idtype))
        frames[i] = frame
    return frames
