"""In-edges of each type drawn around nodes of a graph of GraphBolt, by dglite's samplers: one layer, or its blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...backend import active
from ...dataloading import NeighborSampler
from ...dataloading.layered import Draw, drawn_blocks, uniform_draw
from ...graph import DGLGraph
from ...kernels import compiled
from ...random import draw_key
from ...sampling.arguments import edge_weights, seed_sets
from ...sampling.frontier import Drawn
from ...sampling.labor import Labor
from ...sampling.neighbor import choose_of_type
from ...sampling.sums import ColumnCache
from ...sampling.times import TimeLimits, edge_times, in_kind_of, times_of
from .base import CSCFormatBase, etype_tuple_to_str
from .errors import InputError
from .subgraph import SampledSubgraphImpl, subgraph_of


class Rule(NamedTuple):
    """How edges are drawn.

    Attributes
    ----------
    prob, replace
        name of the weights, or None; whether with replacement.
    shared
        None, or arguments ``random_seed`` and ``seed2_contribution`` of :func:`dglite.sampling.sample_labors`: seeds
        share sources.
    """

    prob: str | None
    replace: bool = False
    shared: tuple[Any, float] | None = None

    def draw_on(self, g: DGLGraph, fanouts: list[int], times: Sequence[TimeLimits | None] | None = None) -> Draw:
        """Return what draws a layer's edges of ``g``, of some times."""
        if self.shared is not None:
            return Labor(g, fanouts, True, self.prob, 0, *self.shared, times=times).draw
        key = draw_key()
        if self.prob is None and times is None:
            return uniform_draw(g, fanouts, self.replace, [None] * len(fanouts), key)
        weights = self.prob, edge_weights(g, self.prob)

        def draw(i: int, seeds: np.ndarray, by_entry: bool) -> Drawn | None:
            if fanouts[i] == 0:
                return None
            limits = None if times is None else times[i]
            pick = choose_of_type(g, i, seeds, fanouts[i], True, weights, self.replace, None, key, limits)
            assert pick.indptr is not None
            return Drawn(pick.indptr, pick.src, pick.edge_ids)

        return draw


class _JointDraw:
    """Draws in-edges of all types together, on the graph of all types in one, and sorts them by type."""

    def __init__(self, graph: Any, rule: Rule, fanout: int, times: Mapping[int, TimeLimits] | None = None) -> None:
        if rule.shared is not None and rule.shared[0] is None:
            rule = rule._replace(shared=([draw_key(), draw_key()], rule.shared[1]))
        self._graph, self._rule, self._fanout, self._times = graph, rule, fanout, times
        self._samples: dict[int, list[Drawn]] = {}

    def __call__(self, i: int, seeds: np.ndarray, by_entry: bool) -> Drawn | None:
        """Return in-edges of type ``i`` of the seeds, which are the same in all calls for a node type."""
        node_set = self._graph.g.type_graph.ends[i][1]
        if node_set not in self._samples:
            self._samples[node_set] = self._draw(node_set, seeds)
        offsets, far, edges, *_ = self._samples[node_set][i]
        merged_edges = self._graph.merged_edges
        if by_entry:
            return Drawn(offsets, far, edges, merged_edges)
        return Drawn(offsets, far, merged_edges.edge_ids[edges])

    def _draw(self, node_set: int, seeds: np.ndarray) -> list[Drawn]:
        graph, merged_edges = self._graph, self._graph.merged_edges
        times = None if self._times is None else [self._times[node_set]]
        draw = self._rule.draw_on(graph.merged, [self._fanout], times)
        sample = draw(0, seeds + merged_edges.first_nodes[node_set], False)
        if sample is None:
            nothing = Drawn(np.zeros(len(seeds) + 1, np.int64), seeds[:0], seeds[:0])
            return [nothing] * len(merged_edges.first_sources)
        count, kernels = len(merged_edges.first_sources), compiled("sample.split")
        types, sizes = np.empty(len(sample.edges), merged_edges.types.dtype), np.zeros(count, np.int64)
        kernels.read_types(merged_edges.types, sample.edges, types, sizes)
        begins, bounds = np.cumsum(sizes) - sizes, np.empty((count, len(seeds) + 1), np.int64)
        far, edges = np.empty_like(sample.far), np.empty_like(sample.edges)
        results = begins, bounds.reshape(-1), far, edges
        inputs = sample.offsets, types, sample.far, sample.edges
        kernels.split_rows(*inputs, merged_edges.first_sources, *results)
        spans = [slice(begin, begin + size) for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True)]
        return [Drawn(x, far[span], edges[span]) for x, span in zip(bounds, spans, strict=True)]


