"""The base of the loaders: epochs, worker threads, resumption."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from operator import index
from typing import Any

import numpy as np

from ..arguments import explain_constructors, unexpected
from ..backend import framework, name
from ..config import num_cores
from ..errors import DGLError
from ..random import draws_keyed_by
from .buffers import Buffers
from .order import BatchOrder, Share, check_count, check_flag, check_function, seed_from
from .pipeline import Ordered

_ACCEPTED = frozenset(
    "pin_memory pin_memory_device persistent_workers timeout multiprocessing_context in_order batch_size".split()
)
"""Options of torch's loader that mean nothing to threads of one process."""

_FIXED = frozenset(
    "batch_size drop_last shuffle sampler batch_sampler use_ddp ddp_seed generator dataset indices".split()
)
"""What the order of items is made of, once."""

_SHOWN = 8
"""Items of a batch that an error names."""


class Progress:
    """The position in an epoch."""

    __slots__ = ("epoch", "position")

    def __init__(self, epoch: int, position: int) -> None:
        self.epoch, self.position = epoch, position


class Resumable:
    """Base of loaders that can resume an epoch: ``len``, and the methods that return and set the position."""

    _seed: int
    _next: Progress
    _now: Progress | None

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def _begin(self) -> Progress:
        """Return the start position of the epoch that ``iter`` begins.

        Raises DGLError: the place is beyond the epoch's end.
        """
        progress = Progress(self._next.epoch, self._next.position)
        if progress.position > len(self):
            raise DGLError(
                f"the state is of batch {progress.position} of an epoch, but epochs have {len(self)} batches; load "
                "it into a loader of the same items, batch size and number of processes"
            )
        return progress

    def state_dict(self) -> dict[str, int]:
        """Return the position in the current epoch: batches returned so far, not those prefetched."""
        now = self._now or self._next
        epoch, position = now.epoch, now.position
        if self._now is not None and position >= len(self):
            epoch, position = epoch + 1, 0
        return {"seed": self._seed, "epoch": epoch, "position": position}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Let the next ``iter`` continue from a position that :meth:`state_dict` returned.

        It then gives the batches that the other loader would have given next, if both have the same arguments.

        Raises DGLError: the state has other keys than that, or values that are no integers from 0 on.
        """
        seed, epoch, position = checked_state(state_dict)
        self._seed, self._next, self._now = seed, Progress(epoch, position), None

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, by which it shuffles and draws; later epochs count on from it.

        Without it they count themselves. Training loops of several processes commonly call it.
        """
        self.load_state_dict({**self.state_dict(), "epoch": epoch, "position": 0})


