"""Peak memory of a forward and backward pass: of copy_u sum, and of a graph attention layer in training.

    python benchmarks/memory.py                     two minutes
    python benchmarks/memory.py --part attention    one of the two; the other's results stay as they are
    python benchmarks/memory.py --quick             a tenth of the edges

copy_u sum has 100k nodes, 5M edges, width 128; attention 20k nodes, 4M edges, 8 heads of 8 with dropout.

Each library runs in a process of its own. What counts is how far the process grows beyond what it was with the
libraries imported and, for kernels that are compiled on first use, with a small graph run. Needed are the edges as
given, the structures made of them, input, output and their gradients; one message per edge would be 2.6 GB more.
For attention the structures are there before; what it takes should not depend on the number of edges, and stay below
the size of one number for each edge and head.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from common import OURS, RESULTS, erdos_renyi, load_dgl, load_pyg, machine, parser, power_law, save, table

NUM_NODES, WIDTH, LIMIT = 100_000, 128, 1.3
FLOAT, INT32, INT64 = 4, 4, 8
ATTENTION_NODES, HEADS, HEAD_SIZE, DROPOUT = 20_000, 8, 8, 0.5
LIBRARIES = (OURS, "DGL 2.1", "PyG")


def needed_bytes(num_nodes: int, num_edges: int) -> dict[str, int]:
    """Return what cannot be done without: edges as given, both compressed forms, four node tensors.

    Edge ids are not among it: this operation reads none.
    """
    return {
        "edges as given": 2 * INT64 * num_edges,
        "structure": 2 * INT32 * (num_edges + num_nodes + 1),
        "input, output, gradients": 4 * FLOAT * WIDTH * num_nodes,
    }


class Peak:
    """Watches how much resident memory the process has at most while inside ``with``.

    Linux counts it exactly, once told to start again; elsewhere a thread looks each millisecond.
    """

    def __enter__(self) -> Peak:
        gc.collect()
        self.exact = _count_again()
        self.before = self.most = resident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if not self.exact:
            self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.is_set():
            self.most = max(self.most, resident())
            time.sleep(0.001)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.most = max(self.most, most_resident() if self.exact else resident())
        self._done.set()
        if not self.exact:
            self._thread.join()

    @property
    def growth(self) -> int:
        """Bytes beyond the start."""
        return self.most - self.before


def _count_again() -> bool:
    """Make :func:`most_resident` start from what is resident now; False where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def give_back() -> None:
    """Give back what a small graph left behind, or it would hide growth."""
    gc.collect()
    if "dglite" in sys.modules:
        sys.modules["dglite"].empty_cache()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def resident() -> int:
    """Return the process's resident memory in bytes."""
    statm = Path("/proc/self/statm")
    if statm.is_file():
        return int(statm.read_text().split()[1]) * 4096
    import psutil

    return int(psutil.Process().memory_info().rss)


def most_resident() -> int:
    """Return the most memory in bytes that this process has had resident."""
    status = Path("/proc/self/status")
    if status.is_file():  # ru_maxrss of a process on Linux may be that of the one it was started from
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def aggregation(library: str) -> Callable[[torch.Tensor, torch.Tensor, int], Callable[[torch.Tensor], torch.Tensor]]:
    """Return a function of edges and node count that gives copy_u sum as ``library`` does it."""
    if library == "PyG":
        load_pyg()
        from pyg_layers import Aggregate

        def prepare(src: torch.Tensor, dst: torch.Tensor, num_nodes: int) -> Callable[[torch.Tensor], torch.Tensor]:
            edge_index, layer = torch.stack([src, dst]), Aggregate(aggr="sum", node_dim=0)
            return lambda x: layer(edge_index, x)

        return prepare
    module: Any = load_dgl() if library != OURS else __import__("dglite")

    def prepare_graph(src: torch.Tensor, dst: torch.Tensor, num_nodes: int) -> Callable[[torch.Tensor], torch.Tensor]:
        graph = module.graph((src, dst), num_nodes=num_nodes)
        graph = graph if library == OURS else graph.int()
        return lambda x: module.ops.copy_u_sum(graph, x)

    return prepare_graph


def run_once(library: str, num_edges: int) -> int:
    """Return the bytes by which this process grows at most during one forward and backward pass."""
    prepare = aggregation(library)

    def step(num_nodes: int, edges: tuple[np.ndarray, np.ndarray]) -> None:
        src, dst = (torch.from_numpy(ends.copy()) for ends in edges)
        x = torch.ones(num_nodes, WIDTH, requires_grad=True)
        out = prepare(src, dst, num_nodes)(x)
        out.backward(torch.ones_like(out))
        assert x.grad is not None
        assert x.grad.sum() == out.sum()

    step(1_000, power_law(1_000, min(num_edges, 1_500_000)))
    edges = power_law(NUM_NODES, num_edges)
    give_back()
    with Peak() as peak:
        step(NUM_NODES, edges)
    return peak.growth


