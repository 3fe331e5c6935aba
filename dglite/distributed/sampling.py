"""Sampling a graph with partitioned structure: each hop is one exchange, and owners draw for their nodes.

What is drawn for a node depends on a key and on the node's position among those that are asked about. A rank is told
both, and draws with them around its own nodes, which stand among nodes without edges in the places of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from ..dataloading import EdgePredictionSampler, LaborSampler, NeighborSampler, find_exclude_eids
from ..dataloading.base import BlockSampler
from ..dataloading.edge_sampler import graph_of_pairs
from ..dataloading.layered import block_of_drawn, uniform_draw
from ..dataloading.negative_sampler import PerSourceUniform
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..random import draw_key
from ..sampling.arguments import edge_weights, excluded_edges, fanouts_of, seed_sets
from ..sampling.frontier import Drawn, compiled
from ..sampling.labor import Labor
from ..sampling.neighbor import choose_by_key
from ..structure.compressed import expand_ranges
from ..transforms import compact_graphs
from ..transforms.block import index_dtype_of
from .collectives import Collectives
from .graph import DistGraph
from .topology import PartTopology, ask, packed, unpacked

_NO_IDS = np.empty(0, np.int64)
_NUMBERS = 4
"""What a law tells owners of a hop."""

Excluded = Sequence[np.ndarray | None]
"""Ids of edges to leave out, by relation; None for a relation of which every rank keeps all edges."""


# -- laws --------------------------------------------------------------------------------------------------------------
class _Uniform:
    """How :class:`NeighborSampler` draws, with equal probability."""

    def __init__(self, sampler: Any) -> None:
        self.sampler, self.fanouts = sampler, sampler.fanouts[::-1]

    def batch(self) -> Callable[[int], list[int]]:
        """Return what tells owners the numbers of a batch's layers, the last layer being 0."""
        return lambda layer: [draw_key()]

    def draw(
        self, rows: DGLGraph, layer: int, numbers: np.ndarray, seeds: list[np.ndarray | None], excluded: Excluded
    ) -> list[Drawn | None]:
        """Return what is drawn around the seeds of each relation."""
        fanouts, id_set = fanouts_of(rows, self.fanouts[layer]), compiled().hashing.id_set
        sets = [None if ids is None or not len(ids) else id_set(ids) for ids in excluded]
        draw = uniform_draw(rows, fanouts, self.sampler.replace, sets, int(numbers[0]))
        return [None if ids is None else draw(i, ids, False) for i, ids in enumerate(seeds)]


class _Weighted(_Uniform):
    """How :class:`NeighborSampler` draws with ``prob`` or ``mask``."""

    def draw(
        self, rows: DGLGraph, layer: int, numbers: np.ndarray, seeds: list[np.ndarray | None], excluded: Excluded
    ) -> list[Drawn | None]:
        options = self.sampler.prob, self.sampler.replace, excluded, int(numbers[0])
        samples = choose_by_key(rows, seeds, self.fanouts[layer], True, *options)
        return [None if x.indptr is None else Drawn(x.indptr, x.src, x.edge_ids) for x in samples]


class _Labor(_Uniform):
    """How :class:`LaborSampler` draws."""

    def batch(self) -> Callable[[int], list[int]]:
        seeds, share = self.sampler.random_seeds()
        bits = int(np.float64(share).view(np.int64))

        def numbers(layer: int) -> list[int]:
            keys = seeds if self.sampler.layer_dependency else seeds + layer
            return [bits, len(keys), *keys.tolist()]

        return numbers

    def draw(
        self, rows: DGLGraph, layer: int, numbers: np.ndarray, seeds: list[np.ndarray | None], excluded: Excluded
    ) -> list[Drawn | None]:
        sampler, share = self.sampler, float(numbers[:1].view(np.float64)[0])
        keys = numbers[2 : 2 + int(numbers[1])]
        ids = {rows.canonical_etypes[i]: eids for i, eids in enumerate(excluded) if eids is not None}
        options = sampler.prob, 0, keys, share, ids, sampler.named
        law = Labor(rows, fanouts_of(rows, self.fanouts[layer]), True, *options)
        return [None if nodes is None else law.draw(i, nodes) for i, nodes in enumerate(seeds)]