def checked_state(state_dict: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the seed, epoch and position in the state of a loader.

    Raises ``DGLError``: the state has other keys than that, or values that are no integers from 0 on.
    """
    if not isinstance(state_dict, Mapping):
        raise DGLError(f"the state of a loader is a dictionary of seed, epoch and position; got {state_dict!r}")
    if set(state_dict) != {"seed", "epoch", "position"}:
        raise DGLError(f"the state of a loader has seed, epoch and position; got {sorted(state_dict, key=str)}")
    return _natural(state_dict, "seed"), _natural(state_dict, "epoch"), _natural(state_dict, "position")


def _natural(state_dict: Mapping[str, int], key: str) -> int:
    value = state_dict[key]
    try:
        number = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise DGLError(f"the {key} in the state of a loader must be an integer >= 0, got {value!r}")
    return number


_TORCH: Any = framework.utils.data if name == "torch" else None
_Base: Any = object if _TORCH is None else _TORCH.DataLoader


class Loader(Resumable, _Base):
    """An iterable over batches, one epoch per ``iter``, made by the calling thread or prefetched by worker threads.

    With torch it is a ``torch.utils.data.DataLoader`` to those who ask, such as Lightning, and has its attributes, but
    nothing of it runs. Its ``sampler`` then says how items are ordered.

    Attributes
    ----------
    num_workers
        threads that make batches; 0 for none.
    batch_size, drop_last, shuffle, use_ddp, ddp_seed
        as given.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        explain_constructors(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and name in self.__dict__ and "_order" in self.__dict__:
            loader = type(self).__name__
            raise AttributeError(
                f"{name} of a {loader} cannot be set, since its order of items is made from it: make another, "
                f"{loader}(..., {name}={value!r:.40})"
            )
        super().__setattr__(name, value)

    def __init__(
        self,
        count: int,
        batch_size: int | None,
        drop_last: bool,
        shuffle: bool | None,
        use_ddp: bool,
        ddp_seed: int,
        num_workers: int = 0,
        generator: Any = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        prefetch_factor: int | None = None,
        worker_init_fn: Callable[[int], None] | None = None,
        **others: Any,
    ) -> None:
        unknown = sorted(set(others) - _ACCEPTED)
        if unknown:
            names = [*inspect.signature(type(self)).parameters, *inspect.signature(Loader.__init__).parameters]
            named = [each for each in names if each not in ("self", "kwargs", "others", "count")]
            raise unexpected(type(self).__name__, unknown[0], dict.fromkeys(named))
        self.num_workers = check_count(num_workers, "num_workers", 0)
        self.prefetch_factor = None if prefetch_factor is None else check_count(prefetch_factor, "prefetch_factor", 1)
        self.worker_init_fn, self.generator = check_function(worker_init_fn, "worker_init_fn"), generator
        self.batch_size, self.drop_last = batch_size, check_flag(drop_last, "drop_last")
        self.shuffle = shuffle is not None and check_flag(shuffle, "shuffle")  # torch's default is None
        self.use_ddp, self.ddp_seed = check_flag(use_ddp, "use_ddp"), check_count(ddp_seed, "ddp_seed", 0)
        self._share = Share.of_this_process(self.ddp_seed) if self.use_ddp else Share()
        self._seed = seed_from(generator)
        self.sampler = sampler if sampler is not None or _TORCH is None else self._sampler_of(count)
        self.batch_sampler = batch_sampler
        order = self.drop_last, self.shuffle, sampler, batch_sampler, self._seed, self._share
        self._order = BatchOrder(count, batch_size, *order)
        self._next = Progress(0, 0)
        self._now: Progress | None = None
        self._buffers = Buffers()
        self.pin_memory, self.pin_memory_device = bool(others.get("pin_memory", False)), ""
        self.persistent_workers, self.timeout = bool(others.get("persistent_workers", False)), 0
        self.in_order = True
        if _TORCH is not None:
            self.multiprocessing_context = None

    def _sampler_of(self, count: int) -> Any:
        """Return torch's sampler of the same order: training loops look at its class."""
        items = range(count)
        if self.use_ddp:
            ranks = self._share.size, self._share.rank
            return _TORCH.DistributedSampler(items, *ranks, self.shuffle, self.ddp_seed, self.drop_last)
        return (_TORCH.RandomSampler if self.shuffle else _TORCH.SequentialSampler)(items)

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self._order)

    def __iter__(self) -> Iterator[Any]:
        """Begin an epoch: the next one, or the rest of the one that :meth:`load_state_dict` gave."""
        progress = self._begin()
        self._order.seed = self._seed
        batches = self._order.of_epoch(progress.epoch)
        if self.num_workers:
            self._prepare()
        make, draws = self._maker(progress, batches), self._draws(progress.epoch)

        def produce(position: int) -> Any:
            try:
                with draws(position):
                    return make(position)
            except Exception as error:
                error.add_note(f"(batch {position} of epoch {progress.epoch}: {self._describe(batches[position])})")
                raise

        ahead = self._ahead()
        results = Ordered(produce, progress.position, len(batches), self.num_workers, ahead, self.worker_init_fn)
        self._now, self._next = progress, Progress(progress.epoch + 1, 0)
        return Epoch(results, progress, self._received)

    def _draws(self, epoch: int) -> Callable[[int], AbstractContextManager[None]]:
        """Return a context for each position: draws are keyed by it, and features gathered into the loader's memory."""
        seed, rank, buffers = self._seed, self._share.rank, self._buffers

        @contextmanager
        def draws(position: int) -> Iterator[None]:
            with draws_keyed_by(seed, rank, epoch, position), buffers.in_use():
                yield

        return draws

    def _maker(self, progress: Progress, batches: list[np.ndarray]) -> Callable[[int], Any]:
        """Return the function that makes the batch at a position of an epoch that begins at ``progress``."""
        make = self._make
        return lambda position: make(batches[position])

    def _ahead(self) -> int:
        """Return the most batches in progress or waiting: by default one for each core at work, and two more."""
        if self.prefetch_factor is not None:
            return self.prefetch_factor * self.num_workers
        return min(2 * self.num_workers, num_cores() + 2)

    def _prepare(self) -> None:
        """Make what threads would otherwise each make for themselves."""

    def _make(self, positions: np.ndarray) -> Any:
        """Return the batch of some items."""
        raise NotImplementedError(f"{type(self).__name__} must define _make(positions), which returns a batch")

    def _received(self, batch: Any) -> None:
        """Hook: runs in the consumer's thread when a batch is delivered."""

    def _describe(self, positions: np.ndarray) -> str:
        """Return a batch's items, in words for an error."""
        return f"items {shortened(positions)}"

    @contextmanager
    def enable_cpu_affinity(
        self, loader_cores: Any = None, compute_cores: Any = None, verbose: bool = True
    ) -> Iterator[None]:
        """Do nothing: the operating system schedules threads. For scripts that call it."""
        yield


class Epoch:
    """The batches of an epoch, counted as they are taken."""

    def __init__(self, batches: Any, progress: Progress, received: Callable[[Any], None]) -> None:
        self._batches, self._progress, self._received = batches, progress, received

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        batch = next(self._batches)
        self._progress.position += 1
        self._received(batch)
        return batch

    def close(self) -> None:
        """End the worker threads; no more batches are returned."""
        self._batches.close()


def shortened(ids: Any) -> str:
    """Format a long list of ids, abbreviated."""
    listed = ids[:_SHOWN].tolist()
    rest = len(ids) - len(listed)
    return f"{listed}" if rest <= 0 else f"{str(listed)[:-1]}, ... {rest} more]"
