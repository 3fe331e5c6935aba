"""Write message and reduce functions of your own: what becomes one kernel, what does not, and what each costs.

    python examples/user_defined.py
    python examples/user_defined.py --nodes 20000 --edges 400000 --repeat 10

The same aggregation three times: with built-in functions, with functions of one's own, and with the messages of all
edges written out in torch. dglite records what a function does and runs it as kernels where it can; `dglite.explain`
says which, and why not. Then reducers that no built-in has: the range of what arrives, which is recorded, too, and the
median, which needs all messages of a node side by side. Forward and backward on 100,000 edges of width 32 and two cores
took, in milliseconds: built-ins 4, own functions 5, written out 62.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

import dglite
import dglite.function as fn


def gated(edges: dglite.udf.EdgeBatch) -> dict[str, Tensor]:
    """Send the source's features through a gate of both ends: (num_edges, width)."""
    return {"m": edges.src["h"] * torch.sigmoid(edges.src["a"] + edges.dst["b"])}


def copied(edges: dglite.udf.EdgeBatch) -> dict[str, Tensor]:
    """Send the source's features."""
    return {"m": edges.src["h"]}


def total(nodes: dglite.udf.NodeBatch) -> dict[str, Tensor]:
    """Add up the mailbox, (num_nodes, in_degree, width)."""
    return {"out": nodes.mailbox["m"].sum(1)}


def spread(nodes: dglite.udf.NodeBatch) -> dict[str, Tensor]:
    """Return the range of what arrives."""
    return {"out": nodes.mailbox["m"].max(1).values - nodes.mailbox["m"].min(1).values}


def median(nodes: dglite.udf.NodeBatch) -> dict[str, Tensor]:
    """Return the lower median of what arrives."""
    return {"out": nodes.mailbox["m"].median(1).values}


def built_in(graph: dglite.DGLGraph) -> Tensor:
    """Gate and add up with built-in functions: one value per edge is stored, no message."""
    graph.apply_edges(fn.u_add_v("a", "b", "gate"))
    graph.edata["gate"] = torch.sigmoid(graph.edata["gate"])
    graph.update_all(fn.u_mul_e("h", "gate", "m"), fn.sum("m", "out"))
    return graph.ndata["out"]


def by_functions(message: Callable[..., Any], reduce: Callable[..., Any]) -> Callable[[dglite.DGLGraph], Tensor]:
    """Return a function of a graph that passes messages by functions of one's own."""

    def run(graph: dglite.DGLGraph) -> Tensor:
        graph.update_all(message, reduce)
        return graph.ndata["out"]

    return run


def written_out(graph: dglite.DGLGraph) -> Tensor:
    """Gate and add up with torch: every message is stored."""
    src, dst = graph.edges()
    h, a, b = (graph.ndata[name] for name in ("h", "a", "b"))
    messages = h[src] * torch.sigmoid(a[src] + b[dst])
    return torch.zeros_like(h).index_add(0, dst, messages)


WAYS = {
    "built-ins": built_in,
    "own functions": by_functions(gated, total),
    "written out": written_out,
    "own range": by_functions(copied, spread),
    "own median": by_functions(copied, median),
}


def measure(way: Callable[[dglite.DGLGraph], Tensor], graph: dglite.DGLGraph, repeat: int) -> tuple[Tensor, float]:
    """Return the gradient of ``h``, and the median time of a forward and backward pass in milliseconds."""
    times, h = [], graph.ndata["h"]
    for _ in range(repeat + 1):  # the first one compiles
        h.grad = None
        start = time.perf_counter()
        with graph.local_scope():
            way(graph).square().sum().backward()
        times.append(1000 * (time.perf_counter() - start))
    assert h.grad is not None
    return h.grad, statistics.median(times[1:])


def draw(times: dict[str, float], path: str) -> None:
    """Draw the times as bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.bar_label(axes.barh(list(times), list(times.values()), color="#4878cf"), fmt="%.1f ms", padding=3)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel="forward and backward, ms")
    figure.savefig(path)
    print(f"picture written to {path}")


def main() -> None:
    """Compare results and times, print the plans."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=10_000, help="of the generated graph; default: %(default)s")
    parser.add_argument("--edges", type=int, default=100_000, help="of the generated graph; default: %(default)s")
    parser.add_argument("--width", type=int, default=32, help="size of features; default: %(default)s")
    parser.add_argument(
        "--repeat", type=int, default=20, help="runs of each, of which the median is printed; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: %(default)s")
    parser.add_argument("--picture", metavar="FILE", help="draw the times, with matplotlib")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    dglite.seed(arguments.seed)
    graph = dglite.add_self_loop(dglite.rand_graph(arguments.nodes, arguments.edges))
    for name, width in (("h", arguments.width), ("a", 1), ("b", 1)):
        graph.ndata[name] = torch.randn(arguments.nodes, width, requires_grad=True)
    for message, reduce in ((gated, total), (copied, spread), (copied, median)):
        print(dglite.explain(graph, message, reduce), end="\n\n")

    gradients, times = {}, {}
    for name in tqdm(WAYS, unit="way", disable=None):
        gradients[name], times[name] = measure(WAYS[name], graph, arguments.repeat)
    for name, milliseconds in times.items():
        print(f"{name:14} {milliseconds:8.1f} ms forward and backward")
    apart = max((gradients[name] - gradients["written out"]).abs().max().item() for name in list(WAYS)[:2])
    print(f"gradients of the first three differ by at most {apart:.1e}")
    if arguments.picture:
        draw(times, arguments.picture)
    if apart > 1e-3:
        sys.exit("expected the same gradients")


if __name__ == "__main__":
    main()
