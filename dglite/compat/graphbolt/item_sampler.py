"""Where pipes begin and end: batches of items, and the loader that runs the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import IterDataPipe

from ...dataloading.loader import Loader
from ...dataloading.order import BatchOrder, Share, check_count, check_flag, check_function
from ..base import dgl_warning
from .base import by_type
from .minibatch import MiniBatch
from .stages import applied_by, rewired, source_of

__all__ = [
    "DataLoader",
    "DistributedItemSampler",
    "ItemSampler",
    "MultiProcessDataLoader",
    "SingleProcessDataLoader",
    "minibatcher_default",
]

_NAMES = frozenset("seeds labels indexes seed_nodes node_pairs negative_dsts timestamp pre_time_window".split())
"""Names of items that stages know."""


def minibatcher_default(batch: Any, names: Sequence[str] | None) -> Any:
    """Return a :class:`MiniBatch` that has items by their names; without names, warn and return the items.

    Names that no stage knows become attributes too, with a warning.
    """
    if names is None:
        dgl_warning("the items have no names, such as 'seeds': batches are the items; name them, or give a minibatcher")
        return batch
    if unknown := [name for name in names if name not in _NAMES]:
        dgl_warning(f"items are named {unknown}, which no stage reads; they become attributes of the batches")
    columns = [batch] if len(names) == 1 else [by_type(itemgetter(i), batch) for i in range(len(names))]
    return MiniBatch(**dict(zip(names, columns, strict=True)))


class ItemSampler(IterDataPipe):
    """Batches of items: where a pipe begins. Stages are appended by their names, as ``.sample_neighbor(...)``.

    Iterating a pipe runs it here; :class:`DataLoader` runs it in threads.

    Raises TypeError: ``minibatcher`` is no function; ValueError: the batch size is no integer above 0, or a flag is
    neither True nor False.

    Parameters
    ----------
    item_set
        an :class:`ItemSet` or :class:`HeteroItemSet`.
    batch_size, drop_last, shuffle
        items of a batch; whether to leave out a smaller last batch, and to shuffle all items in each epoch.
    minibatcher
        makes a batch of its items and their names.
    seed
        what shuffling and sampling are keyed by; random if None.
    """

    def __init__(
        self,
        item_set: Any,
        batch_size: int,
        minibatcher: Callable[[Any, Any], Any] | None = minibatcher_default,
        drop_last: bool = False,
        shuffle: bool = False,
        seed: int | None = None,
        **_: Any,
    ) -> None:
        super().__init__()
        self.item_set, self.batch_size = item_set, check_count(batch_size, "batch_size", 1)
        self.drop_last, self._shuffle = check_flag(drop_last, "drop_last"), check_flag(shuffle, "shuffle")
        self.minibatcher = check_function(minibatcher, "minibatcher") or minibatcher_default
        self.seed = None if seed is None else check_count(seed, "seed", 0)

    def __iter__(self) -> Iterator[Any]:
        return self.batches([])

    def batches(self, functions: Sequence[Callable[[Any], Any]]) -> Iterator[Any]:
        """Return an iterator over the batches after some functions, computed by this thread."""
        return iter(_StageLoader(self, functions, 0))

    def share(self) -> tuple[Share, int, int, int | None]:
        """Return this process's rank, its first item, its number of items, and the most batches it gives, or None."""
        return Share(), 0, len(self.item_set), None


