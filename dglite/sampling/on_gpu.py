"""Sampling on a GPU: edges are drawn and nodes numbered there, and the host waits once, for how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..backend import active
from ..errors import DGLError
from ..graph import DGLGraph
from ..ops import core
from ..ops.devices import Gpu
from ..structure import Adjacency
from ..transforms.block import index_dtype_of, kernel_ids, listed_block
from .frontier import NO_EDGES, Chosen, edge_frame


class Draw(Protocol):
    """Draws in-edges, or out-edges, of seeds on a GPU."""

    def __call__(self, relation: int, seeds: Any, sizes: Sizes, numbered: bool) -> Drawn | None:
        """Return the edges of a relation that are drawn around ``seeds``, ids as kernels take them; None for none.

        ``numbered``: with the seeds' positions in place of their ids.
        """


@dataclass
class Drawn:
    """Edges drawn on a GPU, as its kernel returns them; how many is number ``size`` of the sizes."""

    picks: Any
    size: int
    index: str
    longest: int | None


class Sizes:
    """Numbers that kernels write and the host reads once. The first becomes 1 if a seed does not exist."""

    def __init__(self, gpu: Gpu, arrays: Any, room: int) -> None:
        self._gpu, self._next = gpu, 1
        self._tensor = arrays.full(room + 1, 0)
        self.missing = active.address(self._tensor)

    def next(self) -> int:
        """Return the number of a place that nothing has been written to."""
        self._next += 1
        return self._next - 1

    def address(self, number: int) -> int:
        """Return the address of a place."""
        return self.missing + 8 * number

    def read(self) -> list[int]:
        """Wait for all that was started, and return the numbers."""
        return active.to_numpy(self._tensor).tolist()


def uniform_draw_on(
    gpu: Gpu, adjacencies: Sequence[Adjacency], inward: bool, fanouts: list[int], replaces: bool, key: int
) -> Draw:
    """Return what draws up to ``fanouts[i]`` edges of relation i with equal probability, as the host would."""

    def draw(i: int, seeds: Any, sizes: Sizes, numbered: bool) -> Drawn | None:
        adjacency, fanout = adjacencies[i], fanouts[i]
        if fanout == 0:
            return None
        if not replaces:
            fanout = min(fanout, adjacency.num_edges)  # kernels allocate this many entries per seed
        structure, index = gpu.structure(adjacency if inward else core.reversed_of(adjacency))
        sample, size = gpu.kernels("sample.sample").sample_neighbors, sizes.next()
        options = fanout, replaces, key + i, sizes.missing, sizes.address(size), numbered
        return Drawn(sample(gpu.queue, structure, seeds, *options), size, index, fanout if fanout >= 0 else None)

    return draw


def seed_tensors(g: DGLGraph, nodes: Any, inward: bool) -> dict[int, Any]:
    """Return the seeds by node set, as tensors on the graph's device; those that are there are not looked at."""
    metagraph, arrays, dtype = g.type_graph, g.id_arrays, index_dtype_of(g)
    if isinstance(nodes, Mapping):
        find = (metagraph.dst_set if inward else metagraph.src_set) if metagraph.is_block else metagraph.node_set
        by_set = {find(ntype): ids for ntype, ids in nodes.items()}
    elif len(metagraph.ntypes) == 1:
        by_set = {0: nodes}
    else:
        raise DGLError(
            f"seeds are given without a type, but the graph has the node types {list(metagraph.ntypes)}; "
            "give a dictionary by node type"
        )
    for node_set, ids in by_set.items():
        there = active.is_tensor(ids) and active.device(ids) == arrays.device and len(active.shape(ids)) == 1
        if not there or active.dtype(ids) not in ("int32", "int64"):
            ids = g.nodes_in(arrays, ids, node_set)
        by_set[node_set] = active.contiguous(arrays.astype(ids, dtype))
    return by_set


def _check_seeds(g: DGLGraph, sets: dict[int, Any], numbers: list[int]) -> None:
    """Raise the error for a seed that does not exist, if a kernel has met one."""
    if numbers[0]:
        for node_set, ids in sets.items():
            g.nodes_in(g.id_arrays, ids, node_set)


def choose_on_gpu(g: DGLGraph, gpu: Gpu, sets: dict[int, Any], inward: bool, draw: Draw) -> list[Chosen]:
    """Return the edges that are drawn around seeds, by relation, as tensors."""
    sizes, dtype = Sizes(gpu, g.id_arrays, len(g.adjacencies)), str(index_dtype_of(g))
    seeds, side = {node_set: kernel_ids(g, gpu, ids) for node_set, ids in sets.items()}, 1 if inward else 0
    draws = [
        draw(i, seeds[x[side]], sizes, False) if x[side] in seeds else None for i, x in enumerate(g.type_graph.ends)
    ]
    numbers, picks = sizes.read(), []
    _check_seeds(g, sets, numbers)
    for drawn in draws:
        if drawn is None:
            picks.append(NO_EDGES)
            continue
        count = numbers[drawn.size]
        far, near = (gpu.tensor(x, count, dtype) for x in (drawn.picks.far, drawn.picks.near))
        edges = gpu.tensor(drawn.picks.edges, count, drawn.index)
        picks.append(Chosen(far, near, edges) if inward else Chosen(near, far, edges))
    return picks


