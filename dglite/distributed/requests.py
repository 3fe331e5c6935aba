"""Requests between ranks at any moment: a thread of the rank that is asked answers over a socket of its own."""

from __future__ import annotations

import socket
import struct
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

import numpy as np
import torch

from ..backend import Tensor
from ..locks import new_lock
from .witness import GONE, Address, RankError, listening_socket, witness

_REQUEST, _REPLY = struct.Struct("<qqqq"), struct.Struct("<qq")


def machine_name() -> str:
    """Return the name of this machine; processes with equal names map each other's rows."""
    return socket.gethostname()


def bytes_of(rows: Tensor) -> Tensor:
    """Return the bytes of rows, uint8 of one dimension."""
    return rows.detach().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


@final
class RequestServer:
    """Answers requests of other ranks, in a thread for each connection.

    Parameters
    ----------
    answer
        a function of operation, number, ids and bytes that returns the bytes of the answer. An error that it raises is
        one of the rank that sent the request.
    timeout
        seconds for a new connection to say who it is.

    Attributes
    ----------
    address
        what a :class:`Peer` connects to.
    """

    def __init__(self, answer: Callable[[int, int, np.ndarray, Tensor], Tensor], timeout: float) -> None:
        self._answer, self._socket = answer, listening_socket()
        host, port = self._socket.getsockname()[:2]
        self._secret = uuid.uuid4().bytes
        self.address = host, port, self._secret.hex(), machine_name()
        self._timeout = timeout
        threading.Thread(target=self._accept, name="dglite-requests", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), name="dglite-requests", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        torch.set_num_threads(1)
        with connection, suppress(OSError, EOFError):  # the other side has ended
            connection.settimeout(self._timeout)
            if _received(connection, len(self._secret)).numpy().tobytes() != self._secret:
                return
            connection.settimeout(None)
            while True:
                header = _REQUEST.unpack(_received(connection, _REQUEST.size).numpy().data)
                ids, data = _received(connection, 8 * header[2]), _received(connection, header[3])
                try:
                    reply, status = self._answer(header[0], header[1], ids.numpy().view(np.int64), data), 0
                except Exception as error:
                    text = f"{type(error).__name__}: {error}".encode()
                    reply, status = torch.frombuffer(bytearray(text), dtype=torch.uint8), 1
                connection.sendall(_REPLY.pack(status, len(reply)))
                connection.sendall(reply.numpy().data)

    def close(self) -> None:
        """Close the socket that others connect to."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@final
class Peer:
    """A connection to the server of another rank, for one thread at a time."""

    def __init__(self, rank: int, address: Address, timeout: float) -> None:
        self.rank, self._address, self._timeout = rank, address, timeout
        self._lock = new_lock()
        self._connection: socket.socket | None = None

    def used(self, step: str) -> _Use:
        """Return a context in which requests are sent, and errors of the connection become `RankError`."""
        return _Use(self, step)

    def send(self, operation: int, number: int, ids: np.ndarray, rows: Tensor) -> None:
        """Send a request."""
        if self._connection is None:
            self._connection = socket.create_connection(self._address[:2], self._timeout)
            self._connection.settimeout(self._timeout)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection.sendall(bytes.fromhex(self._address[2]))
        data = bytes_of(rows)
        self._connection.sendall(_REQUEST.pack(operation, number, len(ids), len(data)))
        self._connection.sendall(np.ascontiguousarray(ids, np.int64).view(np.uint8).data)
        self._connection.sendall(data.numpy().data)

    def receive(self) -> Tensor:
        """Return the bytes of an answer."""
        assert self._connection is not None
        status, size = _REPLY.unpack(_received(self._connection, _REPLY.size).numpy().data)
        data = _received(self._connection, size)
        if status:
            raise RankError(f"rank {self.rank}: {data.numpy().tobytes().decode()}")
        return data

    def close(self) -> None:
        """Close the connection; the next request makes another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class _Use:
    """Holds a peer's lock while a request is answered."""

    def __init__(self, peer: Peer, step: str) -> None:
        self._peer, self._step = peer, step

    def __enter__(self) -> Peer:
        self._peer._lock.acquire()
        return self._peer

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        peer = self._peer
        try:
            if error is None:
                return
            peer.close()  # an answer may still arrive: the next request takes a new connection
            if isinstance(error, TimeoutError):
                reason = f"rank {peer.rank} did not answer while {self._step}, for {peer._timeout:g} s"
            elif isinstance(error, OSError | EOFError):
                reason = f"rank {peer.rank} is {GONE}"
            else:
                return
        finally:
            peer._lock.release()
        raise witness().error(reason) from error


def _received(connection: socket.socket, size: int) -> Tensor:
    """Return the next bytes. Raises ``EOFError`` where the connection ends before."""
    data = torch.empty(size, dtype=torch.uint8)
    view, count = data.numpy().data, 0
    while count < size:
        piece = connection.recv_into(view[count:])
        if not piece:
            raise EOFError
        count += piece
    return data
