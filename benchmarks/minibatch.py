"""Training on mini-batches: loaders alone, and training steps, against DGL 2.1 and PyTorch Geometric in one process.

    python benchmarks/minibatch.py                       all cases; --minutes, 10 by default, are shared out over them
    python benchmarks/minibatch.py GraphSAGE memory      some cases; the results of others stay as they are
    python benchmarks/minibatch.py --quick               a small graph; results are not kept

A power-law graph of 1M nodes and 20M edges with 128 features, batches of 1,024 seeds. GraphSAGE has three layers,
fan-outs 15, 10 and 5 and 0, 1 and 2 workers; other cases have 0. A fixed number of batches (``--batches``) stands for
an epoch. The time of the first batch, in which DGL starts its processes, does not count.

Memory is the most that a process and its workers have resident, shared pages counted once, while GraphSAGE trains in a
process of its own.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import OURS, RESULTS, load_dgl, load_pyg, measured, parser, save, table
from minibatch_tasks import TASKS, Data, Peer, Sizes, Task, pyg_sage

DGL, PYG = "DGL 2.1", "PyG"
WORKERS = (0, 1, 2)
TARGETS = {"loader": 2.5, "steps": 1.5}
MEMORY = "memory"
MEMORY_WORKERS = {OURS: (0, 2, 8), DGL: (0, 2)}
SLOW = 4


# -- timing ------------------------------------------------------------------------------------------------------------
def run_batches(task: Task, workers: int, use: Callable[[Any], Any], count: int) -> float:
    """Return seconds for each of ``count`` batches after the first."""
    batches = iter(task.loader(workers))
    use(next(batches))
    start = time.perf_counter()
    for _ in range(count):
        use(next(batches))
    seconds = time.perf_counter() - start
    del batches
    gc.collect()
    return seconds / count


def in_turns(tasks: dict[str, Task], workers: int, part: str, count: int, budget: float) -> dict[str, float]:
    """Return each library's median seconds per batch; three rounds at least, then until the budget is spent.

    A peer that took ``SLOW`` times as long in the first round is not run again; one that took twice that, neither with
    more workers. It is far behind anyway.
    """
    runs = {name: task.read if part == "loader" else task.step for name, task in tasks.items()}
    for name, task in tasks.items():
        run_batches(task, 0, runs[name], 2)
    order, start = random.Random(0), time.perf_counter()
    times: dict[str, list[float]] = {name: [] for name in tasks}
    pace = run_batches(tasks[OURS], workers, runs[OURS], count)
    while len(times[OURS]) < 3 or time.perf_counter() - start < budget:
        for name in order.sample(list(tasks), len(tasks)):
            if not times[name] or times[name][0] < SLOW * pace:
                times[name].append(run_batches(tasks[name], workers, runs[name], count))
    return {name: statistics.median(actual) for name, actual in times.items()}


def peers_of(data: Data) -> tuple[list[Peer], str]:
    """Return dglite and DGL."""
    import dglite
    import dglite.dataloading
    import dglite.nn

    peers = [Peer(OURS, dglite, dglite.dataloading, dglite.nn, data)]
    if (dgl := load_dgl()) is not None:
        import dgl.dataloading
        import dgl.nn.pytorch

        peers.append(Peer(DGL, dgl, dgl.dataloading, dgl.nn.pytorch, data))
    return peers, no_pyg()


def no_pyg() -> str:
    """Return why PyTorch Geometric cannot sample here, or nothing."""
    if load_pyg() is None:
        return "not installed"
    from torch_geometric import typing

    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        return "it samples with pyg-lib or torch-sparse, neither of which is installed"
    return ""


def measure(case: str, peers: list[Peer], without_pyg: str, budget: float) -> list[dict[str, Any]]:
    """Return one record for each number of workers of a case, for loading and for training."""
    sizes, records = peers[0].data.sizes, []
    tasks = {peer.name: TASKS[case](peer) for peer in peers}
    if case == "GraphSAGE" and not without_pyg:
        tasks[PYG] = pyg_sage(load_pyg(), peers[0].data)
    parts = [(part, workers) for workers in (WORKERS if case == "GraphSAGE" else (0,)) for part in TARGETS]
    behind: set[tuple[str, str]] = set()
    for part, workers in parts:
        taking_part = {name: task for name, task in tasks.items() if (name, part) not in behind}
        seconds = in_turns(taking_part, workers, part, sizes.batches, budget / len(parts))
        behind |= {(name, part) for name, taken in seconds.items() if taken > 2 * SLOW * seconds[OURS]}
        records.append({"case": case, "part": part, "workers": workers, "seconds": seconds, **measured()})
        print(batches_table(records[-1:]).splitlines()[-1], flush=True)
    return records


def batches_table(records: list[dict[str, Any]]) -> str:
    """Return one row per case, number of workers and part: milliseconds per batch, and how much faster dglite is."""
    names = [OURS, DGL, PYG]
    rows = []
    for record in records:
        seconds = record["seconds"]
        cells = [f"{1e3 * seconds[name]:.1f}" if name in seconds else "" for name in names]
        ratios = [f"{seconds[name] / seconds[OURS]:.2f}" if name in seconds else "" for name in names[1:]]
        rows.append([f"{record['case']}, {record['part']}", f"{record['workers']}", *cells, *ratios, record["commit"]])
    header = ["ms per batch", "workers", *names, *(f"{name} / {OURS}" for name in names[1:]), "commit"]
    return table(header, rows)


# -- memory ------------------------------------------------------------------------------------------------------------
def memory_of(name: str, workers: int, sizes: Sizes) -> dict[str, float]:
    """Train for some batches; return bytes at most, with the data alone, and in each worker."""
    peer = next(peer for peer in peers_of(Data(sizes))[0] if peer.name == name)
    task = TASKS["GraphSAGE"](peer)
    gc.collect()
    before, most, of_workers, done = _proportional("self"), 0, 0, threading.Event()

    def watch() -> None:
        nonlocal most, of_workers
        while not done.wait(0.05):
            children = [_proportional(child) for child in _children()]
            most = max(most, _proportional("self") + sum(children))
            of_workers = max([of_workers, *children])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run_batches(task, workers, task.step, sizes.batches)
    finally:
        done.set()
        watcher.join()
    return {"before": before, "most": most, "worker": of_workers}


def _proportional(process: str) -> int:
    """Return the resident bytes of a process, a page that n processes share counted as an nth."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _children() -> list[str]:
    return [
        child for thread in Path("/proc/self/task").iterdir() for child in (thread / "children").read_text().split()
    ]


