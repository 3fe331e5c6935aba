"""Strong scaling: the same work on 1, 2, 4, ... threads, up to all cores, beside DGL 2.1.

    python benchmarks/scaling.py            two minutes for each number of threads
    python benchmarks/scaling.py --quick    small sizes

`--seconds 2` measures for two seconds, not ten, for each case and number of threads. Results are written after each
number of threads: 1, all cores, and then fewer and fewer. `--partition` only shares out work, see below.

g-SpMM, a training step of GAT, neighbour sampling with blocks, and Tree-LSTMs as vertex programs (DGL's as in its
tutorial, by prop_nodes_topo). Each number of threads has a process of its own, whose OMP_NUM_THREADS every library
obeys. Whoever has 16 or 64 cores: run this.

What more threads than cores would do is computed from counters: kernels cut their work as for 8 to 64 threads, but one
thread runs all tasks, one after the other, and each is timed. Tasks are then given to threads as these become free.
"""

from __future__ import annotations

import ctypes
import heapq
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from attention import training_step
from common import OURS, erdos_renyi, interleave, load_dgl, parser, power_law, save, table
from sampling import BATCH_SIZE, FANOUTS, Peer, cycled
from tree_models import TreeLSTM, load_trees
from tree_ways import Messages, VertexProgram, Way

import dglite
import dglite.nn
import dglite.sampling
from dglite.backend.torch import TorchBackend
from dglite.kernels.cpu.run import launch

PEER = "DGL 2.1"
WIDTH, HEADS_OF, HIDDEN, TREES = 64, 32, 256, 64
MORE_THREADS = (1, 8, 16, 32, 64)
Runners = dict[str, Callable[[], Any]]


def counts_of_threads() -> list[int]:
    """Return 1, the number of cores, and the powers of two between them, the largest first."""
    cores = os.cpu_count() or 1
    between = {1 << bit for bit in range(cores.bit_length())} - {1, cores}
    return list(dict.fromkeys((1, cores, *sorted(between, reverse=True))))


# -- the cases ---------------------------------------------------------------------------------------------------------
def aggregation(libraries: dict[str, Any], scale: int) -> Runners:
    """A sum over in-edges on a power-law graph, forward and backward."""
    num_nodes = 100_000 // scale
    src, dst = (torch.from_numpy(ends).int() for ends in power_law(num_nodes, 50 * num_nodes))
    x = torch.randn(num_nodes, WIDTH, requires_grad=True)

    def runner(library: Any) -> Callable[[], Any]:
        graph = library.graph((src, dst), num_nodes=num_nodes)
        return lambda: torch.autograd.grad(library.ops.copy_u_sum(graph, x).sum(), x)

    return {name: runner(library) for name, library in libraries.items()}


def attention(libraries: dict[str, Any], scale: int) -> Runners:
    """A training step of a graph attention layer."""
    num_nodes = 32_768 // scale
    src, dst = (torch.from_numpy(ends).int() for ends in erdos_renyi(num_nodes, 26 * num_nodes))
    results = {}
    for name, library in libraries.items():
        graph = library.add_self_loop(library.graph((src, dst), num_nodes=num_nodes))
        layers = __import__(f"{library.__name__}.nn", fromlist=["GATConv"])
        results[name] = training_step(layers, graph, "GATConv", HEADS_OF, {})
    return results


def sampling(libraries: dict[str, Any], scale: int) -> Runners:
    """Neighbours of a batch of seeds, layer by layer, and their blocks."""
    num_nodes = 500_000 // scale
    src, dst = (torch.from_numpy(ends) for ends in power_law(num_nodes, 20 * num_nodes))
    batches = list(torch.randperm(num_nodes)[: 5 * BATCH_SIZE].split(BATCH_SIZE))
    peers = {name: Peer(library, library.sampling, src, dst, num_nodes) for name, library in libraries.items()}
    return {name: cycled(peer.batch, batches) for name, peer in peers.items()}


