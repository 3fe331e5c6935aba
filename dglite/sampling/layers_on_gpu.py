"""All blocks of a mini-batch on a GPU: the host waits once, for how many edges and nodes they have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..backend import active
from ..graph import DGLGraph
from ..ops.devices import Gpu
from ..structure import Adjacency
from ..transforms.block import index_dtype_of, kernel_ids, listed_block
from .frontier import edge_frame
from .on_gpu import DeviceEdges, Draw, Sizes, check_draws, seed_tensors

TIME = "_TIME"
"""Column of a block's nodes that holds the time at which each is looked at: its seed's."""


@dataclass(frozen=True)
class Versions:
    """Ids stand for nodes at times, node * count + version, int64; ``levels`` has each version's time."""

    levels: Any
    count: int


@dataclass
class _Layer:
    """The edges drawn around nodes, and these nodes' and the sources' ids: how many is in the sizes."""

    edges: list[DeviceEdges | None]
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


def sample_layers_on_gpu(g: DGLGraph, gpu: Gpu, nodes: Any, draws: Iterable[Draw]) -> list[DGLGraph]:
    """Return the blocks of the in-edges that are drawn, last layer first, which ``draws`` begins with.

    The nodes of a layer are the first nodes of the next one, whatever their number: the host waits once for all.
    """
    return blocks_on_gpu(g, gpu, seed_tensors(g, nodes, True), draws)


def blocks_on_gpu(
    g: DGLGraph, gpu: Gpu, sets: dict[int, Any], draws: Iterable[Draw], versions: Versions | None = None
) -> list[DGLGraph]:
    """Return what :func:`sample_layers_on_gpu` does for seeds by node set, which are nodes at times with ``versions``.

    Then nodes of blocks have a column ``TIME``.
    """
    draws, arrays = list(draws), g.id_arrays
    dtype = index_dtype_of(g) if versions is None else "int64"
    none = arrays.arange(0, dtype)
    sizes = Sizes(arrays, 3 * len(draws) * len(g.adjacencies))
    tensors = [sets.get(i, none) for i in range(len(g.node_counts))]
    current, layers = [_Nodes(kernel_ids(g, gpu, ids, dtype), 0) for ids in tensors], []
    for draw in draws:
        layers.append(_draw_layer(g, gpu, current, [len(ids) for ids in tensors], draw, sizes, versions))
        current = layers[-1].sources
    numbers = sizes.read()
    check_draws(g, sets, numbers, [layer.edges for layer in layers])
    return [_block(g, gpu, layer, numbers, versions) for layer in layers]


def _draw_layer(
    g: DGLGraph,
    gpu: Gpu,
    nodes: list[_Nodes],
    num_seeds: list[int],
    draw: Draw,
    sizes: Sizes,
    versions: Versions | None,
) -> _Layer:
    """Draw the edges of one layer and number their sources, after the nodes of the layer."""
    ends, kernels = g.type_graph.ends, gpu.kernels("sample.number")
    by_relation = [
        draw(i, nodes[dst].ids, sizes, True) if nodes[dst].ids.room else None for i, (_, dst) in enumerate(ends)
    ]
    numbers: list[Any] = []
    sources, numberings = list(nodes), {}
    for edges, (src, _) in zip(by_relation, ends, strict=True):
        if edges is None:
            numbers.append(None)
            continue
        if src not in numberings:
            room = sum(
                x.picks.room for x, pair in zip(by_relation, ends, strict=True) if x is not None and pair[0] == src
            )
            numberings[src] = kernels.DeviceNumbering(gpu.queue, nodes[src].ids, room)
        numbering, size = numberings[src], sizes.next()
        far = replace(numbering.listed, address=edges.picks.far.address, room=edges.picks.room)
        numbers.append(numbering.add(replace(far, count=sizes.address(edges.size)), sizes.address(size)))
        most = min(
            numbering.listed.room, num_seeds[src] + g.node_counts[src] * (1 if versions is None else versions.count)
        )
        sources[src] = _Nodes(replace(numbering.listed, room=most), size)
    return _Layer(by_relation, numbers, sources, nodes)


def _block(g: DGLGraph, gpu: Gpu, layer: _Layer, numbers: list[int], versions: Versions | None) -> DGLGraph:
    """Return the block of a layer, when the sizes are there."""
    arrays, dtype = g.id_arrays, str(index_dtype_of(g)) if versions is None else "int64"
    num_dst = [nodes.count(numbers) for nodes in layer.num_dst]
    src_ids = [nodes.listed(gpu, numbers) for nodes in layer.sources]
    adjacencies, edge_ids = [], []
    for i, (edges, (src_set, dst_set)) in enumerate(zip(layer.edges, g.type_graph.ends, strict=True)):
        shape, count = (len(src_ids[src_set]), num_dst[dst_set]), 0 if edges is None else numbers[edges.size]
        if edges is None:
            src = dst = ids = arrays.arange(0)
        else:
            src, dst = gpu.tensor(layer.numbers[i], count, dtype), gpu.tensor(edges.picks.near, count, dtype)
            ids = gpu.tensor(edges.picks.edges, count, edges.index)
        adjacency = Adjacency.from_ends(*shape, src, dst, g.numpy_idtype, arrays)
        if edges is not None:
            adjacency.set_rows_there(gpu.tensor(edges.picks.offsets, shape[1] + 1, "int64"), edges.longest)
        adjacencies.append(adjacency)
        edge_ids.append(ids)
    nodes = src_ids if versions is None else [x // versions.count for x in src_ids]
    block = listed_block(g, num_dst, nodes, adjacencies)
    if versions is not None:
        for i, ids in enumerate([*src_ids, *(x[:n] for x, n in zip(src_ids, num_dst, strict=True))]):
            block.node_frame_at(i)[TIME] = versions.levels[ids % versions.count]
    frames = [edge_frame(g, block, i, ids) for i, ids in enumerate(edge_ids)]
    for frame, edges, ids in zip(frames, layer.edges, edge_ids, strict=True):
        if edges is not None and edges.picks.weights is not None:
            frame["edge_weights"] = gpu.tensor(edges.picks.weights, len(ids), "float32")
    block.edge_frames = frames
    return block