def _law_of(sampler: Any) -> _Uniform:
    """Return how a sampler draws. Raises ``DGLError`` where owners cannot draw so by themselves."""
    cls = type(sampler)
    base = next(
        (sampler_class for sampler_class in (NeighborSampler, LaborSampler) if isinstance(sampler, sampler_class)), None
    )
    if base is None or (cls.sample_blocks, cls.sample) != (base.sample_blocks, BlockSampler.sample):
        raise DGLError(
            f"{cls.__name__} cannot sample a partitioned topology, in which owners draw; use NeighborSampler or "
            "LaborSampler, or open the graph with topology='replicated'"
        )
    if sampler.edge_dir != "in":
        raise DGLError("a partitioned topology has in-edges only; use edge_dir='in', or topology='replicated'")
    if isinstance(sampler, LaborSampler):
        if sampler.importance_sampling != 0:
            raise DGLError(
                "importance_sampling looks at the edges of all nodes of a layer at once, which a partitioned topology "
                "does not have; use importance_sampling=0, or topology='replicated'"
            )
        return _Labor(sampler)
    if sampler.edge_time is not None:
        raise DGLError("edges are not drawn by time in a partitioned topology; use topology='replicated'")
    return _Uniform(sampler) if sampler.prob is None else _Weighted(sampler)


def sampler_of_nodes(sampler: Any) -> Any:
    """Return a sampler, or the one that an :class:`EdgePredictionSampler` calls."""
    return sampler.sampler if isinstance(sampler, EdgePredictionSampler) else sampler


