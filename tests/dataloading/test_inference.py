"""Inference layer by layer: equal to the model on the whole graph, each node once per layer."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import dglite
from dglite import DGLError, progress
from dglite.dataloading import dataloader, transfer
from dglite.nn import GATConv, GraphConv, HeteroGraphConv, RelGraphConv, SAGEConv, Sequential
from tests.dataloading.graphs import ring, shop


def sparse_graph():
    """Return a graph with nodes without edges, parallel edges and self-loops."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 25, (2, 60), generator=generator)
    g = dglite.graph((ends[0], ends[1]), num_nodes=30)
    g.ndata["x"] = torch.randn(30, 4, generator=generator)
    g.edata["w"] = torch.rand(60, generator=generator) + 0.1
    return g


class OfBlocks(nn.Module):
    """A model of mini-batches, with all that may be between layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([SAGEConv(4, 4, "mean"), SAGEConv(4, 4, "pool"), SAGEConv(4, 3, "mean")])
        self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(3, 2)

    def forward(self, blocks, x):
        for layer, block in zip(self.layers, blocks, strict=True):
            before = x[: block.num_dst_nodes()]
            x = layer(block, (x, before))
            if layer is not self.layers[-1]:
                x = nn.functional.dropout(self.norm(x).relu(), 0.5, self.training) + before
        return self.head(x)


class Heads(nn.Module):
    """A layer of attention, whose heads are put side by side."""

    def __init__(self):
        super().__init__()
        self.conv = GATConv(6, 2, 2, allow_zero_in_degree=True)

    def forward(self, g, x):
        return self.conv(g, x).flatten(1)


class OfGraphs(nn.Module):
    """A model of a graph, with weights of edges, and layers inside of a module of its own."""

    def __init__(self):
        super().__init__()
        self.first = GraphConv(4, 6, norm="both", allow_zero_in_degree=True)
        self.rest = Sequential(Heads(), SAGEConv(4, 3, "gcn"))

    def forward(self, g, x, weights):
        return self.rest(g, self.first(g, x, edge_weight=weights).tanh())


def assert_equal(result, expected):
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_a_model_of_blocks(batch_size, num_workers):
    torch.manual_seed(0)
    g, model = sparse_graph(), OfBlocks()
    model.layers[1].eval()
    result = dglite.inference(model, g, g.ndata["x"], batch_size, 3, num_workers, progress=False)
    assert model.training and model.norm.training and not model.layers[1].training and not result.requires_grad
    assert_equal(result, model.eval()([g] * 3, g.ndata["x"]).detach())
    assert not any("forward" in module.__dict__ for module in model.modules())


def places(monkeypatch):
    """Let models be on another device, which is the CPU by another name; return where modules' inputs were moved."""
    module, other = sys.modules["dglite.dataloading.inference"], torch.device("cpu", 0)
    real, calls = module._device_of, []
    monkeypatch.setattr(module, "_device_of", lambda x: None if real(x) is None else other)

    def moved(x, device):
        rows = [len(part) for part in x if torch.is_tensor(part)] if isinstance(x, tuple) else []
        calls.append((device, rows))
        return transfer.moved(x, device)

    monkeypatch.setattr(module, "moved", moved)
    monkeypatch.setattr(dataloader, "moved", moved)
    return other, calls


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_model_on_another_device_than_the_features(monkeypatch, num_workers):
    torch.manual_seed(0)
    g, model = sparse_graph(), OfBlocks().eval()
    expected = model([g] * 3, g.ndata["x"]).detach()
    other, calls = places(monkeypatch)
    assert other != g.device
    result = dglite.inference(model, g, g.ndata["x"], 10, 3, num_workers, progress=False)
    assert_equal(result, expected)
    there = [rows for device, rows in calls if device == other]
    assert there.count([30]) == 3  # two calls of norm, one of head
    assert there.count([]) == 3 * 3 + 3  # three batches for each layer; no arguments by name of the calls above
    assert sum(device == g.device for device, _ in calls) == 3


