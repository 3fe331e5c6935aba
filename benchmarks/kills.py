"""Kill a rank of a training job at a random moment, and see what the others do, and what a new job makes of it.

    python benchmarks/kills.py                 200 kills, some minutes
    python benchmarks/kills.py --runs 6        fewer; results of less than 100 are not kept
    python benchmarks/kills.py --seed 200 --runs 100 --add    more, beside those that there are
    python benchmarks/kills.py --seed 17 --runs 1 --show    one again, with what its ranks said

Each run starts 2 or 3 processes that train on a small graph and save checkpoints: GraphSAGE and a table of embeddings
by mini-batches of a graph in parts, or a whole graph in parts with halos. One is killed by SIGKILL in its start, while
it samples, exchanges rows, exchanges halos, or saves. Then

- all others have to end by themselves within the timeout, with an error that has the number of the one that was killed;
- the files of the graph's parts have to be what was written, and the last checkpoint has to be readable;
- a new job of 1, 2 or 3 processes goes on from it, and its losses have to be those of a job that nobody disturbed.

Processes are forked from one that has imported all there is to import.
"""

from __future__ import annotations

import gc
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1"}  # a process with threads cannot be forked

import numpy as np
import torch
from common import RESULTS, parser, save, table
from torch import distributed, nn

import dglite
from dglite.dataloading import NeighborSampler
from dglite.distributed import (
    Collectives,
    DistEmbedding,
    DistGraph,
    DistNodeDataLoader,
    FullGraph,
    exit_client,
    initialize,
    load_checkpoint,
    partition_graph,
    save_checkpoint,
)
from dglite.distributed.config import PartConfig
from dglite.distributed.optim import SparseAdam
from dglite.nn import SAGEConv

PLACES = "start", "sampling", "exchange", "halos", "checkpoint"
TIMEOUT = 8.0
"""Seconds that exchanges wait, and that processes then have to ask each other, and to end."""
NODES, EDGES, WIDTH, CLASSES = 60, 400, 4, 3
STEPS, BATCHES = 6, 6
"""Steps of a job; batches of a step, by however many processes they are made."""
CLOSE = 1e-5
"""By how much, relatively, losses may differ: as many processes add up in another order."""


@dataclass
class Kill:
    """Who dies, and when: the seconds after the place is reached for the ``count``-th time."""

    place: str
    victim: int
    count: int
    delay: float

    def come_to(self, place: str) -> None:
        """Be killed from now on, if this is the place."""
        if place == self.place:
            self.count -= 1
            if self.count == 0:
                threading.Thread(target=self._die, daemon=True).start()

    def _die(self) -> None:
        time.sleep(self.delay)
        os.kill(os.getpid(), signal.SIGKILL)


def nobody(place: str) -> None:
    """Be at a place where nobody is killed."""


# -- jobs --------------------------------------------------------------------------------------------------------------
def graph() -> dglite.DGLGraph:
    """Return the graph that all jobs train on."""
    draw = torch.Generator().manual_seed(0)
    g = dglite.graph(tuple(torch.randint(NODES, (2, EDGES), generator=draw)), num_nodes=NODES)
    g.ndata["x"] = torch.rand(NODES, WIDTH, generator=draw)
    g.ndata["y"] = torch.randint(CLASSES, (NODES,), generator=draw)
    return g


