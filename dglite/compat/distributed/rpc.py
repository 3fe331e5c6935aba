"""``dgl.distributed.rpc``: who this rank is, and requests of a script's own classes, which any rank answers.

There are no servers: the rank that a request is sent to processes it in a thread, beside the one that trains. Rows of
others are read without requests, by :class:`~dglite.distributed.DistTensor`.
"""

from __future__ import annotations

import pickle
import queue
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import torch
import torch.distributed as dist

from ...distributed.requests import Peer, RequestServer
from ...errors import DGLError
from . import kvstore
from .context import has_group, machine_count, read_ip_config

__all__ = [
    "Request",
    "Response",
    "client_barrier",
    "get_group_id",
    "get_machine_id",
    "get_num_client",
    "get_num_machines",
    "get_num_server",
    "get_rank",
    "read_ip_config",
    "recv_response",
    "register_service",
    "remote_call",
    "remote_call_to_machine",
    "reset",
    "send_request",
    "send_request_to_machine",
]

_REQUEST, _RESPONSE = 0, 1
_classes: dict[int, tuple[type, type | None]] = {}
"""Classes of requests and of responses by the number of their service."""


def get_rank() -> int:
    """Return the number of this process."""
    return dist.get_rank() if has_group() else 0


def get_num_client() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if has_group() else 1


def get_num_machines() -> int:
    """Return the number of machines of ``ip_config``."""
    return machine_count()


def get_num_server() -> int:
    """Return the number of processes: each answers requests."""
    return get_num_client()


def get_machine_id() -> int:
    """Return the number of this machine: equally many processes run on each."""
    return get_rank() * machine_count() // get_num_client()


def get_group_id() -> int:
    """Return 0: there is one group of clients."""
    return 0


def client_barrier() -> None:
    """Wait for all processes."""
    if has_group():
        dist.barrier()


# -- classes of requests -----------------------------------------------------------------------------------------------
class _Sent:
    """Base of what is sent: its state, as pickling takes it, of a class that all ranks have registered."""

    @property
    def service_id(self) -> int:
        """The number of the service."""
        return _service_of(type(self))


class Request(_Sent):
    """A request; subclasses define ``process_request(server_state)``."""

    def process_request(self, server_state: Any) -> Any:
        """Return a response, a list of (rank, response), or None.

        ``server_state`` has ``graph``, ``kv_store`` and ``partition_book`` of the rank that was asked. A thread of that
        rank calls this: use nothing that all ranks must call together.
        """
        raise NotImplementedError(f"{type(self).__name__} must define process_request(server_state)")


class Response(_Sent):
    """What :meth:`Request.process_request` returns."""


def register_service(service_id: int, req_cls: type, res_cls: type | None = None) -> None:
    """Make a class of requests, and that of their responses, known under a number; all ranks do so."""
    _classes[service_id] = req_cls, res_cls


def _service_of(cls: type) -> int:
    for service_id, classes in _classes.items():
        if cls in classes:
            return service_id
    raise DGLError(f"{cls.__name__} is of no registered service; call register_service(number, request, response)")


def _encoded(sent: Any) -> torch.Tensor:
    """Return the bytes of an object's state."""
    return torch.frombuffer(bytearray(pickle.dumps(sent.__getstate__())), dtype=torch.uint8)


def _decoded(service_id: int, kind: int, data: torch.Tensor) -> Any:
    """Return the request or response with a state."""
    cls = _classes.get(service_id, (None, None))[kind]
    if cls is None:
        name = ("request", "response")[kind]
        raise DGLError(f"service {service_id} has no class of {name}s on rank {get_rank()}; register it on all ranks")
    content: Any = object.__new__(cls)
    state = pickle.loads(data.numpy().tobytes())
    if hasattr(content, "__setstate__"):
        content.__setstate__(state)
    else:
        vars(content).update(state or {})
    return content


