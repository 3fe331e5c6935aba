"""Compiled and exported programs whose graph and tensors are on the fake device; tests/gpu, on a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import dglite
import dglite.function as fn
from dglite import DGLGraph
from dglite import nn as dnn
from dglite.nn import functional as dF
from tests.fake_device.device import DEVICE, recorded
from tests.versions import compiles_whole, exports, has_torch

WIDTH = 4
PLACES = ["moved there", "made there"]
FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
Program = Callable[[DGLGraph, torch.Tensor], torch.Tensor]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


# -- graphs ------------------------------------------------------------------------------------------------------------
def edges_of(num_nodes: int, num_edges: int) -> torch.Tensor:
    """Return random edges, (2, edges): every node has a self-loop, node 0 many out-edges, node 1 parallel in-edges."""
    generator = torch.Generator().manual_seed(num_nodes)
    ends = torch.randint(num_nodes, (2, num_edges), generator=generator)
    loops, zeros = torch.arange(num_nodes).expand(2, -1), torch.zeros(2, 3, dtype=torch.int64)
    zeros[1] = 1
    return torch.cat([ends, loops, zeros], 1)


def make(device: str, place: str = "made there", num_nodes: int = 11, num_edges: int = 30) -> DGLGraph:
    """Return a batch of two equal graphs whose edges are given on the host and moved, or are on the device already."""
    ends = edges_of(num_nodes, num_edges)
    if place == "made there":
        src, dst = ends.to(device)
        graph = dglite.graph((src, dst), num_nodes=num_nodes)
        return dglite.batch([graph, graph])
    graph = dglite.graph((ends[0], ends[1]), num_nodes=num_nodes)
    return dglite.batch([graph, graph]).to(device)


def features(g: DGLGraph) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(g.num_nodes(), WIDTH, generator=generator, dtype=torch.float64)
    return x.to(g.device).requires_grad_()


# -- programs ----------------------------------------------------------------------------------------------------------
class Layer(nn.Module):
    """A layer, its heads averaged."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        result = self.layer(g, x)
        return result.mean(1) if result.dim() == 3 else result


class Weighted(nn.Module):
    """A layer whose edges have weights or features, computed from the features of nodes."""

    def __init__(self, layer: nn.Module, wide: bool = False) -> None:
        super().__init__()
        self.layer, self.wide = layer, wide

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        src, dst = g.edges()
        feat = (x[src] * x[dst]).sigmoid()
        options = {"edge_weight": feat[:, 0]} if isinstance(self.layer, dnn.GraphConv) else {}
        result = self.layer(g, x, **options) if options else self.layer(g, x, feat if self.wide else feat[:, 0])
        result = result[0] if isinstance(result, tuple) else result
        return result.mean(1) if result.dim() == 3 else result


