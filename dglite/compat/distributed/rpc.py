"""``dgl.distributed.rpc``: who this rank is, and requests, which this rank answers itself.

There are no servers. A rank reads rows of others by :class:`~dglite.distributed.DistTensor`; a request of a script's
own class is processed in the process that sends it.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist

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
    "reset",
    "send_request",
]

_services: dict[type, int] = {}
_responses: deque[Any] = deque()


def reset() -> None:
    """Forget responses that were not received."""
    _responses.clear()


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
    """Return 1: the server that a request is sent to is this process."""
    return 1


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


class Request:
    """A request; subclasses define ``process_request(server_state)``."""

    def process_request(self, server_state: Any) -> Any:
        """Return a response, a list of (rank, response), or None."""
        raise NotImplementedError

    @property
    def service_id(self) -> int:
        """The number of the service."""
        return _service_of(type(self))


class Response:
    """What :meth:`Request.process_request` returns."""


def register_service(service_id: int, req_cls: type, res_cls: type | None = None) -> None:
    """Make a class of requests known."""
    _services[req_cls] = service_id


def send_request(target: int, request: Request) -> None:
    """Process a request; :func:`recv_response` returns its response."""
    _service_of(type(request))
    client = kvstore.get_kvstore()
    state = SimpleNamespace(kv_store=client, graph=client.graph, partition_book=client.partition_book, roles={})
    response = request.process_request(state)
    if response is not None:
        _responses.append(response)


def recv_response(timeout: int = 0) -> Any:
    """Return the response of the oldest request. Raises ``DGLError`` if no request is open."""
    if not _responses:
        raise DGLError("no request was sent whose response was not received")
    return _responses.popleft()


def remote_call(target_and_requests: Any, timeout: int = 0) -> list[Any]:
    """Process requests of (target, request), and return their responses."""
    responses = []
    for target, request in target_and_requests:
        before = len(_responses)
        send_request(target, request)
        responses.append(_responses.pop() if len(_responses) > before else None)
    return responses


def _service_of(cls: type) -> int:
    if cls not in _services:
        raise DGLError(f"{cls.__name__} is no registered service; call register_service(number, {cls.__name__})")
    return _services[cls]