def test_a_module_that_knows_the_graph_on_another_device(monkeypatch):
    class Knows(nn.Module):
        def __init__(self, g):
            super().__init__()
            self.g, self.conv = g, SAGEConv(4, 2, "mean")

        def forward(self, x):
            return self.conv(self.g, x)

    class Outer(nn.Module):
        def __init__(self, g):
            super().__init__()
            self.inner = Knows(g)

        def forward(self, g, x):
            return self.inner(x)

    torch.manual_seed(0)
    g = sparse_graph()
    model = Outer(g).eval()
    expected = model(g, g.ndata["x"]).detach()
    places(monkeypatch)
    assert_equal(dglite.inference(model, g, g.ndata["x"], 10, progress=False), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("graph_too", [False, True])
def test_features_of_the_host_and_a_model_on_a_gpu(graph_too):
    torch.manual_seed(0)
    g, model = sparse_graph(), OfBlocks().eval()
    x, expected = g.ndata["x"], model([g] * 3, g.ndata["x"]).detach()
    result = dglite.inference(model.cuda(), g.to("cuda") if graph_too else g, x, 10, 3, progress=False)
    assert result.device.type == "cpu"
    assert_equal(result, expected)


def test_a_model_of_graphs():
    torch.manual_seed(0)
    g, model = sparse_graph(), OfGraphs().eval()
    expected = model(g, g.ndata["x"], g.edata["w"]).detach()
    assert_equal(dglite.inference(model, g, g.ndata["x"], 4, progress=False, weights=g.edata["w"]), expected)


def test_each_node_once_per_layer():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.seen, self.sizes = SAGEConv(2, 2, "mean"), [], []

        def forward(self, graph, x):
            self.seen += graph.dstdata[dglite.NID].tolist()
            self.sizes.append(graph.num_dst_nodes())
            graph.srcdata["h"] = x
            graph.update_all(dglite.function.copy_u("h", "m"), dglite.function.sum("m", "h"))
            return graph.dstdata["h"]

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Counts(), Counts()

        def forward(self, g, x):
            return self.b(g, self.a(g, x))

    model = Twice()
    dglite.inference(model, ring(12), torch.rand(12, 2), 5, progress=False)
    for layer in (model.a, model.b):
        assert layer.seen == list(range(12)) and layer.sizes == [5, 5, 2]


def test_edge_types_by_edge():
    torch.manual_seed(0)
    g = sparse_graph()
    types = torch.arange(60) % 3
    conv = RelGraphConv(4, 5, 3)
    assert_equal(dglite.inference(conv, g, g.ndata["x"], 8, progress=False, etypes=types), conv(g, g.ndata["x"], types))


class Hetero(nn.Module):
    def __init__(self):
        super().__init__()
        etypes = ("buys", "bought", "follows")
        self.layers = nn.ModuleList(
            [
                HeteroGraphConv({etype: SAGEConv(3, 3, "mean") for etype in etypes}, "sum"),
                HeteroGraphConv({etype: GraphConv(3, 2) for etype in etypes}, "mean"),
            ]
        )

    def forward(self, blocks, x, mod_kwargs):
        x = {ntype: h.relu() for ntype, h in self.layers[0](blocks[0], x).items()}
        return self.layers[1](blocks[1], x, mod_kwargs=mod_kwargs)


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_several_types(batch_size):
    torch.manual_seed(0)
    g, model = shop(), Hetero()
    x = {"user": torch.randn(4, 3), "item": torch.randn(3, 3)}
    weights = {"buys": {"edge_weight": torch.rand(6)}}
    expected = model([g, g], x, weights)
    result = dglite.inference(model, g, x, batch_size, 2, progress=False, mod_kwargs=weights)
    assert result.keys() == expected.keys()
    for ntype in expected:
        assert_equal(result[ntype], expected[ntype].detach())


def test_a_layer_of_several_types():
    class Mean(nn.Module):
        def forward(self, g, x):
            with g.local_scope():
                g.srcdata["h"] = x
                copy, mean = dglite.function.copy_u("h", "m"), dglite.function.mean("m", "h")
                g.multi_update_all(dict.fromkeys(g.canonical_etypes, (copy, mean)), "sum")
                return g.dstdata["h"]

    g, x = shop(), {"user": torch.randn(4, 3), "item": torch.randn(3, 3)}
    result, expected = dglite.inference(Mean(), g, x, 2, progress=False), Mean()(g, x)
    for ntype in ("user", "item"):
        assert_equal(result[ntype], expected[ntype])


def test_a_bar_for_each_layer(capsys, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(progress, "_is_watched", lambda: True)
    dglite.inference(OfBlocks(), sparse_graph(), torch.rand(30, 4), 10, 3)
    shown = capsys.readouterr().err
    assert all(f"layers.{i}: " in shown for i in range(3)) and "/30" in shown
    dglite.inference(OfBlocks(), sparse_graph(), torch.rand(30, 4), 10, 3, progress=False)
    assert capsys.readouterr().err == ""


def test_graphs_without_nodes_or_edges():
    conv = SAGEConv(4, 3, "mean")
    assert dglite.inference(conv, dglite.graph(([], [])), torch.rand(0, 4), progress=False).shape == (0, 3)
    idle = dglite.graph(([], []), num_nodes=5)
    x = torch.rand(5, 4)
    assert_equal(dglite.inference(conv, idle, x, 2, progress=False), conv(idle, x).detach())


def test_sparse_features_see_the_whole_graph():
    torch.manual_seed(0)
    g, model = sparse_graph(), Sequential(GraphConv(4, 3, allow_zero_in_degree=True), SAGEConv(3, 2, "mean")).eval()
    x = g.ndata["x"].relu().to_sparse_coo()
    assert_equal(dglite.inference(model, g, x, 7, progress=False), model(g, x).detach())


def test_a_layer_that_leaves_nodes_out():
    class Entered(nn.Module):
        def forward(self, g, x):
            return {t: x[t][: g.num_dst_nodes(t)] for _, e, t in g.canonical_etypes if g.num_edges(e)}

    g = dglite.heterograph({("a", "to", "b"): ([0], [2]), ("b", "of", "a"): ([2], [0])}, {"a": 1, "b": 4})
    x = {"a": torch.ones(1, 2), "b": torch.ones(4, 2)}
    with pytest.raises(DGLError, match="rows for 1 of 4 nodes of type 'b'"):
        dglite.inference(Entered(), g, x, 1, progress=False)


def test_what_does_not_fit():
    g, x = ring(), torch.rand(12, 4)
    with pytest.raises(TypeError, match="expected a module, got function"):
        dglite.inference(lambda g, x: x, g, x)
    with pytest.raises(TypeError, match="expected a graph, got list"):
        dglite.inference(SAGEConv(4, 3, "mean"), [g], x)
    for graph, rows in ((g, x[:3]), (shop(), x)):  # what layers say themselves
        with pytest.raises(DGLError):
            dglite.inference(SAGEConv(4, 3, "mean"), graph, rows, progress=False)

    class Twice(nn.Module):
        def forward(self, g, x):
            return x, x

    model = Sequential(Twice())
    with pytest.raises(DGLError, match="layer 0 returned tuple"):
        dglite.inference(model, g, x, 5, progress=False)
    assert model.training and not any("forward" in module.__dict__ for module in model.modules())
