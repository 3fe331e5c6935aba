"""Training over 2 and 4 processes of this machine by gloo: bytes sent beside predictions, caches, memory, DGL 2.1.

    python benchmarks/distributed.py              all cases
    python benchmarks/distributed.py bytes cache  some cases; the results of others stay as they are
    python benchmarks/distributed.py --quick      small graphs; results are not kept

bytes    an epoch of GraphSAGE on batches, with features and trained embeddings; a step of a GCN on the whole graph
cache    hit rates of the rows that a rank keeps of others
memory   of a rank, beside its share of the features and the structure
dgl-2    sampling and fetching over 2 processes, beside DGL 2.1's servers and clients
dgl-4    over 4

The loopback network shows what is sent and that it is right, not how fast several machines are: see cluster.py.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import OURS, RESULTS, measured, parser, save, table
from distributed_dgl import time_dgl
from distributed_ranks import (
    AHEAD,
    CLASSES,
    NAME,
    cache_rates,
    counted_batches,
    halo_sizes,
    memory_of_rank,
    predicted_batches,
    predicted_step,
    time_batches,
    together,
    train_epoch,
    train_step,
)

import dglite
from dglite.distributed import load_partition_book, partition_graph, plan_full_graph

PEER = "DGL 2.1"
WORLDS = (2, 4)
METHODS = ("locality", "random")
COMMUNITIES, HOMOPHILY, DEGREE = 40, 0.9, 20
WIDTHS = [64, 32]
SHARES = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2]


def made_graph(num_nodes: int, width: int, degree: int = DEGREE) -> dglite.DGLGraph:
    """Return a power-law graph of communities with features, labels and a tenth of its nodes to train on."""
    dglite.seed(0), torch.manual_seed(0)
    g = dglite.rand_power_law_graph(
        num_nodes, degree * num_nodes, num_communities=COMMUNITIES, homophily=HOMOPHILY, idtype=torch.int32
    )
    g.ndata["x"] = torch.randn(num_nodes, width)
    g.ndata["y"] = torch.randint(CLASSES, (num_nodes,))
    g.ndata["train"] = torch.rand(num_nodes) < 0.1
    return g


class Cut:
    """A graph in parts.

    Attributes
    ----------
    config
        the JSON file.
    starts
        where each part's nodes begin, then the number of nodes.
    new
        the new id of each node.
    src, dst
        the ends of the edges, by new ids.
    """

    def __init__(self, g: dglite.DGLGraph, world: int, method: str, folder: str) -> None:
        dglite.seed(1)
        nodes, _ = partition_graph(g, NAME, world, folder, part_method=method, return_mapping=True)
        self.config = str(Path(folder, f"{NAME}.json"))
        sizes = [of["num_nodes"] for of in load_partition_book(self.config, 0)[0].metadata()]
        self.starts = [0, *np.cumsum(sizes).tolist()]
        self.new = np.empty(g.num_nodes(), np.int64)
        self.new[nodes.numpy()] = np.arange(g.num_nodes())
        src, dst = g.edges()
        self.src, self.dst = self.new[src.numpy()], self.new[dst.numpy()]


# -- bytes -------------------------------------------------------------------------------------------------------------
def measure_bytes(quick: bool) -> dict[str, Any]:
    """Return a record of an epoch on batches, and of a step on the whole graph, for each graph, number and cut."""
    sizes = [(4_000, DEGREE)] if quick else [(40_000, DEGREE), (40_000, 2 * DEGREE), (80_000, DEGREE)]
    batches, steps = [], []
    for num_nodes, degree in sizes:
        g = made_graph(num_nodes, WIDTHS[0], degree)
        for world in WORLDS:
            for method in METHODS:
                with tempfile.TemporaryDirectory() as folder:
                    cut = Cut(g, world, method, folder)
                    case = {"nodes": num_nodes, "edges": g.num_edges(), "world": world, "method": method}
                    if degree == DEGREE:
                        batches.append(case | batches_of(cut, 100 if quick else 500))
                        print(batch_bytes_table(batches[-1:]), flush=True)
                    steps.append(case | step_of(cut, g, folder))
                    print(step_bytes_table(steps[-1:]), flush=True)
    return {"batches": batches, "steps": steps, **measured()}


def batches_of(cut: Cut, batch_size: int) -> dict[str, Any]:
    """Return what an epoch on batches sends, as counted and as predicted, and what crossed the loopback network."""
    result = together(len(cut.starts) - 1, train_epoch, cut.config, batch_size)
    predicted = predicted_batches(np.array(cut.starts), result, WIDTHS[0])
    wire = max(of["wire"] for of in result)
    return {
        "batches": len(result[0]["inputs"]),
        "predicted": predicted,
        "counted": counted_batches(result),
        "wire": wire,
    }


def step_of(cut: Cut, g: dglite.DGLGraph, folder: str) -> dict[str, Any]:
    """Return what a step on the whole graph sends by halos and by columns, as counted and as predicted."""
    path, world = str(Path(folder, "edges.npz")), len(cut.starts) - 1
    np.savez(path, src=cut.src, dst=cut.dst)
    result = together(world, train_step, path, cut.starts, WIDTHS)
    halo = sum(halo_sizes(cut.src, cut.dst, cut.starts))
    owner = np.searchsorted(cut.starts, cut.new, "right") - 1
    plan = plan_full_graph(g, WIDTHS, world, owner, first_gradient=False)
    predicted = predicted_step(halo, cut.starts, WIDTHS)
    counted = {
        way: {kind: sum(of[way].get(kind, 0) for of in result) for kind in kinds} for way, kinds in predicted.items()
    }
    return {"halo": halo, "predicted": predicted, "counted": counted, "chosen": plan.split}


def _off(counted: float, predicted: float) -> str:
    return f"{abs(counted / predicted - 1):.2%}" if predicted else ("0.00%" if not counted else "-")


def batch_bytes_table(records: list[dict[str, Any]]) -> str:
    """Return one row per graph, number of processes and cut: MB by kind, and how far off predictions are."""
    kinds = list(records[0]["predicted"])
    rows = []
    for r in records:
        counted, predicted = r["counted"], r["predicted"]
        cells = [f"{counted.get(kind, predicted[kind]) / 1e6:.2f}" for kind in kinds]
        off = max(abs(counted[kind] / predicted[kind] - 1) if predicted[kind] else 0 for kind in counted)
        total = sum(predicted.values())
        wire = [f"{total / 1e6:.1f}", f"{r['wire'] / 1e6:.1f}", f"{r['wire'] / total - 1:+.1%}"]
        case = f"{r['nodes'] // 1000}k nodes, {r['world']} processes, {r['method']}"
        rows.append([case, str(r["batches"]), *cells, f"{off:.2%}", *wire])
    header = ["case", "batches", *kinds, "most that a prediction is off", "predicted, all", "on the network", "more"]
    return table(header, rows)


def step_bytes_table(records: list[dict[str, Any]]) -> str:
    """Return one row per graph, number of processes and cut: the halo, MB by kind, and how far off predictions are."""
    rows = []
    for r in records:
        counted, predicted = r["counted"], r["predicted"]
        pairs = [(counted[way][kind], predicted[way][kind]) for way in predicted for kind in predicted[way]]
        off = max(abs(c / p - 1) if p else float(c > 0) for c, p in pairs)
        by_nodes, by_features = sum(counted["nodes"].values()), sum(counted["features"].values())
        case = f"{r['nodes'] // 1000}k nodes, {r['edges'] / 1e6:.1f}M edges, {r['world']} processes, {r['method']}"
        cells = [f"{counted['nodes'][kind] / 1e6:.2f}" for kind in ("halos", "gradients")]
        per_row = f"{by_nodes / r['halo']:.0f}" if r["halo"] else "-"
        columns = f"{by_features / 1e6:.2f}"
        rows.append([case, f"{r['halo']:,}", *cells, per_row, columns, f"{off:.2%}", r["chosen"]])
    header = ["case", "halo, rows", "halos, MB", "gradients, MB", "bytes per row", "by columns, MB"]
    return table([*header, "most that a prediction is off", "plan_full_graph"], rows)


# -- caches ------------------------------------------------------------------------------------------------------------
def measure_cache(quick: bool) -> dict[str, Any]:
    """Return a record of each size of the cache, for both cuts."""
    num_nodes, world = (4_000, 2) if quick else (80_000, 4)
    g, records = made_graph(num_nodes, WIDTHS[0]), []
    for method in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            result = together(world, cache_rates, Cut(g, world, method, folder).config, 100 if quick else 500, SHARES)
        for share, of in zip(SHARES, zip(*result, strict=True), strict=True):
            total = {key: sum(rank[key] for rank in of) for key in of[0]}
            rate = total["hits"] / max(total["hits"] + total["misses"], 1)
            records.append({"method": method, "share": share, "rate": rate, **total})
    print(cache_table(records))
    return {"nodes": num_nodes, "world": world, "records": records, **measured()}


def cache_table(records: list[dict[str, Any]]) -> str:
    """Return one row per size of the cache: hit rate and MB of features, for each cut, and MB by a schedule."""
    rows = []
    for share in dict.fromkeys(r["share"] for r in records):
        of = [r for r in records if r["share"] == share]
        cells = [
            cell
            for r in of
            for cell in (f"{r['rate']:.1%}", f"{r['bytes'] / 1e6:.1f}", f"{r['scheduled bytes'] / 1e6:.1f}")
        ]
        rows.append([f"{share:.0%} of all nodes", *cells])
    methods = dict.fromkeys(r["method"] for r in records)
    header = (cell for m in methods for cell in (f"{m}: hits", "MB an epoch", "scheduled"))
    return table(["rows kept", *header], rows)


# -- memory ------------------------------------------------------------------------------------------------------------
def measure_memory(quick: bool) -> dict[str, Any]:
    """Return what a rank has resident, for each number of processes."""
    num_nodes, width, records = 20_000 if quick else 500_000, 256, []
    g = made_graph(num_nodes, width)
    for world in WORLDS:
        with tempfile.TemporaryDirectory() as folder:
            result = together(world, memory_of_rank, Cut(g, world, "locality", folder).config, 100)
        structure = 4 * (g.num_edges() + num_nodes + 1)
        records.append(
            {
                "world": world,
                "features": 4 * width * num_nodes,
                "structure": structure,
                "opened": max(of["opened"] for of in result),
                "most": max(of["most"] for of in result),
            }
        )
    print(memory_table(records))
    return {"nodes": num_nodes, "edges": g.num_edges(), "width": width, "records": records, **measured()}


def memory_table(records: list[dict[str, Any]]) -> str:
    """Return one row per number of processes: a rank's share of what there is, and what it has resident, in MB."""
    rows = []
    for r in records:
        share = (r["features"] + r["structure"]) / r["world"]
        sizes = [r["features"] / r["world"], r["structure"] / r["world"], r["opened"]]
        more = f"{r['opened'] / share - 1:+.1%}"
        rows.append([str(r["world"]), *(f"{size / 1e6:.1f}" for size in sizes), more, f"{r['most'] / 1e6:.1f}"])
    header = ["processes", "its features, MB", "its share of the structure", "resident", "more", "most in training"]
    return table(header, rows)


