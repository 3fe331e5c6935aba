"""What the benchmarks share: interleaved timing, peers that may be absent, the machine's description, results as JSON.

A benchmark times several *runners* that compute the same. They take turns, so that a machine that slows down or speeds
up on the way changes none of the ratios, and the median of each is reported.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import math
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(os.environ.get("DGLITE_RESULTS") or Path(__file__).resolve().parent / "results")

OURS = "dglite"
SKIPPED = 77
"""Exit status of a benchmark for a GPU on a machine without one, as test runners have it."""
SLOW_SECONDS = 0.5
"""A peer that takes longer is timed once, by its warm-up call, unless told otherwise: it is far behind anyway."""


# -- timing ------------------------------------------------------------------------------------------------------------
def interleave(
    runners: dict[str, Callable[[], Any]],
    budget: float = 1.2,
    most: int = 15,
    least: int = 3,
    slow_from: float = SLOW_SECONDS,
    turn: float = 0.0,
) -> dict[str, float]:
    """Return each runner's median seconds, taken in turns after one call of each to warm up.

    The order of each round is drawn anew (from a fixed seed): whoever runs second finds the inputs in the cache, and
    whoever runs after a peer that fills it with messages does not.

    Rounds go on until they have taken ``budget`` seconds together, but at least ``least`` and at most ``most`` of them.
    A peer whose first call takes longer than ``slow_from`` is not called again.

    With ``turn`` each runs for about this many seconds at a time, and more, the first quarter of them not timed: what
    follows itself, as steps of training do, finds caches, memory and threads as it has left them, not as a peer has,
    which takes some ten steps of 10 ms. The mean of a turn counts. What takes longer than ``SLOW_SECONDS``, once it is
    warm, is timed alone.
    """
    times: dict[str, list[float]] = {name: [] for name in runners}
    first = {name: timed(run) for name, run in runners.items()}
    slow = {name: seconds for name, seconds in first.items() if seconds > slow_from and name != OURS}
    names = [name for name in runners if name not in slow]
    order, start = random.Random(0), time.perf_counter()
    for done in range(most):
        if done >= least and time.perf_counter() - start > budget:
            break
        for name in order.sample(names, len(names)):
            many = 1
            if turn and (once := timed(runners[name])) <= SLOW_SECONDS:
                many = max(int(turn / once), 5)
                repeated(runners[name], many // 3)()
            times[name].append(timed(repeated(runners[name], many)) / many)
    return {name: slow[name] if name in slow else statistics.median(times[name]) for name in runners}


def best_forms(seconds: dict[str, float]) -> dict[str, float]:
    """Return the fastest form of each library: ``DGL 2.1/csc`` is a form of ``DGL 2.1``."""
    best: dict[str, float] = {}
    for name, taken in seconds.items():
        library = name.split("/")[0]
        best[library] = min(taken, best.get(library, math.inf))
    return best


def timed(run: Callable[[], Any]) -> float:
    """Return how many seconds one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def repeated(run: Callable[[], Any], number: int) -> Callable[[], None]:
    """Return a runner of ``number`` calls, for what takes microseconds."""

    def loop() -> None:
        for _ in range(number):
            run()

    return loop


