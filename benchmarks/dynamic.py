"""Dynamic networks in training: trees per second of a Tree-LSTM in every way of writing it, and of its peers.

python benchmarks/dynamic.py                            a quarter of an hour
python benchmarks/dynamic.py --hidden 256 --batch 64    some of it, not kept
python benchmarks/dynamic.py --quick                    small sizes

A step begins with a list of trees and ends with new parameters: joining the graphs or recording the losses
("construction"), finding the order of levels or batches ("scheduling"), forward, the loss of every node, backward,
plain gradient descent. Orders are found anew in each step, as for batches that have not been seen before. All ways
compute with torch's number of threads; ``OMP_NUM_THREADS`` pins it, DGL's own loops included. The GEMM rate is that of
a large product that takes its turn among the ways, the peak that of the fastest product of several shapes, by dglite's
own kernels or torch's.

The trees are those of the Stanford Sentiment Treebank, random ones where it is not found; Tree-FC runs on
complete trees. The tables have the form of Table 1 and Figures 8 to 10 of Xu et al. ("Cavs", 2018).
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import cycle
from types import ModuleType
from typing import Any

import torch
from common import interleave, load_dgl, load_dynet, parser, save, table
from dynet_models import DyNetTrees
from tree_models import Tree, TreeFC, TreeLSTM, TreeModel, complete_tree, load_trees
from tree_ways import Lazy, Messages, NodeByNode, Persistent, PersistentProgram, VertexProgram, Way

from dglite import dynamic
from dglite.kernels import compiled

VERTEX, DGL, DYNET, GEMM = "vertex program", "DGL 2.1", "DyNet, one thread", "GEMM"
WAYS: dict[str, Callable[[TreeModel, Sequence[Tree], ModuleType | None], Way | None]] = {
    VERTEX: lambda model, trees, dgl: VertexProgram(model),
    "lazy, cells, agenda": lambda model, trees, dgl: Lazy(model),
    "lazy, cells, depth": lambda model, trees, dgl: Lazy(model, strategy="depth"),
    "lazy, operations, agenda": lambda model, trees, dgl: Lazy(model, cells=False),
    "lazy, operations, depth": lambda model, trees, dgl: Lazy(model, cells=False, strategy="depth"),
    "persistent": lambda model, trees, dgl: Persistent(model),
    "persistent, vertex program": lambda model, trees, dgl: PersistentProgram(model),
    "prop_nodes_topo": lambda model, trees, dgl: Messages(model),
    DGL: lambda model, trees, dgl: None if dgl is None else Messages(model, dgl, trees),
    DYNET: lambda model, trees, dgl: _in_dynet(model),
    "plain torch": lambda model, trees, dgl: NodeByNode(model),
}
"""A new way is measured and checked by having an entry here."""


def _in_dynet(model: TreeModel) -> Way | None:
    dynet = load_dynet()
    return DyNetTrees(model, dynet) if dynet is not None and isinstance(model, TreeLSTM) else None


MOST = {"plain torch": 4}
"""The largest batch of a way: plain torch takes one sample at a time, so larger ones tell nothing new."""

COMPLETE = (VERTEX, "lazy, cells, agenda", "lazy, operations, agenda", DGL)
"""What Tree-FC is measured with."""


def steps(size: int) -> int:
    """Return how many steps of a way come in turn: several, so that it may prepare one while it computes another."""
    return max(2, 16 // size)


OPTIONS: dict[str, dict[str, bool]] = {
    "all": {},
    "no eager": {"eager": False},
    "no lazy": {"lazy": False},
    "no fusion": {"fuse": False},
    "none": {"eager": False, "lazy": False, "fuse": False},
}


# -- measuring -------------------------------------------------------------------------------------------------------
class Runner:
    """Does a few steps on the next batches of its round, and keeps how long their construction takes.

    A way may construct a batch while it computes the one before; what is under way at the end of a turn is waited for.
    """

    def __init__(self, way: Way, groups: Sequence[Sequence[Tree]], turn: int | None = None) -> None:
        self.steps = turn or steps(len(groups[0]))
        self.way, self.rounds, self.constructing = way, cycle(groups), list[float]()
        self.trees: Sequence[Tree] = groups[0]

    def __call__(self) -> None:
        for _ in range(self.steps):
            self.trees = next(self.rounds)
            start = time.perf_counter()
            batch = self.way.construct(self.trees)
            self.constructing.append(time.perf_counter() - start)
            self.way.step(batch)
        self.way.finish()

    def record(self, seconds: float) -> dict[str, Any]:
        """Describe turns that take so long: trees per second, shares of a step, batches, bytes moved per tree."""
        self()
        report, size, seconds = self.way.report(self.trees), len(self.trees), seconds / self.steps
        facts = {
            "trees_per_second": size / seconds,
            "construction_share": statistics.median(self.constructing[self.steps :]) / seconds,
        }
        if report is None:
            return facts
        return facts | {
            "scheduling_share": report.scheduling_seconds / seconds,
            "batches": report.batches,
            "bytes_per_tree": report.gathered_bytes / size,
        }


def measure(
    names: Sequence[str],
    model: TreeModel,
    trees: Sequence[Tree],
    size: int,
    budget: float = 3.0,
    slow_from: float = 10.0,
    turn: int | None = None,
) -> dict[str, Any]:
    """Return a record of each of these ways, with batches of ``size``, and the GEMM rate.

    ``turn`` is how many steps of a way come in turn, unless it is :func:`steps`.
    """
    dgl = load_dgl() if DGL in names else None
    groups = [trees[i : i + size] for i in range(0, len(trees) - size + 1, size)]
    ways = {name: WAYS[name](model, trees, dgl) for name in names}
    runners = {name: Runner(way, groups, turn) for name, way in ways.items() if way is not None}
    for run in runners.values():
        run()  # compiles
    product, arithmetic = gemm(model.hidden)
    seconds = interleave({**runners, GEMM: product}, budget=budget, slow_from=slow_from)
    return {
        "gemm_flops": arithmetic / seconds[GEMM],
        "peak_flops": max(peak(torch.get_num_threads()), arithmetic / seconds[GEMM]),
        "flops_per_tree": flops(model, trees),
        "ways": {name: run.record(seconds[name]) for name, run in runners.items()},
    }


def gemm(hidden: int) -> tuple[Callable[[], Any], float]:
    """Return a large product of the model's largest shape, and how many FLOP it is."""
    x, w, out = torch.randn(2048, 2 * hidden), torch.randn(2 * hidden, 5 * hidden), torch.empty(2048, 5 * hidden)
    return lambda: torch.mm(x, w, out=out), 2.0 * x.numel() * w.shape[1]