# -- arguments ---------------------------------------------------------------------------------------------------------
def listed_fanouts(graph: Any, fanouts: Sequence[Any]) -> list[list[int]]:
    """Return each layer's fan-outs: a list of one, or of one for each edge type in the order of their numbers.

    Raises DGLError: a layer has another number of them, or one is below -1 or no integer.
    """
    etypes, listed = graph.edge_type_to_id, []
    count = 1 if etypes is None else len(etypes)
    for fanout in fanouts:
        numbers = np.atleast_1d(np.asarray(fanout))
        if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or (numbers < -1).any():
            raise InputError(f"fan-outs must be integers >= -1, got {fanout!r:.80}")
        if len(numbers) not in (1, count):
            raise InputError(f"fan-outs {numbers.tolist()} are for {len(numbers)} edge types; the graph has {count}")
        listed.append(numbers.tolist())
    return listed


def fanout_by_type(graph: Any, listed: list[int]) -> Any:
    """Return a layer's fan-out as samplers of the DGLGraph take it; for several types not one for all."""
    etypes = graph.edge_type_to_id
    if etypes is None:
        return listed[0]
    numbers = listed * len(etypes) if len(listed) == 1 else listed
    return {tuple(etype.split(":")): numbers[i] for etype, i in etypes.items()}


def in_one(graph: Any, listed: list[int]) -> bool:
    """Whether a layer's fan-out is for all of several edge types together."""
    return graph.typed and len(listed) == 1 and listed[0] != -1


def _numbers(graph: Any, listed: list[int]) -> list[int]:
    by_type = fanout_by_type(graph, listed)
    return [by_type[x] for x in graph.g.canonical_etypes] if isinstance(by_type, dict) else [by_type]


def _checked(graph: Any, seeds: Any) -> dict[int, np.ndarray]:
    """Return seeds by node set; raise :class:`DGLError` unless they have the types that the graph has."""
    if graph.typed != isinstance(seeds, Mapping):
        expected = "a dictionary of tensors by node type" if graph.typed else "a tensor of node ids"
        types = "several types" if graph.typed else "one type"
        raise InputError(f"seeds must be {expected}, as the graph has {types}; got {type(seeds).__name__}")
    for ids in seeds.values() if isinstance(seeds, Mapping) else [seeds]:
        if not torch.is_tensor(ids) or ids.ndim != 1:
            shape = tuple(ids.shape) if torch.is_tensor(ids) else type(ids).__name__
            raise InputError(f"seeds must be of one dimension, got {shape}")
    if graph.typed and (unknown := set(seeds) - set(graph.g.ntypes)):
        raise InputError(f"seeds are of node types {sorted(unknown)}; the graph has {graph.g.ntypes}")
    return seed_sets(graph.g, seeds, True)


# -- samples -----------------------------------------------------------------------------------------------------------
def joint_blocks(graph: Any, rules: Callable[[], Any], fanouts: Sequence[int], seeds: Any) -> list[DGLGraph]:
    """Return the blocks of edges of all types together, first layer first; ``rules`` yields them, last layer first."""
    _checked(graph, seeds)

    def draws() -> Any:
        return (_JointDraw(graph, rule, fanout) for rule, fanout in zip(rules(), reversed(fanouts), strict=False))

    return drawn_blocks(graph.g, seeds, draws)[::-1]


