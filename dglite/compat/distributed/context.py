"""``dgl.distributed.initialize``, before or after ``torch.distributed.init_process_group``."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch.distributed as dist

from ...distributed import exit_client as leave
from ...distributed import initialize as join
from ...errors import DGLError
from .constants import MAX_QUEUE_SIZE

_machines: list[int] = [1]
"""The number of machines of the last ``ip_config``."""


def initialize(
    ip_config: Any = None,
    max_queue_size: int = MAX_QUEUE_SIZE,
    net_type: str | None = None,
    num_worker_threads: int = 1,
    use_graphbolt: bool = False,
    **ignored: Any,
) -> None:
    """Check ``ip_config``. The process group is made by the script, or by the first :class:`DistGraph`.

    DGL's launcher also starts server processes, in which this ends the process: there is nothing to serve. The other
    arguments are accepted: they are about servers.

    Raises DGLError: the file cannot be read, has a line that is not "address [port]", or the number of processes is not
    a multiple of its machines.
    """
    if os.environ.get("DGL_ROLE", "client") == "server":
        sys.exit()
    if ip_config is None or "RANK" not in os.environ:
        return
    machines = len(read_ip_config(ip_config, 1))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world % machines:
        raise DGLError(
            f"{ip_config} names {machines} machines, but there are {world} processes; start the same number on each"
        )
    _machines[0] = machines


def exit_client() -> None:
    """Leave the process group, when all ranks are done."""
    leave()


def has_group() -> bool:
    """Whether there is a process group, which is made now if the process was started as one of several."""
    if not dist.is_initialized() and "RANK" in os.environ:
        join()
    return dist.is_initialized()


def machine_count() -> int:
    """Return the number of machines."""
    return _machines[0]


def read_ip_config(filename: Any, num_servers: int) -> dict[int, list[Any]]:
    """Return [machine, address, port, servers of a machine] by server, from lines "address [port]".

    Raises DGLError: the file cannot be read, is empty, or has another line.
    """
    try:
        with open(filename, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DGLError(
            f"ip_config {filename} cannot be read: {error}; it has a line 'address [port]' a machine"
        ) from error
    servers: dict[int, list[Any]] = {}
    for machine, fields in enumerate(lines):
        if len(fields) > 2 or not all(field.isdigit() for field in fields[1:]):
            raise DGLError(
                f"ip_config {filename}: line {machine + 1} is {' '.join(fields)!r}; expected 'address [port]'"
            )
        port = int(fields[1]) if len(fields) == 2 else 30050
        for i in range(num_servers):
            servers[len(servers)] = [machine, fields[0], port + i, num_servers]
    if not servers:
        raise DGLError(f"ip_config {filename} is empty; expected a line 'address [port]' for each machine")
    return servers