# -- attention ---------------------------------------------------------------------------------------------------------
def attention_layer(library: str, edges: tuple[np.ndarray, np.ndarray], num_nodes: int) -> tuple[Any, Callable]:
    """Return a layer of ``library`` and a function of features that applies it to a graph, whose formats are made."""
    src, dst = (torch.from_numpy(ends.copy()) for ends in edges)
    if library == "PyG":
        load_pyg()
        from torch_geometric.nn import GATConv

        layer = GATConv(HEADS * HEAD_SIZE, HEAD_SIZE, heads=HEADS, dropout=DROPOUT, add_self_loops=False)
        edge_index = torch.stack([src, dst])
        return layer, lambda x: layer(x, edge_index)
    module: Any = load_dgl() if library != OURS else __import__("dglite")
    layers: Any = __import__(f"{module.__name__}.nn", fromlist=["GATConv"])
    layer = layers.GATConv(HEADS * HEAD_SIZE, HEAD_SIZE, HEADS, attn_drop=DROPOUT, allow_zero_in_degree=True)
    graph = module.graph((src, dst), num_nodes=num_nodes)
    graph = graph if library == OURS else graph.int()
    graph.create_formats_()
    return layer, lambda x: layer(graph, x)


def run_attention(library: str, num_edges: int) -> int:
    """Return the bytes by which this process grows at most during a training step of one attention layer."""

    def prepare(num_nodes: int, num_edges: int) -> Callable[[], None]:
        layer, apply = attention_layer(library, erdos_renyi(num_nodes, num_edges), num_nodes)
        x = torch.ones(num_nodes, HEADS * HEAD_SIZE, requires_grad=True)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step() -> None:
            apply(x).square().mean().backward()
            optimizer.step()
            assert x.grad is not None

        return step

    prepare(1_000, 50_000)()
    step = prepare(ATTENTION_NODES, num_edges)
    give_back()
    with Peak() as peak:
        step()
    return peak.growth


def attention_table(record: dict[str, Any]) -> str:
    """Return one row per library: megabytes, and the multiple of one number for each edge and head."""
    unit = FLOAT * record["num_edges"] * record["heads"]
    rows = [["one float for each edge and head", f"{unit / 1e6:.0f}", "1.00"]]
    rows += [[name, f"{size / 1e6:.0f}", f"{size / unit:.2f}"] for name, size in record["growth"].items()]
    return table(["peak of a training step", "MB", "of that"], rows)


def growth_table(record: dict[str, Any]) -> str:
    """Return one row per library: megabytes, and the multiple of what is needed."""
    total = sum(record["needed"].values())
    rows = [[name, f"{size / 1e6:.0f}", f"{size / total:.2f}"] for name, size in record["growth"].items()]
    rows.insert(0, ["needed: " + ", ".join(record["needed"]), f"{total / 1e6:.0f}", "1.00"])
    return table(["peak of forward + backward", "MB", "of what is needed"], rows)


PARTS = {"aggregation": (run_once, 5_000_000), "attention": (run_attention, 4_000_000)}
"""What is measured, and on how many edges."""


def measured(part: str, quick: bool) -> dict[str, int]:
    """Return the growth of every library, each in a process of its own."""
    growth = {}
    for library in LIBRARIES:
        command = [sys.executable, __file__, "--part", part, "--only", library, *(["--quick"] if quick else [])]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{library} is left out: {reason}", file=sys.stderr)
        else:
            growth[library] = json.loads(result.stdout.splitlines()[-1])
    return growth


def measure_aggregation(num_edges: int, quick: bool) -> dict[str, Any]:
    """Return the record of copy_u sum; print it."""
    record = {"num_nodes": NUM_NODES, "num_edges": num_edges, "width": WIDTH}
    record |= {"growth": measured("aggregation", quick), "needed": needed_bytes(NUM_NODES, num_edges)}
    print(growth_table(record))
    return record


def measure_attention(num_edges: int, quick: bool) -> dict[str, Any]:
    """Return the record of attention; print it."""
    record = {"num_nodes": ATTENTION_NODES, "num_edges": num_edges, "heads": HEADS, "head_size": HEAD_SIZE}
    record |= {"machine": machine(), "growth": measured("attention", quick)}
    print(attention_table(record))
    return record


def main() -> None:
    """Run every library in a process of its own, print, save."""
    options: argparse.ArgumentParser = parser(__doc__.split("\n")[0])
    options.add_argument("--part", choices=PARTS, help="measure this one only")
    options.add_argument("--only", choices=LIBRARIES, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    sizes = {part: count // 10 if arguments.quick else count for part, (_, count) in PARTS.items()}
    if arguments.only:
        print(json.dumps(PARTS[arguments.part][0](arguments.only, sizes[arguments.part])))
        return
    path = RESULTS / "memory.json"
    record = json.loads(path.read_text()) if path.is_file() else {}
    if arguments.part != "attention":
        record = {**record, **measure_aggregation(sizes["aggregation"], arguments.quick), "machine": machine()}
    if arguments.part != "aggregation":
        record["attention"] = measure_attention(sizes["attention"], arguments.quick)
    if not arguments.quick:
        save("memory", record)
    if arguments.part != "attention" and record["growth"][OURS] > LIMIT * sum(record["needed"].values()):
        sys.exit(f"{OURS} takes more than {LIMIT} times what is needed")
    result = record.get("attention")
    if arguments.part != "aggregation" and result["growth"][OURS] >= FLOAT * HEADS * result["num_edges"]:
        sys.exit(f"{OURS} takes as much as a number for each edge and head")


if __name__ == "__main__":
    main()