# -- batches -----------------------------------------------------------------------------------------------------------
@final
class PartSampler:
    """Makes a sampler's batches of a graph in parts; all ranks make them at the same time.

    Raises DGLError: the sampler draws in a way that needs the whole structure.

    Parameters
    ----------
    g
        a graph whose topology is partitioned. Weights are its edge features, as they are when the sampler is made.
    sampler
        a :class:`NeighborSampler`, a :class:`LaborSampler`, or an :class:`EdgePredictionSampler` of one.
    """

    def __init__(self, g: DistGraph, sampler: Any) -> None:
        assert g.partitioned is not None
        self._topology, self._pairs = g.partitioned, None
        if isinstance(sampler, EdgePredictionSampler):
            self._pairs = sampler
            negatives = sampler.negative_sampler
            if negatives is not None and not isinstance(negatives, PerSourceUniform):
                raise DGLError(
                    f"{type(negatives).__name__} reads edges that a partitioned topology has elsewhere; use "
                    "negative_sampler.Uniform(k), or topology='replicated'"
                )
            if sampler.g_sampling is not None:
                raise DGLError("g_sampling is a graph of one process; use topology='replicated'")
        self._sampler = sampler_of_nodes(sampler)
        self._law, prob = _law_of(self._sampler), self._sampler.prob
        if prob is not None:
            columns = [g.frame("edge", etype).get(prob) for etype in g.canonical_etypes]
            self._topology.weigh(prob, [None if column is None else column.local for column in columns])

    def check(self, kind: str, indices: Any) -> None:
        """Raise ``DGLError`` where seeds, fan-outs or weights do not fit the graph."""
        for type_, ids in indices.items() if isinstance(indices, Mapping) else [(None, indices)]:
            self._topology.book.ranges_of(kind, type_).checked(ids)
        rows = self._topology.rows
        for layer, fanout in enumerate(self._sampler.fanouts):
            fanouts_of(rows, fanout, f"the fan-out of layer {layer}")
        edge_weights(rows, self._sampler.prob)

    def about(self) -> str:
        """Return how neighbours are drawn, in words: alike on all ranks."""
        sampler = self._sampler
        labor = isinstance(sampler, LaborSampler) and (sampler.layer_dependency, sampler.batch_dependency)
        replace = isinstance(sampler, NeighborSampler) and sampler.replace
        name = "pairs of " if self._pairs is not None else ""
        return f"{name}{type(sampler).__name__}({sampler.fanouts}, prob={sampler.prob}, {replace=}, {labor=})"

    def sample(self, exchange: Collectives, indices: Any) -> Any:
        """Return the batch of some nodes or edges of this rank, or of an empty array; all ranks call it."""
        batch = _Batch(self._topology, self._law)
        if self._pairs is None:
            batch.begin = lambda: (indices, None)
            self._hops(exchange, batch)
            return self._sampler.finished(batch.finished(), indices)
        graphs: list[DGLGraph] = []
        whole, pairs = self._topology.whole, self._pairs
        seeds: dict[Any, np.ndarray] = {}

        def edges() -> list[tuple[int, np.ndarray]]:
            by_type = indices if isinstance(indices, Mapping) else {whole.canonical_etypes[whole.etype_id()]: indices}
            seeds.update({whole.to_canonical_etype(etype): whole.edge_ids_of(i, etype) for etype, i in by_type.items()})
            return [(whole.etype_id(etype), ids) for etype, ids in seeds.items()]

        ends = self._topology.find_edges(exchange, edges)

        def begin() -> tuple[Any, Any]:
            graphs.extend(self._graphs(seeds, ends))
            seed_edges = _typed(whole, indices)
            excluded = find_exclude_eids(whole, seed_edges, pairs.exclude, pairs.reverse_eids, pairs.reverse_etypes)
            return graphs[0].ndata[NID], excluded

        batch.begin = begin
        self._hops(exchange, batch)
        input_nodes, _, blocks = self._sampler.finished(batch.finished(), None)
        if pairs.output_device is not None:
            graphs = [graph.to(pairs.output_device) for graph in graphs]
        return input_nodes, *graphs, blocks

    def _hops(self, exchange: Collectives, batch: _Batch) -> None:
        for layer in range(len(self._law.fanouts)):
            step, answer = f"sampling hop {layer + 1}", partial(self._draw, layer)
            batch.answers = ask(exchange, step, lambda: batch.requests(exchange.world), answer)

    def _draw(self, layer: int, request: np.ndarray) -> list[np.ndarray]:
        """Return what is drawn around the nodes of a request: for each relation counts, far ends, edges, weights."""
        topology, rows = self._topology, self._topology.rows
        kinds = len(topology.node_ranges)
        wire = [np.int64] * 3 + [index_dtype_of(topology.whole)] * (2 * kinds) + [np.int64]
        numbers, lengths, left_out, *rest = unpacked(request, wire)
        places, excluded = rest[: 2 * kinds : 2], rest[2 * kinds :]
        seeds: list[np.ndarray | None] = []
        for i, local_ids in enumerate(rest[1 : 2 * kinds : 2]):
            none = rows.node_counts[kinds + i] - 1  # the node without edges
            seeds.append(np.full(lengths[i], none) if len(local_ids) else None)
            if len(local_ids):
                seeds[i][places[i]] = local_ids  # type: ignore[index]
        by_relation = [excluded.pop(0) if there else None for there in left_out]
        samples = self._law.draw(rows, layer, numbers, [seeds[dst] for _, dst in topology.ends], by_relation)
        arrays = [np.array([(x is not None, x is not None and x.weights is not None) for x in samples], np.int64)]
        for sample, (_, dst) in zip(samples, topology.ends, strict=True):
            if sample is None:
                arrays += [_NO_IDS] * 4
                continue
            counts = np.diff(sample.offsets)[places[dst]]
            arrays += [x.astype(wire[3], copy=False) for x in (counts, sample.far, sample.edges)]
            arrays.append(_NO_IDS if sample.weights is None else sample.weights)
        return arrays

    def _graphs(self, seeds: dict[Any, np.ndarray], ends: list[tuple[np.ndarray, np.ndarray]]) -> list[DGLGraph]:
        """Return the graph of the seed edges and that of the negative pairs, if any, of the nodes that they join."""
        assert self._pairs is not None
        whole = self._topology.whole
        tensors = {etype: tuple(map(whole.ids_tensor, pair)) for etype, pair in zip(seeds, ends, strict=True)}
        graphs = [graph_of_pairs(whole, tensors)]
        if self._pairs.negative_sampler is not None:
            numbers = {etype: np.arange(len(ids)) for etype, ids in seeds.items()}
            graphs.append(self._pairs.negative_graph(graphs[0], numbers))
        graphs = compact_graphs(graphs)
        for etype in whole.canonical_etypes:
            graphs[0].edges[etype].data[EID] = whole.ids_tensor(seeds.get(etype, _NO_IDS).copy())
        return graphs


def _typed(whole: DGLGraph, edges: Any) -> Any:
    """Return edges by canonical type, where they are given by type."""
    if not isinstance(edges, Mapping):
        return edges
    return {whole.to_canonical_etype(etype): ids for etype, ids in edges.items()}


