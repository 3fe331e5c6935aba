"""Stages that sample subgraphs for the seeds of a batch."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import torch

from ...dataloading import LaborSampler
from ...dataloading import NeighborSampler as BlockNeighborSampler
from ...frame import NID
from . import draws
from .compact import compact_temporal_nodes, of_sources, unique_and_compact
from .errors import InputError
from .forms import TwoForms
from .minibatch import MiniBatch, are_pairs
from .stages import MiniBatchTransformer, functional
from .subgraph import SampledSubgraph, columns_of_seeds, compacted, subgraph_of, with_own_sources

__all__ = [
    "InSubgraphSampler",
    "LayerNeighborSampler",
    "NeighborSampler",
    "SubgraphSampler",
    "TemporalLayerNeighborSampler",
    "TemporalNeighborSampler",
]


@functional("sample_subgraph")
class SubgraphSampler(MiniBatchTransformer):
    """Base of stages that sample: override :meth:`sample_subgraphs`, or :meth:`sampling_stages`.

    Seeds that are pairs or larger sets of nodes are first numbered from 0 on, which sets ``compacted_seeds``. Sets
    ``input_nodes`` and ``sampled_subgraphs``, from which ``blocks`` are made.
    """

    def __init__(self, datapipe: Any, *args: Any, **kwargs: Any) -> None:
        before = MiniBatchTransformer(datapipe, self._preprocess)
        super().__init__(self.sampling_stages(before, *args, **kwargs))

    def _preprocess(self, batch: MiniBatch) -> MiniBatch:
        seeds = getattr(batch, "seeds", None)
        if seeds is None:
            raise InputError(f"stage {type(self).__name__} needs a MiniBatch with seeds; name the items 'seeds'")
        times, windows = getattr(batch, "timestamp", None), getattr(batch, "pre_time_window", None)
        if are_pairs(seeds):
            seeds, batch.compacted_seeds, times, windows = numbered_seeds(seeds, times, windows)
        batch._seed_nodes, batch._seeds_timestamp, batch._seeds_pre_time_window = seeds, times, windows  # type: ignore
        return batch

    def sampling_stages(self, datapipe: Any) -> Any:
        """Return the pipe after sampling; by default one stage more, which calls :meth:`sample_subgraphs`."""
        return MiniBatchTransformer(datapipe, self._sample)

    @cached_property
    def _num_arguments(self) -> int:
        """How many of the seeds, their times and windows :meth:`sample_subgraphs` takes."""
        parameters = inspect.signature(self.sample_subgraphs).parameters.values()
        if any(x.kind is x.VAR_POSITIONAL for x in parameters):
            return 3
        return sum(x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD) for x in parameters)

    def _sample(self, batch: Any) -> Any:
        arguments = batch._seed_nodes, batch._seeds_timestamp, batch._seeds_pre_time_window
        result = self.sample_subgraphs(*arguments[: self._num_arguments])
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{type(self).__name__}.sample_subgraphs returned {type(result).__name__}; expected the input nodes "
                "and a list of sampled subgraphs"
            )
        for subgraph in result[1]:
            if not isinstance(subgraph, SampledSubgraph):
                kind = type(subgraph).__name__
                raise TypeError(
                    f"{type(self).__name__}.sample_subgraphs returned a list with {kind}; expected SampledSubgraph"
                )
        batch.input_nodes, batch.sampled_subgraphs = result
        return batch

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any, seeds_pre_time_window: Any = None) -> Any:
        """Return the input nodes, and the sampled subgraphs, first layer first, that seed nodes need.

        Parameters
        ----------
        seeds
            distinct node ids, or ids by node type.
        seeds_timestamp, seeds_pre_time_window
            times of the seeds and how far back edges may be, in the form of the seeds; None without times. An override
            may leave them out.
        """
        raise NotImplementedError(f"{type(self).__name__} must define sample_subgraphs(seeds, seeds_timestamp)")


def numbered_seeds(seeds: Any, times: Any, windows: Any) -> tuple[Any, Any, Any, Any]:
    """Return the nodes of pairs or larger sets, seeds as places among them, and nodes' times and windows.

    Nodes are distinct, each once; with times each end of a pair is a node of its own, with the pair's time.
    """
    sets: Mapping[Any, torch.Tensor] = seeds if isinstance(seeds, Mapping) else {None: seeds}
    only = (lambda x: x) if isinstance(seeds, Mapping) else (lambda x: x.get(None))
    columns = [
        (kind, ntype, column)
        for kind, ids in sets.items()
        for ntype, column in ([(kind, ids)] if ids.ndim == 1 else columns_of_seeds(kind, ids))
    ]
    nodes: dict[Any, list[torch.Tensor]] = {}
    for _, ntype, column in columns:
        nodes.setdefault(ntype, []).append(column)
    unique, places = unique_and_compact(nodes) if times is None else compact_temporal_nodes(nodes, nodes)[::2]
    following, placed = {ntype: iter(parts) for ntype, parts in places.items()}, dict[Any, list[torch.Tensor]]()
    for kind, ntype, _ in columns:
        placed.setdefault(kind, []).append(next(following[ntype]))
    result = {kind: parts[0] if sets[kind].ndim == 1 else torch.stack(parts, 1) for kind, parts in placed.items()}

    def of_nodes(values: Any) -> Any:
        if values is None:
            return None
        by_kind, parts = values if isinstance(values, Mapping) else {None: values}, dict[Any, list[torch.Tensor]]()
        for kind, ntype, _ in columns:
            parts.setdefault(ntype, []).append(_times_of(by_kind, kind, sets[kind]))
        return only({ntype: torch.cat(x) for ntype, x in parts.items()})

    return only(unique), only(result), of_nodes(times), of_nodes(windows)


def _times_of(times: Mapping[Any, Any], kind: Any, seeds: torch.Tensor) -> torch.Tensor:
    values = times.get(kind)
    if values is None or len(values) != len(seeds):
        suffix = "" if kind is None else f" of type {kind!r}"
        missing = "the items need a timestamp, or pre_time_window, for each"
        raise InputError(f"there are {len(seeds)} seeds{suffix}; {missing}")
    return values


# -- neighbours --------------------------------------------------------------------------------------------------------
class _LayeredSampler(SubgraphSampler):
    """Samples all layers in one pass, into blocks; sampled subgraphs are made of them when they are asked for."""

    def __init__(
        self, datapipe: Any, graph: Any, fanouts: Sequence[Any], sampler: Any, rule: draws.Rule, deduplicate: bool
    ) -> None:
        if not isinstance(graph, TwoForms):
            name = type(self).__name__
            raise InputError(
                f"stage {name} needs a FusedCSCSamplingGraph, got {type(graph).__name__}: from_dglgraph(g)"
            )
        self.graph, self.fanouts, self._listed = graph, list(fanouts), draws.listed_fanouts(graph, fanouts)
        self._deduplicate, self._rule = deduplicate, rule
        self._joint = any(draws.in_one(graph, x) for x in self._listed)
        if self._joint and any(len(x) != 1 for x in self._listed):
            raise InputError(
                f"fan-outs {self._listed} are for all edge types together in some layers and by edge type in others; "
                "give all layers one number, or all one for each edge type"
            )
        self._sampler = sampler([x[0] if self._joint else draws.fanout_by_type(graph, x) for x in self._listed])
        super().__init__(datapipe)

    def _rules(self) -> Iterator[draws.Rule]:
        """Yield how each layer of a batch is drawn, last layer first."""
        return itertools.repeat(self._rule)

    def _sample(self, batch: Any) -> Any:
        graph, seeds = self.graph, batch._seed_nodes
        if not self._deduplicate:  # layer by layer, where each edge has a source of its own
            layers = [lambda x, n=n: draws.sample_layer(graph, self._rule, x, n) for n in self._listed]
            batch.input_nodes, batch.sampled_subgraphs = _one_by_one(layers, seeds)
            return batch
        if self._joint:
            blocks = draws.joint_blocks(graph, self._rules, [x for (x,) in self._listed], seeds)
            nodes: Any = {ntype: blocks[0].srcnodes[ntype].data[NID] for ntype in blocks[0].srctypes}
        else:
            nodes, _, blocks = self._sampler.sample(graph.g, seeds)
            if graph.typed and not isinstance(nodes, Mapping):
                nodes = {graph.g.ntypes[0]: nodes}
        batch.input_nodes = nodes
        convert = partial(subgraph_of, typed=graph.typed, has_original_edge_ids=graph.has_original_edge_ids)
        batch.set_blocks([graph.name_edges(block) for block in blocks], convert)
        return batch


def _one_by_one(layers: Sequence[Any], seeds: Any, *values: Any) -> tuple[Any, list[SampledSubgraph]]:
    """Return the input nodes and the subgraphs of functions that sample a layer, where each edge has its own source.

    ``values`` are of the seeds, or None, which the functions get too; sources have those of their seeds.
    """
    subgraphs: list[SampledSubgraph] = []
    for layer in reversed(layers):
        subgraph = layer(seeds, *values)
        values = tuple(None if x is None else of_sources(subgraph.sampled_csc, x) for x in values)
        subgraphs.insert(0, with_own_sources(subgraph))
        seeds = subgraphs[0].original_row_node_ids
    return seeds, subgraphs


@functional("sample_neighbor")
class NeighborSampler(_LayeredSampler):
    """Draws neighbours layer by layer: see :class:`dglite.dataloading.NeighborSampler`.

    Parameters
    ----------
    graph
        a :class:`FusedCSCSamplingGraph`.
    fanouts
        for each layer, first layer first: a number for all in-edges of a node, or a tensor with one for each edge type;
        -1 for all.
    replace, prob_name
        whether to draw with replacement; name of the edge attribute with weights to draw by.
    deduplicate
        whether a node that several edges lead to is one input node.
    others
        options of GraphBolt's GPU sampling (``overlap_fetch``, ``num_gpu_cached_edges``, ``gpu_cache_threshold``,
        ``asynchronous``), which are accepted.
    """

    def __init__(
        self,
        datapipe: Any,
        graph: Any,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        deduplicate: bool = True,
        **others: Any,
    ) -> None:
        self.replace, self.prob_name = replace, prob_name
        sampler = partial(BlockNeighborSampler, prob=prob_name, replace=replace)
        super().__init__(datapipe, graph, fanouts, sampler, draws.Rule(prob_name, replace), deduplicate)


@functional("sample_layer_neighbor")
class LayerNeighborSampler(_LayeredSampler):
    """Draws neighbours that seeds share: see :class:`dglite.dataloading.LaborSampler`.

    Arguments are those of :class:`NeighborSampler`, and ``layer_dependency`` and ``batch_dependency`` of
    :class:`~dglite.dataloading.LaborSampler`; ``replace`` is accepted: edges are drawn without replacement. A fan-out
    is the expected number of a node's edges.
    """

    def __init__(
        self,
        datapipe: Any,
        graph: Any,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        deduplicate: bool = True,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        **others: Any,
    ) -> None:
        self.prob_name = prob_name
        options: dict[str, Any] = {"layer_dependency": bool(layer_dependency), "batch_dependency": batch_dependency}
        sampler, rule = partial(LaborSampler, prob=prob_name, **options), draws.Rule(prob_name, shared=(None, 0.0))
        super().__init__(datapipe, graph, fanouts, sampler, rule, deduplicate)

    def _rules(self) -> Iterator[draws.Rule]:
        seeds, share = self._sampler.random_seeds()
        steps = itertools.repeat(0) if self._sampler.layer_dependency else itertools.count()
        return (self._rule._replace(shared=(seeds + step, share)) for step in steps)


@functional("sample_in_subgraph")
class InSubgraphSampler(SubgraphSampler):
    """Takes all in-edges of the seeds, one layer, of a :class:`FusedCSCSamplingGraph`."""

    def __init__(self, datapipe: Any, graph: Any) -> None:
        self.graph = graph
        super().__init__(datapipe)

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any = None, seeds_pre_time_window: Any = None) -> Any:
        """Return the distinct ends of the seeds' in-edges, and a list of the one subgraph."""
        subgraph = compacted(self.graph.in_subgraph(seeds))
        return subgraph.original_row_node_ids, [subgraph]


