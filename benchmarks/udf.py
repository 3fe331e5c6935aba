"""User-defined functions: recorded and fused, as written in degree buckets, and by DGL 2.1, forward and backward.

    python benchmarks/udf.py            about four minutes on two cores
    python benchmarks/udf.py --quick

The bucketed runner gets the same functions inside an object, which dglite does not look into. The second table is the
textbook graph convolution written with two functions, against the built-in pair, at growing sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from common import OURS, erdos_renyi, interleave, load_dgl, parser, save, table
from torch import nn

import dglite
import dglite.function as fn

GRAPHS = {"1k/5k": (1_000, 5_000), "20k/400k": (20_000, 400_000), "100k/2M": (100_000, 2_000_000)}
LARGE = 1_000_000
"""Edges above which only pairs with an apply function are measured."""
SIZES = (1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000, 4_000_000)
DEGREE = 16
BUCKETED, PEER = f"{OURS}, bucketed", "DGL 2.1"

Batch = Any
Table = dict[str, torch.Tensor]
Function = Callable[[Batch], Table]


class Opaque:
    """A user's function that cannot be recorded: an object that is called."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def __call__(self, batch: Batch) -> Table:
        return self.function(batch)


# -- the functions -----------------------------------------------------------------------------------------------------
def copy(edges: Batch) -> Table:
    return {"m": edges.src["h"]}


def weighted(edges: Batch) -> Table:
    return {"m": edges.src["h"] * edges.data["w"]}


def gated(edges: Batch) -> Table:
    gate = torch.sigmoid(edges.src["a"] + edges.dst["b"])
    return {"m": gate * edges.src["h"]}


def rectified(edges: Batch) -> Table:
    return {"m": torch.relu(edges.src["h"] - edges.dst["h"])}


def scored(edges: Batch) -> Table:
    return {"m": edges.src["h"], "s": F.leaky_relu(edges.src["l"] + edges.dst["r"], 0.2)}


def add_up(nodes: Batch) -> Table:
    return {"out": nodes.mailbox["m"].sum(1)}


def largest(nodes: Batch) -> Table:
    return {"out": nodes.mailbox["m"].max(1)[0]}


def pooled(nodes: Batch) -> Table:
    attention = F.softmax(nodes.mailbox["s"], dim=1)
    return {"out": (attention * nodes.mailbox["m"]).sum(1)}


def statistics(nodes: Batch) -> Table:
    """Return PNA's four aggregators with its three scalers, which depend on the number of messages."""
    m = nodes.mailbox["m"]
    mean = m.mean(1)
    deviation = torch.sqrt(torch.relu((m * m).mean(1) - mean * mean) + 1e-5)
    x = torch.cat([mean, m.max(1)[0], m.min(1)[0], deviation], 1)
    scale = np.log(m.shape[1] + 1)
    return {"out": torch.cat([x, x * scale, x / scale], 1)}


def lstm_reducer(width: int) -> Function:
    """Return GraphSAGE's LSTM aggregator, which reads a mailbox message by message."""
    torch.manual_seed(0)
    lstm = nn.LSTM(width, width, batch_first=True)

    def reduce(nodes: Batch) -> Table:
        return {"out": lstm(nodes.mailbox["m"])[1][0][0]}

    return reduce


def normalised(nodes: Batch) -> Table:
    return {"out": torch.relu(nodes.data["out"] * nodes.data["norm"] + nodes.data["b"])}


class Pair(NamedTuple):
    """Functions, of the width, and how many times faster than DGL they are to be."""

    message: Function
    reduce: Callable[[int], Function]
    target: float
    apply: Function | None = None


PAIRS = {
    "copy, sum": Pair(copy, lambda width: add_up, 5.0),
    "copy, sum, apply": Pair(copy, lambda width: add_up, 5.0, normalised),
    "weight, sum": Pair(weighted, lambda width: add_up, 5.0),
    "gate, sum": Pair(gated, lambda width: add_up, 5.0),
    "ReLU of difference, max": Pair(rectified, lambda width: largest, 5.0),
    "softmax pooling": Pair(scored, lambda width: pooled, 5.0),
    "PNA's statistics": Pair(copy, lambda width: statistics, 2.0),
    "LSTM": Pair(copy, lstm_reducer, 1.2),
}


# -- measuring ---------------------------------------------------------------------------------------------------------
def features(num_nodes: int, num_edges: int, width: int) -> tuple[Table, Table]:
    """Return node and edge columns, all with gradients."""
    torch.manual_seed(0)
    wide = {name: torch.randn(num_nodes, width) for name in ("h", "a", "b")}
    scores = {name: torch.randn(num_nodes, 1) for name in ("l", "r")}
    nodes = {name: x.requires_grad_() for name, x in (wide | scores).items()}
    return nodes, {"w": torch.rand(num_edges, 1).requires_grad_()}


