"""Full-graph training on graphs of 100 to 200 million edges, on one machine: peak memory and seconds per epoch.

    python benchmarks/giant.py                     both shapes and the table of conversions; five minutes on two cores
    python benchmarks/giant.py --shape reddit      232,965 nodes, 114.6M edges, 602 features, 41 classes
    python benchmarks/giant.py --shape large       512,000 nodes, 209.7M edges, 64 features
    python benchmarks/giant.py --shape small       a tenth of a second per epoch
    python benchmarks/giant.py --quick             the small shape alone; results are not kept

The graphs are synthetic: power-law degrees, a fixed seed, half the edges inside the classes' communities; features are
noise around the mean of a class. A GCN of two layers (hidden 16) is trained on all nodes at once. The peak is that of
the whole process, libraries and the making of the graph included. Each shape runs in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import parser, save, table
from memory import Peak, most_resident, resident

import dglite
from dglite.nn import GraphConv

HIDDEN, EPOCHS, SEED = 16, 6, 0
CHUNK = 1 << 20


@dataclass(frozen=True)
class Shape:
    """The sizes of a graph and its task."""

    num_nodes: int
    num_edges: int
    num_feats: int
    num_classes: int


SHAPES = {
    "reddit": Shape(232_965, 114_615_892, 602, 41),
    "large": Shape(512_000, 209_715_200, 64, 41),
    "small": Shape(20_000, 1_000_000, 64, 10),
}
KEPT = ("reddit", "large")


# -- training ----------------------------------------------------------------------------------------------------------
def features_of(labels: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Return noise around the mean of each node's class, made without a second array of that size."""
    generator = torch.Generator().manual_seed(SEED)
    means = torch.randn(shape.num_classes, shape.num_feats, generator=generator)
    x = torch.empty(shape.num_nodes, shape.num_feats)
    for rows, own in zip(x.split(10_000), labels.split(10_000), strict=True):
        torch.randn(rows.shape, generator=generator, out=rows)
        rows += 0.5 * means[own]
    return x


def train(shape: Shape, epochs: int) -> dict[str, Any]:
    """Make the graph, train, and return what was measured."""
    torch.manual_seed(SEED)
    dglite.seed(SEED)
    start = time.perf_counter()
    graph = dglite.rand_power_law_graph(
        shape.num_nodes, shape.num_edges, num_communities=shape.num_classes, homophily=0.5
    )
    record: dict[str, Any] = {"generation": time.perf_counter() - start}
    labels = torch.arange(shape.num_nodes) % shape.num_classes
    x, training = features_of(labels, shape), torch.rand(shape.num_nodes) < 0.66
    layers = torch.nn.ModuleList(
        [
            GraphConv(shape.num_feats, HIDDEN, activation=F.relu, allow_zero_in_degree=True),
            GraphConv(HIDDEN, shape.num_classes, allow_zero_in_degree=True),
        ]
    )
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.05)
    seconds, losses = [], []
    for _ in range(epochs):
        start = time.perf_counter()
        out = layers[1](graph, layers[0](graph, x))
        loss = F.cross_entropy(out[training], labels[training])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    if not losses[-1] < losses[0]:
        sys.exit(f"the loss did not fall: {losses}")
    accuracy = (out.argmax(1) == labels)[~training].double().mean().item()
    return record | {"seconds": seconds, "losses": losses, "accuracy": accuracy, "peak": most_resident()}


def needed_bytes(shape: Shape) -> int:
    """Return what training cannot do without: features, and the sources and destinations by row, 32 bits each."""
    return 4 * (shape.num_nodes * shape.num_feats + 2 * shape.num_edges + 2 * shape.num_nodes)


def shapes_table(record: dict[str, Any]) -> str:
    """Return one row per shape."""
    rows = []
    for name, actual in record["shapes"].items():
        shape = Shape(**actual["shape"])
        rows.append(
            [
                f"{name}: {shape.num_nodes:,} nodes, {shape.num_edges / 1e6:.1f}M edges, {shape.num_feats} features",
                f"{actual['peak'] / 1e9:.2f}",
                f"{needed_bytes(shape) / 1e9:.2f}",
                f"{actual['generation']:.1f}",
                f"{actual['seconds'][0]:.1f}",
                f"{statistics.median(actual['seconds'][1:]):.2f}",
                f"{actual['losses'][0]:.2f} to {actual['losses'][-1]:.2f}",
            ]
        )
    columns = ["peak, GB", "of it data, GB", "making the graph, s", "first epoch, s", "next epochs, s", "loss"]
    return table(["GCN, 2 layers, hidden 16", *columns], rows)