# -- sending -----------------------------------------------------------------------------------------------------------
@final
class _Mailbox:
    """Sends requests to all ranks of a graph, and keeps responses until they are received."""

    def __init__(self, graph: Any) -> None:
        exchange = graph.exchange
        self.rank, self.timeout = exchange.rank, exchange.timeout
        self.responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.expected = 0
        self._senders: dict[int, ThreadPoolExecutor] = {}
        self._peers: list[Peer] = []
        if exchange.world > 1:
            server = RequestServer(self._answer, exchange.timeout)
            addresses = exchange.gather_objects("connecting the request servers", server.address)
            self._peers = [Peer(rank, address, exchange.timeout) for rank, address in enumerate(addresses)]

    def send(self, target: int, request: Request) -> Future[Any]:
        """Send a request; the result is the response to this rank, or None."""
        if not 0 <= target < max(len(self._peers), 1):
            raise DGLError(f"there is no rank {target}; there are {max(len(self._peers), 1)}")
        service = request.service_id
        if target == self.rank:
            done: Future[Any] = Future()
            done.set_result(self._processed(request, self.rank))
            return done
        if target not in self._senders:
            self._senders[target] = ThreadPoolExecutor(1, "dglite-rpc")  # one thread: requests stay in order
        return self._senders[target].submit(self._ask, target, _REQUEST, service, self.rank, _encoded(request))

    def _ask(self, target: int, kind: int, service: int, sender: int, data: torch.Tensor) -> Any:
        """Send a message to a rank, and return what it answers."""
        with self._peers[target].used(f"processing a request of service {service}") as peer:
            peer.send(kind, service, np.array([sender]), data)
            answer = peer.receive()
        return _decoded(service, _RESPONSE, answer) if len(answer) else None

    def _answer(self, kind: int, service: int, ids: np.ndarray, data: torch.Tensor) -> torch.Tensor:
        """Process a message of another rank, and return the bytes of the response to it."""
        content, response = _decoded(service, kind, data), None
        if kind == _RESPONSE:
            self.responses.put(content)
        else:
            response = self._processed(content, int(ids[0]))
        return torch.empty(0, dtype=torch.uint8) if response is None else _encoded(response)

    def _processed(self, request: Request, sender: int) -> Any:
        """Return the response of a request to the rank that sent it; those to other ranks are sent."""
        client = kvstore.get_kvstore()
        state = SimpleNamespace(kv_store=client, graph=client.graph, partition_book=client.partition_book, roles={})
        result = request.process_request(state)
        if not isinstance(result, list):
            return result
        for rank, response in result:
            if rank == self.rank != sender:
                self.responses.put(response)
            elif rank != sender:
                self._ask(rank, _RESPONSE, response.service_id, self.rank, _encoded(response))
        return next((response for rank, response in result if rank == sender), None)

    def receive(self, done: Future[Any]) -> None:
        """Keep the response of a request, or its error."""
        error = done.exception()
        response = error if error is not None else done.result()
        if response is not None:
            self.responses.put(response)


_mailboxes: list[_Mailbox] = []
"""That of the graph that was opened last."""


def connect(graph: Any) -> None:
    """Let the ranks of a graph send each other requests; all call it."""
    _mailboxes[:] = [_Mailbox(graph)]


def reset() -> None:
    """Forget responses that were not received."""
    for mailbox in _mailboxes:
        mailbox.responses, mailbox.expected = queue.SimpleQueue(), 0


def _mailbox() -> _Mailbox:
    kvstore.get_kvstore()  # raises where no graph is open
    return _mailboxes[0]


def send_request(target: int, request: Request) -> None:
    """Send a request to a rank, and do not wait; :func:`recv_response` returns its response.

    Raises DGLError: no graph is open, there is no such rank, or the class of the request is not registered.
    """
    mailbox = _mailbox()
    sent = mailbox.send(target, request)
    mailbox.expected += 1
    sent.add_done_callback(mailbox.receive)


def recv_response(timeout: int = 0) -> Any:
    """Return a response, the one that came first; None if none came within ``timeout`` milliseconds, if not 0.

    Raises DGLError: no request was sent whose response was not received, or no response came within the graph's
    timeout; RankError: the rank that was asked is gone or did not answer, or processing the request raised an error
    there.
    """
    mailbox = _mailbox()
    if mailbox.expected <= 0 and mailbox.responses.empty():
        raise DGLError("no request was sent whose response was not received")
    limit = timeout / 1000 if timeout else mailbox.timeout
    end = time.monotonic() + limit
    while True:
        try:
            response = mailbox.responses.get(timeout=min(1.0, max(end - time.monotonic(), 0.0)))
        except queue.Empty:
            if time.monotonic() < end:
                continue
            if timeout:
                return None
            raise DGLError(f"no response came within {limit:g} s; process_request may have returned None") from None
        mailbox.expected -= 1
        if isinstance(response, BaseException):
            raise response
        return response


def remote_call(target_and_requests: Sequence[tuple[int, Request]], timeout: int = 0) -> list[Any]:
    """Send requests of (rank, request), and return their responses in that order, or None for one without a response.

    ``timeout`` is accepted: the graph's is used. Errors are those of :func:`send_request` and :func:`recv_response`.
    """
    mailbox = _mailbox()
    sent = [mailbox.send(target, request) for target, request in target_and_requests]
    return [future.result() for future in sent]


def send_request_to_machine(target: int, request: Request) -> None:
    """Send a request to the first rank of a machine; see :func:`send_request`."""
    send_request(_first_rank(target), request)


def remote_call_to_machine(target_and_requests: Sequence[tuple[int, Request]], timeout: int = 0) -> list[Any]:
    """Send requests of (machine, request), and return their responses; see :func:`remote_call`."""
    return remote_call([(_first_rank(machine), request) for machine, request in target_and_requests], timeout)


def _first_rank(machine: int) -> int:
    if not 0 <= machine < machine_count():
        raise DGLError(f"there is no machine {machine}; ip_config has {machine_count()}")
    return machine * get_num_client() // machine_count()
