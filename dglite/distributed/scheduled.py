"""Other ranks' rows of the batches of an epoch, fetched as late and kept as long as Belady's rule says.

A loader whose sampler prefetches from ``ScheduledFeatures(tensor)`` samples its next batches first, without features;
see :mod:`dglite.dataloading.schedule`, whose plans are used here for rows that travel between ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast, final

import numpy as np
import torch

from ..backend import Tensor
from ..dataloading.belady import Reads
from ..dataloading.schedule import OTHER_ROWS, ScheduledFeatures
from ..errors import DGLError
from ..structure.distinct import distinct
from .fetch import PartitionedRows
from .store import row_bytes
from .tensor import DistTensor

Source = DistTensor | ScheduledFeatures
"""Where a loader's feature comes from: a tensor, or one whose rows of other ranks are cached by a plan."""
Columns = Iterable[tuple[Source, Any]]
"""Of a batch: the source of each feature, and the ids of its rows."""


def tensor_of(source: Source) -> DistTensor:
    """Return the partitioned tensor of a source."""
    return cast(DistTensor, source.store) if isinstance(source, ScheduledFeatures) else source


@final
class ScheduledRows:
    """A partitioned tensor, and a cache of other ranks' rows that is read and filled batch by batch, by a plan.

    It is a :class:`~dglite.distributed.fetch.PartitionedRows`. The first and the last of the reads are those of rows
    that were cached before, ``cached``, and of rows that stay for the next plan.
    """

    def __init__(self, source: ScheduledFeatures, reads: list[Reads], num_slots: int, cached: Tensor) -> None:
        tensor = tensor_of(source)
        self.name, self.shape, self.local = tensor.name, tensor.shape, tensor.local
        self.ranges, self.exchange, self.shared = tensor.ranges, tensor.exchange, tensor.shared
        self._source, self._tensor, self._reads, self._number = source, tensor, reads, 1
        self.cached_rows = tensor.local.new_empty((num_slots, *tensor.shape[1:]))
        self._filled, self._version = np.zeros(num_slots + 1, np.bool_), tensor.version  # the last is slot -1
        self._fill(reads[0].after, cached)

    def count(self, hits: int, misses: int) -> None:
        """Add to the counters of the source."""
        self._source.hits += hits
        self._source.misses += misses

    def checked(self, ids: Any) -> np.ndarray:
        """Return ids as int64."""
        return self._tensor.checked(ids)

    def rows(self, ids: Any) -> Tensor:
        """Return rows by id, past the cache."""
        return self._tensor.rows(ids)

    def cache_positions(self, ids: np.ndarray) -> np.ndarray:
        """Return the slots of the next batch's ids, -1 for those to fetch; ``ids`` are distinct and ascending."""
        if self._version != self._tensor.version:  # rows were written since: what is cached may be old
            self._filled[:], self._version = False, self._tensor.version
        foreign = self.ranges.outside(ids, self.exchange.rank)
        if self._number >= len(self._reads) - 1 or not np.array_equal(ids[foreign], self._reads[self._number].rows):
            raise DGLError(OTHER_ROWS)
        slots = self._reads[self._number].before
        positions = np.full(len(ids), -1)
        positions[foreign] = np.where(self._filled[slots], slots, -1)
        return positions

    def keep(self, ids: np.ndarray, rows: Tensor) -> None:
        """Put those rows of a batch into the cache that a later one needs; the next batch follows."""
        foreign = torch.from_numpy(np.flatnonzero(self.ranges.outside(ids, self.exchange.rank)))
        self._fill(self._reads[self._number].after, rows[foreign])
        self._number += 1

    def _fill(self, slots: np.ndarray, rows: Tensor) -> None:
        """Put each row into its slot, or nowhere if that is -1."""
        staying = np.flatnonzero(slots >= 0)
        slots = slots[staying].astype(np.int64)
        self.cached_rows[torch.from_numpy(slots)] = rows[torch.from_numpy(staying)]
        self._filled[slots] = True

    def cached(self) -> tuple[np.ndarray, Tensor]:
        """Return the ids of the rows that stay for the next plan, and the rows: none of an epoch that was not ended.

        And none that are older than the last writing.
        """
        last = self._reads[-1]
        present = self._filled[last.before]
        if self._number < len(self._reads) - 1 or self._version != self._tensor.version:
            present[:] = False
        return last.rows[present], self.cached_rows[torch.from_numpy(last.before[present].astype(np.int64))]


@final
class EpochSchedule:
    """The plans of an epoch's batches for the scheduled sources of a loader, made as batches come to them.

    Parameters
    ----------
    sources
        where features come from; nothing is planned where none is scheduled.
    sample
        of two positions, samples the batches between them.
    columns_of
        returns the features of a batch.
    first, last
        positions of the first batch, and behind the last one.
    in_flight
        batches that are in memory at a time.
    rows
        those of the last epoch, which this one begins with, by source; replaced as batches are planned.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        sample: Callable[[int, int], Iterable[Any]],
        columns_of: Callable[[Any], Columns],
        first: int,
        last: int,
        in_flight: int,
        rows: dict[ScheduledFeatures, ScheduledRows],
    ) -> None:
        self._sources = [source for source in dict.fromkeys(sources) if isinstance(source, ScheduledFeatures)]
        self._sample, self._columns_of, self._in_flight = sample, columns_of, in_flight
        self._position, self._planned, self._last = first, first, last
        self._together = min((x.batches for x in self._sources if x.batches is not None), default=last - first)
        self._rows = rows

    def begin_batch(self) -> None:
        """Plan the next batches if the next one is not planned; where the structure is partitioned, all ranks do."""
        if self._sources and self._position == self._planned < self._last:
            self._plan(self._planned, min(self._planned + self._together, self._last))
        self._position += 1

    def rows_of(self, source: Source) -> PartitionedRows:
        """Return what a source's rows of the present batch are fetched from."""
        return self._rows[source] if isinstance(source, ScheduledFeatures) else source

    def _plan(self, first: int, last: int) -> None:
        needed: dict[ScheduledFeatures, list[np.ndarray]] = {source: [] for source in self._sources}
        for batch in self._sample(first, last):
            by_source: dict[Source, list[np.ndarray]] = {}
            for source, ids in self._columns_of(batch):
                by_source.setdefault(source, []).append(tensor_of(source).checked(ids))
            for source in self._sources:
                needed[source].append(distinct(np.concatenate([np.empty(0, np.int64), *by_source.get(source, ())])))
        for source, ids in needed.items():
            tensor = tensor_of(source)
            foreign = [x[tensor.ranges.outside(x, tensor.exchange.rank)] for x in ids]
            most = max(map(len, ids), default=0)
            cached_ids, cached = np.empty(0, np.int64), tensor.local[:0]
            if source in self._rows:
                cached_ids, cached = self._rows.pop(source).cached()  # and so frees the cache
            reads, num_slots = source.plan_reads(
                foreign, most, self._in_flight, row_bytes(tensor.local), cached=cached_ids
            )
            self._rows[source] = ScheduledRows(source, reads, num_slots, cached)
        self._planned = last