# -- beside DGL --------------------------------------------------------------------------------------------------------
def measure_dgl(world: int, quick: bool) -> dict[str, Any]:
    """Return seconds per batch of both, for each cut."""
    num_nodes, batch_size, epochs = (4_000, 100, 1) if quick else (100_000, 500, 3)
    g, records = made_graph(num_nodes, 128), []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "edges.npz")
        src, dst = (end.numpy().astype(np.int64) for end in g.edges())
        np.savez(path, src=src, dst=dst, x=g.ndata["x"].numpy(), train=g.ndata["train"].numpy())
        for ours, theirs in (("locality", "metis"), ("random", "random")):
            with tempfile.TemporaryDirectory() as folder:
                config = Cut(g, world, ours, folder).config
                of_ranks = together(world, time_batches, config, batch_size, epochs)
            results = {key: [of[key] for of in of_ranks] for key in of_ranks[0]}
            of_peer = time_dgl(path, world, theirs, batch_size, epochs)
            why = of_peer if isinstance(of_peer, str) else ""
            if not isinstance(of_peer, str):
                results[PEER] = of_peer
            seconds = {key: max(rank["seconds"] for rank in of) for key, of in results.items()}
            rows = {key: float(np.mean([rank["rows"] for rank in of])) for key, of in results.items()}
            record = {"world": world, "methods": [ours, theirs], "seconds": seconds, "rows": rows, "why": why}
            records.append(record)
            print(dgl_table(records[-1:]), flush=True)
    return {"nodes": num_nodes, "edges": g.num_edges(), "batch_size": batch_size, "records": records, **measured()}


