"""Time and peak memory of a training step as graphs grow, until 16 GB are not enough: dglite, DGL 2.1, PyG.

    python benchmarks/sweep.py            about twenty minutes on two cores, 16 GB of free memory
    python benchmarks/sweep.py --quick    the small points of one network

The sweeps of M. Wang's dissertation (2020): 4k to 128k nodes at a density of 0.08%, densities of 0.05% to 1.6% on 32k
nodes, hidden sizes of 16 to 1024 on 32k nodes at 0.08%. Networks have two layers. Every library runs every point in a
process of its own, which gets no more than 16 GB; a library that fails a point is not asked for larger ones.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from common import OURS, RESULTS, erdos_renyi, parser, save, table, timed
from libraries import DGL, GAT, GCN, PYG, Network, library, train_step
from memory import Peak

LIBRARIES = (OURS, DGL, PYG)
BUDGET = 16 << 30
SECONDS = 45
"""A process that takes longer is stopped, and its point counts as failed."""
PLOTS = RESULTS.parent / "plots"


@dataclass(frozen=True)
class Point:
    """One network on one graph; ``sweep`` names what varies. GAT divides ``hidden`` into 8 heads."""

    kind: str
    sweep: str
    num_nodes: int
    density: float
    hidden: int

    @property
    def num_edges(self) -> int:
        """Edges of a graph of this size and density."""
        return round(self.num_nodes**2 * self.density)

    @property
    def value(self) -> float:
        """What varies."""
        return {"nodes": self.num_nodes, "density": self.density, "hidden size": self.hidden}[self.sweep]


def points(quick: bool) -> list[Point]:
    """Return all points, each sweep from small to large."""
    results = []
    for kind in (GCN,) if quick else (GCN, GAT):
        results += [Point(kind, "nodes", 1 << power, 0.0008, 64) for power in range(12, 14 if quick else 18)]
        if not quick:
            results += [Point(kind, "density", 1 << 15, 0.0005 * 2**i, 64) for i in range(6)]
            results += [Point(kind, "hidden size", 1 << 15, 0.0008, 1 << power) for power in (4, 6, 8, 10)]
    return results


# -- one point in one process ------------------------------------------------------------------------------------------
def run_point(name: str, point: Point) -> dict[str, float]:
    """Return the median seconds of a step, and how many bytes the process grew at most, the graph included."""
    try:
        import resource
    except ImportError:
        print("no memory limit on this system", file=sys.stderr)
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (BUDGET, BUDGET))
    result = library(name)
    if result is None:
        raise ModuleNotFoundError(name)
    for num_edges in (4_000, 40_000):  # compile, start threads
        steps_of(result, Point(point.kind, "nodes", 1000, num_edges / 1e6, point.hidden), 1)
    with Peak() as peak:
        seconds = steps_of(result, point, 7)
    return {"seconds": statistics.median(seconds[1:] or seconds), "bytes": peak.growth}


def steps_of(result: Any, point: Point, most: int) -> list[float]:
    """Return the seconds of up to ``most`` steps, of fewer when they take more than 4 s; the first warms up."""
    torch.manual_seed(0)
    src, dst = (torch.from_numpy(end) for end in erdos_renyi(point.num_nodes, point.num_edges))
    graph = result.graph(src, dst, point.num_nodes)
    heads = 8 if point.kind == GAT else 1
    network = Network(result, point.kind, [point.hidden, point.hidden // heads, 16], heads)
    optimizer = torch.optim.Adam(network.parameters())
    x, labels = torch.randn(point.num_nodes, point.hidden), torch.randint(16, (point.num_nodes,))
    seconds: list[float] = []
    start = time.perf_counter()
    while len(seconds) < most and (len(seconds) < 2 or time.perf_counter() - start < 4):
        seconds.append(timed(lambda: train_step(network, optimizer, graph, x, labels)))
    return seconds


def in_process(name: str, point: Point) -> dict[str, Any]:
    """Return what :func:`run_point` found in a process of its own, or ``{"failed": why}``."""
    command = [sys.executable, __file__, "--only", json.dumps([name, asdict(point)])]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {SECONDS} s"}
    if result.returncode == 0:
        return json.loads(result.stdout.splitlines()[-1])
    message = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
    memory = ("memory", "bad_alloc", "Cannot allocate", "allocate")
    if result.returncode < 0 or any(word in result.stderr for word in memory):
        return {"failed": "out of memory"}
    return {"failed": message[-1]}


# -- showing -----------------------------------------------------------------------------------------------------------
def sweep_table(records: list[dict[str, Any]]) -> str:
    """Return one row per point: milliseconds and megabytes of each library, or why there are none."""
    rows = []
    for r in records:
        cells = []
        for name in LIBRARIES:
            result = r["found"][name]
            failed = result.get("failed")
            cells += [failed, ""] if failed else [f"{1e3 * result['seconds']:.1f}", f"{result['bytes'] / 1e6:.0f}"]
        size = f"{r['num_nodes']:,} nodes, {r['num_edges'] / 1e6:.2f}M edges, hidden {r['hidden']}"
        rows.append([f"{r['kind']}, {r['sweep']}", size, *cells])
    header = [cell for name in LIBRARIES for cell in (f"{name}, ms", "MB")]
    return table(["network, sweep", "point", *header], rows)


def plot(records: list[dict[str, Any]]) -> None:
    """Draw time and memory over every sweep, one panel each, into ``plots/``."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "dglite"  # or every run writes other ids
    pyplot = importlib.import_module("matplotlib.pyplot")
    kinds, sweeps = (list(dict.fromkeys(r[key] for r in records)) for key in ("kind", "sweep"))
    for quantity, label, scale in (("seconds", "training step, ms", 1e3), ("bytes", "peak memory, MB", 1e-6)):
        figure, axes = pyplot.subplots(
            len(kinds), len(sweeps), figsize=(4 * len(sweeps), 3 * len(kinds)), squeeze=False, layout="constrained"
        )
        for row, kind in zip(axes, kinds, strict=True):
            for axis, sweep in zip(row, sweeps, strict=True):
                chosen = [r for r in records if (r["kind"], r["sweep"]) == (kind, sweep)]
                for name in LIBRARIES:
                    done = [r for r in chosen if quantity in r["found"][name]]
                    values = [scale * r["found"][name][quantity] for r in done]
                    axis.loglog([r["value"] for r in done], values, marker="o", label=name)
                axis.set_xticks([r["value"] for r in chosen], [_tick(sweep, r["value"]) for r in chosen])
                axis.minorticks_off()
                axis.set_title(kind)
                axis.set_xlabel(sweep)
                axis.set_ylabel(label)
                axis.grid(alpha=0.3)
        axes[0][0].legend()
        PLOTS.mkdir(exist_ok=True)
        figure.savefig(PLOTS / f"sweep_{'time' if quantity == 'seconds' else 'memory'}.svg", metadata={"Date": None})
        pyplot.close(figure)


