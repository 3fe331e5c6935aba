"""``DistTensor``: each rank stores the rows of its part; other rows are fetched from their owners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch

from ..backend import Tensor
from ..errors import DGLError
from ..structure.distinct import distinct, numbered
from .book import IdsByOwner, Ranges
from .collectives import Collectives

__all__ = ["DistTensor", "PartitionPolicy", "fetch", "send_to_owners"]

Initializer = Callable[[tuple[int, ...], Any], Tensor]
"""Of a shape and a dtype, makes a tensor."""


@final
class PartitionPolicy:
    """Who owns which rows of a tensor, and what ranks tell each other through.

    ``original`` has the ids of this rank's rows before the graph was partitioned; None where they are the same.
    """

    def __init__(self, exchange: Collectives, ranges: Ranges, original: Tensor | None = None) -> None:
        self.exchange, self.ranges, self.original = exchange, ranges, original

    @property
    def part_id(self) -> int:
        """The part of this rank."""
        return self.exchange.rank

    def get_size(self) -> int:
        """Return the number of rows of all ranks."""
        return self.ranges.count

    def get_part_size(self) -> int:
        """Return the number of rows of this rank."""
        first, last = self.ranges.of(self.exchange.rank)
        return last - first


@final
class DistTensor:
    """A tensor with a row for each node, or edge, of a type, partitioned like the graph.

    Reading and writing rows of others are exchanges: all ranks call them, in the same order, each with its own ids,
    of which there may be none.

    Parameters
    ----------
    shape, dtype
        of the whole tensor; there is a row for each id of the policy.
    name
        for errors; alike on all ranks.
    init_func
        of a shape and a dtype, makes the rows that this rank owns; zeros by default.
    part_policy
        who owns which rows: ``g.get_node_partition_policy(ntype)`` or ``g.get_edge_partition_policy(etype)``.
    persistent, is_gdata, attach
        accepted for DGL's sake: rows live as long as the tensor does.

    Attributes
    ----------
    local
        the rows that this rank owns. Writing to it is this rank's own business.
    hits, misses
        rows of others that were found in the cache, and not.

    Raises
    ------
    DGLError
        There is no policy, or it, the shape and what ``init_func`` makes do not fit.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        name: str | None = None,
        init_func: Initializer | None = None,
        part_policy: PartitionPolicy | None = None,
        persistent: bool = False,
        is_gdata: bool = True,
        attach: bool = True,
    ) -> None:
        if not isinstance(part_policy, PartitionPolicy):
            raise DGLError(
                f"a DistTensor needs a part_policy, got {part_policy!r}; see g.get_node_partition_policy(ntype)"
            )
        self.shape, self.dtype, self.part_policy = tuple(shape), dtype, part_policy
        self.exchange, self.ranges = part_policy.exchange, part_policy.ranges
        self.name = f"a tensor of {self.ranges.what}s" if name is None else name
        if self.shape[:1] != (self.ranges.count,):
            raise DGLError(f"{self.name} has shape {self.shape}; expected {self.ranges.count} rows")
        expected = (part_policy.get_part_size(), *self.shape[1:])
        self.local = torch.zeros(expected, dtype=dtype) if init_func is None else init_func(expected, dtype)
        if tuple(self.local.shape) != expected or self.local.dtype != dtype:
            raise DGLError(
                f"{self.name}: init_func made {tuple(self.local.shape)} {self.local.dtype}; expected {expected} {dtype}"
            )
        self.hits = self.misses = 0
        self._cached_ids, self._cached_rows = np.empty(0, np.int64), self.local[:0]

    def __len__(self) -> int:
        return self.ranges.count

    def __repr__(self) -> str:
        return f"DistTensor({self.name}, shape={self.shape}, dtype={self.dtype}, {len(self.local)} rows here)"

    @property
    def num_rows(self) -> int:
        """Rows of all ranks."""
        return self.ranges.count

    @property
    def local_partition(self) -> Tensor:
        """The rows that this rank owns."""
        return self.local

    def __getitem__(self, ids: Any) -> Tensor:
        return self.rows(ids)

    def rows(self, ids: Any, out: Any = None) -> Tensor:
        """Return the rows ``ids``, shape (len(ids), *feat), of any rank; all ranks call it.

        Raises
        ------
        RankError
            On any rank, an id is no integer or does not exist, or another tensor is read.
        """
        (found,) = fetch(self.exchange, [(self, ids)])
        return found if out is None else out.copy_(found)

    def __setitem__(self, ids: Any, values: Any) -> None:
        """Write rows of any rank; all ranks call it. Of a row that several ranks write, the last rank's stays."""
        rows, given, failed = np.empty(0, np.int64), self.local[:0], None
        try:
            checked = self.ranges.checked(ids)
            given = torch.as_tensor(values, dtype=self.dtype).expand(len(checked), *self.shape[1:])
            rows = checked
        except Exception as error:
            failed = error
        what = f"writing {self.name}"
        own, found = send_to_owners(self.exchange, what, "features", self.ranges, rows, given, failed)
        # Rows are written one after the other: which of two equal ids index_put takes is not said.
        last = len(own) - 1 - np.unique(own[::-1], return_index=True)[1]
        with torch.no_grad():
            self.local[torch.from_numpy(own[last])] = found[torch.from_numpy(last)]
        self.set_cache(())

    # -- the cache ---------------------------------------------------------------------------------------------------
    def cache(self, ids: Any) -> None:
        """Cache rows of other ranks, such as :func:`dglite.dataloading.hot_rows` chooses; all ranks call it.

        Writing to any row of the tensor empties the cache of every rank.
        """
        checked = self.exchange.together(f"caching {self.name}", lambda: distinct(self.ranges.checked(ids)))
        foreign = checked[self.ranges.outside(checked, self.exchange.rank)]
        self.set_cache(())
        rows = self.rows(foreign)
        self.set_cache(foreign, rows)

    def set_cache(self, ids: Any, rows: Tensor | None = None) -> None:
        """Set what is in the cache, by ascending ids, and reset the counters."""
        self._cached_ids = np.asarray(ids, np.int64)
        self._cached_rows, self.hits, self.misses = self.local[:0] if rows is None else rows, 0, 0

    @property
    def hit_rate(self) -> float:
        """The share of other ranks' rows that were found in the cache; 0 before the first request."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0

    def cache_positions(self, ids: np.ndarray) -> np.ndarray:
        """Return the positions of ids in the cache, -1 for ids that are not in it."""
        if not len(self._cached_ids):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(self._cached_ids, ids), len(self._cached_ids) - 1)
        return np.where(self._cached_ids[at] == ids, at, -1)


def send_to_owners(
    exchange: Collectives,
    what: str,
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
    own, coming = exchange.send(what, "ids", torch.from_numpy(by_owner.ids), by_owner.counts, error)
    sent = _bytes(rows[torch.from_numpy(by_owner.order)]).view(len(ids), _width(rows))
    found = exchange.reply(what, kind, sent, by_owner.counts, coming)
    return own.numpy() - ranges.of(exchange.rank)[0], _rows(found.view(-1), rows, len(own))


Request = tuple[DistTensor, Any]
"""A tensor and the ids of the rows that are needed."""


def fetch(
    exchange: Collectives, requests: Sequence[Request], error: BaseException | None = None, what: str | None = None
) -> list[Tensor]:
    """Return rows of several tensors by one exchange: counts, ids and rows travel once, whatever the number of tensors.

    All ranks ask for the same tensors in the same order, each with its own ids; a row is asked for once.

    Parameters
    ----------
    error
        why this rank has nothing to ask for, which all ranks then raise.
    what
        what is being done, for errors, the same on all ranks; the tensors' names by default.

    Raises
    ------
    RankError
        On any rank: ``error``, an id is no integer or does not exist, or other tensors are asked for.
    """
    if what is None:
        what = "reading " + ", ".join(tensor.name for tensor, _ in requests)
    wanted: list[_NeededRows] = []
    try:
        wanted = [_NeededRows(tensor, ids) for tensor, ids in requests] if error is None else []
    except Exception as failure:
        error = failure
    if error is not None:
        exchange.begin(what, [0] * exchange.world, error)
    per_rank = np.array([of.counts for of in wanted], np.int64).reshape(len(wanted), exchange.world)
    lines = [np.empty(0, np.int64)]
    for rank in range(exchange.world):
        lines += [per_rank[:, rank], *(of.remote[of.cuts[rank] : of.cuts[rank + 1]] for of in wanted)]
    sent = (per_rank.sum(0) + len(wanted)).tolist()
    ids, coming = exchange.send(what, "ids", torch.from_numpy(np.concatenate(lines)), sent)
    served, sizes = _serve(exchange, [of.tensor for of in wanted], ids.numpy(), coming)
    widths = np.array([_width(of.tensor.local) for of in wanted], np.int64)
    packed = exchange.reply(what, "features", served, sizes, (per_rank * widths[:, None]).sum(0).tolist())
    return _unpacked(wanted, per_rank, packed)


@final
class _NeededRows:
    """Rows of one tensor that this rank needs: which, and which of them others have."""

    def __init__(self, tensor: DistTensor, ids: Any) -> None:
        self.tensor, ranges = tensor, tensor.ranges
        self.ids, self.inverse = numbered(ranges.checked(ids))
        first, last = ranges.of(tensor.exchange.rank)
        self.local = slice(*np.searchsorted(self.ids, (first, last)).tolist())
        self.cached = tensor.cache_positions(self.ids)
        foreign = np.ones(len(self.ids), bool)
        foreign[self.local] = False
        self.positions = np.flatnonzero(foreign & (self.cached < 0))
        self.remote = self.ids[self.positions]
        self.cuts = ranges.cuts(self.remote)
        self.counts = np.diff(self.cuts)
        tensor.misses += len(self.remote)
        tensor.hits += int(foreign.sum()) - len(self.remote)

    def rows(self, received: Tensor) -> Tensor:
        """Return the rows that were asked for; ``received`` are those of others, in the order of the ids."""
        tensor, first = self.tensor, self.tensor.ranges.of(self.tensor.exchange.rank)[0]
        found = tensor.local.new_empty((len(self.ids), *tensor.shape[1:]))
        found[self.local] = _taken(tensor.local, self.ids[self.local] - first)
        found[torch.from_numpy(self.positions)] = received
        kept = np.flatnonzero(self.cached >= 0)
        if len(kept):
            found[torch.from_numpy(kept)] = _taken(tensor._cached_rows, self.cached[kept])
        return _taken(found, self.inverse)


def _serve(
    exchange: Collectives, tensors: Sequence[DistTensor], ids: np.ndarray, coming: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """Return the bytes of the rows that others ask for, rank after rank, and how many bytes each gets."""
    pieces, sizes = [torch.empty(0, dtype=torch.uint8)], []
    for line in np.split(ids, np.cumsum(coming)[:-1]):
        counts, place, size = line[: len(tensors)], len(tensors), 0
        for tensor, count in zip(tensors, counts.tolist(), strict=True):
            own = line[place : place + count] - tensor.ranges.of(exchange.rank)[0]
            piece = _bytes(_taken(tensor.local, own))
            pieces.append(piece)
            place, size = place + count, size + len(piece)
        sizes.append(size)
    return torch.cat(pieces), sizes


def _unpacked(wanted: Sequence[_NeededRows], per_rank: np.ndarray, packed: Tensor) -> list[Tensor]:
    pieces: list[list[Tensor]] = [[of.tensor.local[:0]] for of in wanted]
    place = 0
    for rank in range(per_rank.shape[1]):
        for i, of in enumerate(wanted):
            count = int(per_rank[i, rank])
            size = count * _width(of.tensor.local)
            pieces[i].append(_rows(packed[place : place + size], of.tensor.local, count))
            place += size
    return [of.rows(torch.cat(own)) for of, own in zip(wanted, pieces, strict=True)]


# -- bytes -------------------------------------------------------------------------------------------------------------
def _width(like: Tensor) -> int:
    """Return the bytes of a row."""
    return int(np.prod(like.shape[1:], dtype=np.int64)) * like.element_size()


def _bytes(rows: Tensor) -> Tensor:
    return rows.detach().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _taken(rows: Tensor, places: np.ndarray) -> Tensor:
    """Return some rows. ``rows[places]`` goes through their numbers one by one, which takes three times as long."""
    return rows.index_select(0, torch.from_numpy(places))


def _rows(packed: Tensor, like: Tensor, count: int) -> Tensor:
    """Return rows of the kind of ``like`` from bytes, which may lie anywhere."""
    made = like.new_empty((count, *like.shape[1:]))
    made.view(-1).view(torch.uint8).copy_(packed)
    return made