@dataclass
class _Layer:
    """The edges drawn around nodes, and these nodes' and the sources' ids: how many is in the sizes."""

    drawn: list[Drawn | None]
    numbers: list[Any]
    sources: list[_Nodes]
    num_dst: list[_Nodes]


@dataclass(frozen=True)
class _Nodes:
    """The nodes of a set: ids as kernels take them, and which number of the sizes says how many."""

    ids: Any
    size: int

    def count(self, numbers: list[int]) -> int:
        """Return how many there are."""
        return numbers[self.size] if self.ids.count else self.ids.room

    def listed(self, gpu: Gpu, numbers: list[int]) -> Any:
        """Return their ids."""
        memory = self.ids.memory
        return memory if active.is_tensor(memory) else gpu.tensor(memory, self.count(numbers), self.ids.dtype)


def sample_layers_on_gpu(
    g: DGLGraph, gpu: Gpu, nodes: Any, draws: Iterable[Draw], copy_edata: bool = True
) -> list[DGLGraph]:
    """Return the blocks of the in-edges that are drawn, last layer first, which ``draws`` begins with.

    The nodes of a layer are the first nodes of the next one, whatever their number: the host waits once for all.
    ``copy_edata``: with the edges' features and ids.
    """
    draws, sets, arrays = list(draws), seed_tensors(g, nodes, True), g.id_arrays
    none = arrays.arange(0, index_dtype_of(g))
    sizes = Sizes(gpu, arrays, 2 * len(draws) * len(g.adjacencies))
    tensors = [sets.get(i, none) for i in range(len(g.node_counts))]
    current, layers = [_Nodes(kernel_ids(g, gpu, ids), 0) for ids in tensors], []
    for draw in draws:
        layers.append(_draw_layer(g, gpu, current, [len(ids) for ids in tensors], draw, sizes))
        current = layers[-1].sources
    numbers = sizes.read()
    _check_seeds(g, sets, numbers)
    return [_block(g, gpu, layer, numbers, copy_edata) for layer in layers]


def _draw_layer(g: DGLGraph, gpu: Gpu, nodes: list[_Nodes], num_seeds: list[int], draw: Draw, sizes: Sizes) -> _Layer:
    """Draw the edges of one layer and number their sources, after the nodes of the layer."""
    ends, kernels = g.type_graph.ends, gpu.kernels("sample.number")
    drawn = [draw(i, nodes[dst].ids, sizes, True) if nodes[dst].ids.room else None for i, (_, dst) in enumerate(ends)]
    numbers, sources, numberings = [], list(nodes), {}
    for edges, (src, _) in zip(drawn, ends, strict=True):
        if edges is None:
            numbers.append(None)
            continue
        if src not in numberings:
            room = sum(x.picks.room for x, pair in zip(drawn, ends, strict=True) if x is not None and pair[0] == src)
            numberings[src] = kernels.Numbering(gpu.queue, nodes[src].ids, room)
        numbering, size = numberings[src], sizes.next()
        far = replace(numbering.listed, address=edges.picks.far.address, room=edges.picks.room)
        numbers.append(numbering.add(replace(far, count=sizes.address(edges.size)), sizes.address(size)))
        most = min(numbering.listed.room, num_seeds[src] + g.node_counts[src])
        sources[src] = _Nodes(replace(numbering.listed, room=most), size)
    return _Layer(drawn, numbers, sources, nodes)


def _block(g: DGLGraph, gpu: Gpu, layer: _Layer, numbers: list[int], copy_edata: bool) -> DGLGraph:
    """Return the block of a layer, when the sizes are there."""
    arrays, dtype = g.id_arrays, str(index_dtype_of(g))
    num_dst = [nodes.count(numbers) for nodes in layer.num_dst]
    src_ids = [nodes.listed(gpu, numbers) for nodes in layer.sources]
    adjacencies, edge_ids = [], []
    for i, (drawn, (src_set, dst_set)) in enumerate(zip(layer.drawn, g.type_graph.ends, strict=True)):
        shape, count = (len(src_ids[src_set]), num_dst[dst_set]), 0 if drawn is None else numbers[drawn.size]
        if drawn is None:
            src = dst = edges = arrays.arange(0)
        else:
            src, dst = gpu.tensor(layer.numbers[i], count, dtype), gpu.tensor(drawn.picks.near, count, dtype)
            edges = gpu.tensor(drawn.picks.edges, count, drawn.index)
        adjacency = Adjacency.from_ends(*shape, src, dst, g.numpy_idtype, arrays)
        if drawn is not None:
            adjacency.set_rows_there(gpu.tensor(drawn.picks.offsets, shape[1] + 1, "int64"), drawn.longest)
        adjacencies.append(adjacency)
        edge_ids.append(edges)
    block = listed_block(g, num_dst, src_ids, adjacencies)
    if copy_edata:
        block.edge_frames = [edge_frame(g, block, i, ids) for i, ids in enumerate(edge_ids)]
    return block