def _tick(sweep: str, value: float) -> str:
    if sweep == "nodes":
        return f"{value / 1024:.0f}k"
    return f"{100 * value:g}%" if sweep == "density" else f"{value}"


def main() -> None:
    """Run every point, print, save, draw."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--only", help="run one library at one point in this process, print JSON")
    arguments = options.parse_args()
    if arguments.only:
        name, point = json.loads(arguments.only)
        print(json.dumps(run_point(name, Point(**point))))
        return
    if hasattr(os, "sysconf") and os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < BUDGET:
        print("less memory is free than the budget: the system may stop what the budget allows", file=sys.stderr)
    records: list[dict[str, Any]] = []
    failed: set[tuple[str, str, str]] = set()
    for point in points(arguments.quick):
        results = {}
        for name in LIBRARIES:
            series = (name, point.kind, point.sweep)
            results[name] = {"failed": "failed before"} if series in failed else in_process(name, point)
            if "failed" in results[name]:
                failed.add(series)
        records.append(asdict(point) | {"num_edges": point.num_edges, "value": point.value, "found": results})
        print("\n".join(sweep_table(records[-1:]).split("\n")[2:]), flush=True)
    print(f"\n{sweep_table(records)}")
    if not arguments.quick:
        plot(records)
        save("sweep", {"records": records})


if __name__ == "__main__":
    main()
