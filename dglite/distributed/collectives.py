"""Communication between ranks: all calls of torch.distributed collectives, in the same order on all ranks.

Every exchange is called by all ranks, in the same order. It begins with a line of fixed size from each to each, which
says what is being done, whether this rank has failed, and how much comes. So a rank that fails, or does something else
than the others, makes all ranks raise the same error at the same place, and none waits.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from ..errors import DGLError
from ..locks import new_lock
from ..tofu.links import Links
from .witness import RankError, witness

TIMEOUT = 300.0
"""Seconds that an exchange waits for the slowest rank."""
_LINE = 3

Result = TypeVar("Result")


class Collectives:
    """Exchanges between all processes of a job, over a group of their own; made by all of them, in the same order.

    Two objects may be used by two threads at a time, one by one only.

    Parameters
    ----------
    timeout
        seconds after which an exchange that another rank does not take part in raises an error.
    group
        the processes; all by default.
    backend
        what bytes travel by: ``"gloo"``, from the hosts' memory, whatever the model's gradients travel by. None means
        that of the group.

    Attributes
    ----------
    rank, world
        the number of this process, and how many there are.
    sent, received
        bytes sent to other ranks, and received from them, by what they were: ``"ids"``, ``"features"``,
        ``"gradients"``, ``"halos"``, ``"columns"``; ``"counts"`` are the lines that exchanges begin with.
    """

    collective = True

    def __init__(self, timeout: float = TIMEOUT, group: Any = None, backend: str | None = "gloo") -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise DGLError("call dglite.distributed.initialize() first, in processes that torchrun starts")
        self.rank, self.world, self.timeout = dist.get_rank(group), dist.get_world_size(group), timeout
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self._entered, self._witness, self._name = new_lock(), witness(), "new"
        self._members = list(range(dist.get_world_size())) if group is None else dist.get_process_group_ranks(group)
        step, local, wait = "making a group of processes", group is not None, timedelta(seconds=timeout)
        group_of_ranks = self._witness.make_group(
            self._name,
            self._members,
            step,
            lambda: dist.new_group(self._members, wait, backend, use_local_synchronization=local),
        )
        self._links, self._name = Links(self.rank, self.world, group_of_ranks, timeout), group_of_ranks.group_name
        with self.watched(step):
            addresses = self._gathered((dist.get_rank(), self._witness.address))
        self._witness.meet(dict(addresses))

    def watched(self, step: str) -> AbstractContextManager[None]:
        """Raise `RankError` for an error of torch.distributed: who failed, and why."""
        return self._witness.watched(self._name, self._members, step)

    @property
    def group(self) -> Any:
        """The group of processes, which nothing else may be exchanged over at the same time."""
        return self._links.group

    @cached_property
    def mesh(self) -> DeviceMesh:
        """The processes as a mesh of one dimension, on the CPU."""
        return DeviceMesh.from_group(self._links.group, "cpu")

    def _gathered(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value, group=self._links.group)
        return values

    # -- agreement --------------------------------------------------------------------------------------------------
    def begin(self, step: str, counts: Sequence[int] | None = None, error: BaseException | None = None) -> list[int]:
        """Say what is done, and how much comes for each rank; return how much comes from each.

        Raises RankError: a rank has failed (``error``, there), does something else, is gone, or did not answer in time.
        It names the first such rank, and the reason.
        """
        mine = torch.zeros(self.world, _LINE, dtype=torch.int64)
        mine[:, 0], mine[:, 1] = error is not None, zlib.crc32(step.encode())
        if counts is not None:
            mine[:, 2] = torch.tensor(counts)
        if not self._entered.acquire(blocking=False):
            raise DGLError(f"{step}: another thread is in an exchange; give each thread its own")
        try:
            theirs = self.reply(step, "counts", mine, [1] * self.world, [1] * self.world)
            if bool(theirs[:, 0].any()) or bool((theirs[:, 1] != mine[0, 1]).any()):
                raise self._why(step, error) from error
        finally:
            self._entered.release()
        coming: list[int] = theirs[:, 2].tolist()
        return coming

    def _why(self, step: str, error: BaseException | None) -> RankError:
        """Return the error that all ranks raise."""
        agreed = isinstance(error, RankError)
        report = step, None if error is None else str(error) if agreed else f"{type(error).__name__}: {error}", agreed
        with self.watched(step):
            reports = self._gathered(report)
        for rank, (_, text, agreed) in enumerate(reports):
            if text is not None:
                return RankError(text if agreed else f"rank {rank}: {text}")
        doing = ", ".join(f"rank {rank}: {name}" for rank, (name, _, _) in enumerate(reports))
        return RankError(f"ranks do different things at the same time ({doing}); all must make the same calls")

    def together(self, step: str, call: Callable[[], Result]) -> Result:
        """Return what a call returns, which all ranks make; where it fails on one, all raise the same error."""
        result, failed = None, None
        try:
            result = call()
        except Exception as error:
            failed = error
        self.begin(step, error=failed)
        return result  # type: ignore[return-value]

    def same(self, quantity: str, value: Any) -> None:
        """Raise `RankError` unless all ranks have the same value, compared as text."""
        texts = self.gather_objects(quantity, repr(value))
        if len(set(texts)) > 1:
            values = ", ".join(f"rank {rank}: {text:.80}" for rank, text in enumerate(texts))
            raise RankError(f"{quantity} differs between ranks ({values}); it must be the same on all")

    def gather_objects(self, step: str, value: Any) -> list[Any]:
        """Return what all ranks have, by rank."""
        self.begin(step)
        with self.watched(step):
            return self._gathered(value)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.begin("barrier")

    # -- rows -------------------------------------------------------------------------------------------------------
    def send(
        self, step: str, kind: str, values: torch.Tensor, counts: Sequence[int], error: BaseException | None = None
    ) -> tuple[torch.Tensor, list[int]]:
        """Send ``counts[r]`` rows of a tensor to each rank r, one after the other.

        Returns what comes, rank after rank, and how many rows from each. ``kind`` is what the bytes are counted as.
        """
        coming = self.begin(step, counts, error)
        return self.reply(step, kind, values, counts, coming), coming

    def reply(
        self, step: str, kind: str, values: torch.Tensor, counts: Sequence[int], coming: Sequence[int]
    ) -> torch.Tensor:
        """Send as :meth:`send` does, where all know how much comes."""
        received, wait = self.start(step, kind, values, counts, coming)
        wait()
        return received

    def start(
        self, step: str, kind: str, values: torch.Tensor, counts: Sequence[int], coming: Sequence[int]
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """Begin to send ``counts[r]`` rows to each rank r, where all know how much comes.

        Returns where rows arrive, and what waits for the last of them. Several exchanges may be in flight.
        """
        received = values.new_empty((sum(coming), *values.shape[1:]))
        row = values.element_size() * math.prod(values.shape[1:])
        self.sent[kind] += (sum(counts) - counts[self.rank]) * row
        self.received[kind] += (sum(coming) - coming[self.rank]) * row
        with self.watched(step):
            end = self._links.start(values.resolve_neg().contiguous(), received, counts, coming, few=False)

        def wait() -> None:
            with self.watched(step):
                end()

        return received, wait


class Alone(Collectives):
    """In the place of collectives for a rank that keeps in step with nobody: it agrees with itself.

    Parameters
    ----------
    rank, world
        the number of this process, and how many there are. The only one also sends to itself.
    timeout
        kept for threads that ask other ranks.
    """

    collective = False

    def __init__(self, rank: int, world: int, timeout: float = TIMEOUT) -> None:
        self.rank, self.world, self.timeout = rank, world, timeout
        self.sent, self.received = Counter(), Counter()

    def begin(self, step: str, counts: Sequence[int] | None = None, error: BaseException | None = None) -> list[int]:
        """Raise the error, if there is one; nothing is sent."""
        if error is not None:
            raise error
        return list(counts) if counts is not None and self.world == 1 else [0] * self.world

    def start(
        self, step: str, kind: str, values: torch.Tensor, counts: Sequence[int], coming: Sequence[int]
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """Return the rows that the only rank sends itself, and what waits for nothing."""
        return values.clone(), lambda: None

    def gather_objects(self, step: str, value: Any) -> list[Any]:
        """Return this rank's value alone."""
        return [value]
