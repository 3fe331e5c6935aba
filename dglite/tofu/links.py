"""The process group of a partitioned step: all calls of torch.distributed while a step runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from ..errors import DGLError


class Broken(DGLError):
    """An exchange did not end, for want of another worker."""


class Links:
    """The processes of a job.

    Attributes
    ----------
    rank, world : int
    bytes : int
        Received from others since it was last set.
    timeout : float
        Seconds that the group waits for a process, for messages.
    """

    def __init__(self, rank: int, world: int, group: Any = None, timeout: float = 300.0) -> None:
        self.rank, self.world, self.group, self.timeout, self.bytes = rank, world, group, timeout, 0
        self._tag = 0

    @contextmanager
    def watched(self, step: str) -> Iterator[None]:
        """Raise `Broken` for an error of torch.distributed."""
        try:
            yield
        except RuntimeError as error:
            raise self.broken(step) from error

    def broken(self, step: str) -> Broken:
        """Return the error of an exchange that another process did not take part in."""
        return Broken(
            f"worker {self.rank}: {step} did not end: another worker has failed (see its messages) or has not answered"
            f" for {self.timeout:g} s. Start all workers again from the last checkpoint"
        )

    def gather(self, mine: torch.Tensor, step: str) -> torch.Tensor:
        """Return what all have, of one size, as rows."""
        rows = mine.new_empty((self.world, *mine.shape))
        with self.watched(step):
            dist.all_gather(list(rows.unbind()), mine, group=self.group)
        return rows

    def start(
        self,
        send: torch.Tensor,
        receive: torch.Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
        few: bool,
    ) -> Callable[[], None]:
        """Begin to send and receive; return what waits for the end.

        Parameters
        ----------
        send, receive : Tensor
            Bytes for, and from, each worker, one after the other.
        given, taken : sequence of int
            How many for each.
        few : bool
            Whether to send messages only where there are bytes, instead of one all-to-all.
        """
        if not few:
            work = dist.all_to_all_single(
                receive, send, list(receive_counts), list(send_counts), group=self.group, async_op=True
            )
            return work.wait
        self._tag += 1
        both = (dist.isend, send.split(list(send_counts))), (dist.irecv, receive.split(list(receive_counts)))
        ops = [dist.P2POp(op, x, j, self.group, self._tag) for op, all_x in both for j, x in enumerate(all_x) if len(x)]
        works = dist.batch_isend_irecv(ops) if ops else []

        def wait() -> None:
            for work in works:
                work.wait()

        return wait