class Model(nn.Module):
    """GraphSAGE."""

    def __init__(self) -> None:
        super().__init__()
        self.first = SAGEConv(2 * WIDTH, 8, "mean", activation=torch.tanh)
        self.second = SAGEConv(8, CLASSES, "mean")

    def forward(self, blocks: list[dglite.DGLGraph], x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.second(blocks[1], self.first(blocks[0], x))


def minibatches(folder: Path, world: int, come_to: Callable[[str], None], log: Callable[[int, float], None]) -> None:
    """Train on mini-batches, from the last checkpoint."""

    class Sampler(NeighborSampler):
        def sample_blocks(self, *given: Any, **named: Any) -> Any:
            come_to("sampling")
            return super().sample_blocks(*given, **named)

    g = DistGraph("g", folder.parent / f"parts{world}" / "g.json", timeout=TIMEOUT)
    torch.manual_seed(0)
    dglite.seed(0)
    model = Model()
    rows = DistEmbedding(NODES, WIDTH, "rows", part_policy=g.get_node_partition_policy())
    optimizer, sparse = torch.optim.Adam(model.parameters(), lr=0.01), SparseAdam([rows], lr=0.01)
    nodes = torch.argsort(g.original_ids("node", None, range(NODES)))[:48]
    sampler = Sampler([3, 3], prefetch_node_feats=["x"], prefetch_labels=["y"])
    batches = DistNodeDataLoader(g, nodes, sampler, batch_size=4, shuffle=True, shared=True, num_workers=1)
    state = {"model": model, "optimizer": optimizer, "rows": rows, "sparse": sparse, "batches": batches}
    done = load_checkpoint(state, folder / "checkpoints", timeout=TIMEOUT) or 0
    running = iter(batches)
    for step in range(done, STEPS):
        total = torch.zeros(())
        for _ in range(BATCHES // world):
            if (batch := next(running, None)) is None:
                running = iter(batches)
                batch = next(running)
            inputs, _, blocks = batch
            logits = model(blocks, torch.cat([blocks[0].srcdata["x"], rows(inputs)], 1))
            loss = nn.functional.cross_entropy(logits, blocks[-1].dstdata["y"]) / BATCHES
            loss.backward()
            total += loss.detach()
        summed(model, total)
        log(step, total.item())
        for one in (optimizer, sparse):
            one.step()
            one.zero_grad()
        if step % 2 == 0:
            come_to("checkpoint")
            save_checkpoint(state, folder / "checkpoints", step + 1, timeout=TIMEOUT)


def full_graph(folder: Path, world: int, come_to: Callable[[str], None], log: Callable[[int, float], None]) -> None:
    """Train on the whole graph, from the last checkpoint."""
    g, rank = graph(), distributed.get_rank()
    starts = [NODES * i // world for i in range(world + 1)]
    own = slice(starts[rank], starts[rank + 1])
    src, dst = g.edges()
    mine = (dst >= own.start) & (dst < own.stop)
    part, x, y = FullGraph((src[mine], dst[mine]), starts, timeout=TIMEOUT), g.ndata["x"][own], g.ndata["y"][own]
    torch.manual_seed(0)
    dglite.seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = {"model": model, "optimizer": optimizer}
    done = load_checkpoint(state, folder / "checkpoints", timeout=TIMEOUT) or 0
    for step in range(done, STEPS):
        hidden = part.aggregate(model[0](x), reduce="mean").tanh()
        loss = nn.functional.cross_entropy(part.aggregate(model[1](hidden)), y, reduction="sum") / NODES
        loss.backward()
        total = loss.detach()
        summed(model, total)
        log(step, total.item())
        optimizer.step()
        optimizer.zero_grad()
        if step % 2 == 0:
            come_to("checkpoint")
            save_checkpoint(state, folder / "checkpoints", step + 1, timeout=TIMEOUT)


def summed(model: nn.Module, total: torch.Tensor) -> None:
    """Add up gradients and losses over processes."""
    for param in model.parameters():
        distributed.all_reduce(param.grad)
    distributed.all_reduce(total)


JOBS = {"mini-batches": minibatches, "full graph": full_graph}


# -- processes ---------------------------------------------------------------------------------------------------------
def started(job: str, folder: Path, name: str, world: int, kill: Kill | None = None) -> list[int]:
    """Start the processes of a job and return their numbers; in these, run it and return nothing."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pids = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            os.environ |= {
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            os.dup2(os.open(folder / f"{name}{rank}.log", os.O_WRONLY | os.O_CREAT), 2)
            run_rank(job, folder, name, world, kill if kill and kill.victim == rank else None)
            return []
        pids.append(pid)
    return pids


def run_rank(job: str, folder: Path, name: str, world: int, kill: Kill | None) -> None:
    """Run one process of a job."""
    come_to = nobody if kill is None else kill.come_to
    begin = Collectives.start

    def start(self: Any, what: str, kind: str, *given: Any) -> Any:
        come_to("halos" if kind in ("halos", "gradients") and job == "full graph" else "exchange")
        return begin(self, what, kind, *given)

    Collectives.start = start

    def log(step: int, loss: float) -> None:
        if distributed.get_rank() == 0:
            with open(folder / f"{name}.losses", "a") as file:
                file.write(f"{step} {loss!r}\n")

    come_to("start")
    initialize(timeout=TIMEOUT)
    JOBS[job](folder, world, come_to, log)
    if kill is not None:
        time.sleep(kill.delay + 8 * TIMEOUT)  # it is to die while others wait
    exit_client()


def ended(pids: list[int]) -> dict[int, tuple[int, float]]:
    """Return for each process its status and when it ended; those that do not end in time are killed."""
    results: dict[int, tuple[int, float]] = {}
    deadline = time.monotonic() + 8 * TIMEOUT
    while len(results) < len(pids):
        for pid in [pid for pid in pids if pid not in results]:
            over, status = os.waitpid(pid, os.WNOHANG)
            if over:
                results[pid] = status, time.monotonic()
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return results


def losses_of(folder: Path, name: str) -> dict[int, float]:
    """Return what the first process logged, by step; a line that it was killed in is left out."""
    path = folder / f"{name}.losses"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return {int(step): float(loss) for step, loss in (line.split() for line in lines if line.endswith("\n"))}


# -- one run -----------------------------------------------------------------------------------------------------------
def drawn(seed: int) -> tuple[Kill, str, int, int]:
    """Return who is killed where, the job, and how many processes it and its successor have."""
    draw = random.Random(seed)
    place = PLACES[seed % len(PLACES)]
    job = {"sampling": "mini-batches", "exchange": "mini-batches", "halos": "full graph"}.get(place)
    job = job or draw.choice([*JOBS])
    world = draw.choice([2, 3])
    most, delay = {"start": (1, 0.15), "sampling": (9, 0.001), "checkpoint": (3, 0.06), "halos": (20, 0.002)}.get(
        place, (70, 0.002)
    )
    kill = Kill(place, draw.randrange(world), draw.randint(1, most), draw.random() * delay)
    return kill, job, world, draw.choice([1, 2, 3])


def names_victim(message: str, victim: int, world: int) -> bool:
    """Whether an error says that the victim is gone, alone or with others, which end when they notice it."""
    alone = rf"rank(s \[{victim}\] of {world}| {victim}) (is gone|did not come)"
    several = rf"ranks ([\d, ]+, )?{victim}(, [\d, ]+)? are gone"
    return re.search(rf"\b({alone}|{several})", message) is not None


def run(seed: int, place: Path, expected: dict[str, dict[int, float]], show: bool) -> dict[str, Any] | None:
    """Kill, look, and go on; return what was seen. In a process of the job, None."""
    kill, job, world, after = drawn(seed)
    folder = place / f"run{seed}"
    folder.mkdir()
    victim, count = kill.victim, kill.count
    if not (pids := started(job, folder, "killed", world, kill)):
        return None
    result = ended(pids)
    died = result[pids[victim]][1]
    wrong = [] if result[pids[victim]][0] == signal.SIGKILL else ["the victim was not killed"]
    seconds, message = 0.0, []
    for rank in sorted(set(range(world)) - {victim}):
        status, when = result[pids[rank]]
        seconds = max(seconds, when - died)
        message.append((folder / f"killed{rank}.log").read_text())
        if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != 1:
            wrong.append(f"rank {rank} ended with status {status}")
        if not names_victim(message[-1], victim, world):
            wrong.append(f"rank {rank} does not name rank {victim}")
    if seconds > 2 * TIMEOUT:
        wrong.append(f"the others ended after {seconds:.1f} s")
    config = PartConfig.read(place / f"parts{world}" / "g.json")
    for name in config.files:
        config.verify(name)
    if not (pids := started(job, folder, "resumed", after)):
        return None
    statuses = [status for status, _ in ended(pids).values()]
    if any(statuses):
        wrong.append(f"the job that went on ended with {statuses}")
        message += [(folder / f"resumed{rank}.log").read_text() for rank in range(after)]
    losses = losses_of(folder, "resumed")
    whole = expected[job]
    if set(losses) != set(range(min(losses, default=0), STEPS)):
        wrong.append(f"the job that went on has losses of steps {sorted(losses)}")
    apart = max([abs(loss / whole[step] - 1) for step, loss in losses.items()], default=0.0)
    if apart > CLOSE:
        wrong.append(f"losses differ by {apart:.1e}")
    if show or wrong:
        print(f"seed {seed}: {kill.place}, visit {count}, {job}; {wrong or 'fine'}", *message, sep="\n")
    shutil.rmtree(folder)
    first = min(losses, default=0)
    return {"seed": seed, "place": kill.place, "job": job, "processes": world, "victim": victim, "seconds": seconds,
            "resumed_with": after, "resumed_at": first, "apart": apart, "wrong": wrong}  # fmt: skip


def warm() -> None:
    """Import and compile what jobs need, so that their processes need not."""
    g, model = graph(), Model()
    optimizer = torch.optim.Adam(model.parameters())
    _, _, blocks = NeighborSampler([3, 3]).sample(g, torch.arange(4))
    model(blocks, torch.ones(blocks[0].num_src_nodes(), 2 * WIDTH)).sum().backward()
    optimizer.step()
    dglite.ops.copy_u_mean(g, g.ndata["x"].requires_grad_()).sum().backward()
    gc.collect()
    gc.freeze()  # or each process would copy all memory to count references in it


def undisturbed(place: Path) -> dict[str, dict[int, float]] | None:
    """Return the losses of each job that nobody disturbs, and that is not resumed; None in one of its processes."""
    results = {}
    for job in JOBS:
        (place / job).mkdir()
        if not (pids := started(job, place / job, "whole", 2)):
            return None
        statuses = [status for status, _ in ended(pids).values()]
        if any(statuses):
            raise SystemExit(f"{job}: {(place / job / 'whole0.log').read_text()}")
        results[job] = losses_of(place / job, "whole")
    return results


def kills_table(records: list[dict[str, Any]]) -> str:
    """Return one row for each place."""
    rows = []
    for place in PLACES:
        own = [record for record in records if record["place"] == place]
        seconds = [record["seconds"] for record in own]
        rows.append(
            (
                place,
                str(len(own)),
                str(sum(bool(record["wrong"]) for record in own)),
                str(sum(record["resumed_at"] > 0 for record in own)),
                f"{np.median(seconds):.2f}" if own else "",
                f"{max(seconds, default=0):.2f}",
                f"{max((record['apart'] for record in own), default=0):.0e}",
            )
        )
    header = ["killed in", "runs", "failed", "from a checkpoint", "others end after s", "at most s", "losses apart"]
    return table(header, rows)


def main() -> None:
    """Kill, and write down what was seen."""
    global TIMEOUT
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--seed", type=int, default=0, help="of the first run")
    options.add_argument("--minutes", type=float, default=60, help="begin no run after this many")
    options.add_argument("--add", action="store_true", help="keep the results that there are, of other seeds")
    options.add_argument("--show", action="store_true", help="what the other ranks said")
    options.add_argument("--timeout", type=float, default=TIMEOUT, help="of exchanges; more on a busy machine")
    given = options.parse_args()
    TIMEOUT = given.timeout
    place = Path(tempfile.mkdtemp())
    for parts in (1, 2, 3):
        partition_graph(graph(), "g", parts, place / f"parts{parts}", part_method="random")
    warm()
    expected = undisturbed(place)
    if expected is None:
        return
    records = []
    end = time.monotonic() + 60 * given.minutes
    for seed in range(given.seed, given.seed + given.runs):
        if time.monotonic() > end:
            break
        if (record := run(seed, place, expected, given.show)) is None:
            return
        records.append(record)
    shutil.rmtree(place)
    print(kills_table(records))
    if given.runs >= 100 and not given.quick:
        path, seeds = RESULTS / "kills.json", {record["seed"] for record in records}
        old = json.loads(path.read_text())["records"] if given.add and path.exists() else []
        records += [record for record in old if record["seed"] not in seeds]
        save("kills", {"timeout": TIMEOUT, "records": sorted(records, key=lambda record: record["seed"])})
    if any(record["wrong"] for record in records):
        sys.exit(1)
    print(json.dumps({"kills": len(records)}))


if __name__ == "__main__":
    main()
