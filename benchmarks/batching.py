"""Batching and unbatching 1,000 small graphs with features, against DGL 2.1 in the same process.

python benchmarks/batching.py            half a minute
python benchmarks/batching.py --quick
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import OURS, interleave, load_dgl, parser, save, table

import dglite

TARGET = 1.5
"""How many times faster than DGL each is to be."""


def small_graphs(library: Any, count: int) -> list[Any]:
    """Return molecule-sized graphs, 10 to 30 nodes with twice as many edges, one node and one edge feature."""
    rng, graphs = np.random.default_rng(0), []
    for _ in range(count):
        nodes = int(rng.integers(10, 31))
        src, dst = torch.from_numpy(rng.integers(nodes, size=(2, 2 * nodes)))
        graph = library.graph((src, dst), num_nodes=nodes)
        graph.ndata["h"], graph.edata["w"] = torch.randn(nodes, 16), torch.randn(2 * nodes, 4)
        graphs.append(graph)
    return graphs


def typed_graphs(library: Any, count: int) -> list[Any]:
    """Return graphs of two node types and two edge types with a feature on one node type."""
    rng, graphs = np.random.default_rng(0), []
    follows, plays = ("user", "follows", "user"), ("user", "plays", "game")
    for _ in range(count):
        users, games = (int(x) for x in rng.integers(5, 16, size=2))
        ends = {follows: rng.integers(users, size=(2, 20)), plays: rng.integers(min(users, games), size=(2, 20))}
        edges = {etype: tuple(torch.from_numpy(x)) for etype, x in ends.items()}
        graph = library.heterograph(edges, num_nodes_dict={"user": users, "game": games})
        graph.nodes["user"].data["h"] = torch.randn(users, 16)
        graphs.append(graph)
    return graphs


def runners(library: Any, count: int) -> dict[str, Callable[[], Any]]:
    """Return the calls to time; ``library`` is dglite or DGL, whose interfaces are the same."""
    calls: dict[str, Callable[[], Any]] = {}
    for kind, graphs in (("homogeneous", small_graphs(library, count)), ("two types", typed_graphs(library, count))):
        joined = library.batch(graphs)
        calls[f"batch, {kind}"] = lambda graphs=graphs: library.batch(graphs)
        calls[f"unbatch, {kind}"] = lambda joined=joined: library.unbatch(joined)
    return calls


def batching_table(records: list[dict[str, Any]]) -> str:
    """Return one row per call: milliseconds of each library and their ratio."""
    rows = []
    for record in records:
        seconds = record["seconds"]
        row = [record["call"], *(f"{1e3 * value:.2f}" for value in seconds.values())]
        if len(seconds) == 2:
            ours, theirs = seconds.values()
            row += [f"{theirs / ours:.1f}", f"{TARGET:g}"]
        rows.append(row)
    names = [f"{name}, ms" for name in records[0]["seconds"]]
    return table(["call", *names, *(["ratio", "to reach"] if len(names) == 2 else [])], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    count = 100 if quick else 1000
    libraries = {OURS: runners(dglite, count)}
    if (dgl := load_dgl()) is not None:
        libraries["DGL 2.1"] = runners(dgl, count)
    records = []
    for call in libraries[OURS]:
        calls = {name: own[call] for name, own in libraries.items()}
        records.append({"call": call, "seconds": interleave(calls, budget=0.5 if quick else 4.0, most=25)})
    print(batching_table(records))
    if not quick:
        save("batching", {"num_graphs": count, "records": records})


if __name__ == "__main__":
    main()