class Typed(nn.Module):
    """R-GCN; the types are a tensor that comes with the graph."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = dnn.RelGraphConv(WIDTH, 3, 3, **options)

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return self.layer(g, x, g.edata["type"])


def typed_graph(g: DGLGraph) -> DGLGraph:
    g.edata["type"] = torch.arange(g.num_edges(), device=g.device) % 3
    return g


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GraphConv": lambda: Layer(dnn.GraphConv(WIDTH, 3)),
    "GraphConv right": lambda: Layer(dnn.GraphConv(WIDTH, 3, norm="right")),
    "GraphConv left": lambda: Layer(dnn.GraphConv(WIDTH, 7, norm="left")),
    "GraphConv weighted": lambda: Weighted(dnn.GraphConv(WIDTH, 3, norm="none")),
    "EdgeWeightNorm": lambda: Weighted(EdgeNorm()),
    "SAGEConv mean": lambda: Layer(dnn.SAGEConv(WIDTH, 3, "mean")),
    "SAGEConv gcn": lambda: Layer(dnn.SAGEConv(WIDTH, 3, "gcn")),
    "SAGEConv pool": lambda: Layer(dnn.SAGEConv(WIDTH, 3, "pool")),
    "GINConv max": lambda: Layer(dnn.GINConv(nn.Linear(WIDTH, 3), "max", learn_eps=True)),
    "GINEConv": lambda: Weighted(dnn.GINEConv(nn.Linear(WIDTH, 3)), wide=True),
    "GATConv": lambda: Layer(dnn.GATConv(WIDTH, 3, 2, residual=True)),
    "GATv2Conv": lambda: Layer(dnn.GATv2Conv(WIDTH, 3, 2)),
    "DotGatConv": lambda: Layer(dnn.DotGatConv(WIDTH, 3, 2)),
    "EdgeGATConv": lambda: Weighted(dnn.EdgeGATConv(WIDTH, WIDTH, 3, 2), wide=True),
    "EGATConv": lambda: Weighted(dnn.EGATConv(WIDTH, WIDTH, 3, 3, 2), wide=True),
    "AGNNConv": lambda: Layer(dnn.AGNNConv()),
    "RelGraphConv": lambda: Typed(),
    "RelGraphConv basis": lambda: Typed(regularizer="basis", num_bases=2),
    "PNAConv": lambda: Layer(dnn.PNAConv(WIDTH, 3, ["mean", "max", "std"], ["identity", "amplification"], 2.0)),
    "ChebConv": lambda: Layer(dnn.ChebConv(WIDTH, 3, 3)),
    "TAGConv": lambda: Layer(dnn.TAGConv(WIDTH, 3)),
    "SGConv": lambda: Layer(dnn.SGConv(WIDTH, 3, 2)),
    "APPNPConv": lambda: Layer(dnn.APPNPConv(2, 0.3)),
    "AvgPooling": lambda: Layer(dnn.AvgPooling()),
    "MaxPooling": lambda: Layer(dnn.MaxPooling()),
    "SortPooling": lambda: Layer(dnn.SortPooling(2)),
    "SetTransformerEncoder": lambda: Layer(dnn.SetTransformerEncoder(WIDTH, 2, 3, 8, 1)),
    "GlobalAttentionPooling": lambda: Layer(dnn.GlobalAttentionPooling(nn.Linear(WIDTH, 1))),
}


class EdgeNorm(nn.Module):
    def forward(self, g: DGLGraph, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return dglite.ops.u_mul_e_sum(g, x, dnn.EdgeWeightNorm("both")(g, weight))


def in_frame(name: str) -> Callable[[Program], Program]:
    """Return a decorator of functions of a graph in whose frame the features are."""

    def decorate(function: Any) -> Program:
        def run(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
            with g.local_scope():
                g.ndata[name] = x
                return function(g)

        return run

    return decorate


def attention(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"], g.ndata["l"], g.ndata["r"] = x, x.sum(1, keepdim=True), x.mean(1, keepdim=True)
        g.apply_edges(fn.u_add_v("l", "r", "score"))
        g.edata["a"] = dF.edge_softmax(g, torch.nn.functional.leaky_relu(g.edata.pop("score"), 0.2))
        g.update_all(fn.u_mul_e("h", "a", "m"), fn.sum("m", "out"))
        return g.ndata["out"]


def sent(message: Any, reduce: Any) -> Program:
    def run(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(message, reduce)
            return g.ndata["out"] * 2

    return run


def gated(edges: Any) -> dict[str, torch.Tensor]:
    return {"m": torch.sigmoid(edges.src["h"] + edges.dst["h"]) * edges.src["h"]}


def dotted(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["h"] = x
        g.apply_edges(fn.u_dot_v("h", "h", "score"))
        return g.edata["score"].sigmoid()


def softmaxed(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    return dF.edge_softmax(g, dglite.ops.u_dot_v(g, x, x)) * 3


@in_frame("h")
def readouts(g: DGLGraph) -> torch.Tensor:
    parts = [dglite.readout_nodes(g, "h", op=op) for op in ("sum", "mean", "max", "min")]
    g.ndata["p"] = dglite.softmax_nodes(g, "h")
    return torch.cat([*parts, dglite.sum_nodes(g, "p"), dglite.broadcast_nodes(g, parts[0]).relu()[:2]])


def segments(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    return dglite.ops.segment_reduce(g.batch_num_nodes(), x, "max") + dglite.ops.segment_reduce(g.batch_num_nodes(), x)


def of_edges(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    """Make a graph inside of the program."""
    src, dst = g.edges()
    inner = dglite.graph((src, dst), num_nodes=x.shape[0])
    return dglite.ops.copy_u_sum(inner, x) + dglite.ops.copy_u_mean(dglite.reverse(inner), x)


def looped(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    more = dglite.add_self_loop(g)
    return dglite.ops.copy_u_sum(more, x) / more.in_degrees()[:, None]


def several(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    src, dst = g.edges()
    e = x[src] * x[dst]
    parts = [dglite.ops.u_mul_e_sum(g, x, e), dglite.ops.u_add_e_max(g, x, e), dglite.ops.copy_e_min(g, e)]
    return torch.stack([*parts, dglite.ops.u_sub_e_mean(g, x, e)])


OF_NEWER = [of_edges, looped]
"""Programs that make a graph."""
WHOLE: dict[str, Program] = {
    "readouts": readouts,
    "segments": segments,
    "edge_softmax": softmaxed,
    "a graph made inside": of_edges,
    "add_self_loop, in_degrees": looped,
    "several reducers": several,
}
"""Functions that are one program."""
BROKEN: dict[str, Program] = {
    "built-in functions": sent(fn.copy_u("h", "m"), fn.mean("m", "out")),
    "built-in max": sent(fn.u_mul_v("h", "h", "m"), fn.max("m", "out")),
    "a message function": sent(gated, fn.sum("m", "out")),
    "a reduce function": sent(fn.copy_u("h", "m"), lambda nodes: {"out": nodes.mailbox["m"].sum(1)}),
    "apply_edges": dotted,
    "attention in steps": attention,
}
"""Functions with calls that may break a program into several."""


# -- comparison --------------------------------------------------------------------------------------------------------
def results(program: Program, model: Any, g: DGLGraph, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the result, and the gradients of features and parameters."""
    result = program(g, x)
    assert result.device == x.device
    outer = torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype, device=x.device).reshape(result.shape)
    parameters = [p for p in model.parameters() if p.requires_grad] if isinstance(model, nn.Module) else []
    grads = torch.autograd.grad(result, [x, *parameters], outer, allow_unused=True)
    return [result.detach(), *(grad for grad in grads if grad is not None)]