@final
class _Batch:
    """The layers of a batch, the last one first.

    Attributes
    ----------
    begin
        returns the seeds and the edges to leave out, when the first requests are made.
    answers
        what each rank has drawn for the last requests.
    """

    begin: Callable[[], tuple[Any, Any]]

    def __init__(self, topology: PartTopology, law: _Uniform) -> None:
        self._topology, self._law = topology, law
        self.answers: list[np.ndarray] = []
        self._blocks: list[DGLGraph] = []
        self._dtype = index_dtype_of(topology.whole)

    def requests(self, world: int) -> list[np.ndarray]:
        """Return for each rank which of its nodes the next layer is drawn around."""
        topology = self._topology
        if self.answers:
            self._grow()
        else:
            self._numbers = self._law.batch()
            seeds, excluded = self.begin()
            sets = seed_sets(topology.whole, seeds, True)
            self._nodes = [sets.get(i, _NO_IDS) for i in range(len(topology.node_ranges))]
            self._excluded = excluded_edges(topology.whole, excluded)
        keys = self._numbers(len(self._blocks))
        numbers = np.array(keys + [0] * (_NUMBERS - len(keys)), np.int64)
        owners = [ranges.owners(ids) for ranges, ids in zip(topology.node_ranges, self._nodes, strict=True)]
        self._places = [[(owner == rank).nonzero()[0] for owner in owners] for rank in range(world)]
        return [self._request(rank, numbers) for rank in range(world)]

    def _request(self, rank: int, numbers: np.ndarray) -> np.ndarray:
        left_out = np.array([ids is not None for ids in self._excluded], np.int64)
        arrays = [numbers, np.array([len(ids) for ids in self._nodes], np.int64), left_out]
        for i, (ids, places) in enumerate(zip(self._nodes, self._places[rank], strict=True)):
            local_ids = ids[places] - self._topology.node_ranges[i].range_of(rank)[0]
            arrays += [places.astype(self._dtype), local_ids.astype(self._dtype)]
        for excluded, ranges in zip(self._excluded, self._topology.edge_ranges, strict=True):
            if excluded is not None:
                cuts = ranges.cuts(excluded)
                arrays.append(excluded[cuts[rank] : cuts[rank + 1]] - ranges.range_of(rank)[0])
        return packed(arrays)

    def finished(self) -> list[DGLGraph]:
        """Return the blocks."""
        self._grow()
        return self._blocks

    def _grow(self) -> None:
        """Make a block of what was drawn; its sources are the nodes of the next layer."""
        of_relation = [self._dtype] * 3 + [np.dtype(np.float32)]
        dtypes = [np.dtype(np.int64)] + of_relation * len(self._topology.edge_ranges)
        answers = [unpacked(answer, dtypes) for answer in self.answers]
        samples = [self._joined(i, answers) for i in range(len(self._topology.edge_ranges))]
        block, self._nodes = block_of_drawn(self._topology.whole, self._nodes, samples)
        self._blocks.append(block)

    def _joined(self, i: int, answers: list[list[np.ndarray]]) -> Drawn | None:
        """Return the edges of a relation in the order of the nodes; None where none are to be drawn."""
        there, weighted = np.any([answer[0].reshape(-1, 2)[i] for answer in answers], axis=0)
        if not there:
            return None
        whole, dst = self._topology.whole.adjacencies[i], self._topology.ends[i][1]
        counts = np.zeros(len(self._nodes[dst]), np.int64)
        for places, answer in zip(self._places, answers, strict=True):
            counts[places[dst]] = answer[4 * i + 1] if len(places[dst]) else 0
        offsets = np.concatenate([[0], np.cumsum(counts)])
        far, edges = np.empty(offsets[-1], whole.index_dtype), np.empty(offsets[-1], whole.idtype)
        weights = np.empty(offsets[-1] if weighted else 0, np.float32)
        for rank, (places, answer) in enumerate(zip(self._places, answers, strict=True)):
            at = expand_ranges(offsets[places[dst]], counts[places[dst]])
            _, own_far, own_edges, own_weights = answer[4 * i + 1 : 4 * i + 5]
            far[at], edges[at] = own_far, own_edges + self._topology.edge_ranges[i].range_of(rank)[0]
            if weighted:
                weights[at] = own_weights
        return Drawn(offsets, far, edges, None, weights if weighted else None)
