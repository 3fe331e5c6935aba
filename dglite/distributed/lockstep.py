"""What processes do together: they compare what they were given, and exchange rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..structure.ids import integer_array
from ..tofu.links import Links

__all__ = ["Lockstep", "check_range", "check_starts", "ids_of", "message_of"]

T = TypeVar("T")


class Lockstep:
    """What processes do together; each of these is called by all of them."""

    def __init__(self, group: Any, timeout: float) -> None:
        self._links = Links(dist.get_rank(group), dist.get_world_size(group), group, timeout)
        self.rank, self.world, self.bytes = self._links.rank, self._links.world, Counter[str]()

    def agreed(self, check: Callable[[], tuple[T, list[Any]]], same: Any) -> tuple[T, list[Any]]:
        """Return what ``check`` does, its list joined with those of the others, ascending.

        The first error that any process finds is raised on all of them, and so is a difference in ``same``.
        """
        found: T | None = None
        names: list[Any] = []
        message = ""
        try:
            found, names = check()
        except DGLError as error:
            message = f"process {self.rank}: {error}"
        everywhere: list[Any] = [None] * self.world
        with self._links.watched("the comparison of what processes were given"):
            dist.all_gather_object(everywhere, (message, names, same), group=self._links.group)
        message = next((text for text, _, _ in everywhere if text), "")
        other = next((rank for rank, (_, _, given) in enumerate(everywhere) if given != everywhere[0][2]), 0)
        if message or other:
            raise DGLError(message or f"processes 0 and {other} were given different ranges of nodes (starts)")
        assert found is not None
        return found, sorted({name for _, own, _ in everywhere for name in own})

    def exchange(self, send: torch.Tensor, given: list[int], taken: list[int], kind: str) -> torch.Tensor:
        receive, wait = self.start(send, given, taken, kind)
        wait()
        return receive

    def start(
        self, send: torch.Tensor, given: list[int], taken: list[int], kind: str
    ) -> tuple[torch.Tensor, Callable[[], None]]:
        """Begin an exchange of rows; return where they arrive, and what waits for the last of them."""
        receive = send.new_empty((sum(taken), *send.shape[1:]))
        row = send.element_size() * math.prod(send.shape[1:])
        self.bytes[kind] += row * (sum(taken) - taken[self.rank])
        with self._links.watched(f"the exchange of {kind}"):
            end = self._links.start(send.contiguous(), receive, given, taken, few=False)

        def wait() -> None:
            with self._links.watched(f"the exchange of {kind}"):
                end()

        return receive, wait


# -- sums --------------------------------------------------------------------------------------------------------------
def message_of(weighted: bool) -> Expr:
    """Return what an edge sends: its source's row, times the edge's weight where there are weights."""
    row = Operand(Side.U, 0)
    return row * Operand(Side.E, 1) if weighted else row


# -- checks ------------------------------------------------------------------------------------------------------------
def ids_of(given: Any, what: str) -> np.ndarray:
    return integer_array(given, what).astype(np.int64)


def check_starts(starts: list[int], world: int, what: str) -> None:
    if len(starts) != world + 1 or starts[0] != 0 or any(a > b for a, b in pairwise(starts)):
        raise DGLError(
            f"{what} are {starts}; expected {world + 1} ascending numbers from 0: the first node of each of {world} "
            "processes, then the number of nodes"
        )


def check_range(ids: np.ndarray, first: int, last: int, what: str) -> None:
    outside = ids[(ids < first) | (ids >= last)]
    if len(outside):
        raise DGLError(f"{what}: got id {outside[0]}; expected ids from {first} to {last - 1}")