def memory_in_process(name: str, workers: int, options: list[str]) -> dict[str, Any]:
    """Return the memory of a library and number of workers, measured in a process of its own."""
    command = [sys.executable, __file__, *options, "--only", f"{name}:{workers}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{name}, {workers} workers: {result.stderr.strip()}")
    return {"library": name, "workers": workers, **json.loads(result.stdout.splitlines()[-1]), **measured()}


def memory_table(records: list[dict[str, Any]]) -> str:
    """Return one row per library and number of workers."""
    rows = [
        [
            f"{record['library']}, {record['workers']} workers",
            f"{record['before'] / 1e9:.2f}",
            f"{record['most'] / 1e9:.2f}",
            f"{(record['most'] - record['before']) / 1e9:.2f}",
            f"{record['worker'] / 1e9:.2f}" if record["worker"] else "",
            record["commit"],
        ]
        for record in records
    ]
    return table(["GB", "before training", "at most", "more", "of it in each process", "commit"], rows)


# -- the whole ---------------------------------------------------------------------------------------------------------
def kept() -> dict[str, Any]:
    """Return the results that are there already, without the machine's description, which is of the newest."""
    path = RESULTS / "minibatch.json"
    result = json.loads(path.read_text()) if path.is_file() else {"records": [], "memory": []}
    return {key: value for key, value in result.items() if key != "machine"}


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("cases", nargs="*", choices=[*TASKS, MEMORY, []], help="all by default")
    options.add_argument("--minutes", type=float, default=10, help="to share out over all cases")
    options.add_argument("--batches", type=int, default=12, help="that stand for an epoch")
    options.add_argument("--mag-scale", type=float, default=0.5, help="of the graph of OGB-MAG's shape")
    options.add_argument("--only", help="library:workers, whose memory to print as JSON")
    given = options.parse_args()
    sizes = Sizes(1_000_000, 20_000_000, 1024, given.batches, given.mag_scale)
    if given.quick:
        sizes = Sizes(50_000, 500_000, 256, 3, 0.02)
    if given.only:
        name, _, workers = given.only.partition(":")
        print(json.dumps(memory_of(name, int(workers), sizes)))
        return
    cases = given.cases or [*TASKS, MEMORY]
    record = kept()
    timed = [case for case in cases if case != MEMORY]
    if timed:
        peers, record["without_pyg"] = peers_of(Data(sizes))
        parts = sum(len(WORKERS) if case == "GraphSAGE" else 1 for case in TASKS)
        for case in timed:
            share = (len(WORKERS) if case == "GraphSAGE" else 1) / parts
            new = measure(case, peers, record["without_pyg"], 0 if given.quick else 60 * given.minutes * share)
            others = [x for x in record["records"] if x["case"] != case]
            record["records"] = sorted([*others, *new], key=lambda x: list(TASKS).index(x["case"]))
            if not given.quick:
                save("minibatch", {**record, "sizes": vars(sizes)})
        del peers
    if MEMORY in cases:
        libraries = [OURS, *([DGL] if load_dgl() is not None else [])]
        options_ = ["--batches", f"{given.batches}", *(["--quick"] if given.quick else [])]
        record["memory"] = [memory_in_process(name, w, options_) for name in libraries for w in MEMORY_WORKERS[name]]
        print(memory_table(record["memory"]))
        if not given.quick:
            save("minibatch", {**record, "sizes": vars(sizes)})


if __name__ == "__main__":
    main()
