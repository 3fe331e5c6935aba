"""Two commits of dglite, case by case: no row may become slower.

    python benchmarks/before_after.py OLD            OLD against the working tree, some ten minutes on two cores
    python benchmarks/before_after.py OLD --quick    small graphs only

Each commit is in a process of its own, since two of one package do not fit into one; they take turns within each case.
The fastest call of each counts: what other processes do to a machine makes calls slower, never faster.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from common import ROOT, erdos_renyi, geometric_mean, parser, power_law, save, table

import dglite
import dglite.function as fn
from dglite import ops

Run = Callable[[], Any]
LIMIT = 1.05
"""Above it a row is marked."""


def scaled(edges: Any) -> dict[str, torch.Tensor]:
    """Return a message of a user's own."""
    return {"m": edges.src["h"] * edges.data["w"]}


def added(nodes: Any) -> dict[str, torch.Tensor]:
    """Return a reduction of a user's own."""
    return {"o": nodes.mailbox["m"].sum(1)}


def small_calls() -> Iterator[tuple[str, Run]]:
    """Yield calls whose time is Python's, on graphs of 500 and 10,556 edges."""
    for nodes, edges in ((100, 500), (2708, 10556)):
        src, dst = (torch.from_numpy(ends) for ends in erdos_renyi(nodes, edges))
        g = dglite.graph((src, dst), num_nodes=nodes)
        x, y, w = torch.randn(nodes, 16), torch.randn(nodes, 16, requires_grad=True), torch.rand(edges, 1)
        g.ndata["h"], g.edata["w"] = x, w
        layer = dglite.nn.GraphConv(16, 16, allow_zero_in_degree=True)
        size = f"{nodes:,}/{edges:,}"
        yield f"graph, {size}", lambda src=src, dst=dst, n=nodes: dglite.graph((src, dst), num_nodes=n)
        yield f"copy_u_sum, {size}", lambda g=g, x=x: ops.copy_u_sum(g, x)
        yield f"copy_u_sum with gradient, {size}", lambda g=g, y=y: ops.copy_u_sum(g, y).sum().backward()
        yield f"u_mul_e_sum, {size}", lambda g=g, x=x, w=w: ops.u_mul_e_sum(g, x, w)
        yield f"u_add_v, {size}", lambda g=g, x=x: ops.u_add_v(g, x, x)
        yield f"edge_softmax, {size}", lambda g=g, w=w: ops.edge_softmax(g, w)
        yield f"update_all, {size}", lambda g=g: g.update_all(fn.copy_u("h", "m"), fn.sum("m", "o"))
        yield f"apply_edges, {size}", lambda g=g: g.apply_edges(fn.u_add_v("h", "h", "s"))
        yield f"user-defined update_all, {size}", lambda g=g: g.update_all(scaled, added)
        yield f"GraphConv, {size}", lambda g=g, x=x, layer=layer: layer(g, x)


def large_calls() -> Iterator[tuple[str, Run]]:
    """Yield g-SpMM, g-SDDMM and edge softmax, forward and backward, on graphs in and out of the cache."""
    graphs = {"Erdos-Renyi 20k/1M": (20_000, erdos_renyi(20_000, 1_000_000))}
    graphs["Erdos-Renyi 200k/2M"] = 200_000, erdos_renyi(200_000, 2_000_000)
    graphs["power law 100k/5M"] = 100_000, power_law(100_000, 5_000_000)
    for name, (nodes, ends) in graphs.items():
        g = dglite.graph(tuple(map(torch.from_numpy, ends)), num_nodes=nodes)
        for width in (16, 64, 100):
            x = torch.randn(nodes, width, requires_grad=True)
            w = torch.rand(g.num_edges(), 1, requires_grad=True)
            calls: dict[str, tuple[Run, torch.Tensor]] = {
                "copy_u sum": (lambda g=g, x=x: ops.copy_u_sum(g, x), x),
                "copy_u max": (lambda g=g, x=x: ops.copy_u_max(g, x), x),
                "u_mul_e sum": (lambda g=g, x=x, w=w: ops.u_mul_e_sum(g, x, w), x),
                "u_dot_v": (lambda g=g, x=x: ops.u_dot_v(g, x, x), x),
            }
            for what, (call, leaf) in calls.items():
                yield f"{what}, width {width}, {name}", call
                result = call()
                ones = torch.ones_like(result)
                yield (
                    f"{what} backward, width {width}, {name}",
                    lambda r=result, leaf=leaf, o=ones: torch.autograd.grad(r, leaf, o, retain_graph=True),
                )
        scores = torch.randn(g.num_edges(), 4)
        yield f"edge_softmax, 4 heads, {name}", lambda g=g, s=scores: ops.edge_softmax(g, s)