def compare(model: Any, device: str, backend: str, place: str, whole: bool, dynamic: bool | None = None) -> Any:
    """Compare a compiled function with the eager one, forward and backward, in two calls; return its counter."""
    if (
        whole
        and not has_torch("2.13")
        and (model in OF_NEWER or isinstance(getattr(model, "layer", None), dnn.PNAConv))
    ):
        pytest.skip("older versions of Dynamo do not copy a graph's attributes or build expressions")
    model = model.double().to(device) if isinstance(model, nn.Module) else model
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(model, fullgraph=whole, backend=counter, dynamic=dynamic)
    sizes = [(11, 30), (11, 30)] if dynamic is None else [(11, 30), (14, 40), (5, 7)]
    for num_nodes, num_edges in sizes:
        g = typed_graph(make(device, place, num_nodes, num_edges))
        x = features(g)
        torch.testing.assert_close(results(compiled, model, g, x), results(model, model, g, x))
    return counter


def layer_named(name: str) -> nn.Module:
    torch.manual_seed(0)
    return LAYERS[name]().double()


@pytest.mark.parametrize("place", PLACES if FULL else PLACES[:1])
@pytest.mark.parametrize("name", list(LAYERS)[:: 1 if FULL else 3])
@compiles_whole
def test_a_layer_is_one_program(name: str, place: str) -> None:
    assert compare(layer_named(name), DEVICE, "aot_eager", place, whole=True).frame_count == 1


@pytest.mark.parametrize("place", PLACES if FULL else PLACES[1:])
@pytest.mark.parametrize("name", WHOLE)
@compiles_whole
def test_a_function_is_one_program(name: str, place: str) -> None:
    assert compare(WHOLE[name], DEVICE, "aot_eager", place, whole=True).frame_count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"] if FULL else ["aot_eager"])
@pytest.mark.parametrize("name", BROKEN)
def test_methods_that_send_messages(name: str, backend: str) -> None:
    compare(BROKEN[name], DEVICE, backend, "moved there", whole=False)


OF_ALL_SIZES = ["GraphConv", "SAGEConv pool", "GATv2Conv", "GINEConv", "RelGraphConv", "AvgPooling"]


@pytest.mark.parametrize("name", OF_ALL_SIZES[:: 1 if FULL else 3])
@compiles_whole
def test_graphs_of_all_sizes(name: str) -> None:
    assert compare(layer_named(name), DEVICE, "aot_eager", "made there", whole=True, dynamic=True).frame_count <= 2