@cache
def peak(threads: int) -> float:
    """Return the FLOP per second of the fastest product that is found."""
    kernels, fastest = compiled("rows.products"), 0.0
    for rows, height, width in ((2048, 512, 1280), (4096, 256, 512), (2048, 128, 256), (8192, 64, 64)):
        x, w, out = torch.randn(rows, height), torch.randn(height, width), torch.empty(rows, width)
        places = [(y.data_ptr(), 4 * y.stride(0)) for y in (x, w, out)]
        arguments = (rows, height, width), (places[0], places[1], (0, 0), places[2]), False, threads, False
        products = partial(kernels.product, "float32", *arguments), partial(torch.mm, x, w, out=out)
        seconds = [min(_seconds(product) for _ in range(20)) for product in products]
        fastest = max(fastest, 2.0 * x.numel() * width / min(seconds))
    return fastest


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def flops(model: TreeModel, trees: Sequence[Tree]) -> float:
    """Return the arithmetic of the products of a step per tree."""
    nodes, leaves = sum(len(tree.children) for tree in trees), sum(len(tree.words) for tree in trees)
    return model.flops(nodes / len(trees), leaves / len(trees))


def check(model: TreeModel, trees: Sequence[Tree]) -> None:
    """Assert that all ways give the same loss and the same gradients."""
    dgl = load_dgl()
    expected: list[torch.Tensor] = []
    for name in reversed(WAYS):  # plain torch first
        way = WAYS[name](model, trees, dgl)
        if way is not None:
            result = [way.loss(way.construct(trees)), *(x.grad.to_dense() for x in model.parameters())]
            model.zero_grad()
            expected = expected or result
            for x, y in zip(result, expected, strict=True):
                torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


# -- what is measured ------------------------------------------------------------------------------------------------
def tree_lstm(sizes: Sequence[int], hiddens: Sequence[int], trees: Sequence[Tree], words: int) -> list[dict[str, Any]]:
    """Measure all ways."""
    records = []
    for hidden in hiddens:
        for size in sizes:
            names = [name for name in WAYS if size <= MOST.get(name, size)]
            measured = measure(names, TreeLSTM(words, hidden), trees[: max(8 * size, 32)], size)
            records.append({"hidden": hidden, "batch": size, **measured})
            speeds = {name: round(way["trees_per_second"]) for name, way in measured["ways"].items()}
            print(f"hidden {hidden}, batch {size}: {speeds}", flush=True)
    return records


def ablation(size: int, hidden: int, trees: Sequence[Tree], words: int) -> dict[str, float]:
    """Measure trees per second of vertex programs with optimisations switched off."""
    model = TreeLSTM(words, hidden)
    groups = [trees[i : i + size] for i in range(0, 4 * size, size)]

    def under(switches: dict[str, bool]) -> Callable[[], None]:
        step = Runner(VertexProgram(model), groups)

        def run() -> None:
            with dynamic.options(**switches):
                step()

        return run

    runners = {name: under(switches) for name, switches in OPTIONS.items()}
    for run in runners.values():
        run()
    return {name: steps(size) * size / s for name, s in interleave(runners, budget=5.0, slow_from=60.0).items()}


