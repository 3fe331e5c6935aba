"""Loaders of a partitioned graph: local sampling, with features from all ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ..dataloading import EdgePredictionSampler, LaborSampler, ScheduledFeatures, as_edge_prediction_sampler, hot_rows
from ..dataloading.base import Sampler
from ..dataloading.buffers import Buffers
from ..dataloading.dataloader import make_formats
from ..dataloading.items import Items
from ..dataloading.loader import Epoch, Progress, Resumable, checked_state
from ..dataloading.order import check_count, check_flag, seed_from
from ..dataloading.pipeline import Ordered
from ..dataloading.transfer import moved
from ..errors import DGLError
from ..random import draws_keyed_by
from ..structure.ids import integer_array
from .batch_features import without_features
from .collectives import Alone, Collectives
from .fetch import PartitionedRows, fetch
from .graph import DistGraph
from .sampling import PartSampler, sampler_of_nodes
from .scheduled import EpochSchedule, ScheduledRows, Source

_ORDER = 1
"""Set apart from the keys of a batch's draws."""
_ACCEPTED = frozenset("pin_memory persistent_workers timeout use_uva use_ddp".split())


class _DistLoader(Resumable):
    """What loaders of nodes and of edges share."""

    def __init__(
        self,
        kind: str,
        g: DistGraph,
        indices: Any,
        sampler: Any,
        device: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        num_workers: int = 0,
        shared: bool = False,
        generator: Any = None,
        prefetch_factor: int = 2,
        **others: Any,
    ) -> None:
        unknown = sorted(set(others) - _ACCEPTED)
        if unknown:
            raise TypeError(f"{type(self).__name__} got unknown arguments {unknown}")
        if not isinstance(g, DistGraph):
            raise TypeError(f"expected a DistGraph, got {type(g).__name__}; see dglite.dataloading.DataLoader")
        self.graph, self.device = g, device
        self.exchange = Collectives(g.timeout) if g.store is None else Alone(g.exchange.rank, g.exchange.world)
        step, together = f"making a {type(self).__name__}", self.exchange.together
        flags = {"shuffle": shuffle or False, "drop_last": drop_last, "shared": shared}
        self.shuffle, self.drop_last, self.shared = together(
            step, lambda: [check_flag(flag, name) for name, flag in flags.items()]
        )
        counts = ("batch_size", batch_size, 1), ("num_workers", num_workers, 0), ("prefetch_factor", prefetch_factor, 1)
        self.batch_size, self.num_workers, self._ahead = together(
            step, lambda: [check_count(count, name, least) for name, count, least in counts]
        )
        self._set_sampler(step, sampler)
        self._set_items(step, kind, indices)
        seed = together(step, lambda: seed_from(generator))
        self._seed = self.exchange.gather_objects(step, seed)[0]
        self._next = Progress(0, 0)
        self._now = None
        self._count = self._num_batches()
        self._buffers = Buffers()
        self._running: Ordered | None = None
        self._scheduled_rows: dict[ScheduledFeatures, ScheduledRows] = {}

    def _set_sampler(self, step: str, sampler: Any) -> None:
        """Keep a sampler, without the features that it prefetches: they come from all ranks."""
        g, together = self.graph, self.exchange.together
        self._features, self.graph_sampler = together(step, lambda: without_features(g, sampler))
        self._part_sampler = together(
            step, lambda: None if g.partitioned is None else PartSampler(g, self.graph_sampler)
        )
        if g.partitioned is None:
            self._read_weights(getattr(sampler_of_nodes(self.graph_sampler), "prob", None))

    def _set_items(self, step: str, kind: str, indices: Any) -> None:
        """Keep the nodes or edges that batches are made of, when all ranks agree on what they are given."""
        self._items = self.exchange.together(step, lambda: self._checked(kind, indices))
        if self.shared and not self.exchange.collective:
            raise DGLError("shared batches need reads='collective': with one-sided reads each rank has its own batches")
        about = None if self._part_sampler is None else self._part_sampler.about()
        options = self.batch_size, self.shuffle, self.drop_last, self.shared, self._digest(), about
        self.exchange.same(f"what a {type(self).__name__} is given", (*options, self._features.label))
        if self.shared:
            self._items = self._in_original_order(kind, indices)
        of_nodes = sampler_of_nodes(self.graph_sampler)
        if isinstance(of_nodes, LaborSampler):
            of_nodes.named = self.graph.original_sources()

    def _read_weights(self, name: str | None) -> None:
        """Give the replicated structure the weights that edges are drawn by: a feature of the graph, of all ranks."""
        if name is None:
            return
        for etype in self.graph.canonical_etypes:
            weights = self.graph.frame("edge", etype).get(name)
            if weights is not None:
                self.graph.topology.edges[etype].data[name] = weights.rows(np.arange(weights.num_rows))

    def _checked(self, kind: str, indices: Any) -> Items:
        items = Items(indices)
        if self._part_sampler is not None:
            self._part_sampler.check(kind, indices)
        elif isinstance(self.graph_sampler, Sampler):
            self.graph_sampler.check(self.graph.topology, indices)
        return items

    def _in_original_order(self, kind: str, indices: Any) -> Items:
        """Return the items in the order of the graph that was partitioned."""

        def ordered(type_: Any, items: Any) -> np.ndarray:
            ids = integer_array(items)
            return ids[np.argsort(integer_array(self.graph.original_ids(kind, type_, ids)), kind="stable")]

        if not isinstance(indices, Mapping):
            return Items(ordered(None, indices))
        return Items({type_: ordered(type_, ids) for type_, ids in indices.items()})

    def _digest(self) -> str:
        """Return the hash of all items where they are shared, which all ranks must have alike."""
        digest = hashlib.sha256()
        for part in self._items._parts if self.shared else ():
            digest.update(part.ids.astype(np.int64).tobytes())
        return digest.hexdigest()[:16]

    def _num_batches(self) -> int:
        size, count = self.batch_size, len(self._items)
        num_batches = count // size if self.drop_last else -(-count // size)
        if not self.shared:
            counts: list[int] = self.exchange.gather_objects("counting batches", num_batches)
            return max(counts)
        world = self.exchange.world
        return num_batches // world if self.drop_last else -(-num_batches // world)

    def __len__(self) -> int:
        """Return the number of batches of an epoch, the same on all ranks."""
        return self._count

    def state_dict(self) -> dict[str, int]:
        """Return the position in the epoch; where batches are shared, ``position`` counts those of all ranks.

        So another number of ranks may go on from it.
        """
        state = super().state_dict()
        return state | {"position": state["position"] * self.exchange.world} if self.shared else state

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Let the next ``iter`` continue from what :meth:`state_dict` returned, on any number of ranks if shared.

        Raises DGLError: the state has other keys, values that are no integers from 0 on, or the batches taken until
        then are no whole steps of these ranks.
        """
        world = self.exchange.world
        if self.shared:
            _, _, position = checked_state(state_dict)
            if position % world:
                raise DGLError(
                    f"the state is after {position} shared batches, which are no whole steps of {world} ranks; "
                    "continue with a number of ranks that divides it, or save after another step"
                )
            state_dict = {**state_dict, "position": position // world}
        super().load_state_dict(state_dict)

    def _order(self, epoch: int) -> np.ndarray:
        keys = () if self.shared else (self.exchange.rank,)
        if not self.shuffle:
            return np.arange(len(self._items))
        return np.random.default_rng((self._seed, epoch, *keys, _ORDER)).permutation(len(self._items))

    def _sampled(self, epoch: int, first: int, workers: int, last: int | None = None) -> Ordered:
        """Return the batches of an epoch without their features, from ``first`` on up to ``last``, or all."""
        order, size, rank, world = self._order(epoch), self.batch_size, self.exchange.rank, self.exchange.world
        seed, buffers, items, shared = self._seed, self._buffers, self._items, self.shared
        if self._part_sampler is None:
            make = partial(self.graph_sampler.sample, self.graph.topology)
        else:  # by exchanges, in the thread that fetches features
            make, workers = partial(self._part_sampler.sample, self.exchange), 0

        def sample(position: int) -> Any:
            number = position * world + rank if shared else position
            key = (seed, epoch, number) if shared else (seed, rank, epoch, number)
            positions = order[number * size : (number + 1) * size]
            seeds: Any = items.at(positions)
            if isinstance(seeds, dict) and not seeds:
                assert items.types is not None
                seeds = {items.types[0]: np.empty(0, np.int64)}
            try:
                with draws_keyed_by(*key), buffers.in_use():
                    return make(seeds)
            except Exception as error:
                error.add_note(f"(batch {position} of epoch {epoch} on rank {rank})")
                raise

        return Ordered(sample, first, self._count if last is None else last, workers, self._ahead * workers)

    def __iter__(self) -> Iterator[Any]:
        """Begin an epoch: the next one, or the rest of the one that :meth:`load_state_dict` gave; on all ranks."""
        if self._running is not None:
            self._running.close()
        progress = self._begin()
        if self.num_workers and self._part_sampler is None:
            make_formats(self.graph.topology, self.graph_sampler)
        sampled = self._sampled(progress.epoch, progress.position, self.num_workers)
        ahead = self._ahead if self.num_workers else 0
        schedule = EpochSchedule(
            self._features.sources,
            lambda first, last: self._sampled(progress.epoch, first, self.num_workers, last),
            lambda batch: ((source, ids) for _, _, source, ids in self._features.columns_of(batch)),
            progress.position,
            self._count,
            2 + ahead,
            self._scheduled_rows,
        )
        span = progress.position, self._count, min(ahead, 1), ahead
        self._running = Ordered(lambda _: self._with_features(sampled, schedule), *span, exchanges=True)
        self._now, self._next = progress, Progress(progress.epoch + 1, 0)
        return Epoch(self._running, progress, lambda batch: None)

    def _with_features(self, sampled: Ordered, schedule: EpochSchedule) -> Any:
        """Return the next batch with its features; all ranks call it, which a batch that failed takes part in too."""
        batch, failed = None, None
        by_source: dict[Source, list[tuple[Any, str, Any]]] = {}
        requests: list[tuple[PartitionedRows, Any]] = []
        try:
            schedule.begin_batch()
            batch = next(sampled)
            for frame, name, source, ids in self._features.columns_of(batch):
                by_source.setdefault(source, []).append((frame, name, ids))
            requests = [(schedule.rows_of(x), torch.cat([ids for _, _, ids in by_source[x]])) for x in by_source]
        except Exception as error:
            failed = error
        rows = fetch(self.exchange, requests, failed, self._features.label)
        for columns, values in zip(by_source.values(), rows, strict=True):
            parts = values.split([len(ids) for _, _, ids in columns])
            for (frame, name, _), part in zip(columns, parts, strict=True):
                frame[name] = part
        return batch if self.device is None else moved(batch, self.device)

    def hot_rows(self, capacity: int, ntype: str | None = None) -> np.ndarray:
        """Return the other ranks' nodes that this rank's next epoch needs most, for :meth:`DistTensor.cache`.

        The epoch is sampled once, without features (pre-sampling, as GNNLab does). No exchange, unless the topology is
        partitioned: all ranks call it then, and before they begin an epoch.

        Parameters
        ----------
        capacity
            nodes wanted; fewer are returned where batches need no more.
        ntype
            type of the nodes, where there are several.
        """
        ranges, rank = self.graph.get_partition_book().ranges_of("node", ntype), self.exchange.rank

        def batches() -> Iterator[tuple[np.ndarray]]:
            for batch in self._sampled(self._next.epoch, 0, 0):
                ids = integer_array(batch[0][ntype] if isinstance(batch[0], dict) else batch[0])
                yield (ids[ranges.outside(ids, rank)],)

        return hot_rows(batches(), ranges.count, capacity)


class DistNodeDataLoader(_DistLoader):
    """Iterates over batches of nodes of a partitioned graph, with blocks and their features.

    All ranks make it, and go through as many batches; features come by collectives, several tensors by one. A rank
    whose nodes have come to an end before the others' has batches without seeds. If the graph's reads are one-sided,
    each rank makes and goes through its own loaders whenever it likes, and has batches of its own nodes only.

    Raises RankError: on any rank: nodes, the sampler and the graph do not fit, a feature does not exist, or an argument
    that is to be the same on all ranks is not; in an epoch, a batch cannot be made; TypeError: ``g`` is no
    :class:`DistGraph`, or an argument is unknown.

    Parameters
    ----------
    g
        the graph.
    nids
        this rank's nodes, such as :func:`node_split` gives; a dictionary by type where there are several. With
        ``shared``, the nodes of all ranks, the same on each.
    graph_sampler
        a sampler of blocks, such as :class:`dglite.dataloading.NeighborSampler`, which reads ``g.topology``. Features
        that it prefetches are names of ``g``, or ``{"x": tensor}`` with a :class:`DistTensor`, or with
        :class:`~dglite.dataloading.ScheduledFeatures` of one, whose rows of other ranks are cached by Belady's rule.
    device
        where to put batches; the CPU by default.
    batch_size, shuffle, drop_last
        nodes in a batch of this rank; whether to shuffle in each epoch; whether to leave out a smaller last batch.
    num_workers
        threads that sample ahead; with any, one more fetches features ahead, over a group of processes of its own.
    shared
        batch i of an epoch is made by rank i modulo the number of ranks, and what is drawn for it depends on i alone,
        with nodes in the order of the graph that was partitioned. So the batches of an epoch are the same, but for the
        nodes' new ids, for any number of ranks and any partition. Otherwise each rank's nodes are its own business, and
        most of what they need is its own, too.
    generator
        torch's or NumPy's, from which the seed of shuffling and sampling is drawn; by default it follows
        :func:`dglite.seed`. The first rank's counts.
    prefetch_factor
        batches that each thread may be ahead: 2.

    Notes
    -----
    A sampler's ``prob`` or ``mask`` is a feature of ``g``, as it is when the loader is made. Features other than those
    that the sampler prefetches are read by ``g.ndata[name][input_nodes]``, by all ranks.
    A loop that is left early is left by all ranks after as many batches.

    Where the topology is partitioned, samplers are :class:`dglite.dataloading.NeighborSampler`, without times, and
    :class:`dglite.dataloading.LaborSampler`, without importance sampling, both of in-edges. Batches are those of a
    replicated topology. They are sampled by exchanges in the thread that fetches features, whatever the
    number of workers above 0.
    """

    def __init__(self, g: DistGraph, nids: Any, graph_sampler: Any, device: Any = None, **kwargs: Any) -> None:
        super().__init__("node", g, nids, graph_sampler, device, **kwargs)


class DistEdgeDataLoader(_DistLoader):
    """Iterates over batches of edges of a partitioned graph; see :class:`DistNodeDataLoader`.

    Parameters
    ----------
    g, device, kwargs
        as for :class:`DistNodeDataLoader`.
    eids
        this rank's edges, such as :func:`edge_split` gives; a dictionary by type where there are several.
    graph_sampler
        a sampler of blocks, or what :func:`dglite.dataloading.as_edge_prediction_sampler` made of one.
    exclude, reverse_eids, reverse_etypes, negative_sampler
        as for :func:`dglite.dataloading.as_edge_prediction_sampler`, where ``graph_sampler`` is a sampler of blocks.
        Where the topology is partitioned, negative pairs are those of
        :class:`dglite.dataloading.negative_sampler.Uniform`.
    """

    def __init__(
        self,
        g: DistGraph,
        eids: Any,
        graph_sampler: Any,
        device: Any = None,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Any = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(graph_sampler, EdgePredictionSampler):
            graph_sampler = as_edge_prediction_sampler(
                graph_sampler, exclude, reverse_eids, reverse_etypes, negative_sampler
            )
        super().__init__("edge", g, eids, graph_sampler, device, **kwargs)
