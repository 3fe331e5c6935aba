"""Rounds of communication: exchanges that are combined into one message from each worker to each other.

A message takes a fraction of a millisecond however short it is, and a training step has some hundred exchanges. So an
exchange waits until the first of its results is needed, and then all that are ready go with it: those of the fewest
rounds that there can be. What is held for that is limited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .exchange import Exchange, Pick, ReceivedRows, read
from .links import Links


@dataclass(eq=False)
class Movement:
    """An exchange in a program.

    Attributes
    ----------
    exchange : Exchange
    source : int
        The slot of what is held.
    targets : list of int
        The slots of what is needed.
    fetch : bool
        Whether it is an operand for one operator; else it brings an output to those who hold it.
    size : float
        Bytes that a worker receives, on average.
    due : int
        The number of the first instruction that needs it.
    """

    exchange: Exchange
    source: int
    targets: list[int]
    fetch: bool
    due: int = 0

    @property
    def size(self) -> float:
        return self.exchange.total / self.exchange.world

    def run(self, values: list[Any]) -> None:
        """Set the targets where that takes no messages."""
        result = self.exchange.result(values[self.source])
        for target in self.targets:
            values[target] = result


KEPT = 1 << 18
"""Bytes of the largest messages whose buffers are kept: making larger ones costs little beside filling them."""


class MessageBuffers:
    """Memory for what is sent and received, which small rounds share: no two are under way at a time."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.size = device, 0
        self._small_pair: list[torch.Tensor] = []

    def pair(self, size: int) -> list[torch.Tensor]:
        """Return the buffers, of ``size`` bytes at least, to send from and to receive in."""
        if size > KEPT:
            return self._make(size)
        if not self._small_pair or len(self._small_pair[0]) < size:
            self._small_pair = self._make(self.size)
        return self._small_pair

    def _make(self, size: int) -> list[torch.Tensor]:
        return [torch.empty(size, dtype=torch.uint8, device=self.device) for _ in range(2)]


class Round:
    """Exchanges that are made together.

    Parameters
    ----------
    links : Links
    movements : sequence of Movement
        In an order that is the same for all workers.
    buffers : MessageBuffers
    name : str
        What needs the results, for messages.
    """

    def __init__(self, links: Links, movements: Sequence[Movement], buffers: MessageBuffers, name: str) -> None:
        self.links, self.name, self._buffers = links, name, buffers
        self.movements = sorted(movements, key=lambda m: -m.exchange.dtype.itemsize)
        self._align = self.movements[0].exchange.dtype.itemsize
        k = links.world
        self._few = 2 * len(set().union(*(m.exchange.pairs for m in self.movements))) < k * (k - 1)
        self._received, self._wait = 0, _nothing
        self._packs: list[tuple[int, Pick, torch.Tensor]] | None = None
        self._came: list[list[tuple[ReceivedRows, torch.Tensor]]] = []
        self._send_counts = [self._size(j, _sent_sizes) for j in range(k)]
        self._receive_counts = [self._size(j, _received_sizes) for j in range(k)]
        self._most = max(sum(self._send_counts), sum(self._receive_counts))
        self._pair: list[torch.Tensor] = []
        if self._most <= KEPT:
            buffers.size = max(buffers.size, self._most)

    def _size(self, worker: int, shapes: Callable[[Movement, int], list[int]]) -> int:
        size = sum(n * m.exchange.dtype.itemsize for m in self.movements for n in shapes(m, worker))
        self._received += size if shapes is _received_sizes else 0
        return -(-size // self._align) * self._align

    def _lay_out(self) -> None:
        """Find where everything stands in the buffers."""
        send, receive = self._pair = self._buffers.pair(self._most)
        self._packs, self._came = [], [[] for _ in self.movements]
        first = 0
        for j, counts in enumerate(self._send_counts):
            at = first
            for m in self.movements:
                for pick, n in m.exchange.sends.get(j, ()):
                    at, piece = _view(send, at, n, m.exchange.dtype)
                    self._packs.append((m.source, pick, piece))
            first += counts
        first = 0
        for j, counts in enumerate(self._receive_counts):
            at = first
            for number, m in enumerate(self.movements):
                for took in m.exchange.takes.get(j, ()):
                    at, piece = _view(receive, at, math.prod(took.shape), m.exchange.dtype)
                    self._came[number].append((took, piece.view(took.shape)))
            first += counts

    def start(self, values: list[Any]) -> None:
        """Begin to send what the sources have."""
        if self._packs is None:
            self._lay_out()
        assert self._packs is not None
        for source, pick, piece in self._packs:
            rows = read(values[source], pick)
            piece.view(rows.shape).copy_(rows)
        send, receive = self._pair[0][: sum(self._send_counts)], self._pair[1][: sum(self._receive_counts)]
        with self.links.watched(f"the exchange for {self.name}"):
            self._wait = self.links.start(send, receive, self._send_counts, self._receive_counts, self._few)

    def finish(self, values: list[Any]) -> None:
        """Wait for what the others have sent, and set the targets."""
        with self.links.watched(f"the exchange for {self.name}"):
            self._wait()
        self._wait = _nothing
        if self._most > KEPT:
            self._packs, self._pair = None, []
        self.links.bytes += self._received
        for m, came in zip(self.movements, self._came, strict=True):
            result = m.exchange.result(values[m.source], came)
            for target in m.targets:
                values[target] = result
        if self._most > KEPT:
            self._came = []


def moved(links: Links, exchange: Exchange, tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Return what one exchange makes of a tensor, now."""
    values: list[Any] = [tensor, None]
    round_ = Round(links, [Movement(exchange, 0, [1], fetch=False)], MessageBuffers(exchange.device), name)
    round_.start(values)
    round_.finish(values)
    result: torch.Tensor = values[1]
    return result


def _nothing() -> None:
    return None


def _sent_sizes(m: Movement, worker: int) -> list[int]:
    return [n for _, n in m.exchange.sends.get(worker, ())]


def _received_sizes(m: Movement, worker: int) -> list[int]:
    return [math.prod(piece.shape) for piece in m.exchange.takes.get(worker, ())]


def _view(buffer: torch.Tensor, at: int, count: int, dtype: torch.dtype) -> tuple[int, torch.Tensor]:
    end = at + count * dtype.itemsize
    return end, buffer[at:end].view(dtype)
