"""One-sided reads and writes: a rank reads rows of others at any moment, without their taking part.

Ranks of one machine map each other's rows from shared memory. Between machines a thread of the owner answers requests
over a socket of its own, so that nothing waits for the thread that trains.
"""

from __future__ import annotations

import atexit
import os
import sys
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise
from typing import final

import numpy as np
import torch

from ..backend import Tensor
from ..errors import DGLError
from ..io.shared_arrays import create_shared_array, get_shared_array, unname_shared_array
from ..locks import new_lock
from .book import Ranges
from .collectives import Collectives
from .requests import Peer, RequestServer, bytes_of, machine_name


def row_bytes(like: Tensor) -> int:
    """Return the bytes of a row."""
    return int(np.prod(like.shape[1:], dtype=np.int64)) * like.element_size()


def take_rows(rows: Tensor, positions: np.ndarray) -> Tensor:
    """Return some rows. ``rows[positions]`` goes through their numbers one by one, which takes three times as long."""
    return rows.index_select(0, torch.from_numpy(positions))


def rows_from_bytes(packed: Tensor, like: Tensor, count: int) -> Tensor:
    """Return rows with the shape and dtype of those of ``like`` from bytes, which need not be aligned."""
    rows = like.new_empty((count, *like.shape[1:]))
    rows.view(-1).view(torch.uint8).copy_(packed)
    return rows


_READ, _WRITE = 0, 1


@final
class RowStore:
    """Connects the ranks of a graph for one-sided reads; all ranks make it together.

    Parameters
    ----------
    exchange
        used when tensors are made; reads and writes do not use it.

    Attributes
    ----------
    neighbors
        for each rank, whether it is on this machine.
    """

    def __init__(self, exchange: Collectives) -> None:
        self.exchange, self._lock = exchange, new_lock()
        self._tensors: weakref.WeakValueDictionary[int, SharedRows] = weakref.WeakValueDictionary()
        self._count = 0
        machines = exchange.gather_objects("finding the ranks of each machine", machine_name())
        self.neighbors = [machine == machines[exchange.rank] for machine in machines]
        self._peers: dict[int, Peer] = {}
        self._server: RequestServer | None = None
        if len(set(machines)) > 1:
            self._server = RequestServer(partial(_answer, self._tensors), exchange.timeout)
            addresses = exchange.gather_objects("connecting the row servers", self._server.address)
            self._peers = {
                rank: Peer(rank, addresses[rank], exchange.timeout)
                for rank, near in enumerate(self.neighbors)
                if not near
            }
            atexit.register(_leave_together, weakref.ref(self))

    def share(self, name: str, ranges: Ranges, local: Tensor) -> SharedRows:
        """Return the rows of all ranks, of which ``local`` are this rank's; all ranks call it.

        Raises ``RankError``: on any rank, there is not enough shared memory.
        """
        shape, step = tuple(local.shape), f"sharing {name}"
        key = f"rows-{os.getpid()}-{uuid.uuid4().hex}"
        alone = self.neighbors.count(True) == 1
        piece = self.exchange.together(step, lambda: local if alone else _shared_copy(key, local))
        with self._lock:
            self._count += 1
            rows = SharedRows(self, self._count, name, ranges, piece)
            self._tensors[self._count] = rows  # before the next collective, after which others may send requests
        keys = self.exchange.gather_objects(step, key)

        def mapped(rank: int) -> Tensor | None:
            if rank == self.exchange.rank or not self.neighbors[rank]:
                return piece if rank == self.exchange.rank else None
            first, last = ranges.range_of(rank)
            count = (last - first) * row_bytes(local)
            return _typed(get_shared_array(keys[rank], (count,), "uint8"), local.dtype, (last - first, *shape[1:]))

        rows.pieces = self.exchange.together(step, lambda: [mapped(rank) for rank in range(self.exchange.world)])
        if not alone:
            unname_shared_array(key)
        return rows

    def ask(self, requests: dict[int, tuple[int, int, np.ndarray, Tensor]], name: str) -> dict[int, Tensor]:
        """Send (operation, tensor number, ids, rows) to ranks of other machines; return the bytes of each answer."""
        step = f"{'writing' if any(op == _WRITE for op, *_ in requests.values()) else 'reading'} {name}"
        with ExitStack() as stack:
            peers = [stack.enter_context(self._peers[rank].used(step)) for rank in sorted(requests)]
            for peer in peers:
                peer.send(*requests[peer.rank])
            return {peer.rank: peer.receive() for peer in peers}

    def close(self) -> None:
        """Answer no more requests."""
        if self._server is not None:
            self._server.close()


