"""A training step, and its memory, of every convolution: dglite, DGL 2.1 and PyTorch Geometric.

    python benchmarks/layers.py              a quarter of an hour
    python benchmarks/layers.py --quick      a tenth of the graph, each layer a few times
    python benchmarks/layers.py --only PNA   layers whose name has this in it; the others' results stay

On an Erdos-Renyi graph of 32,768 nodes and 859k edges, with self-loops, features of width 64. A step is forward, mean
of squares and backward, the gradient of the input included. DGL has the same weights, and its output must be the same
to 1e-4; it gets its graph in the form in which it is faster, with 32-bit ids: CSC alone, or all formats made before.
PyTorch Geometric is measured where it has the same layer, on the faster of ``edge_index`` and ``SparseTensor``. Memory
is how far a process grows during the first step on a graph of a quarter of the size, whose formats are there; what a
layer keeps with the graph counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from common import (
    OURS,
    RESULTS,
    erdos_renyi,
    geometric_mean,
    interleave,
    load_dgl,
    load_pyg,
    parser,
    save,
    sparse_tensor,
    table,
    timed,
)
from memory import Peak, give_back
from torch import nn

NUM_NODES, NUM_EDGES, WIDTH = 32_768, 859_000, 64
NUM_TYPES, EDGE_WIDTH, STEPS, NUM_GRAPHS = 8, 8, 2, 256
DGL, PYG = "DGL 2.1", "PyG"
TOLERANCE = 1e-4
EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""Has the C library return each tensor's memory when it is freed: else the holes that are left in its heap, by tens of
megabytes and of either library, count or not as it happens."""


@dataclass(frozen=True)
class Case:
    """A layer: its arguments, what it is called with after the graph, and how PyTorch Geometric makes and calls it."""

    name: str
    arguments: Callable[[], tuple[Any, ...]]
    inputs: tuple[str, ...] = ("x",)
    options: tuple[tuple[str, str], ...] = ()
    pyg: Callable[[Any], nn.Module] | None = None
    pyg_inputs: tuple[str, ...] = ("x", "edge_index")
    label: str = ""
    where: str = "graph"
    """``graph``, ``batch`` of molecule-size graphs, or ``none`` for a layer that reads no graph."""

    @property
    def title(self) -> str:
        """What the table calls it."""
        return f"{self.name}{', ' if self.label else ''}{self.label}"


def mlp() -> nn.Module:
    """Return the network of an isomorphism layer."""
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


