"""Processes that fail: run with a folder, it forks ranks for each case and prints what each of them said, as JSON.

A process that has failed leaves by Python's own way out, so that what it says is what a script would.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import distributed

from dglite.distributed import Collectives, exit_client, initialize, witness

TIMEOUT = 3.0
FREE = 6.0
"""Seconds after which the rank that is to blame may go on."""


def joined(rank: int) -> Collectives:
    initialize(timeout=TIMEOUT)
    return Collectives(TIMEOUT)


def raises(rank: int) -> None:
    exchange = joined(rank)
    if rank == 1:
        raise ValueError("no more")
    exchange.barrier()


def raises_beside_torch(rank: int) -> None:
    joined(rank)
    if rank == 1:
        raise ValueError("no more")
    distributed.all_reduce(torch.zeros(1))


def leaves(rank: int) -> None:
    exchange = joined(rank)
    if rank == 1:
        sys.exit(1)
    exchange.barrier()


def is_killed_while_others_compute(rank: int) -> None:
    exchange = joined(rank)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5 * rank)
    exchange.barrier()


def is_busy(rank: int) -> None:
    exchange = joined(rank)
    if rank == 1:
        time.sleep(FREE)
    exchange.barrier()


def stops(rank: int) -> None:
    exchange = joined(rank)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    exchange.barrier()


def leaves_before_the_end(rank: int) -> None:
    joined(rank)
    if rank != 1:
        exit_client()


def does_not_come(rank: int) -> None:
    if rank != 1:
        joined(rank)


def is_there_twice(rank: int) -> None:
    if rank == 2:
        os.environ["RANK"] = "1"
    initialize(timeout=TIMEOUT)


def has_another_number_of_ranks(rank: int) -> None:
    if rank == 1:
        os.environ["WORLD_SIZE"] = "3"
    initialize(timeout=TIMEOUT)


def is_too_many(rank: int) -> None:
    os.environ["RANK"] = str(rank + 2)
    initialize(timeout=TIMEOUT)


CASES: dict[Callable[[int], None], int] = {
    raises: 3,
    raises_beside_torch: 2,
    leaves: 2,
    is_killed_while_others_compute: 3,
    is_busy: 2,
    stops: 2,
    leaves_before_the_end: 2,
    does_not_come: 3,
    is_there_twice: 3,
    has_another_number_of_ranks: 2,
    is_too_many: 2,
}
"""The cases, and how many ranks each has."""


def main() -> None:
    witness.PATIENCE = 2.0
    found = {}
    for case, world in CASES.items():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        pids = []
        for rank in range(world):
            log = Path(sys.argv[1]) / f"{case.__name__}{rank}"
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
                own = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                os.environ |= {key: str(value) for key, value in own.items()}
                case(rank)
                return
            pids.append((pid, log))
        if case is stops:
            os.waitpid(pids[0][0], 0)
            os.kill(pids[1][0], signal.SIGKILL)
            pids = pids[1:]
        for pid, _ in pids:
            os.waitpid(pid, 0)
        found[case.__name__] = [(Path(sys.argv[1]) / f"{case.__name__}{rank}").read_text() for rank in range(world)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