def tree_fc(leaves: Sequence[int], hidden: int, size: int) -> list[dict[str, Any]]:
    """Measure Tree-FC on complete binary trees."""
    records = []
    for count in leaves:
        trees = [complete_tree(count) for _ in range(size)]
        measured = measure(COMPLETE, TreeFC(1000, hidden), trees, size, budget=1.0, slow_from=2.0)
        records.append({"leaves": count, **measured})
        print(f"{count} leaves: {[round(way['trees_per_second'], 1) for way in measured['ways'].values()]}", flush=True)
    return records


# -- tables ----------------------------------------------------------------------------------------------------------
def rate_of(records: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return the name of the rate that others are compared with, and its key; older records have no peak."""
    return ("peak", "peak_flops") if all("peak_flops" in r for r in records) else ("GEMM rate", "gemm_flops")


def trees_table(records: Sequence[dict[str, Any]]) -> str:
    """Return trees per second: one row per size of state and of batch, a column for each way."""
    names = [name for name in WAYS if any(name in r["ways"] for r in records)]
    rate, key = rate_of(records)
    rows = []
    for r in records:
        speeds = {name: way["trees_per_second"] for name, way in r["ways"].items()}
        ratio = f"{speeds[VERTEX] / speeds[DGL]:.1f}" if DGL in speeds else "-"
        cells = [f"{speeds[name]:,.0f}" if name in speeds else "-" for name in names]
        rows.append([f"{r['hidden']}, {r['batch']}", *cells, ratio, f"{r[key] / 1e9:.0f}"])
    return table(["hidden, batch", *names, "vertex / DGL", f"{rate.removesuffix(' rate')}, GFLOP/s"], rows)


def steps_table(records: Sequence[dict[str, Any]]) -> str:
    """Return what a step of each way consists of."""
    rate, key = rate_of(records)
    header = [
        "hidden, batch, way",
        "trees/s",
        f"of {rate}",
        "construction",
        "scheduling",
        "batches",
        "KB moved / tree",
    ]
    rows = [
        [
            f"{r['hidden']}, {r['batch']}, {name}",
            f"{way['trees_per_second']:,.0f}",
            f"{way['trees_per_second'] * r['flops_per_tree'] / r[key]:.1%}",
            f"{way['construction_share']:.1%}",
            *(
                [f"{way['scheduling_share']:.1%}", f"{way['batches']:,}", f"{way['bytes_per_tree'] / 1e3:,.0f}"]
                if "batches" in way
                else ["-"] * 3
            ),
        ]
        for r in records
        for name, way in r["ways"].items()
    ]
    return table(header, rows)


def ablation_table(ablated: dict[str, float]) -> str:
    """Return one row per set of switches."""
    rows = [[name, f"{speed:,.0f}", f"{speed / ablated['all']:.2f}"] for name, speed in ablated.items()]
    return table(["optimisations", "trees/s", "of all"], rows)


def complete_table(records: Sequence[dict[str, Any]]) -> str:
    """Return one row per number of leaves: trees per second, and the share of construction in a step."""
    header = ["leaves"]
    for name in records[0]["ways"]:
        header += [name, "construction"]
    rows = []
    for r in records:
        row = [str(r["leaves"])]
        for way in r["ways"].values():
            row += [f"{way['trees_per_second']:,.1f}", f"{way['construction_share']:.1%}"]
        rows.append(row)
    return table(header, rows)


def main() -> None:
    """Measure and save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--hidden", type=int, nargs="+", help="only states of these sizes, and only the first table")
    options.add_argument("--batch", type=int, nargs="+", help="only batches of these sizes, and only the first table")
    arguments = options.parse_args()
    warnings.filterwarnings("ignore", message=".*does not contain valid edges")  # DGL's, of leaves
    quick, part = arguments.quick, bool(arguments.hidden or arguments.batch)
    sizes, hiddens = ([1, 8], [32]) if quick else ([1, 2, 4, 8, 16, 32, 64, 128, 256], [128, 256, 512])
    sizes, hiddens = arguments.batch or sizes, arguments.hidden or hiddens
    trees, words, source = load_trees(max(64 if quick else 2048, max(sizes)))
    for model in (TreeLSTM(words, 16), TreeFC(words, 16)):
        check(model, trees[:3])
    records = tree_lstm(sizes, hiddens, trees, words)
    print(f"\n{trees_table(records)}\n\n{steps_table(records)}")
    if part:
        return
    ablated = ablation(8 if quick else 64, 32 if quick else 256, trees, words)
    complete = tree_fc([32] if quick else [32, 64, 128, 256, 512, 1024], 32 if quick else 256, 4 if quick else 64)
    print(f"\n{ablation_table(ablated)}\n\n{complete_table(complete)}")
    if not quick:
        save("dynamic", {"data": source, "tree_lstm": records, "ablation": ablated, "tree_fc": complete})


if __name__ == "__main__":
    main()