W, T, E = WIDTH, NUM_TYPES, EDGE_WIDTH
PNA = ["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"]
CASES = [
    Case("GraphConv", lambda: (W, W), pyg=lambda n: n.GCNConv(W, W, add_self_loops=False, cached=True)),
    Case("GINConv", lambda: (mlp(), "sum"), pyg=lambda n: n.GINConv(mlp())),
    Case("GINConv", lambda: (mlp(), "max"), label="max"),
    Case(
        "GINEConv",
        lambda: (mlp(),),
        ("x", "wide"),
        pyg=lambda n: n.GINEConv(mlp()),
        pyg_inputs=("x", "edge_index", "wide"),
    ),
    Case("SAGEConv", lambda: (W, W, "mean"), pyg=lambda n: n.SAGEConv(W, W), label="mean"),
    Case("SAGEConv", lambda: (W, W, "pool"), label="pool"),
    Case("SGConv", lambda: (W, W, STEPS), pyg=lambda n: n.SGConv(W, W, STEPS, add_self_loops=False)),
    Case("TAGConv", lambda: (W, W, STEPS), pyg=lambda n: n.TAGConv(W, W, STEPS)),
    Case("APPNPConv", lambda: (10, 0.1), pyg=lambda n: n.APPNP(10, 0.1, add_self_loops=False)),
    Case("ChebConv", lambda: (W, W, 3), pyg=lambda n: n.ChebConv(W, W, 3)),
    Case(
        "GCN2Conv",
        lambda: (W, 1),
        ("x", "x"),
        pyg=lambda n: n.GCN2Conv(W, 0.1, 1.0, 1, add_self_loops=False),
        pyg_inputs=("x", "x", "edge_index"),
    ),
    Case("TWIRLSConv", lambda: (W, W, W, 4)),
    Case("AGNNConv", lambda: (), pyg=lambda n: n.AGNNConv(add_self_loops=False)),
    Case("GATConv", lambda: (W, 8, 8), pyg=lambda n: n.GATConv(W, 8, 8, add_self_loops=False)),
    Case("GATv2Conv", lambda: (W, 8, 8), pyg=lambda n: n.GATv2Conv(W, 8, 8, add_self_loops=False)),
    Case("DotGatConv", lambda: (W, 8, 8)),
    Case("EGATConv", lambda: (W, E, 8, 8, 8), ("x", "edge")),
    Case("EdgeGATConv", lambda: (W, E, 8, 8), ("x", "edge")),
    Case("HGTConv", lambda: (W, 8, 8, 3, T, 0.0), ("x", "node types", "types")),
    Case(
        "RelGraphConv",
        lambda: (W, W, T),
        ("x", "types"),
        pyg=lambda n: n.RGCNConv(W, W, T, aggr="sum"),
        pyg_inputs=("x", "edge_index", "types"),
    ),
    Case("RelGraphConv", lambda: (W, W, 64, "basis", 8), ("x", "types"), label="64 types, 8 bases"),
    Case("RelGraphConv", lambda: (W, W, T, "bdd", 4), ("x", "types"), label="4 blocks"),
    Case("EdgeConv", lambda: (W, W)),
    Case("NNConv", lambda: (16, 16, nn.Linear(E, 256), "sum"), ("x16", "edge"), label="width 16"),
    Case("GMMConv", lambda: (W, W, 3, 4), ("x", "pseudo")),
    Case("CFConv", lambda: (W, E, W, W), ("x", "edge")),
    Case("GatedGraphConv", lambda: (W, W, STEPS, T), ("x", "types")),
    Case("GatedGraphConv", lambda: (W, W, STEPS, 1), pyg=lambda n: n.GatedGraphConv(W, STEPS), label="one type"),
    Case("GatedGCNConv", lambda: (W, W, W), ("x", "wide")),
    Case("EGNNConv", lambda: (W, W, W, E), ("x", "position", "edge")),
    Case(
        "AtomicConv", lambda: (torch.rand(8) + 2, torch.rand(8), torch.rand(8), torch.arange(4.0)), ("kind", "length")
    ),
    Case("PNAConv", lambda: (W, W, *PNA, 3.0)),
    Case(
        "DGNConv",
        lambda: (W, W, ["dir1-av", "dir1-dx", "sum"], ["identity", "amplification"], 3.0),
        options=(("eig_vec", "vectors"),),
    ),
]

CASES += [
    Case("SumPooling", lambda: (), ("batch x",), where="batch"),
    Case("AvgPooling", lambda: (), ("batch x",), where="batch"),
    Case("MaxPooling", lambda: (), ("batch x",), where="batch"),
    Case("SortPooling", lambda: (10,), ("batch x",), where="batch"),
    Case("WeightAndSum", lambda: (W,), ("batch x",), where="batch"),
    Case("GlobalAttentionPooling", lambda: (nn.Linear(W, 1),), ("batch x",), where="batch"),
    Case("Set2Set", lambda: (W, 3, 1), ("batch x",), where="batch"),
    Case("SetTransformerEncoder", lambda: (W, 4, 16, 128), ("batch x",), where="batch"),
    Case("SetTransformerDecoder", lambda: (W, 4, 16, 128, 1, 2), ("batch x",), where="batch"),
    Case("BiasedMHA", lambda: (W, 8, True, "add", 0.0), ("dense x", "bias"), where="none"),
    Case("GraphormerLayer", lambda: (W, 128, 8, "add", False, 0.0, 0.0), ("dense x", "bias"), where="none"),
    Case("EGTLayer", lambda: (W, 16, 8, 4), ("dense x", "pairs"), where="none"),
]