# -- by time -----------------------------------------------------------------------------------------------------------
@functional("temporal_sample_neighbor")
class TemporalNeighborSampler(SubgraphSampler):
    """Draws edges that are earlier than the seed that they are drawn for, layer by layer.

    The items have a ``timestamp`` for each seed, and may have a ``pre_time_window``. A node that several edges lead to
    is an input node for each of them, with the time of its seed.
    """

    _method = "temporal_sample_neighbors"

    def __init__(
        self,
        datapipe: Any,
        graph: Any,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
    ) -> None:
        self.graph, self.fanouts = graph, draws.listed_fanouts(graph, fanouts)
        self.replace, self.prob_name = replace, prob_name
        self._names = node_timestamp_attr_name, edge_timestamp_attr_name
        super().__init__(datapipe)

    def sample_subgraphs(self, seeds: Any, seeds_timestamp: Any, seeds_pre_time_window: Any = None) -> Any:
        """Return the input nodes and the sampled subgraphs."""
        if seeds_timestamp is None:
            raise InputError(f"stage {type(self).__name__} needs times of the seeds; name an item column 'timestamp'")
        draw, names = getattr(self.graph, self._method), (self.prob_name, *self._names)

        def layer(fanout: Any, nodes: Any, times: Any, windows: Any) -> Any:
            return draw(nodes, times, torch.tensor(fanout), self.replace, windows, *names)

        layers = [partial(layer, fanout) for fanout in self.fanouts]
        return _one_by_one(layers, seeds, seeds_timestamp, seeds_pre_time_window)


@functional("temporal_sample_layer_neighbor")
class TemporalLayerNeighborSampler(TemporalNeighborSampler):
    """Draws as :class:`TemporalNeighborSampler` does, so that seeds share sources."""

    _method = "temporal_sample_layer_neighbors"
