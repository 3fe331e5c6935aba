"""Processes that fail: run with a folder, it forks ranks for all cases and prints what each of them said, as JSON.

A process that has failed leaves by Python's own way out, so that what it says is what a script would.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import distributed

from dglite.distributed import Collectives, DistTensor, PartitionPolicy, exit_client, initialize, start, store, witness
from dglite.distributed.book import Ranges
from tests.patience import PATIENCE
from tests.ports import free_ports

TIMEOUT = 10.0
"""Seconds where waiting in vain is what is tested; the ranks that do come have to be less than this apart."""


def joined(rank: int, timeout: float = PATIENCE) -> Collectives:
    witness.PATIENCE = timeout
    initialize(timeout=PATIENCE)
    return Collectives(timeout)


def log(case: str, rank: int) -> Path:
    return Path(sys.argv[1]) / f"{case}{rank}"


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
    exchange = joined(rank, TIMEOUT)
    while rank == 1 and not log("is_busy", 0).stat().st_size:  # until rank 0 has given up
        time.sleep(0.1)
    exchange.barrier()


def stops(rank: int) -> None:
    """One stops at once: the other asks it four times in vain, and both have just met."""
    exchange = joined(rank, 3.0)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    exchange.barrier()


def on_two_machines(rank: int, timeout: float = PATIENCE) -> DistTensor:
    """Return a tensor of a row for each rank, which are on machines of their own."""
    exchange = joined(rank, timeout)
    store.machine_name = lambda: f"machine {rank}"
    rows = PartitionPolicy(exchange, Ranges([0, 1, 2], "row"), store=store.RowStore(exchange))
    table = DistTensor((2, 3), torch.float32, "table", part_policy=rows)
    exchange.barrier()
    return table


def is_killed_before_a_read(rank: int) -> None:
    table = on_two_machines(rank)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5)
    table[[0, 1]]


def is_killed_between_reads(rank: int) -> None:
    table = on_two_machines(rank)
    if rank == 1:
        while True:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
    while True:
        table[[0, 1]]


def stops_before_a_read(rank: int) -> None:
    table = on_two_machines(rank, TIMEOUT)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.5)
    table[[1]] = 1.0


def is_busy_and_is_read(rank: int) -> None:
    """The thread that trains takes no part."""
    table = on_two_machines(rank)
    if rank == 0:
        table[[1]] = 1.0
        print(table[[0, 1]].tolist(), file=sys.stderr, flush=True)
    else:
        while not log("is_busy_and_is_read", 0).stat().st_size:
            sum(range(1000))


def leaves_before_the_end(rank: int) -> None:
    joined(rank)
    if rank != 1:
        exit_client()


def does_not_come(rank: int) -> None:
    if rank != 1:
        initialize(timeout=TIMEOUT)


def is_there_twice(rank: int) -> None:
    if rank == 2:
        os.environ["RANK"] = "1"
    initialize(timeout=TIMEOUT)


def has_another_number_of_ranks(rank: int) -> None:
    if rank == 1:
        os.environ["WORLD_SIZE"] = "3"
    initialize(timeout=PATIENCE)


def is_too_many(rank: int) -> None:
    os.environ["RANK"] = str(rank + 2)
    initialize(timeout=PATIENCE)


CASES: dict[Callable[[int], None], int] = {
    raises: 3,
    raises_beside_torch: 2,
    leaves: 2,
    is_killed_while_others_compute: 3,
    is_busy: 2,
    stops: 2,
    is_killed_before_a_read: 2,
    is_killed_between_reads: 2,
    stops_before_a_read: 2,
    is_busy_and_is_read: 2,
    leaves_before_the_end: 2,
    does_not_come: 3,
    is_there_twice: 3,
    has_another_number_of_ranks: 2,
    is_too_many: 2,
}
"""The cases, and how many ranks each has."""


def main() -> None:
    start._READ = TIMEOUT
    gc.freeze()  # else each rank's way out copies the pages of all objects of torch, a second
    pids: dict[str, list[int]] = {}
    for (case, world), port in zip(CASES.items(), free_ports(len(CASES)), strict=True):
        pids[case.__name__] = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(log(case.__name__, rank), os.O_WRONLY | os.O_CREAT), 2)
                own = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                os.environ |= {key: str(value) for key, value in own.items()}
                case(rank)
                return
            pids[case.__name__].append(pid)
    stopped = {pids[name][1] for name in ("stops", "stops_before_a_read")}
    for pid in {pid for ranks in pids.values() for pid in ranks} - stopped:
        os.waitpid(pid, 0)
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    results = {name: [log(name, rank).read_text() for rank in range(len(ranks))] for name, ranks in pids.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
