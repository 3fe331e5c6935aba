"""Features whose reads are known before an epoch begins, with the best cache there is: Belady's.

The draws of a batch are keyed by its place in the epoch, so that a batch can be sampled twice. A loader whose sampler
prefetches from :class:`ScheduledFeatures` samples its next batches first, without features, and from the rows that
these need plans which rows are read when, which are kept, and where.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import numpy as np

from ..backend import Tensor, active
from ..backend.memory import spelt_bytes
from ..errors import DGLError
from ..locks import new_lock
from ..structure.distinct import distinct, numbered
from ..structure.ids import as_ids, count_of
from ..structure.sizes import memory_limit
from .base import Sampler, recorded_requests
from .belady import Reads, planned_reads
from .features import FeatureStore, TensorFeatures, gather_into, target_of
from .pipeline import Ordered

_KEPT, _PLANNING = 16, 48
"""Bytes of a plan for each row of each batch, and while it is made."""
OTHER_ROWS = (
    "the sampler asks for other rows than when the epoch was planned: what it draws must follow from the seeds and "
    "from dglite.random.generator() alone, so that it can be drawn twice; or prefetch from the store without "
    "ScheduledFeatures"
)


@final
class ScheduledFeatures:
    """A feature store with a cache in memory for rows that later batches of the epoch need, by Belady's rule.

    For a sampler of :class:`DataLoader`, in place of ``store``: before its first batch the loader samples the epoch's,
    without features, and so knows all their rows. Rows that are read come in ascending order; a row is kept as long as
    a later batch needs it and those that are needed sooner leave room, which is the least that any cache of that size
    can read. Batches are the same for any limit and number of workers. Rows that are asked for elsewhere come from
    ``store``.

    Raises DGLError: ``store`` is no store; when an epoch begins: the limit is smaller than its batches need, or the
    sampler asks for other rows than it did before, as one does that draws from another generator than
    ``dglite.random``'s.

    Parameters
    ----------
    store
        where rows come from. They are cached as it returns them: with ``widen=False`` halves stay halves.
    memory
        limit in bytes, or text such as ``"2 GB"``, for the plan, the rows of the batches that are made or wait, and the
        cache; half of the free memory by default.
    batches
        number of batches that are planned together; all of an epoch by default. What the plan holds is 16 bytes for
        each row of each batch; with fewer batches it is smaller and the cache begins empty for each.

    Attributes
    ----------
    num_rows
        of the store.
    hits, misses
        rows that batches found in the cache, and rows that were read, so far.
    capacity
        rows that the cache may hold in the current plan.
    planned
        rows that the current plan asks for; ``planned_reads`` those it reads, the least possible with ``capacity``;
        ``distinct`` those it would read with any capacity.

    Examples
    --------
    >>> import dglite, torch
    >>> from dglite.dataloading import DataLoader, NeighborSampler, ScheduledFeatures, TensorFeatures
    >>> g = dglite.rand_graph(100, 1000)
    >>> store = ScheduledFeatures(TensorFeatures(torch.rand(100, 8)), memory="10 MB")
    >>> sampler = NeighborSampler([5, 5], prefetch_node_feats={"x": store})
    >>> batches = list(DataLoader(g, torch.arange(100), sampler, batch_size=10))
    >>> store.misses == store.distinct
    True
    """

    def __init__(self, store: Any, memory: int | str | None = None, batches: int | None = None) -> None:
        if not isinstance(store, FeatureStore):
            raise DGLError(f"expected a store of features with rows(ids), got {type(store).__name__}")
        self.store, self.num_rows, self.memory = store, store.num_rows, memory_limit(memory, 1)
        self.batches = None if batches is None else count_of(batches, "batches", 1)
        self.hits = self.misses = self.capacity = self.planned = self.planned_reads = self.distinct = 0
        self._counting = new_lock()

    @property
    def hit_rate(self) -> float:
        """The share of rows that were found in the cache; 0 before any was asked for."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0

    def __repr__(self) -> str:
        """Return the rate of hits, and beside what the current plan reads the least possible with more memory."""
        return (
            f"ScheduledFeatures({self.hits:,} of {self.hits + self.misses:,} rows found in the cache, "
            f"{100 * self.hit_rate:.1f}%; the plan reads {self.planned_reads:,} of {self.planned:,} rows, the least "
            f"possible with {self.capacity:,} rows of memory; {self.distinct:,} with any)"
        )

    def rows(self, ids: Any, out: Any = None) -> Tensor:
        """Return the rows ``ids``, as the store does."""
        rows = np.ascontiguousarray(as_ids(ids, self.num_rows, "row"))
        batch = _here.batch
        if batch is None or self not in batch.plans:
            result: Tensor = self.store.rows(rows, out)
            return result
        plan = batch.plans[self]
        target, result = target_of((len(rows), *plan.shape), plan.dtype, out)
        hits, misses = plan.read(self.store, batch.next_request(self), rows, target)
        with self._counting:
            self.hits += hits
            self.misses += misses
        return result

    def plan(self, requests: Sequence[np.ndarray], most: int, in_flight: int) -> _StorePlan:
        """Return the plan of some batches' requests.

        ``most`` is the highest number of rows of a batch, and ``in_flight`` of batches that are in memory at a time.
        """
        sample = active.to_numpy(self.store.rows(np.empty(0, np.int64)))
        row_bytes = sample.itemsize * int(np.prod(sample.shape[1:]))
        reads, num_slots = self.plan_reads(requests, most, in_flight, row_bytes)
        return _StorePlan(reads, np.empty((num_slots, *sample.shape[1:]), sample.dtype))

    def plan_reads(
        self,
        requests: Sequence[np.ndarray],
        most: int,
        in_flight: int,
        row_bytes: int,
        cached: np.ndarray | None = None,
    ) -> tuple[list[Reads], int]:
        """Return the reads of some batches' requests, and the number of slots of the cache; see :meth:`plan`.

        With ``cached``, the distinct rows that are in memory before, a request for these comes first, and last one for
        the rows that were asked for most often, which stay for the next plan as far as there is room.
        """
        total = sum(map(len, requests))
        waiting = most * row_bytes * in_flight
        self.capacity = (self.memory - _KEPT * total - waiting) // max(row_bytes, 1)
        if self.capacity < 0 or self.memory < _PLANNING * total:
            needed = max(_KEPT * total + waiting, _PLANNING * total)
            raise DGLError(
                f"memory={spelt_bytes(self.memory)} is too little: {needed:,} bytes are needed, {waiting:,} of "
                f"them for {in_flight} batches of up to {most:,} rows that are made or wait, the others for the plan "
                f"of {total:,} rows; raise memory, or lower batch_size, num_workers, or the batches that are planned "
                "together, batches="
            )
        rows, counts = np.unique(np.concatenate([*requests, np.empty(0, np.int64)]), return_counts=True)
        self.planned, self.distinct = total, len(rows)
        if cached is None:
            reads, num_slots = planned_reads(requests, self.capacity)
            self.planned_reads = sum(int((x.before < 0).sum()) for x in reads)
        else:
            lasting = np.sort(rows[np.argsort(-counts, kind="stable")[: self.capacity]])
            reads, num_slots = planned_reads([cached, *requests, lasting], self.capacity)
            self.planned_reads = sum(int((x.before < 0).sum()) for x in reads[1:-1])
            self.distinct -= len(np.intersect1d(rows, cached, assume_unique=True))
        return reads, num_slots