# -- peers -------------------------------------------------------------------------------------------------------------
def load_dgl() -> types.ModuleType | None:
    """Return DGL where it is installed, else None.

    Its last release wants compiled parts for the torch it was built with (``dgl.graphbolt``), and pandas for one of its
    data sets. Neither serves here, so empty modules take their places while it is imported.
    """
    stand_ins = [name for name in ("dgl.graphbolt", "pandas") if not _importable(name)]
    for name in stand_ins:
        sys.modules[name] = types.ModuleType(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("dgl")
    except ImportError as error:
        print(f"DGL is left out: {error}", file=sys.stderr)
        return None
    finally:
        if "pandas" in stand_ins:
            del sys.modules["pandas"]


def _importable(name: str) -> bool:
    if name.startswith("dgl."):  # finding a submodule imports its package, which is what cannot be done yet
        return False
    return importlib.util.find_spec(name) is not None


def load_pyg() -> types.ModuleType | None:
    """Return PyTorch Geometric where it is installed, else None."""
    try:
        return importlib.import_module("torch_geometric")
    except ImportError as error:
        print(f"PyTorch Geometric is left out: {error}", file=sys.stderr)
        return None


def sparse_tensor(edge_index: Any, num_nodes: int, values: Any = None) -> Any:
    """Return a graph as PyTorch Geometric's ``SparseTensor``, ready for gradients, or None without torch-sparse."""
    try:
        torch_sparse = importlib.import_module("torch_sparse")
    except ImportError as error:
        print(f"torch-sparse is left out: {error}", file=sys.stderr)
        return None
    row, col = edge_index[1], edge_index[0]
    return torch_sparse.SparseTensor(row=row, col=col, value=values, sparse_sizes=(num_nodes, num_nodes)).fill_cache_()


def load_dynet() -> types.ModuleType | None:
    """Return DyNet, which batches operations as they are recorded, where it is installed, else None."""
    try:
        importlib.import_module("dynet_config").set(mem="2048", autobatch=1)
        return importlib.import_module("dynet")
    except ImportError as error:
        print(f"DyNet is left out: {error}", file=sys.stderr)
        return None


# -- memory ------------------------------------------------------------------------------------------------------------
def retain_memory() -> None:
    """Let malloc keep what is freed, for every library: fresh memory costs a page fault for each 4 kB.

    As ``MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456`` does; with glibc only.
    """
    mmap_max, trim_threshold, top_pad = -4, -1, -2
    mallopt = ctypes.CDLL(None).mallopt
    for option, value in ((mmap_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 1 << 28)):
        if not mallopt(option, value):
            raise SystemExit("malloc does not take its options")


# -- graphs ------------------------------------------------------------------------------------------------------------
def erdos_renyi(num_nodes: int, num_edges: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return edges whose ends are drawn independently and uniformly, in random order, int64."""
    generator = np.random.default_rng(seed)
    return generator.integers(num_nodes, size=num_edges), generator.integers(num_nodes, size=num_edges)


def power_law(num_nodes: int, num_edges: int, exponent: float = 0.75, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return edges whose ends are drawn independently, node of rank r with a probability like ``r ** -exponent``."""
    generator = np.random.default_rng(seed)
    cumulative = np.cumsum(np.arange(1, num_nodes + 1) ** -exponent)
    ends = []
    for _ in range(2):
        ranks = np.searchsorted(cumulative, generator.random(num_edges) * cumulative[-1])
        ends.append(generator.permutation(num_nodes)[np.minimum(ranks, num_nodes - 1)])
    return ends[0], ends[1]


# -- results -----------------------------------------------------------------------------------------------------------
def parser(description: str) -> argparse.ArgumentParser:
    """Return a command line with the options that every benchmark has; warn when the machine has other work to do."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 0.5:
        print(
            f"The machine is busy (load {load:.1f}). Parallel kernels wait for each other's threads for milliseconds "
            "then, in every library, and the ratios below mean little.",
            file=sys.stderr,
        )
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--quick", action="store_true", help="small sizes, to see that it works; results are not kept")
    return options


def gpu_arguments(options: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line of a benchmark for a GPU; without a GPU, say so and exit with ``SKIPPED``."""
    import torch

    options.add_argument("--quick", action="store_true", help="small sizes, to see that it works; results are not kept")
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: rehearse without a GPU")
    given = options.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("SKIPPED: no CUDA device, or a torch without CUDA. --device cpu rehearses.", flush=True)
        sys.exit(SKIPPED)
    return given


def machine() -> dict[str, Any]:
    """Describe what the numbers were measured on and with."""
    import llvmlite
    import scipy
    import torch

    gpu = {"GPU": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {module.__name__: module.__version__ for module in (torch, llvmlite, np, scipy)},
        **gpu,
        **measured(),
    }


def measured() -> dict[str, str]:
    """Return the commit that is measured, and the date."""
    changes = "+changes" if _git("status", "--porcelain", "dglite") else ""
    commit = _git("rev-parse", "--short", "HEAD") + changes
    return {"commit": commit, "date": datetime.now(UTC).strftime("%Y-%m-%d")}


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _git(*arguments: str) -> str:
    if shutil.which("git") is None:
        return ""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def save(name: str, payload: dict[str, Any]) -> None:
    """Write ``payload`` and the machine's description to ``results/<name>.json``."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **payload}, indent=1) + "\n")
    print(f"\nwritten to {os.path.relpath(path)}", flush=True)


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose columns line up; all but the first are right-aligned."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(header))]
    lines = []
    for row in cells:
        aligned = [c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append(f"| {' | '.join(aligned)} |")
    rule = "|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