def fastest(run: Run, seconds: float) -> float:
    """Return the time of the fastest call, after two, within this many seconds."""
    run(), run()
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


def serve(quick: bool) -> None:
    """Answer each line of input by the seconds of the current case, or go to the next case and print its name."""
    for name, run in itertools.chain(small_calls(), () if quick else large_calls()):
        print(name, flush=True)
        for line in sys.stdin:
            if line == "next\n":
                break
            print(fastest(run, float(line)), flush=True)
    print("", flush=True)


class Commit:
    """A process that has imported one commit, and waits for cases."""

    def __init__(self, tree: Path, quick: bool) -> None:
        environment = os.environ | {"PYTHONPATH": str(tree), "OMP_WAIT_POLICY": "passive"}
        command = [sys.executable, __file__, "-", "--child", *(["--quick"] if quick else [])]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def tell(self, line: str) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Return the next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def in_turns(old: Commit, new: Commit, rounds: int) -> list[dict[str, Any]]:
    """Return one record per case. Both commits take turns within each case, since a machine's speed changes."""
    records = []
    while (case := old.answer()) and case == new.answer():
        times: tuple[list[float], list[float]] = [], []
        for turn in range(rounds):
            for which in (0, 1) if turn % 2 else (1, 0):
                (old, new)[which].tell("0.03" if "width" not in case else "0.1")
                times[which].append(float((old, new)[which].answer()))
        before, after = map(min, times)
        records.append({"case": case, "before_us": before * 1e6, "after_us": after * 1e6, "ratio": after / before})
        for commit in (old, new):
            commit.tell("next")
    return records


def changes_table(results: dict[str, Any]) -> str:
    """Return the rows of small calls, and of the others those that changed by more than 3%."""
    records = results["records"]
    shown = [r for r in records if "width" not in r["case"] or abs(r["ratio"] - 1) > 0.03]
    rows = [[r["case"], f"{r['before_us']:.1f}", f"{r['after_us']:.1f}", f"{r['ratio']:.2f}"] for r in shown]
    ratios = [r["ratio"] for r in records]
    slower = sum(ratio > LIMIT for ratio in ratios)
    return (
        f"{results['before']} and {results['after']}, {len(records)} cases, after / before: geometric mean "
        f"{geometric_mean(ratios):.2f}, {slower} above {LIMIT}. Small calls, and what changed by more than 3%:\n\n"
        + table(["case", "before, us", "after, us", "after / before"], rows)
    )


def main() -> None:
    """Compare, print, save."""
    options = parser(__doc__)
    options.add_argument("old", help="a commit")
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        serve(chosen.quick)
        return
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "old"
        subprocess.run([*git, "worktree", "add", "--detach", str(tree), chosen.old], check=True, capture_output=True)
        try:
            records = in_turns(Commit(tree, chosen.quick), Commit(ROOT, chosen.quick), chosen.rounds)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True, capture_output=True)
    names = [
        subprocess.run([*git, "rev-parse", "--short", name], check=True, capture_output=True, text=True).stdout.strip()
        for name in (chosen.old, "HEAD")
    ]
    results = {"before": names[0], "after": names[1], "rounds": chosen.rounds, "records": records}
    print(changes_table(results))
    if not chosen.quick:
        save("before_after", results)


if __name__ == "__main__":
    main()
