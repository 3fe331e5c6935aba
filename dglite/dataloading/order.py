"""Which items make up which batch of an epoch: shuffling, shares of ranks, torch samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backend import framework, name
from ..errors import DGLError
from ..random import draw_key
from ..structure.ids import integer_array

_SHUFFLE = 1
"""Set apart from a batch's draws, whose keys are longer."""


class Share(NamedTuple):
    """The part of one process, of several that train together."""

    rank: int = 0
    size: int = 1
    seed: int = 0

    @classmethod
    def of_this_process(cls, seed: int) -> Share:
        """Return the share of this rank by ``torch.distributed``.

        Raises ``DGLError``: the processes have not been joined into a group.
        """
        group = framework.distributed if name == "torch" else None
        if group is None or not group.is_available() or not group.is_initialized():
            raise DGLError(
                "use_ddp=True and DistributedItemSampler share batches among processes; call "
                "torch.distributed.init_process_group(...) before the loader is made"
            )
        return cls(group.get_rank(), group.get_world_size(), seed)


def check_count(value: Any, argument: str, least: int) -> int:
    """Return an argument that counts something.

    Raises ``ValueError``: it is no integer, or below ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{argument} must be an integer >= {least}, got {value!r}")
    return int(value)


def check_flag(value: Any, argument: str) -> bool:
    """Return an argument that is True or False, or 1 or 0.

    Raises ``ValueError``: it is something else, which might be meant for another argument.
    """
    if not isinstance(value, bool | int | np.bool_ | np.integer) or value not in (0, 1):
        raise ValueError(f"{argument} must be True or False, got {value!r}")
    return bool(value)


def check_function(value: Callable[..., Any] | None, argument: str) -> Callable[..., Any] | None:
    """Return an argument that is a function, or None.

    Raises ``TypeError``: it is something else.
    """
    if value is not None and not callable(value):
        raise TypeError(f"{argument} must be a function or None, got {value!r}")
    return value


def check_order(value: Any, argument: str, each: str) -> Any:
    """Return an argument that decides the order of an epoch, as torch's samplers do, or None.

    Raises ``TypeError``: it has no length, or cannot be iterated over again for each epoch.
    """
    methods = ("__iter__", "__len__")
    if value is not None and not all(callable(getattr(value, method, None)) for method in methods):
        raise TypeError(
            f"{argument} must be a list of {each}, or another object with a length that is iterated over once for each "
            f"epoch, such as torch's samplers; got {value!r}"
        )
    return value


def seed_from(generator: Any) -> int:
    """Return the seed of a loader: from torch's or NumPy's generator, or by default from :func:`dglite.seed`'s.

    Raises ``TypeError``: ``generator`` is no generator.
    """
    if generator is None:
        return draw_key()
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(1 << 62))
    if name != "torch" or not isinstance(generator, framework.Generator):
        libraries = "torch's or NumPy's" if name == "torch" else "NumPy's"
        raise TypeError(f"generator must be {libraries} Generator or None, got {generator!r}")
    return int(framework.randint(1 << 62, (1,), generator=generator).item())


class BatchOrder:
    """The batches of every epoch, as positions of items.

    Raises ValueError: the batch size is no integer above 0, or arguments exclude each other; DGLError: there are no
    items.

    Parameters
    ----------
    count
        number of items.
    batch_size, drop_last, shuffle
        as a loader is given them; ``batch_size`` None for items one by one.
    sampler, batch_sampler
        an iterable, anew for each epoch, of positions or of lists of them; instead of ``shuffle``, and the second
        instead of all.
    seed
        what shuffling is keyed by, together with the epoch.
    share
        every process has as many items: where they do not divide, some are given twice, or dropped with ``drop_last``.
    """

    def __init__(
        self,
        count: int,
        batch_size: int | None,
        drop_last: bool,
        shuffle: bool,
        sampler: Iterable[int] | None,
        batch_sampler: Iterable[Sequence[int]] | None,
        seed: int,
        share: Share,
    ) -> None:
        if count == 0:
            raise DGLError("there is nothing to load: the indices, or the data set, are empty")
        if sampler is not None and shuffle:
            raise ValueError("sampler decides the order; leave out shuffle=True")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler decides the batches; leave out batch_size, shuffle, sampler and drop_last")
        if share.size > 1 and (sampler is not None or batch_sampler is not None):
            raise ValueError("use_ddp=True decides the order; leave out sampler and batch_sampler")
        self.count, self.drop_last, self.shuffle, self.seed, self.share = count, drop_last, shuffle, seed, share
        self.batch_size = None if batch_size is None else check_count(batch_size, "batch_size", 1)
        self.sampler = check_order(sampler, "sampler", "positions")
        self.batch_sampler = check_order(batch_sampler, "batch_sampler", "lists of positions")

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        if self.sampler is not None:
            return self._batches(len(self.sampler))  # type: ignore[arg-type]
        return self._batches(self._own_count())

    def _own_count(self) -> int:
        rank_size = self.share.size
        return self.count // rank_size if self.drop_last else -(-self.count // rank_size)

    def _batches(self, items: int) -> int:
        size = self.batch_size or 1
        return items // size if self.drop_last else -(-items // size)

    def of_epoch(self, epoch: int) -> list[np.ndarray]:
        """Return the positions of each batch."""
        if self.batch_sampler is not None:
            return [self._checked(batch) for batch in self.batch_sampler]
        order = self._items(epoch)
        size = self.batch_size or 1
        return [order[i * size : (i + 1) * size] for i in range(self._batches(len(order)))]

    def _items(self, epoch: int) -> np.ndarray:
        if self.sampler is not None:
            return self._checked(list(self.sampler))
        share = self.share
        if self.shuffle:
            # All processes must shuffle alike, so that their shares do not overlap.
            seed = self.seed if share.size == 1 else share.seed
            order = np.random.default_rng((seed, epoch, _SHUFFLE)).permutation(self.count)
        else:
            order = np.arange(self.count)
        if share.size == 1:
            return order
        total = self._own_count() * share.size
        return np.resize(order, total)[share.rank :: share.size]

    def _checked(self, positions: Iterable[int]) -> np.ndarray:
        order = integer_array(positions, "positions of a sampler").astype(np.int64, copy=False).reshape(-1)
        if len(order) and not (order.min() >= 0 and order.max() < self.count):
            raise IndexError(f"a sampler gave {order.min()} to {order.max()}; there are {self.count} items")
        return order
