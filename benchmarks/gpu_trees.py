"""Trees per second of a Tree-LSTM in training on a GPU, in every way that dglite has, and node by node in plain torch.

    python benchmarks/gpu_trees.py [--quick] [--hidden 256]

A step begins with a list of trees and ends with new parameters, as in ``benchmarks/dynamic.py``; the same network is
trained on the CPU, too. Ways: a vertex program, ``prop_nodes_topo`` as one, lazy cells, persistent processors, and
messages level by level with nodes bucketed by their degrees, as DGL sends them. Beside the median time of a step is
shown what the persistent kernel itself takes, in ticks of the GPU's clock, and how many rows of a weight a warp
multiplies at a time. Needs torch with CUDA. Results are written after each size of batch.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
from common import gpu_arguments, save, table
from tree_models import Tree, TreeLSTM, load_trees
from tree_ways import Joined, Lazy, Messages, NodeByNode, Persistent, VertexProgram

import dglite
from dglite import dynamic

BATCHES = (1, 4, 16, 64, 256)
NAMES = {"cuda": "GPU", "cpu": "CPU"}


def moved(batch: Joined, device: torch.device) -> Joined:
    """Return a batch of trees on a device, copied there without waiting; the numbers of leaves stay on the host."""
    if device.type == "cpu":
        return batch
    words, labels = (x.pin_memory().to(device, non_blocking=True) for x in (batch.words, batch.labels))
    g = dglite.graph(batch.graph.edges(), num_nodes=batch.graph.num_nodes()).to(device)
    return Joined(g, batch.leaves, words, labels)


class VertexProgramThere(VertexProgram):
    """A vertex program where its model is; trees are joined on the host."""

    def construct(self, trees: Any) -> Joined:
        """Join the trees and move them."""
        return moved(super().construct(trees), self.model.out.weight.device)


class MessagesThere(Messages):
    """Functions of messages where their model is."""

    def construct(self, trees: Any) -> Joined:
        """Join the trees and move them, the numbers of their leaves, too."""
        batch = moved(super().construct(trees), self.model.out.weight.device)
        if batch.words.is_cpu:
            return batch
        return batch._replace(leaves=batch.leaves.pin_memory().to(batch.words.device, non_blocking=True))


class LazyThere(Lazy):
    """Lazy cells where their model is."""

    def _words(self, numbers: torch.Tensor) -> Any:
        device = self.model.out.weight.device
        there = numbers if device.type == "cpu" else numbers.pin_memory().to(device, non_blocking=True)
        return dynamic.lazy(self.model.words(there))


def by_degree(library: Any, g: Any, message: Any, reduce: Any, apply: Any) -> None:
    """Send messages level by level, as DGL does: the reduce function runs for the nodes of each degree."""
    g.prop_nodes(library.topological_nodes_generator(g), message, reduce, apply)


WAYS: dict[str, Callable[[TreeLSTM], Any]] = {
    "vertex program": VertexProgramThere,
    "prop_nodes_topo": MessagesThere,
    "lazy cells": LazyThere,
    "degree buckets": lambda model: MessagesThere(model, propagate=by_degree),
}
"""Those that both devices have, by what trains a model."""


def seconds(way: Any, groups: list[list[Tree]], budget: float) -> float:
    """Return the median time of a step, of which one may be recorded while the one before is computed."""
    rounds, times = cycle(groups), list[float]()
    for _ in range(8):  # compiles, and chooses the rows per warp
        way.step(way.construct(next(rounds)))
    way.finish()
    while len(times) < 10 or sum(times) < budget:
        start = time.perf_counter()
        for _ in range(4):
            way.step(way.construct(next(rounds)))
        way.finish()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 4)
    return statistics.median(times)


def measure(trees: list[Tree], num_words: int, hidden: int, size: int, budget: float, device: str) -> dict[str, Any]:
    """Return the times of each way with batches of one size."""
    groups = [trees[i : i + size] for i in range(0, len(trees) - size + 1, size)]
    results: dict[str, Any] = {"batch": size}
    for place in dict.fromkeys((device, "cpu")):
        for name, make in WAYS.items():
            torch.manual_seed(0)
            way = make(TreeLSTM(num_words, hidden).to(place))
            results[f"{name}, {NAMES[place]}"] = seconds(way, groups, budget)
        torch.manual_seed(0)
        way = Persistent(TreeLSTM(num_words, hidden).to(place))
        results[f"persistent, {NAMES[place]}"] = seconds(way, groups, budget)
        if place == "cuda":
            results |= {"rows per warp": way.handle._machine.profile.rows, "ticks": way.handle._machine.ticks}
    if size == 1:
        model = TreeLSTM(num_words, hidden).to(device)
        moved = [[t._replace(words=t.words.to(device), labels=t.labels.to(device)) for t in g] for g in groups]
        results[f"plain torch, {NAMES[device]}"] = seconds(NodeByNode(model), moved, budget)
    return results


def trees_table(rows: list[dict[str, Any]]) -> str:
    """Return one row per size of batch."""
    ways = list(dict.fromkeys(name for record in rows for name in record if "," in name))
    lines = [
        (
            *(str(record["batch"]), *(f"{record['batch'] / record[w]:.0f}" if w in record else "-" for w in ways)),
            *(str(record.get("rows per warp", "-")), f"{record['ticks']:.0f}" if "ticks" in record else "-"),
        )
        for record in rows
    ]
    return table(("trees in a step", *(f"{way}: trees/s" for way in ways), "rows per warp", "ticks of a step"), lines)


def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description="persistent processors on a GPU")
    options.add_argument("--hidden", type=int, default=256, help="width of the states")
    given = gpu_arguments(options)
    trees, num_words, source = load_trees(64 if given.quick else 512)
    hidden, budget, rows = 32 if given.quick else given.hidden, 0.2 if given.quick else 1.5, list[dict[str, Any]]()
    for size in BATCHES[:2] if given.quick else BATCHES:
        rows.append(measure(trees, num_words, hidden, size, budget, given.device))
        print(trees_table(rows[-1:]), flush=True)
        if not given.quick:
            save("gpu_trees", {"trees": source, "hidden": hidden, "rows": rows})
    print(trees_table(rows))


if __name__ == "__main__":
    main()