# -- situations --------------------------------------------------------------------------------------------------------
def closed_over(device: str, backend: str, place: str) -> None:
    """The graph and the layers are variables of the function around."""
    g, first, second = make(device, place), dnn.GraphConv(WIDTH, 8).to(device), dnn.GraphConv(8, 2).to(device)
    x = features(g).detach().float()
    compiled = torch.compile(lambda x: second(g, first(g, x).relu()), backend=backend)
    for scale in (1, 2):
        torch.testing.assert_close(compiled(scale * x), second(g, first(g, scale * x).relu()))


def inferred(device: str, backend: str, name: str) -> None:
    """Without gradients attention is one operator."""
    model, g = layer_named(name).to(device), make(device)
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        torch.testing.assert_close(compiled(g, features(g)), model(g, features(g)))


def trained(device: str, backend: str | None, steps: int = 5) -> list[float]:
    """Return the losses of a few steps of training, compiled or (None) not."""
    torch.manual_seed(0)
    g = make(device)
    first, second = dnn.GraphConv(WIDTH, 8).to(device), dnn.SAGEConv(8, 3, "mean").to(device)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    x, labels = features(g).detach().float(), (torch.arange(g.num_nodes()) % 3).to(device)

    def loss_of(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(second(g, first(g, x).relu()), labels)

    run = loss_of if backend is None else torch.compile(loss_of, backend=backend)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = run(g, x)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def exported(device: str, name: str, place: str, portable: bool) -> None:
    """Compare an exported program, its graph an input, with its model on the graph and on another one."""
    model, g = layer_named(name).to(device), make(device, place)
    program = dglite.export(model, g, features(g).detach(), portable=portable)
    run = program.module()
    for size in (11, 14):
        g = make(device, place, size)
        graph = dglite.to_tensors(g) if portable else g
        torch.testing.assert_close(run(graph, features(g).detach()), model(g, features(g).detach()))


class OfEdges(nn.Module):
    """A model whose graph is made of tensors, so torch alone exports it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = dnn.GraphConv(WIDTH, 3)

    def forward(self, src: torch.Tensor, dst: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.layer(dglite.graph((src, dst), num_nodes=x.shape[0]), x)


def exported_by_torch(device: str) -> None:
    model = OfEdges().double().to(device)
    src, dst = edges_of(11, 30).to(device)
    x = torch.linspace(0, 1, 11 * WIDTH, dtype=torch.float64).reshape(11, WIDTH).to(device)
    program = torch.export.export(model, (src, dst, x))
    torch.testing.assert_close(program.module()(src, dst, x), model(src, dst, x))


def lonely(device: str, backend: str) -> None:
    """A node without in-edges is reported when the program runs."""
    layer = dnn.GraphConv(WIDTH, 3).to(device)
    compiled = torch.compile(layer, backend=backend)
    g = make(device)
    compiled(g, features(g).float())
    g = dglite.graph((torch.tensor([0, 1]), torch.tensor([1, 1])), num_nodes=4).to(device)
    with pytest.raises(dglite.DGLError, match="3 of 4 nodes have no in-edge"):
        compiled(g, features(g).float())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_in_a_closure(backend: str, place: str) -> None:
    closed_over(DEVICE, backend, place)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "DotGatConv", "GraphConv"])
def test_inference(name: str) -> None:
    inferred(DEVICE, "aot_eager", name)


def test_training() -> None:
    torch.testing.assert_close(trained(DEVICE, "aot_eager"), trained(DEVICE, None))


@pytest.mark.parametrize("portable", [False, True], ids=["operators", "portable"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["GATv2Conv", "GraphConv", "SAGEConv pool"] if FULL else ["GATv2Conv"])
@exports
def test_exported_programs(name: str, place: str, portable: bool) -> None:
    exported(DEVICE, name, place, portable)


@exports
def test_a_program_exported_by_torch() -> None:
    exported_by_torch(DEVICE)


@compiles_whole
def test_nodes_without_in_edges_are_reported() -> None:
    lonely(DEVICE, "aot_eager")


@pytest.mark.parametrize("place", PLACES if FULL else PLACES[:1])
@pytest.mark.parametrize("name", ["GraphConv", "SAGEConv pool", "GATv2Conv", "GINConv max", "RelGraphConv"])
@compiles_whole
def test_a_later_call_waits_for_nothing(name: str, place: str) -> None:
    model, g = layer_named(name).to(DEVICE), typed_graph(make(DEVICE, place))
    compiled, x = torch.compile(model, fullgraph=True, backend="aot_eager"), features(g)
    for _ in range(2):
        with recorded() as events:
            results(compiled, model, g, x)
    assert events.waits == []
