"""What one call costs before any work is done: a graph of four nodes, against DGL 2.1 in the same process.

python benchmarks/overhead.py            half a minute
python benchmarks/overhead.py --quick
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from common import OURS, interleave, load_dgl, parser, repeated, save, table

import dglite
import dglite.function
import dglite.nn

WIDTH = 8
TARGETS = {
    "update_all(copy_u, sum)": 7.0,
    "ops.copy_u_sum": 7.0,
    "GraphConv forward": 4.0,
    "graph construction": 2.0,
    "update_all(UDF, UDF)": 2.0,
}
"""How many times faster than DGL each is to be."""


def runners(library: Any, fn: Any, nn: Any) -> dict[str, Callable[[], Any]]:
    """Return the calls to time; ``library`` is dglite or DGL, whose interfaces are the same."""
    src, dst = torch.tensor([0, 1, 2, 3, 0]), torch.tensor([1, 2, 3, 0, 2])
    graph = library.graph((src, dst))
    x = torch.randn(4, WIDTH)
    graph.ndata["h"] = x
    layer = nn.GraphConv(WIDTH, WIDTH)
    message, reduce = fn.copy_u("h", "m"), fn.sum("m", "out")

    def message_udf(edges: Any) -> dict[str, torch.Tensor]:
        return {"m": edges.src["h"]}

    def reduce_udf(nodes: Any) -> dict[str, torch.Tensor]:
        return {"out": nodes.mailbox["m"].sum(1)}

    return {
        "update_all(copy_u, sum)": lambda: graph.update_all(message, reduce),
        "ops.copy_u_sum": lambda: library.ops.copy_u_sum(graph, x),
        "GraphConv forward": lambda: layer(graph, x),
        "graph construction": lambda: library.graph((src, dst)),
        "update_all(UDF, UDF)": lambda: graph.update_all(message_udf, reduce_udf),
    }


def calls_table(records: list[dict[str, Any]]) -> str:
    """Return one row per call: microseconds of each library and their ratio."""
    rows = []
    for record in records:
        seconds = record["seconds"]
        row = [record["call"], *(f"{1e6 * value:.1f}" for value in seconds.values())]
        if len(seconds) == 2:
            ours, theirs = seconds.values()
            row += [f"{theirs / ours:.1f}", f"{record['target']:g}"]
        rows.append(row)
    names = [f"{name}, us" for name in records[0]["seconds"]]
    return table(["call", *names, *(["ratio", "to reach"] if len(names) == 2 else [])], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    number = 100 if quick else 1000
    libraries = {OURS: runners(dglite, dglite.function, dglite.nn)}
    if (dgl := load_dgl()) is not None:
        libraries["DGL 2.1"] = runners(dgl, dgl.function, importlib.import_module("dgl.nn"))
    records = []
    for call, target in TARGETS.items():
        loops = {name: repeated(calls[call], number) for name, calls in libraries.items()}
        medians = interleave(loops, budget=0.5 if quick else 5.0, most=25)
        seconds = {name: median / number for name, median in medians.items()}
        records.append({"call": call, "target": target, "seconds": seconds})
    print(calls_table(records))
    if not quick:
        save("overhead", {"records": records})


if __name__ == "__main__":
    main()
