"""Joining and leaving the process group of a job."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ..errors import DGLError
from .collectives import TIMEOUT
from .witness import Witness, forget, witness, witness_of_group

_READ = 1.0
"""Seconds in which others read from the first process why it ends."""
_PAUSE, _ATTEMPT = 0.05, timedelta(seconds=1)
"""Between two attempts to connect, in seconds, and for one."""


def initialize(
    ip_config: Any = None, backend: str | None = None, timeout: float = TIMEOUT, **ignored: Any
) -> tuple[int, int]:
    """Make the process group of the processes that torchrun started, unless there is one; return rank and world size.

    A process that was started alone is a group of one.

    Raises DGLError: on every rank alike: some did not come in time, were started with another number of processes, or
    as the same rank.

    Parameters
    ----------
    ip_config, ignored
        accepted for DGL's sake: addresses come from torchrun.
    backend
        what gradients of the model travel by: ``"gloo"`` by default; ``"cpu:gloo,cuda:nccl"`` with GPUs. Features
        travel by gloo in any case.
    timeout
        seconds to wait for the slowest rank.
    """
    if not dist.is_available():
        raise DGLError("this build of torch has no torch.distributed; install one that has")
    if not dist.is_initialized():
        name, wait = backend or "gloo", timedelta(seconds=timeout)
        if "RANK" not in os.environ:
            dist.init_process_group(name, timeout=wait, store=dist.HashStore(), rank=0, world_size=1)
        else:
            _join(name, wait)
    return dist.get_rank(), dist.get_world_size()


def exit_client() -> None:
    """Leave the group, when all ranks are done."""
    if dist.is_initialized():
        with witness().watched("the job", range(dist.get_world_size()), "leaving the job"):
            dist.barrier()
        forget()
        dist.destroy_process_group()


def _join(backend: str, wait: timedelta) -> None:
    rank, world = (_number(key) for key in ("RANK", "WORLD_SIZE"))
    if not 0 <= rank < world:
        raise DGLError(f"RANK={rank}, but WORLD_SIZE={world}: ranks are counted from 0; start processes by torchrun")
    witness, agent = Witness(rank, world), os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    host, port, hosts = os.environ.get("MASTER_ADDR", "127.0.0.1"), _number("MASTER_PORT"), rank == 0 and not agent
    end = time.monotonic() + wait.total_seconds()
    store = _hosted(host, port, world, wait) if hosts else _reached(host, port, world, wait)
    joined = dist.PrefixStore(f"dglite/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    try:
        witness.meet(_meet(joined, rank, world, witness, end))
    except BaseException:
        witness.close()
        if hosts:
            time.sleep(_READ)
        raise
    witness.make_group(
        "the job",
        range(world),
        "making a group of processes",
        lambda: dist.init_process_group(backend, timeout=wait, store=store, rank=rank, world_size=world),
    )
    witness_of_group(witness)


def _hosted(host: str, port: int, world: int, wait: timedelta) -> dist.Store:
    """Open the store that ranks meet in."""
    try:
        return dist.TCPStore(host, port, world, True, wait, wait_for_workers=False, multi_tenant=True)
    except RuntimeError as error:
        raise DGLError(
            f"{host}:{port} (MASTER_ADDR and MASTER_PORT) cannot be used, perhaps because another job or rank 0 does: "
            f"{error}"
        ) from error


def _reached(host: str, port: int, world: int, wait: timedelta) -> dist.Store:
    """Return the store of the first process. Torch would wait for it three times as long as it is told to."""
    end = time.monotonic() + wait.total_seconds()
    while True:
        try:
            socket.create_connection((host, port), _ATTEMPT.total_seconds()).close()
            store = dist.TCPStore(host, port, world, False, _ATTEMPT, wait_for_workers=False)
            store.set_timeout(wait)
            return store
        except (OSError, RuntimeError) as error:
            if time.monotonic() > end:
                raise DGLError(
                    f"rank 0 did not come to {host}:{port} within {wait.total_seconds():g} s: {error}; see its messages"
                ) from error
        time.sleep(_PAUSE)


def _number(key: str) -> int:
    try:
        return int(os.environ[key])
    except (KeyError, ValueError):
        raise DGLError(
            f"the environment has {key}={os.environ.get(key)!r}; expected a number: start processes by torchrun"
        ) from None


def _meet(store: dist.Store, rank: int, world: int, witness: Witness, end: float) -> dict[int, Any]:
    """Return where all ranks are asked, by rank."""
    if store.add(f"count {rank}", 1) > 1:
        raise DGLError(f"two processes have RANK={rank}; start processes by torchrun")
    store.set(f"rank {rank}", json.dumps([world, witness.address]))
    addresses = {}
    for other in range(world):
        left = max(end - time.monotonic(), 0.001)
        try:
            store.wait([f"rank {other}"], timedelta(seconds=left))
            theirs, addresses[other] = json.loads(store.get(f"rank {other}"))
        except RuntimeError as error:
            raise DGLError(f"{_missing(store, world)}; see their messages") from error
        if theirs != world:
            (a, size), (b, other_size) = sorted([(rank, world), (other, theirs)])
            raise DGLError(
                f"rank {a} was started with WORLD_SIZE={size}, rank {b} with {other_size}; it must be the same on all"
            )
    return addresses


def _missing(store: dist.Store, world: int) -> str:
    try:
        missing = [rank for rank in range(world) if not store.check([f"rank {rank}"])]
    except RuntimeError:
        return "rank 0 is gone, and with it the store in which ranks meet"
    return f"ranks {missing} of {world} did not come in time"