def dynamic(libraries: dict[str, Any], scale: int) -> Runners:
    """Training steps of Tree-LSTMs on batches of trees."""
    trees, words, _ = load_trees(2 * TREES // scale)
    model = TreeLSTM(words, HIDDEN // scale)
    ways: dict[str, Way] = {OURS: VertexProgram(model)}
    if PEER in libraries:
        ways[PEER] = Messages(model, libraries[PEER], trees)
    batches = [trees[: len(trees) // 2], trees[len(trees) // 2 :]]

    def runner(way: Way) -> Callable[[], Any]:
        def step(batch: Any) -> None:
            way.step(way.construct(batch))
            way.finish()

        return cycled(step, batches)  # type: ignore[arg-type]

    return {name: runner(way) for name, way in ways.items()}


CASES: dict[str, Callable[[dict[str, Any], int], Runners]] = {
    f"copy_u sum, width {WIDTH}, forward and backward": aggregation,
    f"GAT, 8 heads of {HEADS_OF}, training step": attention,
    f"neighbours {FANOUTS} and blocks of {BATCH_SIZE:,} seeds": sampling,
    f"Tree-LSTM, hidden {HIDDEN}, batch {TREES}, training step": dynamic,
}


# -- measuring ---------------------------------------------------------------------------------------------------------
def measure(quick: bool, budget: float) -> list[dict[str, Any]]:
    """Return one record per case, on the threads of this process."""
    libraries: dict[str, Any] = {OURS: dglite}
    if (dgl := load_dgl()) is not None:
        libraries[PEER] = dgl
    records = []
    for case, runners_of in CASES.items():
        torch.manual_seed(0)
        runners = runners_of(libraries, 8 if quick else 1)
        for run in runners.values():
            run()
        seconds = interleave(runners, budget=1 if quick else budget, most=25, slow_from=60)
        records.append({"case": case, "threads": torch.get_num_threads(), "seconds": seconds})
    return records


def measured_on(threads: int, arguments: list[str]) -> list[dict[str, Any]]:
    """Return the measurements of a process with this many threads."""
    command = [sys.executable, __file__, "--here", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


# -- more threads than cores -------------------------------------------------------------------------------------------
class Counters:
    """Runs the tasks of each launch one after the other, and keeps their seconds of processor time."""

    def __init__(self) -> None:
        """Take no launches yet."""
        self.launches: list[tuple[list[float], float]] = []
        self._task = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

    def run_tasks(self, gomp_parallel: int, member: int, team: int, threads: int, pool: int) -> None:
        """Stand in for ``launch._run_tasks``: ``launch.member`` says what the words of a team are."""
        address, args, tasks, first, stop = (ctypes.c_int64 * 5).from_address(team)
        run = self._task(address)
        seconds = [self._timed(run, args, task, tasks) for task in range(first, stop)]
        self.launches.append((seconds, self._timed(run, args, -1, tasks) if stop == tasks else 0.0))

    @staticmethod
    def _timed(run: Callable[..., Any], *arguments: int) -> float:
        start = time.thread_time()
        run(*arguments)
        return time.thread_time() - start


def makespan(seconds: list[float], threads: int) -> float:
    """Return when the last of ``threads`` threads ends that take tasks in their order."""
    free = [0.0] * threads
    for task in seconds:
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def partition(quick: bool) -> list[dict[str, Any]]:
    """Return a record per case and number of threads: seconds of tasks, of merges, and of what is not in tasks."""
    records, run_tasks = [], launch._run_tasks
    for case, runners_of in list(CASES.items())[:3]:  # lines of vertex programs go by launches of their own
        torch.manual_seed(0)
        run = runners_of({OURS: dglite}, 8 if quick else 1)[OURS]
        for threads in MORE_THREADS:
            TorchBackend.num_threads = staticmethod(lambda threads=threads: threads)
            samples = []
            for _ in range(2 if quick else 7):
                counters = Counters()
                launch._run_tasks = counters.run_tasks
                start = time.thread_time()
                run()
                total = time.thread_time() - start
                launch._run_tasks = run_tasks
                samples.append(_parts(counters, total, threads))
            middle = {name: statistics.median(sample[name] for sample in samples[1:]) for name in samples[0]}
            records.append({"case": case, "threads": threads, **middle})
    return records


def _parts(counters: Counters, total: float, threads: int) -> dict[str, float]:
    work = sum(sum(seconds) for seconds, _ in counters.launches)
    merge = sum(merge for _, merge in counters.launches)
    ideal = sum(makespan(seconds, threads) for seconds, _ in counters.launches)
    serial = total - work - merge
    return {
        "work": work,
        "merge": merge,
        "rest": serial,
        "imbalance": ideal * threads / work if work else 1.0,
        "predicted": serial + merge + ideal,
        "launches": len(counters.launches),
    }


def partition_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case and number of threads: how well work is shared, and what is done by one thread alone."""
    rows = []
    for r in records:
        total = r["work"] + r["merge"] + r["rest"]
        rows.append(
            [
                r["case"],
                str(r["threads"]),
                f"{1e3 * r['work']:.1f}",
                f"{r['launches']:.0f}",
                f"{r['imbalance']:.2f}",
                f"{r['merge'] / total:.2%}",
                f"{r['rest'] / total:.1%}",
                f"{total / r['predicted']:.1f}",
            ]
        )
    heads = [
        "work",
        "threads",
        "in tasks, ms",
        "launches",
        "longest thread / mean",
        "merging",
        "outside",
        "predicted, x",
    ]
    return table(heads, rows)


def scaling_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case and number of threads: milliseconds, how many times as fast as on one, and the ratio."""
    alone = {r["case"]: r["seconds"] for r in records if r["threads"] == 1}
    rows = []
    for record in records:
        row = [record["case"], str(record["threads"])]
        for name, seconds in record["seconds"].items():
            row += [f"{1e3 * seconds:.1f}", f"{alone[record['case']][name] / seconds:.2f}"]
        if PEER in record["seconds"]:
            row.append(f"{record['seconds'][PEER] / record['seconds'][OURS]:.2f}")
        rows.append(row)
    names = list(records[0]["seconds"])
    header = ["work", "threads", *(title for name in names for title in (f"{name}, ms", "of one thread's speed"))]
    return table([*header, *([f"{PEER} / {OURS}"] if PEER in names else [])], rows)


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--here", action="store_true", help="measure on the threads of this process, print JSON")
    options.add_argument("--seconds", type=float, default=10, help="for each case and number of threads")
    options.add_argument("--partition", action="store_true", help="share out work for more threads than cores, only")
    given = options.parse_args()
    if given.here:
        print(json.dumps(partition(given.quick) if given.partition else measure(given.quick, given.seconds)))
        return
    if given.partition:
        shares = measured_on(1, sys.argv[1:])
        print(partition_table(shares))
        if not given.quick:
            save("partition", {"records": shares})
        return
    records: list[dict[str, Any]] = []
    for threads in counts_of_threads():
        records += measured_on(threads, sys.argv[1:])
        records.sort(key=lambda record: (list(CASES).index(record["case"]), record["threads"]))
        print(scaling_table(records), flush=True)
        if not given.quick:
            save("scaling", {"records": records})


if __name__ == "__main__":
    main()