def sample_layer(
    graph: Any, rule: Rule, seeds: Any, fanouts: Any, times: tuple[Any, Any] | None = None, names: Any = (None, None)
) -> SampledSubgraphImpl:
    """Return in-edges of the seeds, from sources with their ids in the graph.

    Parameters
    ----------
    times
        of the seeds, and how long before an edge may be at most, or None: edges are earlier than their seeds.
    names
        of node and of edge attributes with times, or None.
    """
    sets = _checked(graph, seeds)
    (listed,) = listed_fanouts(graph, [fanouts])
    g, joint = graph.g, in_one(graph, listed)
    if g.device.type != "cpu" and not joint and times is None and rule.shared is None:
        sampler = NeighborSampler([fanout_by_type(graph, listed)], prob=rule.prob, replace=rule.replace)
        _, _, (block,) = sampler.sample(g, seeds)
        return _with_source_ids(subgraph_of(graph.name_edges(block), graph.typed, graph.has_original_edge_ids))
    if joint:
        limits = None if times is None else _joint_times(graph, seeds, sets, times, names)
        draw: Draw = _JointDraw(graph, rule, listed[0], limits)
    else:
        of_types = None if times is None else _times_by_type(graph, seeds, times, names)
        draw = rule.draw_on(g, _numbers(graph, listed), of_types)
    csc, edge_ids = {}, {}
    for i, (etype, (_, dst)) in enumerate(zip(g.canonical_etypes, g.type_graph.ends, strict=True)):
        ids = sets.get(dst)
        sample = draw(i, ids, False) if ids is not None and len(ids) else None
        if sample is None:
            nothing = np.empty(0, np.int64)
            sample = Drawn(np.zeros(1 + (0 if ids is None else len(ids)), np.int64), nothing, nothing)
        name = etype_tuple_to_str(etype)
        csc[name] = CSCFormatBase(torch.from_numpy(sample.offsets).to(g.device), g.ids_tensor(sample.far))
        edge_ids[name] = graph.original_ids(etype, g.ids_tensor(sample.edges))
    original = edge_ids if graph.has_original_edge_ids else None
    if not graph.typed:
        (only,), (ids_of_edges,) = csc.values(), edge_ids.values()
        return SampledSubgraphImpl(only, seeds, None, original and ids_of_edges, ids_of_edges)
    columns = {ntype: seeds[ntype] if ntype in seeds else g.ids_tensor(np.empty(0, np.int64)) for ntype in g.ntypes}
    return SampledSubgraphImpl(csc, columns, None, original, edge_ids)


def _with_source_ids(subgraph: SampledSubgraphImpl) -> SampledSubgraphImpl:
    rows, csc = subgraph.original_row_node_ids, subgraph.sampled_csc
    if not isinstance(csc, Mapping):
        subgraph.sampled_csc = CSCFormatBase(csc.indptr, rows[csc.indices.long()])
    else:
        ids = {etype: rows[etype.split(":")[0]] for etype in csc}
        subgraph.sampled_csc = {k: CSCFormatBase(x.indptr, ids[k][x.indices.long()]) for k, x in csc.items()}
    subgraph.original_row_node_ids = None
    return subgraph


# -- times -------------------------------------------------------------------------------------------------------------
def _times_by_type(graph: Any, seeds: Any, times: tuple[Any, Any], names: Any) -> list[TimeLimits | None]:
    """Return the times of each edge type's edges and seeds."""
    limits: list[TimeLimits | None] = []
    for (_, dst), pair in zip(graph.g.type_graph.ends, _edge_times(graph.g, *names), strict=True):
        ntype = graph.g.ntypes[dst] if graph.typed else None
        without = pair is None or (ntype is not None and ntype not in seeds)
        limits.append(None if without or pair is None else _limits(pair, *_of_seeds(seeds, times, ntype)))
    return limits


