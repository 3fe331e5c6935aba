"""Models under ``torch.compile``: one program without breaks, the values and gradients of the eager model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import dglite
import dglite.function as fn
from dglite import DGLGraph
from dglite.nn import (
    DotGatConv,
    EdgeWeightNorm,
    FeatureDropout,
    GATConv,
    GATv2Conv,
    GraphConv,
    SAGEConv,
    SparseFeatures,
)
from tests.nn import dense
from tests.versions import compiles_whole

FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
COMPILER = shutil.which("g++") or shutil.which("clang++")
BACKENDS = ["eager", "aot_eager"] + (["inductor"] if FULL and COMPILER else [])
"""Inductor starts a C++ compiler, which takes half a minute: with ``--full`` only."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def _agree(model: nn.Module, compiled: Callable[..., torch.Tensor], g: DGLGraph, *inputs: Any) -> None:
    """Check values, and the gradients of parameters and of inputs that want one."""
    want, result = model(g, *inputs), compiled(g, *inputs)
    torch.testing.assert_close(result, want)
    expected = [x for x in (*model.parameters(), *inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    outer = torch.randn_like(want)
    theirs = torch.autograd.grad((want * outer).sum(), expected, allow_unused=True)
    ours = torch.autograd.grad((result * outer).sum(), expected, allow_unused=True)
    for x, y in zip(ours, theirs, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            torch.testing.assert_close(x, y)


class Two(nn.Module):
    """Two layers of one kind."""

    def __init__(self, make: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = make(5, 4), make(4, 2)

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return self.second(g, torch.relu(self.first(g, x)))


class ByHead(nn.Module):
    """A layer of several heads, averaged."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return self.layer(g, x).mean(1)


LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "GraphConv": lambda i, o: GraphConv(i, o),
    "GraphConv right": lambda i, o: GraphConv(i, 2 * o if o == 4 else o, norm="right") if i == 5 else GraphConv(8, o),
    "GraphConv left": lambda i, o: GraphConv(i, o, norm="left", allow_zero_in_degree=True),
    "SAGEConv mean": lambda i, o: SAGEConv(i, o, "mean"),
    "SAGEConv gcn": lambda i, o: SAGEConv(i, o, "gcn"),
    "SAGEConv pool": lambda i, o: SAGEConv(i, o, "pool"),
    "GATConv": lambda i, o: ByHead(GATConv(i, o, 2)),
    "GATv2Conv": lambda i, o: ByHead(GATv2Conv(i, o, 2)),
    "DotGatConv": lambda i, o: ByHead(DotGatConv(i, o, 2)),
}


# Inductor takes seconds to compile, and what it adds to "aot_eager" is the same for every layer.
CASES = [(layer, "aot_eager") for layer in LAYERS] + [(layer, BACKENDS[-1]) for layer in ("GraphConv", "SAGEConv pool")]


@pytest.mark.parametrize(("layer", "backend"), [*CASES, ("GraphConv", "eager")])
@compiles_whole
def test_a_model_is_one_program(layer: str, backend: str) -> None:
    g, model = dense.graph(), Two(LAYERS[layer]).double()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for seed in range(3):
        _agree(model, compiled, g, dense.double(4, 5, seed=seed))
    assert counter.frame_count == 1


@compiles_whole
def test_edge_weights_take_part() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.conv, self.sage = EdgeWeightNorm(), GraphConv(5, 4, norm="none"), SAGEConv(4, 2, "mean")

        def forward(self, g: DGLGraph, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            w = g_norm(self.norm, g, w)
            return self.sage(g, self.conv(g, x, edge_weight=w), edge_weight=w)

    def g_norm(norm: EdgeWeightNorm, g: DGLGraph, w: torch.Tensor) -> torch.Tensor:
        return norm(g, w)

    g, model = dense.graph(), Weighted().double()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    _agree(model, compiled, g, dense.double(4, 5), dense.positive(8))


@pytest.mark.parametrize("make", [dense.block, dense.bipartite])
@compiles_whole
def test_blocks_and_bipartite_graphs(make: Callable[[], DGLGraph]) -> None:
    g = make()
    inputs = (dense.double(5, 5), dense.double(3, 5)) if make is dense.bipartite else dense.double(5, 5)
    for model in (GraphConv(5, 2).double(), SAGEConv(5, 2, "mean").double()):
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(g, inputs), model(g, inputs))


@compiles_whole
def test_graphs_that_differ_between_calls() -> None:
    """As blocks of a sampler do: one compilation for the first, one for all the others."""
    model = SAGEConv(5, 3, "mean").double()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    rng = np.random.default_rng(0)
    for num_src, num_dst, num_edges in [(9, 5, 20), (14, 8, 33), (30, 17, 64), (21, 11, 47), (50, 6, 80)]:
        src, dst = rng.integers(0, num_src, num_edges), rng.integers(0, num_dst, num_edges)
        block = dglite.create_block((src, dst), num_src_nodes=num_src, num_dst_nodes=num_dst)
        _agree(model, compiled, block, dense.double(num_src, 5))
    assert counter.frame_count <= 2


@compiles_whole
def test_a_graph_that_is_gone_still_gives_its_gradient() -> None:
    model = GraphConv(5, 2).double()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    want = torch.autograd.grad(model(dense.graph(), dense.double(4, 5)).sum(), model.weight)[0]
    result = compiled(dense.graph(), dense.double(4, 5))
    torch.testing.assert_close(torch.autograd.grad(result.sum(), model.weight)[0], want)


@compiles_whole
def test_nodes_without_in_edges_are_refused_at_run_time() -> None:
    layer = GraphConv(5, 2).double()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = dense.double(4, 5)
    torch.testing.assert_close(compiled(dense.graph(), x), layer(dense.graph(), x))
    with pytest.raises(dglite.DGLError, match="2 of 4 nodes have no in-edge"):
        compiled(dense.lonely_graph(), x)


@compiles_whole
def test_sparse_features_compile() -> None:
    x = SparseFeatures(scipy.sparse.random_array((4, 5), density=0.5, random_state=0))
    layer = GraphConv(5, 2).double()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    _agree(layer, compiled, dense.graph(), x)


@compiles_whole
def test_training_compiled_is_training() -> None:
    g = dense.graph()
    x, labels = torch.randn(4, 5), torch.tensor([0, 1, 1, 0])

    def losses(compile_it: bool) -> list[float]:
        torch.manual_seed(0)
        model = Two(LAYERS["GraphConv"])
        run = torch.compile(model, fullgraph=True, backend="aot_eager") if compile_it else model
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        results = []
        for _ in range(10):
            loss = F.cross_entropy(run(g, x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            results.append(loss.item())
        return results

    torch.testing.assert_close(losses(True), losses(False))


@compiles_whole
def test_dropout_between_layers_compiles() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.conv = FeatureDropout(0.5), GraphConv(5, 2)

        def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
            return self.conv(g, self.drop(x))

    model = Model()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert compiled(dense.graph(), torch.ones(4, 5)).shape == (4, 2)
    model.eval()
    _agree(model, compiled, dense.graph(), torch.randn(4, 5))


# -- verbs of the graph ------------------------------------------------------------------------------------------------
def _built_in(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.update_all(fn.copy_u("h", "m"), fn.mean("m", "out"))
        return g.ndata["out"] * 2


def _user_defined(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.update_all(lambda edges: {"m": edges.src["h"]}, lambda nodes: {"out": nodes.mailbox["m"].sum(1)})
        return g.ndata["out"] * 2


def _reduced(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    """A reduce function of built-in messages, which has to be recorded."""
    with g.local_scope():
        g.ndata["h"] = x
        g.update_all(fn.copy_u("h", "m"), lambda nodes: {"out": nodes.mailbox["m"].sum(1)})
        return g.ndata["out"] * 2


@pytest.mark.parametrize("function", [_built_in, _user_defined, _reduced])
def test_verbs_give_the_same_compiled(function: Callable[..., torch.Tensor]) -> None:
    g = dense.graph()
    compiled = torch.compile(function, backend="aot_eager")
    for seed in range(2):
        x = dense.double(4, 3, seed=seed)
        torch.testing.assert_close(compiled(g, x), function(g, x))
        torch.testing.assert_close(
            torch.autograd.grad(compiled(g, x).sum(), x)[0], torch.autograd.grad(function(g, x).sum(), x)[0]
        )
    assert not g.ndata


# -- layers of numbers and of functions of their own -------------------------------------------------------------------
DYNAMIC: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int | None]] = {
    "GINEConv": (lambda: dglite.nn.GINEConv(nn.Linear(4, 4), 0.3, True), (4,), 4),
    "CFConv": (lambda: dglite.nn.CFConv(4, 2, 3, 4), (4,), 2),
    "TWIRLSConv": (lambda: dglite.nn.TWIRLSConv(4, 4, 5, 3, alp=0.3, lam=0.7), (4,), None),
    "GroupRevRes": (lambda: dglite.nn.GroupRevRes(GraphConv(2, 2), 2), (4,), None),
}
"""What makes the layer, a node's feature, and the width of an edge's, if it takes one."""


@pytest.mark.parametrize("name", DYNAMIC)
@compiles_whole
def test_a_layer_is_one_program_for_graphs_of_all_sizes(name: str) -> None:
    make, feat, edge_width = DYNAMIC[name]
    torch.manual_seed(0)
    layer, counter = make().double(), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=counter)
    for seed, (num_nodes, num_edges) in enumerate([(9, 20), (14, 33), (30, 64)]):
        ends = torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))
        g = dglite.add_self_loop(dglite.graph((ends[0], ends[1]), num_nodes=num_nodes))
        edges = [] if edge_width is None else [dense.double(g.num_edges(), edge_width)]
        _agree(layer, compiled, g, dense.double(num_nodes, *feat, seed=seed), *edges)
    assert counter.frame_count <= 2