def dgl_table(records: list[dict[str, Any]]) -> str:
    """Return one row per number of processes and cut: milliseconds per batch, and the ratio."""
    rows = []
    for r in records:
        cells = [f"{1e3 * r['seconds'][key]:.1f}" for key in (OURS, AHEAD)]
        if PEER in r["seconds"]:
            cells += [f"{1e3 * r['seconds'][PEER]:.1f}", f"{r['seconds'][PEER] / r['seconds'][OURS]:.2f}"]
        else:
            cells += [r["why"], ""]
        sizes = [f"{r['rows'][key]:,.0f}" if key in r["rows"] else "" for key in (OURS, PEER)]
        rows.append([str(r["world"]), " / ".join(dict.fromkeys(r["methods"])), *sizes, *cells])
    header = ["processes", "cut", "rows", f"{PEER}, rows", f"{OURS}, ms", AHEAD, f"{PEER}, ms", f"{PEER} / {OURS}"]
    return table(header, rows)


CASES: dict[str, Callable[[bool], dict[str, Any]]] = {
    "bytes": measure_bytes,
    "cache": measure_cache,
    "memory": measure_memory,
}
CASES |= {f"dgl-{world}": partial(measure_dgl, world) for world in WORLDS}


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("cases", nargs="*", default=[], help=f"of {', '.join(CASES)}; all by default")
    given = options.parse_args()
    if unknown := set(given.cases) - set(CASES):
        sys.exit(f"unknown cases {sorted(unknown)}; there are {list(CASES)}")
    path = RESULTS / "distributed.json"
    for case in given.cases or CASES:
        result = CASES[case](given.quick)
        if not given.quick:
            before = json.loads(path.read_text()) if path.is_file() else {}
            before.pop("machine", None)
            save("distributed", before | {case: result})


if __name__ == "__main__":
    main()
