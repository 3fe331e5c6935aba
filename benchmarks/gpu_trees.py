"""Trees per second of a Tree-LSTM in training on a GPU: persistent processors, and plain torch, node by node.

    python benchmarks/gpu_trees.py [--quick] [--hidden 256] [--out results.json]

A step begins with a list of trees and ends with new parameters, as in ``benchmarks/dynamic.py``; the same network is
trained by persistent processors on the CPU, too. Beside the median time of a step is shown what the kernel itself
takes, in ticks of the GPU's clock, and how many rows of a weight a warp multiplies at a time. Needs torch with CUDA
and CuPy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, machine, table
from tree_models import Tree, TreeLSTM, load_trees
from tree_ways import NodeByNode, Persistent

BATCHES = (1, 4, 16, 64)


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
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 4)
    return statistics.median(times)


def measure(trees: list[Tree], num_words: int, hidden: int, size: int, budget: float) -> dict[str, Any]:
    """Return the times of each way with batches of one size."""
    groups = [trees[i : i + size] for i in range(0, len(trees) - size + 1, size)]
    found: dict[str, Any] = {"batch": size}
    for name, device in (("persistent, GPU", "cuda"), ("persistent, CPU", "cpu")):
        torch.manual_seed(0)
        way = Persistent(TreeLSTM(num_words, hidden).to(device))
        found[name] = seconds(way, groups, budget)
        if device == "cuda":
            found |= {"rows per warp": way.handle._machine.profile.rows, "ticks": way.handle._machine.ticks}
    if size <= 4:
        model = TreeLSTM(num_words, hidden).cuda()
        moved = [[tree._replace(words=tree.words.cuda(), labels=tree.labels.cuda()) for tree in g] for g in groups]
        found["plain torch, GPU"] = seconds(NodeByNode(model), moved, budget)
    return found


def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description="persistent processors on a GPU")
    options.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    options.add_argument("--hidden", type=int, default=256, help="width of the states")
    options.add_argument("--out", type=Path, default=RESULTS / "gpu_trees.json", help="where to write the results")
    given = options.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device, or a torch without CUDA: nothing is measured")
    trees, num_words, source = load_trees(64 if given.quick else 512)
    hidden, budget = (32, 0.5) if given.quick else (given.hidden, 4.0)
    rows = [measure(trees, num_words, hidden, size, budget) for size in BATCHES]
    ways = [name for name in rows[0] if "," in name]
    lines = [
        (
            *(str(found["batch"]), *(f"{found['batch'] / found[way]:.0f}" if way in found else "-" for way in ways)),
            *(str(found["rows per warp"]), f"{found['ticks']:.0f}"),
        )
        for found in rows
    ]
    print(table(("trees in a step", *(f"{way}: trees/s" for way in ways), "rows per warp", "ticks of a step"), lines))
    content = {
        "machine": machine(),
        "trees": source,
        "GPU": torch.cuda.get_device_name(),
        "hidden": hidden,
        "rows": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
