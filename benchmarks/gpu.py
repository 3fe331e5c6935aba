"""g-SpMM, g-SDDMM, edge softmax and a GAT step on a GPU, against torch.sparse, PyG and the GPU's copy bandwidth.

    python benchmarks/gpu.py [--quick] [--edges 1e6,1e7,1e8]

Times are medians over CUDA events after a warm-up. The bytes of an operation are those that must move on a graph beyond
the cache: every edge reads its source's row and its index, every result is written once. Needs torch with CUDA;
PyG is compared where it is installed. A peer that runs out of memory is said to. Results are written after each
width of each graph.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import geometric_mean, gpu_arguments, load_pyg, save, table, timed

import dglite
from dglite import nn
from dglite.expr import Operand, Side
from dglite.ops import core
from dglite.opspec import Reducer
from dglite.structure import Adjacency

MEAN_DEGREE = 20
WIDTHS = (16, 32, 64, 128, 256)
HEADS, FEATURES = 8, 16
COPY, WEIGHTED = Operand(Side.U, 0), Operand(Side.U, 0) * Operand(Side.E, 1)
PRODUCT = Operand(Side.U, 0) * Operand(Side.V, 1)


# -- timing ------------------------------------------------------------------------------------------------------------
def clocked(run: Callable[[], Any]) -> float:
    """Return how many seconds one call takes, by the GPU's clock if there is a GPU."""
    if not torch.cuda.is_available():
        return timed(run)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def seconds(run: Callable[[], Any], least: int = 5, most: int = 30, budget: float = 0.25) -> float:
    """Return the median time of a call after two others; infinite where it runs out of memory."""
    try:
        for _ in range(2):
            clocked(run)
        times: list[float] = []
        while len(times) < least or (len(times) < most and sum(times) < budget):
            times.append(clocked(run))
        return statistics.median(times)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return math.inf
    except (RuntimeError, NotImplementedError) as error:
        print(f"  (a peer does not take this: {str(error).splitlines()[0][:120]})", file=sys.stderr)
        return math.inf


