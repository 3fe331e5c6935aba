"""Pipes: batches of items and the stages that they go through, and the loaders that run them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Self

import numpy as np
import torch

from ...dataloading import LaborSampler, NeighborSampler
from ...dataloading.edge_sampler import graph_of_pairs
from ...dataloading.loader import Loader
from ...dataloading.order import check_count, check_flag, check_function
from ...frame import EID, NID
from ...graph import DGLGraph
from ...random import generator
from ...transforms import compact_graphs
from ..base import dgl_warning
from .etypes import by_type, etype_str_to_tuple, etype_tuple_to_str
from .features import BasicFeatureStore
from .minibatch import MiniBatch, are_pairs
from .sampling_graph import FusedCSCSamplingGraph

__all__ = [
    "DataLoader",
    "DistributedItemSampler",
    "ItemSampler",
    "MultiProcessDataLoader",
    "SingleProcessDataLoader",
    "minibatcher_default",
]


def minibatcher_default(batch: Any, names: Sequence[str] | None) -> Any:
    """Return a :class:`MiniBatch` that has items by their names; without names, warn and return the items."""
    if names is None:
        dgl_warning("the items have no names, such as 'seeds': batches are the items; name them, or give a minibatcher")
        return batch
    columns = [batch] if len(names) == 1 else [by_type(itemgetter(i), batch) for i in range(len(names))]
    return MiniBatch(**dict(zip(names, columns, strict=True)))


class ItemSampler:
    """Batches of items, and the stages that they go through; each method returns a pipe with one more stage.

    Iterating a pipe runs it here; :class:`DataLoader` runs it in threads.

    Parameters
    ----------
    item_set
        an :class:`ItemSet` or :class:`HeteroItemSet`.
    batch_size, drop_last, shuffle
        items of a batch; whether to leave out a smaller last batch, and to shuffle all items in each epoch.
    minibatcher
        makes a batch of its items and their names.

    Raises
    ------
    TypeError
        ``minibatcher``, or a stage given to :meth:`transform`, is no function.
    ValueError
        The batch size is no integer above 0, or a flag is neither True nor False.
    """

    use_ddp = False

    def __init__(
        self,
        item_set: Any,
        batch_size: int,
        minibatcher: Callable[[Any, Any], Any] | None = minibatcher_default,
        drop_last: bool = False,
        shuffle: bool = False,
        **_: Any,
    ) -> None:
        self.item_set, self.batch_size = item_set, check_count(batch_size, "batch_size", 1)
        self.drop_last, self.shuffle = check_flag(drop_last, "drop_last"), check_flag(shuffle, "shuffle")
        self.minibatcher = check_function(minibatcher, "minibatcher") or minibatcher_default
        self.stages: tuple[Callable[[Any], Any], ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(DataLoader(self))

    def transform(self, transformer: Callable[[Any], Any]) -> Self:
        """Apply a function of the batch, which returns a batch."""
        made = copy.copy(self)
        made.stages = (*self.stages, _stage(transformer))
        return made

    def copy_to(self, device: Any, extra_attrs: Sequence[str] | None = None) -> Self:
        """Move batches to a device, with all that they have."""
        return self.transform(lambda batch: batch.to(device))

    def sample_neighbor(
        self,
        graph: FusedCSCSamplingGraph,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        **_: Any,
    ) -> Self:
        """Sample blocks for the seed nodes, or for the ends of pairs: see :class:`dglite.dataloading.NeighborSampler`.

        Sets ``blocks``, ``input_nodes`` and, for pairs, ``compacted_seeds``.

        Parameters
        ----------
        fanouts
            for each layer, first layer first: as :meth:`FusedCSCSamplingGraph.fanouts` takes them, -1 for all.
        replace
            draw with replacement.
        prob_name
            name of the edge feature with weights to draw by.
        """
        return self._sample(graph, NeighborSampler(graph.fanouts(fanouts), prob=prob_name, replace=replace))

    def sample_layer_neighbor(
        self,
        graph: FusedCSCSamplingGraph,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        **_: Any,
    ) -> Self:
        """Sample blocks of neighbours that seeds share: see :class:`dglite.dataloading.LaborSampler`.

        Arguments are those of :meth:`sample_neighbor`, but for ``replace``, which is accepted: edges are drawn without
        replacement.
        """
        return self._sample(graph, LaborSampler(graph.fanouts(fanouts), prob=prob_name))

    def _sample(self, graph: FusedCSCSamplingGraph, sampler: Any) -> Self:
        g = graph.g

        def stage(batch: MiniBatch) -> MiniBatch:
            seeds = _compact(g, batch) if are_pairs(batch.seeds) else batch.seeds
            nodes, _, batch.blocks = sampler.sample(g, seeds)
            single = graph.node_type_to_id is not None and not isinstance(nodes, Mapping)
            batch.input_nodes = {g.ntypes[0]: nodes} if single else nodes
            return batch

        return self.transform(stage)

    def sample_uniform_negative(self, graph: FusedCSCSamplingGraph, negative_ratio: int) -> Self:
        """Draw ``negative_ratio`` destinations for each pair, uniformly: see :meth:`MiniBatch.add_negatives`."""

        def draw(pairs: torch.Tensor, ntype: str | None) -> torch.Tensor:
            size = len(pairs), negative_ratio
            return torch.from_numpy(generator().integers(graph.g.num_nodes(ntype), size=size))

        def stage(batch: MiniBatch) -> MiniBatch:
            seeds = batch.seeds
            ntypes = {etype: etype_str_to_tuple(etype)[2] for etype in seeds} if isinstance(seeds, Mapping) else None
            batch.add_negatives(by_type(draw, seeds, ntypes))
            return batch

        return self.transform(stage)

    def fetch_feature(
        self, feature_store: BasicFeatureStore, node_feature_keys: Any = None, edge_feature_keys: Any = None
    ) -> Self:
        """Read features of the input nodes, and of the edges of each block, by their ids in the graph.

        Keys are names, or lists of names by node type, or by edge type as a string; types that a batch lacks are left
        out. Sets ``node_features`` and ``edge_features``.
        """

        def stage(batch: MiniBatch) -> MiniBatch:
            if node_feature_keys:
                batch.node_features = _read(feature_store, "node", batch.input_nodes, node_feature_keys)
            if edge_feature_keys:
                typed = isinstance(edge_feature_keys, Mapping)
                ids = [_edge_ids(block) if typed else block.edata[EID] for block in batch.blocks]
                batch.edge_features = [_read(feature_store, "edge", x, edge_feature_keys) for x in ids]
            return batch

        return self.transform(stage)


def _stage(transformer: Any) -> Callable[[Any], Any]:
    if not callable(transformer):
        raise TypeError(f"a stage must be a function of the batch, got {transformer!r}")
    return transformer


class DistributedItemSampler(ItemSampler):
    """An :class:`ItemSampler` that gives each process of ``torch.distributed`` its share of the items."""

    use_ddp = True


def _compact(g: DGLGraph, batch: MiniBatch) -> Any:
    """Return the distinct nodes of a batch's pairs; set ``compacted_seeds``, the pairs as places among them."""
    typed = isinstance(batch.seeds, Mapping)
    pairs = {etype_str_to_tuple(x): ends for x, ends in batch.seeds.items()} if typed else {g.etypes[0]: batch.seeds}
    made = compact_graphs(graph_of_pairs(g, {etype: ends.unbind(1) for etype, ends in pairs.items()}))
    places = [torch.stack(made.edges(etype=etype), 1).to(ends) for etype, ends in pairs.items()]
    batch.compacted_seeds = dict(zip(batch.seeds, places, strict=True)) if typed else places[0]
    return made.ndata[NID]


