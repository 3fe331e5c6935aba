"""Ports for processes that meet: none of those that the system gives to connections, which others open meanwhile."""

from __future__ import annotations

import contextlib
import random
import socket

_OWN = random.SystemRandom()  # a seeded generator would give each worker the same ports


def free_ports(number: int) -> list[int]:
    """Return different ports between 10000 and 30000 that nobody listens at."""
    ports: list[int] = []
    with contextlib.ExitStack() as probes:
        while len(ports) < number:
            port = _OWN.randrange(10_000, 30_000)
            with contextlib.suppress(OSError):
                probes.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    return ports


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]