# -- conversions -------------------------------------------------------------------------------------------------------
def edge_tensors(shape: Shape, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return edges in random order with power-law degrees."""
    random = np.random.default_rng(SEED)
    ends = torch.empty(2, shape.num_edges, dtype=dtype)
    for row in ends:
        for part in row.split(CHUNK):
            part[:] = torch.from_numpy(random.random(len(part)) ** 2 * shape.num_nodes)
    return ends[0], ends[1]


def convert(shape: Shape, dtype: torch.dtype) -> list[dict[str, Any]]:
    """Return for every step from edges to both compressed forms: seconds, and bytes per edge at most and kept."""
    src, dst = edge_tensors(shape, dtype)
    results: dict[str, Any] = {}
    steps: dict[str, Callable[[], Any]] = {
        "graph((src, dst))": lambda: dglite.graph((src, dst), num_nodes=shape.num_nodes),
        "CSC": lambda: results["graph((src, dst))"].adjacency().csc(),
        "CSR, for the reverse": lambda: results["graph((src, dst))"].adjacency().csr(),
        "edge ids of the CSC, where edges have features": lambda: results["CSC"].edge_ids,
    }
    records = []
    for name, step in steps.items():
        with Peak() as peak:
            start = time.perf_counter()
            results[name] = step()
            seconds = time.perf_counter() - start
            kept = resident() - peak.before
        outputs = {"step": name, "seconds": seconds, "most": peak.growth / shape.num_edges}
        records.append(outputs | {"kept": kept / shape.num_edges})
    return records


def conversions_table(record: dict[str, Any]) -> str:
    """Return one row per step: seconds, and bytes per edge for both dtypes."""
    by_dtype = record["conversions"]
    rows = []
    for steps in zip(*by_dtype.values(), strict=True):
        cells = [cell for s in steps for cell in (f"{s['seconds']:.1f}", f"{s['most']:.1f}", f"{s['kept']:.1f}")]
        rows.append([steps[0]["step"], *cells])
    header = [f"{name}: {column}" for name in by_dtype for column in ("s", "bytes per edge at most", "kept")]
    return table(["step", *header], rows)


# -- processes ---------------------------------------------------------------------------------------------------------
def warm_up(shape: Shape) -> None:
    """Compile every kernel, or read it from the cache, on a small graph: first epochs shall not wait for compilers."""
    small = Shape(70_000, 1_100_000, shape.num_feats, shape.num_classes)
    train(small, 2)
    for dtype in (torch.int32, torch.int64):
        convert(small, dtype)


def in_process(name: str) -> Any:
    """Return what this script prints with ``--only name``, run in a process of its own."""
    result = subprocess.run([sys.executable, __file__, "--only", name], capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{name}: {result.stderr.strip()}")
    return json.loads(result.stdout.splitlines()[-1])


def run_only(name: str) -> Any:
    """Return the record of one shape, or of the conversions from one dtype."""
    shape = SHAPES.get(name, SHAPES["reddit"])
    warm_up(shape)
    if name in SHAPES:
        return train(shape, EPOCHS) | {"shape": asdict(shape)}
    return convert(shape, getattr(torch, name))


def main() -> None:
    """Run, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--shape", choices=SHAPES)
    options.add_argument("--only", choices=[*SHAPES, "int32", "int64"], help="run in this process, print JSON")
    arguments = options.parse_args()
    if arguments.only:
        print(json.dumps(run_only(arguments.only)))
        return
    names = ["small"] if arguments.quick else [arguments.shape] if arguments.shape else list(KEPT)
    record: dict[str, Any] = {"shapes": {name: in_process(name) for name in names}}
    print(shapes_table(record), flush=True)
    if arguments.quick or arguments.shape:
        return
    record["conversions"] = {name: in_process(name) for name in ("int32", "int64")}
    print(f"\n{conversions_table(record)}")
    save("giant", record)


if __name__ == "__main__":
    main()
