"""Failure detection: each rank has a socket on which it is asked, and told, about a failed rank.

Nothing is sent while all is well. The system takes connections for a process that computes, and refuses them for one
that is gone, so a killed process can be distinguished from a slow one.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, TypeVar, final

import torch.distributed as dist

from ..errors import DGLError
from ..locks import new_lock

Result = TypeVar("Result")
Address = tuple[str, int, str, str]
"""Host and port of a process's socket, what it wants to hear first, and the name of its machine."""

PATIENCE = 5.0
"""Seconds that a process has for an answer."""
_PAUSE, _GLANCE, _MOST = 0.1, 1.0, 1 << 16
GONE = "gone: killed, or ended without an error of its own"
"""What errors say of a rank whose process has ended."""


class RankError(DGLError):
    """A rank failed, was killed, or called something else than the others. All ranks raise it, with the same reason."""


@final
class Witness:
    """What this process tells others about failures, and knows about them.

    Attributes
    ----------
    rank
        the number of this process in the job.
    reason
        why the job has failed, once that is known; the same on all ranks.
    address
        where others ask this process.
    """

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.reason, self.process = rank, "", os.getpid()
        self.address: Address = "", 0, "", ""
        self._peers: dict[int, Address] = {}
        self._doing: dict[str, str] = {}
        self._lock = new_lock()
        self._socket = listening_socket() if world > 1 else None
        if self._socket is not None:
            host, port = self._socket.getsockname()[:2]
            self.address = host, port, secrets.token_hex(8), socket.gethostname()
            threading.Thread(target=self._listen, args=(self._socket,), name="dglite-witness", daemon=True).start()

    def meet(self, peers: Mapping[int, Address]) -> None:
        """Learn where others are asked. One that only its own machine can reach says nothing elsewhere."""
        for rank, address in peers.items():
            if rank != self.rank and (not address[0].startswith("127.") or address[3] == self.address[3]):
                self._peers[rank] = address

    @contextmanager
    def watched(self, group: str, members: Sequence[int], step: str) -> Iterator[None]:
        """Raise `RankError` with the reason for an error of torch.distributed in an exchange of a group."""
        self._doing[group] = step
        try:
            yield
        except RuntimeError as error:
            reason = self.failure(error) or (_is_loss(error) and self._absent(group, members, step))
            raise self.error(reason or f"rank {self.rank}: {step}: {error}") from error
        finally:
            self._doing.pop(group, None)

    def make_group(self, group: str, members: Sequence[int], step: str, make: Callable[[], Result]) -> Result:
        """Return what a call gives that makes a group: gloo waits several times as long as it was told to.

        A rank that is gone meanwhile raises `RankError`, and leaves the call to a thread of its own.
        """
        results: list[Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(make())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, name="dglite-group", daemon=True)
        thread.start()
        with self.watched(group, members, step):
            while True:
                thread.join(_GLANCE)
                if errors:
                    raise errors[0]
                if results:
                    return results[0]
                if self.failure():
                    atexit.register(_leave, thread)
                    raise self.error(self.reason)

    def error(self, reason: str) -> RankError:
        """Return the error to raise, and tell the others its reason."""
        self.tell(reason)
        return RankError(f"{self.reason}. Start all ranks again, from the last checkpoint")

    # -- what others are asked -----------------------------------------------------------------------------------------
    def failure(self, error: BaseException | None = None) -> str:
        """Return why the job has failed: what one has said, or that one is gone; empty if unknown.

        Where the error says that a connection is lost, this waits for the other process to end.
        """
        end = time.monotonic() + (PATIENCE if error is not None and _is_loss(error) else 0)
        while True:
            lost = []
            for rank in sorted(self._peers):
                answer = self._ask(rank)
                if answer is None:
                    lost.append(rank)
                elif answer.get("reason"):
                    self._learn(str(answer["reason"]))
            if lost:  # one that left because of another has told its reason before, and this changes nothing
                ranks = f"rank {lost[0]} is" if len(lost) == 1 else f"ranks {', '.join(map(str, lost))} are"
                self._learn(f"{ranks} {GONE}")
            if self.reason or time.monotonic() > end:
                return self.reason
            time.sleep(_PAUSE)

    def _absent(self, group: str, members: Sequence[int], step: str) -> str:
        """Return who takes no part in an exchange."""
        for rank in sorted(self._peers.keys() & members):
            answer = self._ask(rank)
            if answer is None:
                return f"rank {rank} is {GONE}"
            if "doing" not in answer:
                return f"rank {rank} has stopped, or its machine cannot be reached: it does not answer"
            if group not in answer["doing"]:
                return f"rank {rank} did not take part in {step} in time: it lives, and does something else"
        return ""

    def tell(self, reason: str) -> None:
        """Tell all others why the job fails, unless a reason is known already."""
        self._learn(reason)
        for rank in self._peers:
            self._ask(rank, self.reason)

    def _learn(self, reason: str) -> None:
        with self._lock:
            self.reason = self.reason or reason

    def _ask(self, rank: int, reason: str = "") -> dict[str, Any] | None:
        """Return what a process says, nothing where it is too busy; None where it is gone."""
        host, port, secret, _ = self._peers[rank]
        try:
            with socket.create_connection((host, port), PATIENCE) as connection:
                connection.sendall(json.dumps([secret, reason]).encode())
                connection.shutdown(socket.SHUT_WR)
                return json.loads(_read(connection)) or None
        except TimeoutError:
            return {}
        except (OSError, ValueError):  # refused, or ended meanwhile
            return None

    # -- what others ask -----------------------------------------------------------------------------------------------
    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed
                return
            with connection, suppress(OSError, ValueError, TypeError):  # strangers may say anything
                connection.settimeout(PATIENCE)
                secret, reason = json.loads(_read(connection))
                if secret == self.address[2]:
                    if reason:
                        self._learn(reason)
                    connection.sendall(json.dumps({"reason": self.reason, "doing": [*self._doing]}).encode())

    def close(self) -> None:
        """Answer nobody any more: this rank is done."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept() keeps it open otherwise
            self._socket.close()
        self._peers.clear()


_current: list[tuple[Any, Witness]] = []
"""A weak reference to the default group of torch.distributed, which must not outlive its end, and its witness."""


def witness() -> Witness:
    """Return that of this process in the default group."""
    if not _current or _current[0][0]() is not dist.group.WORLD:
        witness_of_group(Witness(dist.get_rank(), dist.get_world_size()))
    return _current[0][1]


def witness_of_group(witness: Witness) -> None:
    """Make a witness that of the default group, which has just been made."""
    forget()
    _current.append((weakref.ref(dist.group.WORLD), witness))
    if sys.excepthook is not _say_why:
        _previous.append(sys.excepthook)
        sys.excepthook = _say_why


def forget() -> None:
    """End the witness of the default group, if there is one."""
    for _, old in _current:
        old.close()
    _current.clear()


_previous: list[Any] = []


def _say_why(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell other processes the error that ends this one, or name in it the process that is gone."""
    for _, witness in _current:
        if witness.process != os.getpid():  # a child, whose end says nothing of this rank
            continue
        if isinstance(error, RankError):
            witness.tell(str(error))
        elif witness.failure(error):
            error.add_note(witness.reason)
        else:
            witness.tell(f"rank {witness.rank}: {kind.__name__}: {error}")
    _previous[-1](kind, error, trace)


def _leave(thread: threading.Thread) -> None:
    """End without a thread that is inside of gloo: it would abort when Python ends."""
    if thread.is_alive():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _is_loss(error: BaseException) -> bool:
    """Return whether an error of torch.distributed is about another process: its classes do not say."""
    text = str(error).lower()
    return any(word in text for word in ("timed out", "timeout", "connection", "peer", "pipe"))


def _read(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < _MOST and (piece := connection.recv(_MOST)):
        data += piece
    return data


def listening_socket() -> socket.socket:
    """Return a socket that others can reach: where this machine reaches the first one, or by the machine's own name."""
    first = os.environ.get("MASTER_ADDR")
    with suppress(OSError):
        if first is None:
            return socket.create_server((socket.gethostbyname(socket.gethostname()), 0), backlog=256)
        family, _, _, _, place = socket.getaddrinfo(first, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing: it chooses the way
            return socket.create_server((probe.getsockname()[0], 0), family=family, backlog=256)
    return socket.create_server(("127.0.0.1", 0), backlog=256)
