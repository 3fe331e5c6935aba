"""What runs where, found by running it: the table of docs/gpu.md, which ``test_features.py`` compares with this.

``DGLITE_FAKE_DEVICE=1 python -m tests.fake_device.features`` writes the table.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import dglite
import dglite.function as fn
from dglite import nn
from dglite.ops import devices, fallback, segments
from tests.fake_device.device import DEVICE, KIND, FakeRunner, install, recorded

__all__ = ["BEGIN", "END", "PAGE", "table"]

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
BEGIN, END = "<!-- features -->\n", "<!-- end features -->\n"
WIDTH = 4
SIZE = 64
"""Bytes of the most numbers that are read at a time where only sizes and answers are."""
Work = Callable[[str], Any]


def _graph(device: str) -> dglite.DGLGraph:
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(20, (60,), generator=generator) for _ in range(2))
    g = dglite.add_self_loop(dglite.graph((src, dst), num_nodes=20)).to(device)
    g.ndata["h"] = torch.randn(20, WIDTH, device=device, requires_grad=True)
    g.edata["w"] = torch.rand(g.num_edges(), 1, device=device)
    return g


def _types(device: str) -> dglite.DGLGraph:
    src, dst = torch.arange(5), torch.arange(5).flip(0)
    g = dglite.heterograph({("a", "to", "b"): (src, dst), ("b", "of", "b"): (src, dst)}).to(device)
    for ntype in ("a", "b"):
        g.nodes[ntype].data["h"] = torch.randn(5, WIDTH, device=device, requires_grad=True)
    return g


def _trained(out: torch.Tensor) -> None:
    out.float().sum().backward()


def _reduce(reducer: str, dtype: torch.dtype = torch.float32) -> Work:
    def work(device: str) -> None:
        g = _graph(device)
        g.ndata["h"], g.edata["w"] = g.ndata["h"].to(dtype), g.edata["w"].to(dtype)
        g.update_all(fn.u_mul_e("h", "w", "m"), getattr(fn, reducer)("m", "o"))
        _trained(g.ndata["o"])

    return work


def _own_message(device: str) -> None:
    g = _graph(device)
    g.update_all(lambda edges: {"m": torch.sigmoid(edges.src["h"] + edges.dst["h"])}, fn.sum("m", "o"))
    _trained(g.ndata["o"])


def _own_reduce(device: str) -> None:
    g = _graph(device)
    g.update_all(fn.copy_u("h", "m"), lambda nodes: {"o": nodes.mailbox["m"].median(1).values})
    _trained(g.ndata["o"])


def _apply_edges(device: str) -> None:
    g = _graph(device)
    g.apply_edges(fn.u_dot_v("h", "h", "s"))
    _trained(g.edata["s"])


def _edge_softmax(device: str) -> None:
    g = _graph(device)
    _trained(dglite.nn.functional.edge_softmax(g, g.edata["w"].requires_grad_()))


def _layer(make: Callable[[], torch.nn.Module]) -> Work:
    def work(device: str) -> None:
        g = _graph(device)
        _trained(make().to(device)(g, g.ndata["h"]))

    return work


def _attention_in_steps(device: str) -> None:
    g = _graph(device)
    g.ndata["a"] = g.ndata["h"][:, :1]
    g.apply_edges(fn.u_add_v("a", "a", "e"))
    g.edata["e"] = dglite.nn.functional.edge_softmax(g, torch.nn.functional.leaky_relu(g.edata["e"]))
    g.update_all(fn.u_mul_e("h", "e", "m"), fn.sum("m", "o"))
    _trained(g.ndata["o"])


def _edge_attention(device: str) -> None:
    g = _graph(device)
    layer = nn.EdgeGATConv(WIDTH, 1, 3, 2).to(device)
    _trained(layer(g, g.ndata["h"], g.edata["w"]))


def _types_together(device: str) -> None:
    g = _types(device)
    g.multi_update_all({e: (fn.copy_u("h", "m"), fn.mean("m", "o")) for e in ("to", "of")}, "sum")
    _trained(g.nodes["b"].data["o"])


def _typed_product(device: str) -> None:
    g = _graph(device)
    types = torch.arange(g.num_edges(), device=device) % 3
    _trained(nn.RelGraphConv(WIDTH, 3, 3).to(device)(g, g.ndata["h"], types))


def _readout(device: str) -> None:
    batch = dglite.batch([_graph("cpu"), _graph("cpu")]).to(device)
    batch.ndata["x"] = torch.randn(40, WIDTH, device=device, requires_grad=True)
    _trained(dglite.mean_nodes(batch, "x"))


def _sample(**how: Any) -> Work:
    return lambda device: dglite.sampling.sample_neighbors(_graph(device), torch.arange(10, device=device), 3, **how)


def _loader(sampler: Any) -> Work:
    @lru_cache
    def loader(device: str) -> Any:
        return dglite.dataloading.DataLoader(_graph(device), torch.arange(10, device=device), sampler, batch_size=5)

    def work(device: str) -> None:
        for _ in loader(device):
            pass

    return work


def _by_time(device: str) -> None:
    g = _graph(device)
    g.ndata["t"], g.edata["t"] = torch.arange(20, device=device), torch.arange(80, device=device) % 20
    for strategy in ("uniform", "last"):
        sampler = dglite.dataloading.NeighborSampler([2, 2], time="t", edge_time="t", temporal_strategy=strategy)
        sampler.sample(g, torch.arange(10, device=device))


@lru_cache
def _edges(device: str) -> dglite.DGLGraph:
    """Return a graph of edges that are on the device."""
    ids = torch.arange(30, device=device)
    return dglite.graph((ids * 7 % 20, ids % 20), num_nodes=20)


def _on_edges(device: str) -> None:
    g = dglite.add_self_loop(dglite.reverse(_edges(device)))
    _trained(nn.GraphConv(WIDTH, 3).to(device)(g, torch.randn(20, WIDTH, device=device, requires_grad=True)))


FEATURES: dict[str, Work] = {
    "`update_all`, built-in sum with weights": _reduce("sum"),
    "... mean": _reduce("mean"),
    "... max": _reduce("max"),
    "... sum of bfloat16": _reduce("sum", torch.bfloat16),
    "`update_all`, a message function of your own": _own_message,
    "`update_all`, a reduce function of your own": _own_reduce,
    "`apply_edges`, dot product": _apply_edges,
    "`edge_softmax`": _edge_softmax,
    "`multi_update_all`": _types_together,
    "`GraphConv`": _layer(lambda: nn.GraphConv(WIDTH, 3)),
    "`SAGEConv`": _layer(lambda: nn.SAGEConv(WIDTH, 3, "mean")),
    "`GATConv`": _layer(lambda: nn.GATConv(WIDTH, 3, 2, attn_drop=0.3)),
    "`GATv2Conv`": _layer(lambda: nn.GATv2Conv(WIDTH, 3, 2)),
    "`DotGatConv`": _layer(lambda: nn.DotGatConv(WIDTH, 3, 2)),
    "attention in steps": _attention_in_steps,
    "attention with edge features: `EdgeGATConv`": _edge_attention,
    "products by edge type: `RelGraphConv`": _typed_product,
    "readout: `mean_nodes`": _readout,
    "`topk_nodes`": lambda device: dglite.topk_nodes(_graph(device), "h", 2),
    "`in_degrees`": lambda device: _graph(device).in_degrees(),
    "`reverse`": lambda device: dglite.reverse(_graph(device)),
    "`add_self_loop`": lambda device: dglite.add_self_loop(_graph(device)),
    "a layer on edges made on the device": _on_edges,
    "`batch`": lambda device: dglite.batch([_edges(device), _edges(device)]),
    "`unbatch`": lambda device: dglite.unbatch(dglite.batch([_edges(device), _edges(device)])),
    "`node_subgraph`": lambda device: dglite.node_subgraph(_graph(device), torch.arange(10, device=device)),
    "`edge_subgraph`": lambda device: dglite.edge_subgraph(_graph(device), torch.arange(10, device=device)),
    "`in_subgraph`": lambda device: dglite.in_subgraph(_graph(device), torch.arange(10, device=device)),
    "`remove_nodes`": lambda device: dglite.remove_nodes(_graph(device), torch.arange(10, device=device)),
    "`add_reverse_edges`": lambda device: dglite.add_reverse_edges(_graph(device)),
    "a graph of edges on the device": lambda device: dglite.graph((torch.arange(3, device=device),) * 2),
    "`knn_graph`": lambda device: dglite.knn_graph(torch.rand(9, 3, device=device), 2),
    "`sample_neighbors`": _sample(),
    "... by weight, by a mask": _sample(prob="w"),
    "... with replacement": _sample(replace=True),
    "... without some edges": _sample(exclude_edges=[1, 2]),
    "... by edge type": lambda device: dglite.sampling.sample_neighbors(
        _types(device), {"b": [0, 1]}, {"to": 1, "of": 2}
    ),
    "`sample_labors`": lambda device: dglite.sampling.sample_labors(_graph(device), torch.arange(10, device=device), 3),
    "... by weight or importance": lambda device: dglite.sampling.sample_labors(
        _graph(device), torch.arange(10, device=device), 3, prob="w", importance_sampling=1
    ),
    "`to_block`": lambda device: dglite.to_block(_graph(device)),
    "... without `include_dst_in_src`": lambda device: dglite.to_block(_graph(device), include_dst_in_src=False),
    "`select_topk`": lambda device: dglite.sampling.select_topk(_graph(device), 2, "w"),
    "`random_walk`": lambda device: dglite.sampling.random_walk(
        _graph(device), torch.arange(10, device=device), length=3
    ),
    "`global_uniform_negative_sampling`": lambda device: dglite.sampling.global_uniform_negative_sampling(
        _graph(device), 5
    ),
    "`DataLoader`, `NeighborSampler`": _loader(dglite.dataloading.NeighborSampler([2, 2])),
    "... by weight": _loader(dglite.dataloading.NeighborSampler([2, 2], prob="w")),
    "... by time, or the latest": _by_time,
    "... `LaborSampler`": _loader(dglite.dataloading.LaborSampler([2, 2])),
    "... of edges, without these": _loader(
        dglite.dataloading.as_edge_prediction_sampler(dglite.dataloading.NeighborSampler([2, 2]), exclude="self")
    ),
}


def _outcome(work: Work, device: str) -> str:
    """Run a feature twice and say, of the second time, what ran and whether the host waited."""
    launched: list[str] = []
    launch = FakeRunner.launch
    FakeRunner.launch = lambda self, program, kernel, *more: (  # type: ignore[method-assign,assignment]
        launched.append(kernel),
        launch(self, program, kernel, *more),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                launched.clear()
                torch.manual_seed(0)
                with recorded() as events:
                    result = work(device)
    except (dglite.DGLError, NotImplementedError, RuntimeError, TypeError) as error:
        return f"no: {type(error).__name__}"
    finally:
        FakeRunner.launch = launch  # type: ignore[method-assign]
    to_host = [int(copy.split()[-1]) for copy in events.copies if copy.startswith("to host")]
    sizes = [wait for wait in events.waits if wait.startswith("aten::")]
    waits = ", waits" if max(to_host, default=0) > SIZE else ", reads a size" if to_host or sizes else ""
    if launched:
        return f"kernels{waits}"
    return (
        f"torch{waits}" if _is_made_there(result) else f"host{waits}" if waits == ", waits" else f"torch or host{waits}"
    )


def _is_made_there(result: Any) -> bool:
    """Whether a graph was made whose edges are on the device."""
    graphs = result if isinstance(result, list | tuple) else [result]
    relations = [x for g in graphs if isinstance(g, dglite.DGLGraph) for x in g.adjacencies]
    return bool(relations) and all(x.made_on(torch.device(DEVICE)) is not None for x in relations)


def table() -> str:
    """Return the table."""
    install()
    lines = ["| | NVIDIA GPU (emulated) | other devices |", "|---|---|---|"]
    for name, work in FEATURES.items():
        work("cpu")
        there = _outcome(work, DEVICE)
        runner = devices.RUNNERS.pop(KIND)
        segments._few_segments.cache_clear()  # with kernels that were chosen for their lengths
        fallback._WARNED[:] = [True]
        try:
            other = _outcome(work, DEVICE)
        finally:
            devices.RUNNERS[KIND] = runner
        lines.append(f"| {name} | {there} | {other} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(before + table() + after, encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # see conftest.py