class Data:
    """A graph and everything that layers read, the same for all libraries."""

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        torch.manual_seed(0)
        loops = np.arange(num_nodes)
        src, dst = (np.concatenate([ends, loops]) for ends in erdos_renyi(num_nodes, num_edges))
        self.src, self.dst, self.num_nodes = torch.from_numpy(src), torch.from_numpy(dst), num_nodes
        edges = len(src)
        self.tensors = {
            "x": torch.randn(num_nodes, WIDTH),
            "x16": torch.randn(num_nodes, 16),
            "wide": torch.randn(edges, WIDTH),
            "edge": torch.randn(edges, EDGE_WIDTH),
            "pseudo": torch.randn(edges, 3),
            "types": torch.randint(NUM_TYPES, (edges,)),
            "node types": torch.randint(3, (num_nodes,)),
            "position": torch.randn(num_nodes, 3),
            "kind": torch.randint(4, (num_nodes, 1)).float(),
            "length": torch.rand(edges, 1) * 3,
            "vectors": torch.randn(num_nodes, 3),
            "edge_index": torch.stack([self.src, self.dst]),
        }
        self.sizes = np.random.default_rng(0).integers(15, 36, NUM_GRAPHS)
        self.tensors["batch x"] = torch.randn(int(self.sizes.sum()), WIDTH)
        self.tensors["dense x"] = torch.randn(NUM_GRAPHS, 36, WIDTH)
        self.tensors["bias"] = torch.randn(NUM_GRAPHS, 36, 36, 8)
        self.tensors["pairs"] = torch.randn(NUM_GRAPHS, 36, 36, 16)

    def graphs(self, name: str, case: Case) -> list[Any]:
        """Return the graph, or graphs, in every form that may suit a library."""
        if case.where == "none":
            return [None]
        if name == PYG:
            edge_index = self.tensors["edge_index"]
            types = self.tensors["types"] if "types" in case.pyg_inputs else None
            matrix = sparse_tensor(edge_index, self.num_nodes, types)
            return [edge_index] if matrix is None else [edge_index, matrix]
        library = __import__("dglite") if name == OURS else load_dgl()
        assert library is not None
        if case.where == "batch":
            rings = [torch.arange(size) for size in self.sizes.tolist()]
            batch = library.batch(
                [library.graph((ring.repeat(2), torch.cat([ring.roll(1), ring.roll(2)]))) for ring in rings]
            )
            return [batch if name == OURS else batch.int()]
        graph = library.graph((self.src, self.dst), num_nodes=self.num_nodes)
        if name == OURS:
            return [graph]
        whole = graph.int()
        whole.create_formats_()
        return [whole, graph.int().formats(["csc"])]


def prepared(case: Case, name: str, data: Data, graph: Any) -> tuple[nn.Module, Callable[[], Any]]:
    """Return a library's layer and what calls it."""
    tensors = {
        key: x.requires_grad_() if key in ("x", "x16", "batch x", "dense x") else x for key, x in data.tensors.items()
    }
    torch.manual_seed(1)
    if name == PYG:
        pyg = load_pyg()
        assert pyg is not None and case.pyg is not None
        layer = case.pyg(__import__("torch_geometric.nn", fromlist=["GCNConv"]))
        inputs = [graph if key == "edge_index" else tensors[key] for key in case.pyg_inputs]
        return layer, lambda: layer(*inputs)
    module = "dglite.nn" if name == OURS else "dgl.nn.pytorch"
    layer = getattr(__import__(module, fromlist=[case.name]), case.name)(*case.arguments())
    inputs = [tensors[key] for key in case.inputs]
    options = {key: tensors[value] for key, value in case.options}
    given = [*inputs] if graph is None else [graph, *inputs]
    return layer, lambda: layer(*given, **options)


def first(result: Any) -> torch.Tensor:
    """Return the node features of a layer's result."""
    return result[0] if isinstance(result, tuple) else result


def step_of(layer: nn.Module, call: Callable[[], Any]) -> Callable[[], None]:
    """Return a training step, without an optimizer."""

    def step() -> None:
        layer.zero_grad(set_to_none=True)
        result = call()
        parts = result if isinstance(result, tuple) else (result,)
        sum(part.square().mean() for part in parts).backward()

    return step


# -- time --------------------------------------------------------------------------------------------------------------
def measure(case: Case, data: Data, names: list[str], quick: bool) -> dict[str, Any]:
    """Return each library's seconds for a step, and how far DGL's output is from ours."""
    steps, layers, calls = {}, {}, {}
    for name in names:
        if name == PYG and case.pyg is None:
            continue
        options = []
        for graph in data.graphs(name, case):
            layer, call = prepared(case, name, data, graph)
            if name == DGL:
                layer.load_state_dict(layers[OURS].state_dict())
            try:
                step = step_of(layer, call)
                step()
                options.append((timed(step), layer, call, step))
            except Exception as error:  # a form that a peer cannot run: the other one counts
                if name == OURS:
                    raise
                reason = next(iter(str(error).splitlines()), repr(error))
                print(f"{name} does not run {case.title} in one form: {reason}", file=sys.stderr)
        if options:
            _, layers[name], calls[name], steps[name] = min(options, key=lambda option: option[0])
    error = None
    if DGL in calls:
        with torch.no_grad():
            ours, theirs = (first(calls[name]()) for name in (OURS, DGL))
            error = float((ours - theirs).abs().max() / (theirs.abs().max() + 1e-12))
    seconds = interleave(steps, budget=1 if quick else 3, most=9)
    del steps, layers, calls
    gc.collect()
    return {"layer": case.title, "seconds": seconds, "difference": error}