def training_step(graph: Any, functions: tuple[Any, ...], leaves: list[torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Return a runner of message passing and of the gradients of ``leaves``."""

    def run() -> torch.Tensor:
        with graph.local_scope():
            graph.update_all(*functions)
            out = graph.ndata["out"]
            torch.autograd.grad(out.sum(), leaves, allow_unused=True)
        return out

    return run


def compare_pairs(quick: bool) -> list[dict[str, Any]]:
    """Measure every pair on every graph."""
    width, dgl, records = 32, load_dgl(), []
    for (name, (num_nodes, num_edges)), pair in itertools.product(GRAPHS.items(), PAIRS):
        if (quick and num_edges > 10_000) or (num_edges >= LARGE and PAIRS[pair].apply is None):
            continue
        message, make_reduce, target, apply = PAIRS[pair]
        functions = message, make_reduce(width), *(() if apply is None else (apply,))
        src, dst = map(torch.from_numpy, erdos_renyi(num_nodes, num_edges))
        columns, norm = features(num_nodes, num_edges, width), torch.rand(num_nodes, 1)
        runners = {}
        for label, library, given in (
            (OURS, dglite, functions),
            (BUCKETED, dglite, tuple(map(Opaque, functions))),
            (PEER, dgl, functions),
        ):
            if library is not None:
                graph = library.graph((src, dst), num_nodes=num_nodes)
                graph.ndata.update({**columns[0], "norm": norm})
                graph.edata.update(columns[1])
                runners[label] = training_step(graph, given, [*columns[0].values(), *columns[1].values()])
        agree(pair, {label: run() for label, run in runners.items()})
        seconds = interleave(runners, budget=0.5 if quick else 6.0, most=40)
        records.append({"pair": pair, "graph": name, "target": target, "seconds": seconds})
        print(pairs_table(records[-1:]).split("\n")[-1], flush=True)
    return records


def agree(what: str, results: Table) -> None:
    """Stop where two runners compute something else."""
    expected = results[OURS]
    for label, actual in results.items():
        if not torch.allclose(actual, expected, rtol=1e-3, atol=1e-3):
            raise SystemExit(f"{what}: {label} and {OURS} differ by {(actual - expected).abs().max():g}")


def compare_sizes(quick: bool) -> list[dict[str, Any]]:
    """Measure the textbook convolution against the built-in pair, forward, at growing sizes and two widths."""
    records = []
    for num_edges, width in itertools.product(SIZES[:2] if quick else SIZES, (16, 64)):
        num_nodes = num_edges // DEGREE
        graph = dglite.graph(tuple(map(torch.from_numpy, erdos_renyi(num_nodes, num_edges))), num_nodes=num_nodes)
        graph.ndata["h"] = torch.randn(num_nodes, width)
        number = max(1, 400_000 // num_edges)
        runners = {
            "user-defined": repeat_update(graph, copy, add_up, number),
            "built-in": repeat_update(graph, fn.copy_u("h", "m"), fn.sum("m", "out"), number),
        }
        medians = interleave(runners, budget=0.5 if quick else 3.0, most=60)
        seconds = {label: median / number for label, median in medians.items()}
        records.append({"num_edges": num_edges, "width": width, "seconds": seconds})
    return records


def repeat_update(graph: Any, message: Any, reduce: Any, number: int) -> Callable[[], None]:
    """Return a runner of ``number`` calls."""

    def run() -> None:
        for _ in range(number):
            graph.update_all(message, reduce)

    return run


# -- showing -----------------------------------------------------------------------------------------------------------
def pairs_table(records: list[dict[str, Any]]) -> str:
    """Return one row per pair and graph: our milliseconds, the others as multiples."""
    rows = []
    for record in records:
        seconds = record["seconds"]
        ours = seconds[OURS]
        rows.append(
            [
                record["pair"],
                record["graph"],
                f"{1e3 * ours:.2f}",
                *(f"{seconds[label] / ours:.2f}" if label in seconds else "" for label in (BUCKETED, PEER)),
                f"{record['target']:g}",
            ]
        )
    return table(["functions", "graph", f"{OURS}, ms", "bucketed, x", "DGL 2.1, x", "to reach"], rows)


def sizes_table(records: list[dict[str, Any]]) -> str:
    """Return one row per size: how much longer the user-defined pair takes than the built-in one."""
    rows = []
    for record in records:
        ours, builtin = record["seconds"]["user-defined"], record["seconds"]["built-in"]
        rows.append(
            [
                f"{record['num_edges']:,}",
                str(record["width"]),
                f"{1e6 * ours:.0f}",
                f"{1e6 * builtin:.0f}",
                f"{ours / builtin:.2f}",
            ]
        )
    return table(["edges", "width", "user-defined, us", "built-in, us", "ratio"], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    results = {"pairs": compare_pairs(quick), "sizes": compare_sizes(quick)}
    print(f"\n{pairs_table(results['pairs'])}\n\n{sizes_table(results['sizes'])}")
    if not quick:
        save("udf", results)


if __name__ == "__main__":
    main()