class _StorePlan:
    """The reads of a store for some batches, and the cache. Threads use the cache in the order of the requests."""

    def __init__(self, reads: list[Reads], cache: np.ndarray) -> None:
        self.shape, self.dtype = cache.shape[1:], str(cache.dtype)
        self._reads, self._cache = reads, cache
        self._turn, self._broken, self._changed = 0, len(reads), threading.Condition()

    def read(self, store: Any, number: int, ids: np.ndarray, target: np.ndarray) -> tuple[int, int]:
        """Write the rows of a request; return how many were in the cache, and how many were read."""
        rows, inverse = numbered(ids)
        if number >= len(self._reads) or not np.array_equal(rows, self._reads[number].rows):
            raise DGLError(OTHER_ROWS)
        _, before, after = self._reads[number]
        places = np.empty(len(rows), np.int64)
        places[inverse] = np.arange(len(ids))
        missing, present, staying = (np.flatnonzero(x) for x in (before < 0, before >= 0, after >= 0))
        gather_into(store, rows[missing], places[missing], target)
        with self._changed:
            while self._turn < number <= self._broken:
                self._changed.wait()
            if number > self._broken:
                raise DGLError("an earlier batch failed")
        cache = TensorFeatures(self._cache, widen=False)
        cache.gather(before[present], places[present], target)
        TensorFeatures(target, widen=False).gather(places[staying], after[staying].astype(np.int64), self._cache)
        with self._changed:
            self._turn = number + 1
            self._changed.notify_all()
        if len(rows) < len(ids):
            first = places[inverse]
            repeated = np.flatnonzero(first != np.arange(len(ids)))
            target[repeated] = target[first[repeated]]
        return len(present), len(missing)

    def stop_at(self, number: int) -> None:
        """Let requests after ``number`` raise an error, since it never comes."""
        with self._changed:
            self._broken = min(self._broken, number)
            self._changed.notify_all()


