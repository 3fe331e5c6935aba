"""What processes tell each other: all that is called of torch.distributed, in lockstep.

Every exchange is called by all ranks, in the same order. It begins with a line of fixed size from each to each, which
says what is being done, whether this rank has failed, and how much comes. So a rank that fails, or does something else
than the others, makes all ranks raise the same error at the same place, and none waits.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist

from ..errors import DGLError
from ..locks import new_lock
from ..tofu.links import Broken, Links

__all__ = ["TIMEOUT", "Collectives", "RankError"]

TIMEOUT = 300.0
"""Seconds that an exchange waits for the slowest rank."""
_LINE = 3

Result = TypeVar("Result")


class RankError(DGLError):
    """A rank failed, or did something else than the others. Raised by all ranks, with the same message."""


@final
class Collectives:
    """Exchanges between all processes of a job, over a group of their own; made by all of them, in the same order.

    Bytes travel by gloo from the hosts' memory, whatever the model's gradients travel by. Two objects may be used by
    two threads at a time, one by one only.

    Attributes
    ----------
    rank, world
        the number of this process, and how many there are.
    timeout
        seconds after which an exchange that another rank does not take part in raises an error.
    sent
        bytes sent to other ranks, by what they were.
    """

    def __init__(self, timeout: float = TIMEOUT) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise DGLError("call dglite.distributed.initialize() first, in processes that torchrun starts")
        self.rank, self.world, self.timeout = dist.get_rank(), dist.get_world_size(), timeout
        group = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
        self._links = Links(self.rank, self.world, group, timeout)
        self.sent: Counter[str] = Counter()
        self._entered = new_lock()

    # -- agreement --------------------------------------------------------------------------------------------------
    def begin(self, what: str, counts: Sequence[int] | None = None, error: BaseException | None = None) -> list[int]:
        """Say what is done, and how much comes for each rank; return how much comes from each.

        Raises
        ------
        RankError
            A rank has failed (``error``, there), or does something else. It names the first such rank, and the reason.
        Broken
            A rank did not answer in time, or is gone.
        """
        mine = torch.zeros(self.world, _LINE, dtype=torch.int64)
        mine[:, 0], mine[:, 1] = error is not None, zlib.crc32(what.encode())
        if counts is not None:
            mine[:, 2] = torch.tensor(counts)
        if not self._entered.acquire(blocking=False):
            raise DGLError(f"{what}: another thread is in an exchange; give each thread its own")
        try:
            theirs = self._all_to_all(mine.reshape(-1), [_LINE] * self.world, [_LINE] * self.world, what, "counts")
            theirs = theirs.view(self.world, _LINE)
            if bool(theirs[:, 0].any()) or bool((theirs[:, 1] != mine[0, 1]).any()):
                raise self._why(what, error) from error
        finally:
            self._entered.release()
        found: list[int] = theirs[:, 2].tolist()
        return found

    def _why(self, what: str, error: BaseException | None) -> RankError:
        """Return the error that all ranks raise."""
        agreed = isinstance(error, RankError)
        said = what, None if error is None else str(error) if agreed else f"{type(error).__name__}: {error}", agreed
        found: list[Any] = [None] * self.world
        with self._links.watched(what):
            dist.all_gather_object(found, said, group=self._links.group)
        for rank, (_, text, agreed) in enumerate(found):
            if text is not None:
                return RankError(text if agreed else f"rank {rank}: {text}")
        doing = ", ".join(f"rank {rank}: {name}" for rank, (name, _, _) in enumerate(found))
        return RankError(f"ranks do different things at the same time ({doing}); all must make the same calls")

    def together(self, what: str, call: Callable[[], Result]) -> Result:
        """Return what a call returns, which all ranks make; where it fails on one, all raise the same error."""
        result, failed = None, None
        try:
            result = call()
        except Exception as error:
            failed = error
        self.begin(what, error=failed)
        return result  # type: ignore[return-value]

    def same(self, what: str, value: Any) -> None:
        """Raise `RankError` unless all ranks have the same value, compared as text."""
        found = self.gather_objects(what, repr(value))
        if len(set(found)) > 1:
            values = ", ".join(f"rank {rank}: {text:.80}" for rank, text in enumerate(found))
            raise RankError(f"{what} differs between ranks ({values}); it must be the same on all")

    def gather_objects(self, what: str, value: Any) -> list[Any]:
        """Return what all ranks have, by rank."""
        self.begin(what)
        found: list[Any] = [None] * self.world
        with self._links.watched(what):
            dist.all_gather_object(found, value, group=self._links.group)
        return found

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.begin("barrier")

    # -- rows -------------------------------------------------------------------------------------------------------
    def send(
        self, what: str, kind: str, values: torch.Tensor, counts: Sequence[int], error: BaseException | None = None
    ) -> tuple[torch.Tensor, list[int]]:
        """Send ``counts[r]`` elements of a one-dimensional tensor to each rank r, one after the other.

        Returns what comes, rank after rank, and how many elements from each. ``kind`` is what the bytes are counted as.
        """
        coming = self.begin(what, counts, error)
        return self._all_to_all(values, counts, coming, what, kind), coming

    def reply(
        self, what: str, kind: str, values: torch.Tensor, counts: Sequence[int], coming: Sequence[int]
    ) -> torch.Tensor:
        """Send as :meth:`send` does, where all know how much comes."""
        return self._all_to_all(values, counts, coming, what, kind)

    def _all_to_all(
        self, values: torch.Tensor, counts: Sequence[int], coming: Sequence[int], what: str, kind: str
    ) -> torch.Tensor:
        received = values.new_empty(sum(coming))
        self.sent[kind] += (sum(counts) - counts[self.rank]) * values.element_size()
        with self._links.watched(what):
            self._links.start(values.contiguous(), received, counts, coming, few=False)()
        return received

    def failed(self, what: str) -> Broken:
        """Return the error of an exchange that another process did not take part in."""
        return self._links.broken(what)