# -- memory ------------------------------------------------------------------------------------------------------------
def growth(case: Case, name: str, num_nodes: int, num_edges: int) -> int:
    """Return by how many bytes this process grows in the first step on a graph, after one on another of its size."""

    def prepare() -> Callable[[], None]:
        data = Data(num_nodes, num_edges)
        graph = data.graphs(name, case)[0]
        if name == OURS and graph is not None:
            graph.create_formats_()
        return step_of(*prepared(case, name, data, graph))

    prepare()()  # compiles, and touches what libraries load and allocate once
    step = prepare()
    give_back()
    with Peak() as peak:
        step()
    return peak.growth


def memory(number: int, names: list[str], num_nodes: int, num_edges: int) -> dict[str, int]:
    """Return each library's growth, measured in a process of its own."""
    results = {}
    for name in names:
        command = [sys.executable, __file__, "--child", str(number), name, str(num_nodes), str(num_edges)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | EXACT)
        if done.returncode == 0:
            results[name] = json.loads(done.stdout.splitlines()[-1])
    return results


# -- tables ------------------------------------------------------------------------------------------------------------
def layers_table(records: list[dict[str, Any]]) -> str:
    """Return one row per layer: milliseconds, how many times as long the peers take, and as much memory DGL."""
    rows = []
    for record in records:
        seconds, grown = record["seconds"], record.get("memory", {})
        ours = seconds[OURS]
        row = [record["layer"], f"{ours * 1e3:.1f}"]
        row += [f"{seconds[name] / ours:.2f}" if name in seconds else "" for name in (DGL, PYG)]
        row += [f"{grown[OURS] / 2**20:.0f}" if OURS in grown else ""]
        row += [f"{grown[DGL] / max(grown[OURS], 1):.2f}" if DGL in grown and OURS in grown else ""]
        rows.append(row)
    return table(["training step", f"{OURS} ms", f"{DGL} / ours", f"{PYG} / ours", "MiB", f"{DGL} / ours"], rows)


def summary(records: list[dict[str, Any]]) -> str:
    """Return the geometric means, and what is slower than a peer."""
    lines = []
    for name in (DGL, PYG):
        ratios = [r["seconds"][name] / r["seconds"][OURS] for r in records if name in r["seconds"]]
        if ratios:
            slower = sum(ratio < 1 for ratio in ratios)
            lines.append(
                f"{name}: geometric mean {geometric_mean(ratios):.2f} of {len(ratios)} layers, {slower} below 1."
            )
    return " ".join(lines)


def main() -> None:
    """Measure, print, save."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--only", default="", help="layers whose name has this in it")
    options.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    if given.child:
        number, name, nodes, edges = given.child
        print(json.dumps(growth(CASES[int(number)], name, int(nodes), int(edges))))
        return
    num_nodes, num_edges = (NUM_NODES // 10, NUM_EDGES // 10) if given.quick else (NUM_NODES, NUM_EDGES)
    names = [OURS, *([DGL] if load_dgl() else []), *([PYG] if load_pyg() else [])]
    data, records = Data(num_nodes, num_edges), []
    for number, case in enumerate(CASES):
        if given.only not in case.title:
            continue
        record = measure(case, data, names, given.quick)
        if not given.quick and case.where == "graph":
            record["memory"] = memory(number, [name for name in names if name != PYG], num_nodes // 4, num_edges // 4)
        records.append(record)
        print(layers_table(records[-1:]).splitlines()[-1], flush=True)
        if (record["difference"] or 0) > TOLERANCE:
            print(f"  differs from DGL's by {record['difference']:.1e}", file=sys.stderr)
    print(f"{layers_table(records)}\n\n{summary(records)}")
    if not given.quick:
        if given.only:
            new = {record["layer"]: record for record in records}
            kept = json.loads((RESULTS / "layers.json").read_text())["records"]
            records = [new.get(record["layer"], record) for record in kept]
        save("layers", {"num_nodes": num_nodes, "num_edges": len(data.src), "width": WIDTH, "records": records})


if __name__ == "__main__":
    main()
