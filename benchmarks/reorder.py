"""What the order of nodes is worth: copy_u sum, forward and backward, before and after ``dglite.reorder_graph``.

    python benchmarks/reorder.py            two minutes on two cores
    python benchmarks/reorder.py --quick    small graphs

Two graphs with locality that their ids hide, a lattice and one of many communities, and one that has none: a power law.
The orders take turns; times are for the same graph, so that their ratio is what reordering gains.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import interleave, parser, power_law, save, table

import dglite

WIDTHS = (16, 64, 128)
ORDERS = ("rcmk", "degree", "locality")
AS_GIVEN = "as given"


def lattice(side: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the edges both ways of a square lattice with diagonals, under shuffled ids, and its number of nodes."""
    ids = np.random.default_rng(seed).permutation(side * side).reshape(side, side)
    pairs = [
        (ids[1:].ravel(), ids[:-1].ravel()),
        (ids[:, 1:].ravel(), ids[:, :-1].ravel()),
        (ids[1:, 1:].ravel(), ids[:-1, :-1].ravel()),
        (ids[1:, :-1].ravel(), ids[:-1, 1:].ravel()),
    ]
    u, v = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    return np.concatenate([u, v]), np.concatenate([v, u]), side * side


def communities(num_nodes: int, size: int, degree: int, inside: float, seed: int = 0) -> tuple[Any, Any, int]:
    """Return the edges of a stochastic block model under shuffled ids, and its number of nodes.

    A share ``inside`` of the edges joins nodes of one community of ``size``.
    """
    random = np.random.default_rng(seed)
    num_edges, ids = num_nodes * degree, random.permutation(num_nodes)
    src = random.integers(num_nodes, size=num_edges)
    near = np.minimum(src // size * size + random.integers(size, size=num_edges), num_nodes - 1)
    dst = np.where(random.random(num_edges) < inside, near, random.integers(num_nodes, size=num_edges))
    return ids[src], ids[dst], num_nodes


def graphs(quick: bool) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Return the graphs to measure on, by name."""
    if quick:
        return {"lattice 100 x 100": lattice(100), "communities, 20k nodes": communities(20_000, 100, 10, 0.9)}
    return {
        "lattice 1000 x 1000": lattice(1000),
        "communities of 256, 500k nodes": communities(500_000, 256, 16, 0.9),
        "power law 200k/4M": (*power_law(200_000, 4_000_000), 200_000),
    }


def measure(name: str, src: np.ndarray, dst: np.ndarray, num_nodes: int, widths: tuple[int, ...]) -> dict[str, Any]:
    """Return seconds by width and order, and the seconds that each order took to make."""
    given = dglite.graph((src, dst), num_nodes=num_nodes)
    results, making = {AS_GIVEN: given}, {}
    for order in ORDERS:
        start = time.perf_counter()
        results[order] = dglite.reorder_graph(given, order, "dst")
        making[order] = time.perf_counter() - start
    seconds = {}
    for width in widths:
        x = torch.randn(num_nodes, width)
        seconds[str(width)] = interleave(
            {order: runner(graph, x) for order, graph in results.items()}, budget=8, slow_from=math.inf
        )
    return {"graph": name, "num_edges": len(src), "making": making, "seconds": seconds}


def runner(graph: dglite.DGLGraph, x: torch.Tensor) -> Callable[[], None]:
    """Return a forward and backward pass on ``graph``."""
    x = x.clone().requires_grad_()
    gradient = torch.ones_like(x)

    def run() -> None:
        x.grad = None
        dglite.ops.copy_u_sum(graph, x).backward(gradient)

    return run


def orders_table(records: list[dict[str, Any]]) -> str:
    """Return one row per graph and width: milliseconds as given, and how many times faster each order is."""
    rows = [
        [
            f"{r['graph']}, {r['num_edges'] / 1e6:.1f}M edges",
            width,
            f"{1e3 * seconds[AS_GIVEN]:.1f}",
            *(f"{seconds[AS_GIVEN] / seconds[order]:.2f}" for order in ORDERS),
            *(f"{r['making'][order]:.1f}" for order in ORDERS),
        ]
        for r in records
        for width, seconds in r["seconds"].items()
    ]
    header = ["graph", "width", f"{AS_GIVEN}, ms", *(f"{order}, x faster" for order in ORDERS)]
    return table([*header, *(f"{order}, s to make" for order in ORDERS)], rows)


def main() -> None:
    """Measure, print, save."""
    quick = parser(__doc__.split("\n")[0]).parse_args().quick
    small = dglite.graph(([0, 1], [1, 0]))
    for order in ORDERS:
        dglite.reorder_graph(small, order)  # compiles
    records = [measure(name, *edges, (16,) if quick else WIDTHS) for name, edges in graphs(quick).items()]
    print(orders_table(records))
    if not quick:
        save("reorder", {"records": records})


if __name__ == "__main__":
    main()
