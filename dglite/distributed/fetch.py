"""Rows of partitioned tensors by collectives: written to their owners, and fetched from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
import torch

from ..backend import Tensor
from ..structure.distinct import numbered
from .book import IdsByOwner, Ranges
from .collectives import Collectives
from .requests import bytes_of
from .store import row_bytes, rows_from_bytes, take_rows


class PartitionedRows(Protocol):
    """A :class:`~dglite.distributed.DistTensor`, as far as rows are fetched from it."""

    name: str
    shape: tuple[int, ...]
    local: Tensor
    ranges: Ranges
    exchange: Collectives
    shared: Any
    cached_rows: Tensor

    def checked(self, ids: Any) -> np.ndarray:
        """Return ids as int64."""

    def cache_positions(self, ids: np.ndarray) -> np.ndarray:
        """Return the positions of ids, which are distinct and ascending, in the cache, or -1."""

    def count(self, hits: int, misses: int) -> None:
        """Count rows of other ranks that were in the cache, and not."""

    def keep(self, ids: np.ndarray, rows: Tensor) -> None:
        """Called with rows that were read, by their ascending ids: what is cached may change."""

    def rows(self, ids: Any) -> Tensor:
        """Return rows by id."""


def send_to_owners(
    exchange: Collectives,
    step: str,
    kind: str,
    ranges: Ranges,
    ids: np.ndarray,
    rows: Tensor,
    error: BaseException | None = None,
) -> tuple[np.ndarray, Tensor]:
    """Send a row to the owner of each id; return what comes: places among this rank's rows, ascending by sender, rows.

    All ranks call it, and raise ``error`` where one has it. ``kind`` is what the bytes of rows are counted as.
    """
    by_owner = IdsByOwner(ranges, ids)
    received_ids, coming = exchange.send(step, "ids", torch.from_numpy(by_owner.ids), by_owner.counts, error)
    sent = bytes_of(rows[torch.from_numpy(by_owner.order)]).view(len(ids), row_bytes(rows))
    received = exchange.reply(step, kind, sent, by_owner.counts, coming)
    return received_ids.numpy() - ranges.range_of(exchange.rank)[0], rows_from_bytes(
        received.view(-1), rows, len(received_ids)
    )


Request = tuple[PartitionedRows, Any]
"""A tensor and the ids of the rows that are needed."""


def fetch(
    exchange: Collectives, requests: Sequence[Request], error: BaseException | None = None, step: str | None = None
) -> list[Tensor]:
    """Return rows of several tensors by one exchange: counts, ids and rows travel once, whatever the number of tensors.

    All ranks ask for the same tensors in the same order, each with its own ids; a row is asked for once.

    Raises RankError: on any rank: ``error``, an id is no integer or does not exist, or other tensors are asked for.

    Parameters
    ----------
    error
        why this rank has nothing to ask for, which all ranks then raise.
    what
        what is being done, for errors, the same on all ranks; the tensors' names by default.
    """
    if all(tensor.shared is not None for tensor, _ in requests) and not exchange.collective:
        if error is not None:
            raise error
        return [tensor.rows(ids) for tensor, ids in requests]
    if step is None:
        step = "reading " + ", ".join(tensor.name for tensor, _ in requests)
    needed: list[_NeededRows] = []
    try:
        needed = [_NeededRows(tensor, ids) for tensor, ids in requests] if error is None else []
    except Exception as failure:
        error = failure
    if error is not None:
        exchange.begin(step, [0] * exchange.world, error)
    per_rank = np.array([x.counts for x in needed], np.int64).reshape(len(needed), exchange.world)
    lines = [np.empty(0, np.int64)]
    for rank in range(exchange.world):
        lines += [per_rank[:, rank], *(x.remote[x.cuts[rank] : x.cuts[rank + 1]] for x in needed)]
    sent = (per_rank.sum(0) + len(needed)).tolist()
    ids, coming = exchange.send(step, "ids", torch.from_numpy(np.concatenate(lines)), sent)
    served, sizes = _serve(exchange, [x.tensor for x in needed], ids.numpy(), coming)
    widths = np.array([row_bytes(x.tensor.local) for x in needed], np.int64)
    packed = exchange.reply(step, "features", served, sizes, (per_rank * widths[:, None]).sum(0).tolist())
    return _unpacked(needed, per_rank, packed)


@final
class _NeededRows:
    """Rows of one tensor that this rank needs: which, and which of them others have."""

    def __init__(self, tensor: PartitionedRows, ids: Any) -> None:
        self.tensor, ranges = tensor, tensor.ranges
        self.ids, self.inverse = numbered(tensor.checked(ids))
        first, last = ranges.range_of(tensor.exchange.rank)
        self.local = slice(*np.searchsorted(self.ids, (first, last)).tolist())
        self.cached = tensor.cache_positions(self.ids)
        foreign = np.ones(len(self.ids), bool)
        foreign[self.local] = False
        self.positions = np.flatnonzero(foreign & (self.cached < 0))
        self.remote = self.ids[self.positions]
        self.cuts = ranges.cuts(self.remote)
        self.counts = np.diff(self.cuts)
        tensor.count(int(foreign.sum()) - len(self.remote), len(self.remote))

    def rows(self, received: Tensor) -> Tensor:
        """Return the rows that were asked for; ``received`` are those of others, in the order of the ids."""
        tensor, first = self.tensor, self.tensor.ranges.range_of(self.tensor.exchange.rank)[0]
        rows = tensor.local.new_empty((len(self.ids), *tensor.shape[1:]))
        rows[self.local] = take_rows(tensor.local, self.ids[self.local] - first)
        rows[torch.from_numpy(self.positions)] = received
        cached = np.flatnonzero(self.cached >= 0)
        if len(cached):
            rows[torch.from_numpy(cached)] = take_rows(tensor.cached_rows, self.cached[cached])
        tensor.keep(self.ids, rows)
        return take_rows(rows, self.inverse)


def _serve(
    exchange: Collectives, tensors: Sequence[PartitionedRows], ids: np.ndarray, coming: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """Return the bytes of the rows that others ask for, rank after rank, and how many bytes each gets."""
    pieces, sizes = [torch.empty(0, dtype=torch.uint8)], []
    for line in np.split(ids, np.cumsum(coming)[:-1]):
        counts, place, size = line[: len(tensors)], len(tensors), 0
        for tensor, count in zip(tensors, counts.tolist(), strict=True):
            rows = line[place : place + count] - tensor.ranges.range_of(exchange.rank)[0]
            piece = bytes_of(take_rows(tensor.local, rows))
            pieces.append(piece)
            place, size = place + count, size + len(piece)
        sizes.append(size)
    return torch.cat(pieces), sizes


def _unpacked(needed: Sequence[_NeededRows], per_rank: np.ndarray, packed: Tensor) -> list[Tensor]:
    pieces: list[list[Tensor]] = [[x.tensor.local[:0]] for x in needed]
    place = 0
    for rank in range(per_rank.shape[1]):
        for i, x in enumerate(needed):
            count = int(per_rank[i, rank])
            size = count * row_bytes(x.tensor.local)
            pieces[i].append(rows_from_bytes(packed[place : place + size], x.tensor.local, count))
            place += size
    return [x.rows(torch.cat(rows)) for x, rows in zip(needed, pieces, strict=True)]