def copy_bandwidth(num_bytes: int, device: str) -> float:
    """Return bytes read and written per second by a copy from device to device."""
    source = torch.randint(256, (num_bytes,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * num_bytes / seconds(lambda: target.copy_(source))


# -- graphs ------------------------------------------------------------------------------------------------------------
class Graph:
    """A graph in random order, and what the peers need of it on the GPU."""

    def __init__(self, kind: str, num_edges: int, device: str) -> None:
        rng = np.random.default_rng(0)
        self.kind, self.num_edges, self.num_nodes, self.device = kind, num_edges, num_edges // MEAN_DEGREE, device
        src, dst = (self._ends(rng) for _ in range(2))
        self.adj = Adjacency.from_coo(self.num_nodes, self.num_nodes, src, dst, validate=False, copy=False)
        self.src, self.dst = (torch.from_numpy(ends).to(device).long() for ends in (src, dst))
        order = torch.argsort(self.dst, stable=True)
        counts = torch.bincount(self.dst, minlength=self.num_nodes)
        self.indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        self.order, self.indices = order, self.src[order]
        self.longest = int(counts.max())

    def _ends(self, rng: np.random.Generator) -> np.ndarray:
        if self.kind == "uniform":
            return rng.integers(0, self.num_nodes, self.num_edges, dtype=np.int32)
        ranks = (rng.random(self.num_edges, dtype=np.float32) ** 4 * self.num_nodes).astype(np.int32)
        return rng.permutation(self.num_nodes).astype(np.int32)[np.minimum(ranks, self.num_nodes - 1)]

    def csr(self, values: torch.Tensor) -> torch.Tensor:
        """Return torch's sparse matrix by destination, with a value for each edge."""
        size = (self.num_nodes, self.num_nodes)
        narrow = self.indptr.int(), self.indices.int()
        return torch.sparse_csr_tensor(*narrow, values[self.order], size, check_invariants=False)

    def gathered(self, width: int, item: int, reads: int = 1) -> int:
        """Return the bytes of a reduction of rows: ``reads`` rows and indices for an edge, a row for a node."""
        return self.num_edges * (reads * width * item + 4) + self.num_nodes * (width * item + 4)


# -- what is measured --------------------------------------------------------------------------------------------------
def spmm_rows(graph: Graph, width: int, dtype: torch.dtype) -> list[dict[str, Any]]:
    """Measure a sum of neighbours, and of neighbours times a weight."""
    x = torch.randn(graph.num_nodes, width, device=graph.device, dtype=dtype)
    weight = torch.rand(graph.num_edges, 1, device=graph.device, dtype=dtype)
    matrices = {"sum": graph.csr(torch.ones_like(weight[:, 0])), "weighted sum": graph.csr(weight[:, 0])}
    item, rows, pyg = x.element_size(), [], pyg_sums(graph, x, weight)
    for name, expr, xs in (("sum", COPY, (x,)), ("weighted sum", WEIGHTED, (x, weight))):
        check = core.spmm(graph.adj, expr, Reducer.SUM, xs).float()
        if dtype is torch.float32 and graph.num_edges <= 10**7:
            expected = matrices[name] @ x
            scale = expected.abs().max()
            assert (check - expected).abs().max() <= 1e-4 * scale, f"{name} is wrong by more than rounding"
        moved = graph.gathered(width, item) + (graph.num_edges * (item + 4) if name != "sum" else 0)
        ours = seconds(lambda expr=expr, xs=xs: core.spmm(graph.adj, expr, Reducer.SUM, xs))
        peers = {"torch.sparse": seconds(lambda name=name: matrices[name] @ x)}
        if pyg:
            peers["PyG"] = seconds(pyg[name])
        rows.append(row(graph, f"g-SpMM {name}", width, dtype, ours, peers, moved))
    ours = seconds(lambda: core.spmm(graph.adj, COPY, Reducer.MAX, (x,)))
    rows.append(row(graph, "g-SpMM max", width, dtype, ours, {}, graph.gathered(width, item)))
    return rows


def pyg_sums(graph: Graph, x: torch.Tensor, weight: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    """Return PyG's sums of messages as its layers compute them from an ``edge_index``; none without PyG."""
    if load_pyg() is None:
        return {}
    from torch_geometric.utils import scatter

    def total(messages: torch.Tensor) -> torch.Tensor:
        return scatter(messages, graph.dst, 0, graph.num_nodes)

    return {"sum": lambda: total(x[graph.src]), "weighted sum": lambda: total(x[graph.src] * weight)}


def sddmm_rows(graph: Graph, width: int) -> list[dict[str, Any]]:
    """Measure a dot product of both ends for every edge."""
    x, y = (torch.randn(graph.num_nodes, width, device=graph.device) for _ in range(2))
    ours = seconds(lambda: core.sddmm(graph.adj, PRODUCT, (x, y), dot=True))
    zeros, turned = graph.csr(torch.zeros(graph.num_edges, device=graph.device)), x.T.contiguous()
    peer = seconds(lambda: torch.sparse.sampled_addmm(zeros, y, turned))
    moved = graph.num_edges * (width * 4 + 12) + graph.num_nodes * (width * 4 + 4)
    return [row(graph, "g-SDDMM dot", width, torch.float32, ours, {"torch.sparse": peer}, moved)]


def softmax_rows(graph: Graph) -> list[dict[str, Any]]:
    """Measure the edge softmax of eight heads."""
    logits = torch.randn(graph.num_edges, HEADS, device=graph.device)
    ours = seconds(lambda: core.edge_softmax(graph.adj, logits))
    places = graph.dst[:, None].expand(-1, HEADS)

    def composed() -> torch.Tensor:
        top = logits.new_full((graph.num_nodes, HEADS), -math.inf).scatter_reduce(0, places, logits, "amax")
        weights = (logits - top[graph.dst]).exp()
        return weights / logits.new_zeros(graph.num_nodes, HEADS).index_add(0, graph.dst, weights)[graph.dst]

    moved = graph.num_edges * (3 * HEADS * 4 + 2 * 4)
    return [row(graph, "edge softmax", HEADS, torch.float32, ours, {"torch, composed": seconds(composed)}, moved)]


def attention_rows(graph: Graph) -> list[dict[str, Any]]:
    """Measure forward and backward of the layers GAT and GATv2, their projections included."""
    width = HEADS * FEATURES
    x = torch.randn(graph.num_nodes, width, device=graph.device, requires_grad=True)
    grad = torch.randn(graph.num_nodes, width, device=graph.device)
    g, edges, pyg, rows = on_graph(graph), torch.stack([graph.src, graph.dst]), load_pyg(), []

    def step(layer: torch.nn.Module, *inputs: Any) -> Callable[[], None]:
        def run() -> None:
            x.grad = None
            layer(*inputs).flatten(1).backward(grad)

        return run

    for name in ("GATConv", "GATv2Conv"):
        layer = getattr(nn, name)(width, FEATURES, HEADS, allow_zero_in_degree=True).to(graph.device)
        ours, peers = seconds(step(layer, g, x)), {}
        if pyg is not None:
            theirs = getattr(pyg.nn, name)(width, FEATURES, HEADS, add_self_loops=False).to(graph.device)
            peers["PyG"] = seconds(step(theirs, x, edges))
        rows.append(row(graph, f"{name} step", width, torch.float32, ours, peers, 3 * graph.gathered(width, 4)))
    return rows


def on_graph(graph: Graph) -> dglite.DGLGraph:
    """Return the graph as users have it, on the GPU."""
    return dglite.graph((graph.src.cpu(), graph.dst.cpu()), num_nodes=graph.num_nodes).to(graph.device)


def row(
    graph: Graph,
    name: str,
    width: int,
    dtype: torch.dtype,
    ours: float,
    peers: dict[str, float],
    moved: int,
) -> dict[str, Any]:
    """Return one measurement."""
    return {
        "operation": name,
        "graph": graph.kind,
        "edges": graph.num_edges,
        "longest row": graph.longest,
        "width": width,
        "dtype": str(dtype).removeprefix("torch."),
        "milliseconds": ours * 1e3,
        "gigabytes per second": moved / ours / 1e9,
        "peers": {peer: None if math.isinf(t) else t * 1e3 for peer, t in peers.items()},
        "speed-up": {peer: None if math.isinf(t) else t / ours for peer, t in peers.items()},
    }


# -- the table ---------------------------------------------------------------------------------------------------------
def show(rows: list[dict[str, Any]], bandwidth: float) -> str:
    """Return the measurements as a table."""
    lines = []
    for actual in rows:
        peers = [f"{actual['speed-up'][p]:.2f}x {p}" if t else f"{p}: no" for p, t in actual["peers"].items()]
        rate = actual["gigabytes per second"]
        lines.append(
            (
                *(
                    actual["operation"],
                    actual["graph"],
                    f"{actual['edges']:.0e}",
                    str(actual["width"]),
                    actual["dtype"],
                ),
                *(f"{actual['milliseconds']:.3f}", f"{rate:.0f}", f"{1e11 * rate / bandwidth:.0f}%", ", ".join(peers)),
            )
        )
    header = ("operation", "graph", "edges", "width", "dtype", "ms", "GB/s", "of copy", "against")
    return table(header, lines)


def summary(rows: list[dict[str, Any]], bandwidth: float, cache: int) -> dict[str, float]:
    """Return the figures to reach: g-SpMM beyond the cache against the copy, and against torch.sparse and PyG."""
    spmm = [results for results in rows if results["operation"] in ("g-SpMM sum", "g-SpMM weighted sum")]
    items = {"float32": 4, "float16": 2, "bfloat16": 2}
    beyond = [f for f in spmm if f["edges"] // MEAN_DEGREE * f["width"] * items[f["dtype"]] > 2 * cache]
    return {
        "g-SpMM beyond the cache, share of the copy bandwidth, geometric mean": geometric_mean(
            f["gigabytes per second"] * 1e9 / bandwidth for f in beyond
        ),
        **{
            f"g-SpMM against {peer}, geometric mean": geometric_mean(
                f["speed-up"][peer] for f in spmm if f["speed-up"].get(peer)
            )
            for peer in ("torch.sparse", "PyG")
            if any(f["speed-up"].get(peer) for f in spmm)
        },
    }


def measures(quick: bool) -> list[Callable[[Graph], list[dict[str, Any]]]]:
    """Return what is measured on a graph, in this order."""
    widths = WIDTHS[:2] if quick else WIDTHS
    sums = [functools.partial(spmm_rows, width=width, dtype=torch.float32) for width in widths]
    narrow = functools.partial(spmm_rows, width=128, dtype=torch.bfloat16)
    return [*sums, narrow, functools.partial(sddmm_rows, width=64), softmax_rows, attention_rows]


def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description="dglite's kernels on a GPU")
    options.add_argument("--edges", default="1e6,1e7,1e8", help="numbers of edges")
    given = gpu_arguments(options)
    sizes = [10**4 if given.device == "cpu" else 10**5] if given.quick else map(int, map(float, given.edges.split(",")))
    bandwidth, rows = copy_bandwidth(1 << (26 if given.quick else 32), given.device), list[dict[str, Any]]()
    cache = torch.cuda.get_device_properties(0).L2_cache_size if given.device == "cuda" else 0
    print(f"copies at {bandwidth / 1e9:.0f} GB/s, cache of {cache >> 20} MiB", flush=True)
    for size in sizes:
        for kind in ("uniform", "power law"):
            graph, start = Graph(kind, size, given.device), len(rows)
            for measure in measures(given.quick):
                rows += measure(graph)
                torch.cuda.empty_cache()
                reached = summary(rows, bandwidth, cache)
                if not given.quick:
                    save("gpu", {"copy bandwidth": bandwidth, "reached": reached, "rows": rows})
            print(show(rows[start:], bandwidth), flush=True)
            for name, value in reached.items():
                print(f"{name}: {value:.2f}", flush=True)
            del graph


if __name__ == "__main__":
    main()
