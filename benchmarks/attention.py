"""Training step of attention layers on an Erdos-Renyi graph of 32,768 nodes and 859k edges, with self-loops.

    python benchmarks/attention.py            some minutes
    python benchmarks/attention.py --quick    a tenth of the graph

A step is forward, mean of squares, backward and Adam, the input's gradient included. 8 heads of 8 and of 32, without
dropout and with a dropout of the attention of 0.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import OURS, erdos_renyi, interleave, load_dgl, parser, save, table

NUM_NODES, NUM_EDGES = 32_768, 859_000
HEADS, SIZES = 8, (8, 32)
LAYERS: tuple[tuple[str, dict[str, float]], ...] = (
    ("GATConv", {}),
    ("GATConv", {"attn_drop": 0.6}),
    ("GATv2Conv", {}),
    ("GATv2Conv", {"attn_drop": 0.6}),
    ("DotGatConv", {}),
)


def training_step(module: Any, graph: Any, name: str, size: int, options: dict[str, float]) -> Callable[[], None]:
    """Return a step of a layer of ``module``; all libraries start from the same weights."""
    torch.manual_seed(0)
    layer = getattr(module, name)(HEADS * size, size, HEADS, **options)
    x = torch.randn(graph.num_nodes(), HEADS * size, requires_grad=True)
    optimizer = torch.optim.Adam(layer.parameters())

    def step() -> None:
        optimizer.zero_grad()
        x.grad = None
        layer(graph, x).square().mean().backward()
        optimizer.step()

    return step


def steps_table(records: list[dict[str, Any]]) -> str:
    """Return one row per layer: milliseconds of each library, and how many times as long as ours the peer takes."""
    rows = []
    for record in records:
        ours, peer = record["seconds"][OURS], record["seconds"].get("DGL 2.1")
        name = f"{record['layer']}, {HEADS} heads of {record['size']}, dropout {record['dropout']:g}"
        rows.append([name, f"{ours * 1e3:.1f}", *([f"{peer * 1e3:.1f}", f"{peer / ours:.2f}"] if peer else ["", ""])])
    return table(["training step", f"{OURS} ms", "DGL 2.1 ms", "ratio"], rows)


def main() -> None:
    """Time every layer of every library, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    num_nodes, num_edges = (NUM_NODES // 10, NUM_EDGES // 10) if quick else (NUM_NODES, NUM_EDGES)
    loops = np.arange(num_nodes)
    src, dst = (np.concatenate([ends, loops]) for ends in erdos_renyi(num_nodes, num_edges))
    libraries: dict[str, Any] = {OURS: __import__("dglite"), "DGL 2.1": load_dgl()}
    graphs, modules = {}, {}
    for name, library in libraries.items():
        if library is not None:
            graph = library.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=num_nodes)
            graphs[name] = graph if name == OURS else graph.int()
            modules[name] = __import__(f"{library.__name__}.nn", fromlist=["GATConv"])
    records = []
    for layer, options in LAYERS:
        for size in SIZES:
            runners = {
                name: training_step(module, graphs[name], layer, size, options) for name, module in modules.items()
            }
            for run in runners.values():
                run()  # compiles, and makes the formats that the graph lacks
            seconds = interleave(runners, budget=10, most=9)
            records.append({"layer": layer, "size": size, "dropout": options.get("attn_drop", 0.0), "seconds": seconds})
            print(steps_table(records[-1:]).splitlines()[-1], flush=True)
    print(steps_table(records))
    if not quick:
        save("attention", {"num_nodes": num_nodes, "num_edges": len(src), "heads": HEADS, "records": records})


if __name__ == "__main__":
    main()
