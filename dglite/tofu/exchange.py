"""Move regions of a tensor between workers: who sends which rows to whom, found once, and the collective that does so.

A *box* is a region of a tensor, for each dimension a range of rows or their sorted ids. Every worker knows the boxes of
all, so each finds the same moves, and no worker waits for a message that nobody sends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from .boxes import Box, Near, Transfer, box_shape, check_complete, pieces_of, transfers
from .strategy import Combine

__all__ = ["Exchange", "Links", "ReduceExchange"]

Pick = tuple[tuple[int, int, int] | tuple[int, torch.Tensor], ...]
"""How to read a box of a tensor: (dimension, first row, count) or (dimension, rows) where it is not all of it."""


def _pick(box: Box, tile: Box) -> Pick:
    """Return how to read a box of the tensor that holds a tile."""
    found: list[Any] = []
    for d, (rows, (first, last)) in enumerate(zip(box, tile, strict=True)):
        if isinstance(rows, np.ndarray):
            found.append((d, torch.from_numpy(rows - first)))
        elif rows != (first, last):
            found.append((d, rows[0] - first, rows[1] - rows[0]))
    return tuple(found)


def _read(tensor: torch.Tensor, pick: Pick) -> torch.Tensor:
    for one in pick:
        tensor = tensor.narrow(*one) if len(one) == 3 else tensor.index_select(one[0], one[1].to(tensor.device))
    return tensor


def _place(box: Box, whole: Box) -> Pick:
    """Return where a box stands in the tensor that holds ``whole``: of sorted ids, those in a tile are a range."""
    found: list[Any] = []
    for d, (rows, all_rows) in enumerate(zip(box, whole, strict=True)):
        if isinstance(all_rows, np.ndarray):
            assert isinstance(rows, np.ndarray)
            found.append((d, int(np.searchsorted(all_rows, rows[0])), len(rows)))
        elif tuple(rows) != all_rows:
            found.append((d, rows[0] - all_rows[0], rows[1] - rows[0]))
    return tuple(found)


class Links:
    """The processes that exchange: their group, and how many bytes this one has received.

    Attributes
    ----------
    rank, world : int
    bytes : int
        Received from others since it was last set.
    """

    def __init__(self, rank: int, world: int, group: Any = None) -> None:
        self.rank, self.world, self.group, self.bytes = rank, world, group, 0
        self._tag = 0

    def gather(self, mine: torch.Tensor) -> torch.Tensor:
        """Return what all have, of one size, as rows."""
        found = mine.new_empty((self.world, mine.numel()))
        dist.all_gather(list(found.unbind()), mine, group=self.group)
        self.bytes += (self.world - 1) * mine.numel()
        return found

    def all_to_all(self, sends: dict[int, torch.Tensor], sizes: dict[int, int], like: torch.Tensor) -> Any:
        """Send and receive with every other worker; return what came from each."""
        given = [sends[j].numel() if j in sends else 0 for j in range(self.world)]
        taken = [sizes.get(j, 0) for j in range(self.world)]
        found = like.new_empty(sum(taken))
        sent = torch.cat([sends[j] for j in range(self.world) if j in sends])
        dist.all_to_all_single(found, sent, taken, given, group=self.group)
        self.bytes += sum(taken)
        return {j: one for j, one in enumerate(found.split(taken)) if j in sizes}

    def pairs(self, sends: dict[int, torch.Tensor], sizes: dict[int, int], like: torch.Tensor) -> Any:
        """Send and receive with some workers; return what came from each."""
        found = {j: like.new_empty(size) for j, size in sizes.items()}
        self._tag += 1
        ops = [dist.P2POp(dist.isend, x, j, self.group, self._tag) for j, x in sends.items()]
        ops += [dist.P2POp(dist.irecv, x, j, self.group, self._tag) for j, x in found.items()]
        for work in dist.batch_isend_irecv(ops) if ops else ():
            work.wait()
        self.bytes += sum(sizes.values())
        return found


class Exchange:
    """One movement of a tensor from boxes that workers hold to those that they need.

    Parameters
    ----------
    links : Links
    held : sequence of Box or None
        Of ranges, for each worker; None holds nothing. Those of one part do not overlap but where they are equal.
    needed : sequence of Box or None
        For each worker.
    dtype, device
        Of the tensor.
    parts : sequence of int, optional
        Which partial result each worker holds; what is needed is then needed of each part.
    near : callable, optional
        ``near(source, target)`` is less for workers with a faster link.
    owns : bool
        Whether the result is kept for long, so that it may not be a view of more.
    """

    def __init__(
        self,
        links: Links,
        held: Sequence[Box | None],
        needed: Sequence[Box | None],
        dtype: torch.dtype,
        device: torch.device,
        parts: Sequence[int] | None = None,
        near: Near | None = None,
        owns: bool = False,
    ) -> None:
        self.links, self.dtype, self.device, self.owns = links, dtype, device, owns
        me, parts = links.rank, parts or [0] * links.world
        moves = transfers(held, needed, parts, near or (lambda source, target: (source - target) % links.world))
        pairs = {(m.source, m.target) for m in moves if m.source != m.target}
        self.total = sum(math.prod(box_shape(m.box)) for m in moves if m.source != m.target) * dtype.itemsize
        mine, wanted = held[me], needed[me]
        self.parts = sorted({m.part for m in moves if m.target == me})
        self.shape = None if wanted is None else box_shape(wanted)
        own = [m for m in moves if m.source == m.target == me]
        check_complete(moves, needed)
        self._picks = {
            m.part: (_pick(m.box, mine), _place(m.box, wanted)) for m in own if mine is not None and wanted is not None
        }
        self._sends: dict[int, list[Pick]] = {}
        self._takes: dict[int, list[tuple[int, Pick, tuple[int, ...]]]] = {}
        for m in moves:
            if m.source == me != m.target:
                assert mine is not None
                self._sends.setdefault(m.target, []).append(_pick(m.box, mine))
            elif m.target == me != m.source:
                assert wanted is not None
                self._takes.setdefault(m.source, []).append((m.part, _place(m.box, wanted), box_shape(m.box)))
        self._sizes = {j: dtype.itemsize * sum(math.prod(s) for *_, s in took) for j, took in self._takes.items()}
        self._way = self._choose(pairs, moves, held)

    def _choose(self, pairs: set[tuple[int, int]], moves: list[Transfer], held: Sequence[Box | None]) -> str:
        k = self.links.world
        if not pairs:
            return "none"
        if len(pairs) < k * (k - 1):
            return "pairs"
        sizes = {box_shape(box) for box in held if box is not None}
        whole = all(_same(m.box, held[m.source]) for m in moves)
        return "gather" if whole and len(sizes) == 1 and len(moves) == k * k else "all_to_all"

    @property
    def way(self) -> str:
        """The collective: ``"none"``, ``"gather"``, ``"all_to_all"`` or ``"pairs"``."""
        return self._way

    def run(self, tensor: torch.Tensor | None) -> list[torch.Tensor]:
        """Return what is needed, of each part in order; empty for a worker that needs nothing.

        What the worker has itself may be a view of ``tensor``, whose rows it may be all of.
        """
        links = self.links
        came: dict[int, torch.Tensor] = {}
        if self._way == "gather":
            assert tensor is not None
            rows = links.gather(_bytes(tensor))
            came = {j: rows[j] for j in self._takes}
        elif self._way != "none":
            sends = {}
            for j, picks in self._sends.items():
                assert tensor is not None
                read = [_bytes(_read(tensor, pick)) for pick in picks]
                sends[j] = read[0] if len(read) == 1 else torch.cat(read)
            like = torch.empty(0, dtype=torch.uint8, device=self.device)
            came = (links.all_to_all if self._way == "all_to_all" else links.pairs)(sends, self._sizes, like)
        return self._assembled(tensor, came)

    def _assembled(self, tensor: torch.Tensor | None, came: dict[int, torch.Tensor]) -> list[torch.Tensor]:
        found: dict[int, torch.Tensor] = {}
        for part, (pick, place) in self._picks.items():
            assert tensor is not None
            own = _read(tensor, pick)
            if not place:
                found[part] = own.clone() if self.owns and pick else own
            else:
                _read(self._buffer(found, part), place).copy_(own)
        for j, took in self._takes.items():
            at = 0
            for part, place, shape in took:
                size = math.prod(shape) * self.dtype.itemsize
                got = came[j][at : at + size]
                at += size
                if not place and at == size and len(took) == 1:
                    found[part] = got.view(self.dtype).view(shape)
                else:
                    _read(self._buffer(found, part), place).copy_(got.view(self.dtype).view(shape))
        if self.shape is not None and not found:
            found[0] = self._buffer({}, 0)
        return [found[part] for part in sorted(found)]

    def _buffer(self, found: dict[int, torch.Tensor], part: int) -> torch.Tensor:
        if part not in found:
            assert self.shape is not None
            found[part] = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        return found[part]


def _same(box: Box, other: Box | None) -> bool:
    return other is not None and all(
        not isinstance(rows, np.ndarray) and rows == o for rows, o in zip(box, other, strict=True)
    )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


class ReduceExchange:
    """Partial results to their sum, or maximum, where they are held.

    Each worker takes all parts of what it holds and reduces them in one order, so equal boxes get equal numbers. Boxes
    that several workers hold are reduced in pieces and then gathered.
    """

    def __init__(
        self,
        links: Links,
        made: Sequence[Box | None],
        held: Sequence[Box | None],
        dtype: torch.dtype,
        device: torch.device,
        parts: Sequence[int],
        combine: Combine,
        near: Near | None = None,
    ) -> None:
        self._combine = _COMBINE[combine]
        pieces = pieces_of(held, parts)
        self._first = Exchange(links, made, pieces or held, dtype, device, parts, near)
        self._then = Exchange(links, pieces, held, dtype, device, near=near) if pieces else None
        self.total = self._first.total + (self._then.total if self._then else 0)

    def run(self, tensor: torch.Tensor | None) -> list[torch.Tensor]:
        """Return the result in a list, as `Exchange.run` does."""
        parts = self._first.run(tensor)
        result = parts[0] if parts else None
        for number, part in enumerate(parts[1:]):
            # the first may be memory of the operator's operands
            result = self._combine(result, part, out=result if number else None)
        if self._then:
            return self._then.run(result)
        return [] if result is None else [result]


_COMBINE: dict[str, Any] = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum, "prod": torch.mul}