@final
class SharedRows:
    """The rows of a tensor on all ranks, for reading and writing without collectives.

    Attributes
    ----------
    local
        this rank's rows, in shared memory.
    pieces
        the rows of each rank of this machine, None for ranks of others.
    """

    def __init__(self, store: RowStore, number: int, name: str, ranges: Ranges, local: Tensor) -> None:
        self._store, self._number, self.name, self.ranges = store, number, name, ranges
        self.local = local
        self.pieces: Sequence[Tensor | None] = []

    def _by_owner(self, ids: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each owner of an id, and the positions of its ids."""
        owners = self.ranges.owners(ids)
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(len(self.pieces) + 1))
        for rank, (first, last) in enumerate(pairwise(bounds.tolist())):
            if first < last:
                yield rank, order[first:last]

    def read(self, ids: np.ndarray) -> Tensor:
        """Return rows of checked ids, (len(ids), *feat).

        Raises ``RankError``: a rank on another machine is gone or did not answer within the timeout.
        """
        rows = self.local.new_empty((len(ids), *self.local.shape[1:]))
        requests, positions = {}, {}
        for rank, at in self._by_owner(ids):
            places, piece = ids[at] - self.ranges.range_of(rank)[0], self.pieces[rank]
            if piece is None:
                requests[rank] = _READ, self._number, places, self.local[:0]
                positions[rank] = torch.from_numpy(at)
            elif len(at) == len(ids):  # all ids have one owner: no copy
                return take_rows(piece, places)
            else:
                rows[torch.from_numpy(at)] = take_rows(piece, places)
        for rank, data in (self._store.ask(requests, self.name) if requests else {}).items():
            rows[positions[rank]] = rows_from_bytes(data, self.local, len(positions[rank]))
        return rows

    def write(self, ids: np.ndarray, values: Tensor) -> None:
        """Write rows of checked ids, each once; returns when all owners have them. Errors are those of :meth:`read`."""
        requests = {}
        for rank, at in self._by_owner(ids):
            places, piece = ids[at] - self.ranges.range_of(rank)[0], self.pieces[rank]
            rows = values[torch.from_numpy(at)]
            if piece is None:
                requests[rank] = _WRITE, self._number, places, rows
            else:
                piece[torch.from_numpy(places)] = rows
        if requests:
            self._store.ask(requests, self.name)


def _shared_copy(key: str, local: Tensor) -> Tensor:
    data = bytes_of(local)
    memory = create_shared_array(key, (len(data),), "uint8")
    memory.copy_(data)
    return _typed(memory, local.dtype, tuple(local.shape))


def _typed(memory: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """Return bytes as a tensor. NumPy, whose array is underneath, does not have all dtypes."""
    return memory.view(dtype).reshape(shape)


# -- between machines --------------------------------------------------------------------------------------------------
def _answer(
    tensors: weakref.WeakValueDictionary[int, SharedRows], operation: int, number: int, places: np.ndarray, data: Tensor
) -> Tensor:
    """Return the bytes of this rank's rows, or write them."""
    shared = tensors.get(number)
    if shared is None:
        raise DGLError("the owner has deleted the tensor")
    if operation == _READ:
        return bytes_of(take_rows(shared.local, places))
    shared.local[torch.from_numpy(places)] = rows_from_bytes(data, shared.local, len(places))
    return torch.empty(0, dtype=torch.uint8)


def _leave_together(ref: weakref.ref[RowStore]) -> None:
    """Wait at the end of a script until no other rank reads rows; not where this rank has failed."""
    store = ref()
    if store is None or getattr(sys, "last_value", None) is not None or not torch.distributed.is_initialized():
        return
    with suppress(DGLError):  # another rank has failed, and has said so
        store.exchange.begin("the end of the script")
    store.close()