class _PlannedBatch(NamedTuple):
    """A batch that is made: the plans of stores, and the numbers of its next request and of the next batch's."""

    plans: dict[ScheduledFeatures, _StorePlan]
    following: dict[ScheduledFeatures, list[int]]

    def next_request(self, store: ScheduledFeatures) -> int:
        """Return the number of the next request to a store."""
        numbers = self.following[store]
        if numbers[0] == numbers[1]:
            raise DGLError(OTHER_ROWS)
        numbers[0] += 1
        return numbers[0] - 1


class _Thread(threading.local):
    batch: _PlannedBatch | None = None


_here = _Thread()


@final
class Schedule:
    """The plans of an epoch's batches for the stores of a sampler, made as batches come to them.

    Parameters
    ----------
    sample
        called with the position of a batch: samples it.
    first, count
        position of the first batch, and the number of batches of the epoch.
    stores
        the stores that the sampler prefetches from.
    workers, in_flight
        threads that sample, and batches that are in memory at a time.
    """

    def __init__(
        self,
        sample: Callable[[int], Any],
        first: int,
        count: int,
        stores: list[ScheduledFeatures],
        workers: int,
        in_flight: int,
    ) -> None:
        self._sample, self._count, self._stores = sample, count, stores
        self._workers, self._in_flight = workers, in_flight
        self._together = min((store.batches for store in stores if store.batches is not None), default=count)
        self._plans: dict[ScheduledFeatures, _StorePlan] = {}
        self._numbers: dict[ScheduledFeatures, np.ndarray] = {}
        self._first, self._last, self._unfinished = first, first, 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @contextmanager
    def batch(self, position: int) -> Iterator[None]:
        """Let the stores' requests of this thread be those of a batch."""
        batch = self._begin(position)
        outer, _here.batch = _here.batch, batch
        try:
            yield
            if any(numbers[0] != numbers[1] for numbers in batch.following.values()):
                raise DGLError(OTHER_ROWS)
        except BaseException:
            for store, plan in batch.plans.items():
                plan.stop_at(batch.following[store][0] - 1)
            raise
        finally:
            _here.batch = outer
            with self._changed:
                self._unfinished -= 1
                self._changed.notify_all()

    def _begin(self, position: int) -> _PlannedBatch:
        with self._changed:
            while position >= self._last and self._error is None:
                if self._unfinished:
                    self._changed.wait()
                    continue
                try:
                    self._plan()
                except BaseException as error:
                    self._error = error
                    self._changed.notify_all()
            if position >= self._last and self._error is not None:
                raise self._error
            place = position - self._first
            following = {store: numbers[place : place + 2].tolist() for store, numbers in self._numbers.items()}
            return _PlannedBatch(self._plans, following)

    def _plan(self) -> None:
        """Plan the next batches, once those before have been made."""
        first, last = self._last, min(self._last + self._together, self._count)
        self._plans = {}  # frees the caches
        requests = list(Ordered(self._requests_of, first, last, self._workers, last - first))
        for store in self._stores:
            by_batch = [[rows for source, rows in batch if source is store] for batch in requests]
            numbers = np.concatenate([[0], np.cumsum([len(batch) for batch in by_batch])])
            most = max(sum(map(len, batch)) for batch in by_batch)
            self._numbers[store] = numbers
            self._plans[store] = store.plan([rows for batch in by_batch for rows in batch], most, self._in_flight)
        self._first, self._last, self._unfinished = first, last, last - first

    def _requests_of(self, position: int) -> list[tuple[Any, np.ndarray]]:
        with recorded_requests() as requests:
            self._sample(position)
        return [
            (store, distinct(as_ids(ids, store.num_rows, "row")))
            for store, ids in requests
            if isinstance(store, ScheduledFeatures)
        ]


def scheduled_stores(sampler: Any) -> list[ScheduledFeatures]:
    """Return the stores with a schedule that a sampler, or samplers inside it, prefetch from."""
    values, stores = [sampler], []
    while values:
        value = values.pop()
        if isinstance(value, ScheduledFeatures):
            stores.append(value)
        elif isinstance(value, Mapping):
            values.extend(value.values())
        elif isinstance(value, Sampler):
            values.extend(x for x in vars(value).values() if isinstance(x, Mapping | Sampler))
    return list(dict.fromkeys(stores))