def _edge_ids(block: DGLGraph) -> dict[str, torch.Tensor]:
    return {etype_tuple_to_str(etype): block.edges[etype].data[EID] for etype in block.canonical_etypes}


def _read(store: BasicFeatureStore, domain: str, ids: Any, keys: Any) -> dict[Any, torch.Tensor]:
    """Return features of nodes or edges: by name, or by (type, name) where keys are by type."""
    if not isinstance(keys, Mapping):
        return {name: store.read(domain, None, name, ids) for name in keys}
    named = [(kind, name) for kind, names in keys.items() for name in names if kind in ids]
    return {(kind, name): store.read(domain, kind, name, ids[kind]) for kind, name in named}


class DataLoader(Loader):
    """Runs a pipe; ``num_workers`` are threads of this process, and batches the same for any number.

    Options of GraphBolt's prefetching are accepted.

    Raises
    ------
    TypeError
        ``datapipe`` is not an :class:`ItemSampler`, with or without stages.
    """

    def __init__(self, datapipe: ItemSampler, num_workers: int = 0, **others: Any) -> None:
        if not isinstance(datapipe, ItemSampler):
            raise TypeError(f"datapipe must be an ItemSampler with its stages, got {type(datapipe).__name__}")
        pipe = self.datapipe = datapipe
        super().__init__(
            len(pipe.item_set), pipe.batch_size, pipe.drop_last, pipe.shuffle, pipe.use_ddp, 0, num_workers=num_workers
        )

    def _make(self, positions: np.ndarray) -> Any:
        pipe = self.datapipe
        batch = pipe.minibatcher(pipe.item_set[torch.from_numpy(positions)], pipe.item_set.names)
        for stage in pipe.stages:
            batch = stage(batch)
        return batch


SingleProcessDataLoader = MultiProcessDataLoader = DataLoader