class DistributedItemSampler(ItemSampler):
    """An :class:`ItemSampler` that gives each process of ``torch.distributed`` its share of the items.

    Shares are runs of whole batches; each is shuffled by itself.

    Parameters
    ----------
    drop_uneven_inputs
        give every process as many batches as the one that has the fewest.
    """

    def __init__(
        self,
        item_set: Any,
        batch_size: int,
        minibatcher: Callable[[Any, Any], Any] | None = minibatcher_default,
        drop_last: bool = False,
        shuffle: bool = False,
        drop_uneven_inputs: bool = False,
        seed: int | None = None,
        **_: Any,
    ) -> None:
        super().__init__(item_set, batch_size, minibatcher, drop_last, shuffle, seed)
        self.drop_uneven_inputs = check_flag(drop_uneven_inputs, "drop_uneven_inputs")

    def share(self) -> tuple[Share, int, int, int | None]:
        share, count, size = Share.of_this_process(0), len(self.item_set), self.batch_size
        runs = np.array_split(np.arange(-(-count // size)), share.size)  # of whole batches
        bounds = np.minimum(np.cumsum([0, *map(len, runs)]) * size, count)
        items = np.diff(bounds)
        batches = items // size if self.drop_last else -(-items // size)
        limit = int(batches.min()) if self.drop_uneven_inputs else None
        return share, int(bounds[share.rank]), int(items[share.rank]), limit


class _FirstBatches(BatchOrder):
    """The first batches of each epoch, ``limit`` at most."""

    def __init__(self, limit: int, *order: Any) -> None:
        super().__init__(*order)
        self.limit = limit

    def __len__(self) -> int:
        return min(super().__len__(), self.limit)

    def of_epoch(self, epoch: int) -> list[np.ndarray]:
        return super().of_epoch(epoch)[: self.limit]


class _StageLoader(Loader):
    """Runs functions on the batches of an :class:`ItemSampler`, in threads."""

    def __init__(
        self, sampler: ItemSampler, functions: Sequence[Callable[[Any], Any]], num_workers: int, **others: Any
    ) -> None:
        share, self._first, count, limit = sampler.share()
        if count == 0:  # a loader needs something to load; of this it takes no batch
            count, limit = 1, 0
        self.item_sampler, self._functions = sampler, list(functions)
        seed = None if sampler.seed is None else np.random.default_rng(sampler.seed)
        super().__init__(
            count,
            sampler.batch_size,
            sampler.drop_last,
            sampler._shuffle,
            False,
            0,
            num_workers=num_workers,
            generator=seed,
            **others,
        )
        self._share = share
        if limit is not None:
            order = self.drop_last, self.shuffle, None, None, self._seed, Share()
            self._order = _FirstBatches(limit, count, sampler.batch_size, *order)

    def _make(self, positions: np.ndarray) -> Any:
        sampler = self.item_sampler
        items = sampler.item_set
        batch = sampler.minibatcher(items[torch.from_numpy(positions + self._first)], items.names)
        for function in self._functions:
            batch = function(batch)
        return batch


class DataLoader(_StageLoader):
    """Runs a pipe; ``num_workers`` are threads of this process, and batches the same for any number.

    Stages that are functions of a batch run in the threads; from the first pipe on that iterates in a way of its own,
    such as torch's ``filter``, stages run where the loader is iterated. Options of prefetching are accepted.

    Raises TypeError: ``datapipe`` is no pipe.

    Parameters
    ----------
    datapipe
        the last stage of a pipe that begins with an :class:`ItemSampler`, or with any other pipe of torch's, which then
        is iterated by the thread that iterates the loader.
    num_workers
        threads; 0 for the one that iterates the loader.
    """

    def __init__(
        self,
        datapipe: Any,
        num_workers: int = 0,
        persistent_workers: bool = True,
        max_uva_threads: int = 10240,
        **others: Any,
    ) -> None:
        if not isinstance(datapipe, IterDataPipe):
            raise TypeError(
                f"datapipe must be an ItemSampler, or a stage after one, got {type(datapipe).__name__}; begin with "
                "ItemSampler(item_set, batch_size)"
            )
        chain = [datapipe]
        while (source := source_of(chain[0])) is not None:
            chain.insert(0, source)
        functions = []
        for pipe in chain[1:]:
            function = applied_by(pipe)
            if function is None:
                break
            functions.append(function)
        self.datapipe, self._rest = datapipe, chain[1 + len(functions) :]
        self._root = None if isinstance(chain[0], ItemSampler) else datapipe
        self.num_workers = check_count(num_workers, "num_workers", 0)
        if self._root is None:
            super().__init__(
                cast(ItemSampler, chain[0]), functions, num_workers, persistent_workers=bool(persistent_workers)
            )

    def __len__(self) -> int:
        """Return the number of batches that the item sampler gives in an epoch."""
        return super().__len__() if self._root is None else len(self._root)

    def __iter__(self) -> Iterator[Any]:
        """Begin an epoch."""
        if self._root is not None:
            return iter(self._root)
        epoch: Any = super().__iter__()
        for pipe in self._rest:
            epoch = rewired(pipe, _BatchPipe(epoch))
        return iter(epoch)


class _BatchPipe(IterDataPipe):
    """Batches that a loader makes, as a pipe."""

    def __init__(self, epoch: Iterator[Any]) -> None:
        super().__init__()
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        return iter(self._epoch)


SingleProcessDataLoader = MultiProcessDataLoader = DataLoader