def _joint_times(
    graph: Any, seeds: Any, sets: Mapping[int, Any], times: tuple[Any, Any], names: Any
) -> dict[int, TimeLimits] | None:
    """Return the times of the seeds of each node set and of the edges of all types."""
    (pair,) = _edge_times(graph.merged, *names)
    if pair is None:
        return None
    return {i: _limits(pair, *_of_seeds(seeds, times, graph.g.ntypes[i])) for i in sets}


def _of_seeds(seeds: Any, times: tuple[Any, Any], ntype: str | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the times of the seeds of a type, and their windows, or None."""
    arrays = []
    for values in times:
        stamps, count = (values, len(seeds)) if ntype is None else ((values or {}).get(ntype), len(seeds[ntype]))
        if values is not None and (stamps is None or len(stamps) != count):
            suffix = "" if ntype is None else f" of type {ntype!r}"
            raise InputError(f"there are {count} seeds{suffix}; give a time for each")
        arrays.append(None if stamps is None else np.asarray(stamps.cpu()))
    if arrays[0] is None:
        raise InputError("edges have times, the seeds have none; give seeds_timestamp")
    return arrays[0], arrays[1]


def _edge_times(g: DGLGraph, of_nodes: str | None, of_edges: str | None) -> list[tuple[np.ndarray, np.ndarray] | None]:
    """Return by edge type the later and the earlier time of each edge and its source, or None.

    Raises DGLError: no type has an attribute of the name.
    """
    for name, frames in ((of_nodes, g.node_frames), (of_edges, g.edge_frames)):
        if name is not None and not any(frame is not None and name in frame for frame in frames):
            there = sorted({x for frame in frames if frame is not None for x in frame})
            raise InputError(f"the graph has no attribute {name!r}; it has {there}")
    times = [None] * len(g.adjacencies) if of_edges is None else edge_times(g, of_edges)
    return [_with_sources(g, i, of_nodes, of_edges, of_type) for i, of_type in enumerate(times)]


_LATER_AND_EARLIER: ColumnCache[tuple[np.ndarray, np.ndarray, Any]] = ColumnCache()


def _with_sources(
    g: DGLGraph, i: int, of_nodes: str | None, of_edges: str | None, times: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the times of edges of type ``i`` with those of their sources, later and earlier of the two."""
    source_set = g.type_graph.ends[i][0]
    column = None if of_nodes is None else g.node_frame_at(source_set).peek(of_nodes)
    if column is None:
        return None if times is None else (times, times)
    on_edges = None if of_edges is None else g.edge_frame_at(i).peek(of_edges)

    def make() -> tuple[np.ndarray, np.ndarray, Any]:
        label = f"{of_nodes} of node type {g.type_graph.ntypes[source_set]!r}"
        of_sources = times_of(column, g.node_counts[source_set], label)[g.adjacencies[i].endpoints()[0]]
        if times is None:
            return of_sources, of_sources, None
        return np.maximum(times, of_sources), np.minimum(times, of_sources), on_edges  # held, so that its id stays its

    with _LATER_AND_EARLIER.lock:
        key = None if on_edges is None else (id(on_edges), active.version(on_edges))
        return _LATER_AND_EARLIER.get(g.adjacencies[i], column, make, key)[:2]


def _limits(pair: tuple[np.ndarray, np.ndarray], stamps: np.ndarray, windows: np.ndarray | None) -> TimeLimits:
    """Return what edges, of later and earlier times ``pair``, are drawn for seeds: those before them, in windows."""
    (later, earlier), kind = pair, pair[0].dtype.kind
    if kind == "f":
        last = np.nextafter(stamps.astype(np.float64), -np.inf)
    else:
        last = np.maximum(in_kind_of(np.ceil(stamps), later.dtype), np.iinfo(np.int64).min + 1) - 1
    if windows is None:
        return TimeLimits(later, last)
    since = stamps - windows
    return TimeLimits(later, last, earlier, in_kind_of(since if kind == "f" else np.ceil(since), earlier.dtype))
