"""Rows without elements: every operation, layer and readout takes them, and gives what torch's broadcasting says."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import dglite
from dglite import function as fn
from dglite import nn, ops

SHAPES = [(), (0,), (1,), (4, 0), (4, 1), (1, 0), (0, 1), (0, 3), (3,), (2, 4, 0), (2, 1, 1), (0, 0), (2, 0, 3)]
GRAPHS = {
    "several": dglite.graph(([0, 1, 2, 2, 0], [1, 2, 0, 0, 0])),
    "edgeless": dglite.graph(([], []), num_nodes=3),
    "empty": dglite.graph(([], []), num_nodes=0),
}
BATCH = dglite.batch([GRAPHS["several"], GRAPHS["empty"], GRAPHS["edgeless"]])


def rows(*shape):
    return torch.from_numpy(np.random.default_rng(shape).standard_normal(shape).astype("f")).requires_grad_()


def aligned(x, ndim):
    """Return rows with axes of size 1 after the first: features broadcast from the last axis."""
    return x.reshape(x.shape[:1] + (1,) * (ndim - x.ndim) + x.shape[1:])


def pairs():
    """Return the pairs of shapes that broadcast, one of which has no elements."""
    for left, right in itertools.product(SHAPES, SHAPES):
        try:
            np.broadcast_shapes(left, right)
        except ValueError:
            continue
        if 0 in left + right:
            yield left, right


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("left", "right"), list(pairs()), ids=str)
def test_operations(name, left, right):
    g = GRAPHS[name]
    ends = dict(zip("uv", g.edges(), strict=True)) | {"e": torch.arange(g.num_edges())}
    counts = {"u": g.num_nodes(), "v": g.num_nodes(), "e": g.num_edges()}
    for x, y in ("uv", "ue", "ev"):
        a, b = rows(counts[x], *left), rows(counts[y], *right)
        depth = max(a.ndim, b.ndim)
        by_edge = aligned(a, depth)[ends[x]], aligned(b, depth)[ends[y]]
        for operator in ("add", "mul", "dot") if depth > 1 else ("add", "mul"):
            product = by_edge[0] * by_edge[1]
            expected = {"add": sum(by_edge), "mul": product, "dot": product.sum(-1, keepdim=True) if depth > 1 else 0}
            result = getattr(ops, f"{x}_{operator}_{y}")(g, a, b)
            torch.testing.assert_close(result, expected[operator])
            grads = torch.autograd.grad(result.sum(), (a, b))
            assert [x.shape for x in grads] == [a.shape, b.shape]
    for reducer in ("sum", "max", "mean"):
        a, b = rows(counts["u"], *left), rows(counts["e"], *right)
        result = getattr(ops, f"u_mul_e_{reducer}")(g, a, b)
        assert result.shape == (g.num_nodes(), *np.broadcast_shapes(left, right)) and not result.numel()
        assert [x.shape for x in torch.autograd.grad(result.sum(), (a, b))] == [a.shape, b.shape]


@pytest.mark.parametrize(("left", "right"), [((4, 0), (4, 1)), ((4, 1), (4, 0)), ((0, 1), (0, 3)), ((0,), (1,))])
def test_features(left, right):
    g = GRAPHS["several"].clone()
    g.ndata["a"], g.ndata["b"] = rows(3, *left), rows(3, *right)
    shape = np.broadcast_shapes(left, right)
    g.apply_edges(fn.u_add_v("a", "b", "m"))
    g.apply_edges(lambda edges: {"n": (edges.src["a"] + edges.dst["b"]).sigmoid()})
    assert g.edata["m"].shape == g.edata["n"].shape == ops.edge_softmax(g, g.edata["m"]).shape == (5, *shape)
    for reduce in (fn.sum("m", "out"), lambda nodes: {"out": nodes.mailbox["m"].max(1)[0]}):
        g.update_all(lambda edges: {"m": edges.src["a"] * edges.dst["b"]}, reduce)
        assert g.ndata["out"].shape == (3, *shape)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_readouts(shape):
    g = BATCH.clone()
    g.ndata["x"], g.edata["x"] = rows(g.num_nodes(), *shape), rows(g.num_edges(), *shape)
    for op in ("sum", "mean", "max", "min"):
        assert dglite.readout_nodes(g, "x", op=op).shape == dglite.readout_edges(g, "x", op=op).shape == (3, *shape)
    assert dglite.softmax_nodes(g, "x").shape == (6, *shape) == dglite.broadcast_nodes(g, rows(3, *shape)).shape
    for pooling in (nn.SumPooling(), nn.AvgPooling(), nn.MaxPooling()):
        assert pooling(g, g.ndata["x"]).shape == (3, *shape)


LAYERS = {
    "AGNNConv": lambda i, o: (nn.AGNNConv(), ()),
    "APPNPConv": lambda i, o: (nn.APPNPConv(2, 0.1), ()),
    "CFConv": lambda i, o: (nn.CFConv(i, 2, 4, o), (rows(5, 2),)),
    "ChebConv": lambda i, o: (nn.ChebConv(i, o, 2), ()),
    "DotGatConv": lambda i, o: (nn.DotGatConv(i, o, 2), ()),
    "EGATConv": lambda i, o: (nn.EGATConv(i, i, o, o, 2), (rows(5, i),)),
    "EdgeConv": lambda i, o: (nn.EdgeConv(i, o), ()),
    "EdgeGATConv": lambda i, o: (nn.EdgeGATConv(i, 2, o, 2), (rows(5, 2),)),
    "GATConv": lambda i, o: (nn.GATConv(i, o, 2), ()),
    "GATv2Conv": lambda i, o: (nn.GATv2Conv(i, o, 2), ()),
    "GCN2Conv": lambda i, o: (nn.GCN2Conv(i, 1), (rows(3, i),)),
    "GINConv": lambda i, o: (nn.GINConv(torch.nn.Linear(i, o), "max"), ()),
    "GINEConv": lambda i, o: (nn.GINEConv(), (rows(5, i),)),
    "GMMConv": lambda i, o: (nn.GMMConv(i, o, 2, 2), (rows(5, 2),)),
    "GatedGraphConv": lambda i, o: (nn.GatedGraphConv(i, 3, 2, 1), (torch.zeros(5, dtype=torch.int64),)),
    "GraphConv": lambda i, o: (nn.GraphConv(i, o), ()),
    "HGTConv": lambda i, o: (nn.HGTConv(i, o, 2, 1, 1), (torch.zeros(3).long(), torch.zeros(5).long())),
    "NNConv": lambda i, o: (nn.NNConv(i, o, torch.nn.Linear(2, i * o)), (rows(5, 2),)),
    "RelGraphConv": lambda i, o: (nn.RelGraphConv(i, o, 2), (torch.zeros(5).long(),)),
    "RelGraphConv basis": lambda i, o: (nn.RelGraphConv(i, o, 2, "basis", 2), (torch.zeros(5).long(),)),
    "SAGEConv gcn": lambda i, o: (nn.SAGEConv(i, o, "gcn"), ()),
    "SAGEConv mean": lambda i, o: (nn.SAGEConv(i, o, "mean"), ()),
    "SAGEConv pool": lambda i, o: (nn.SAGEConv(i, o, "pool"), ()),
    "SGConv": lambda i, o: (nn.SGConv(i, o), ()),
    "TAGConv": lambda i, o: (nn.TAGConv(i, o), ()),
    "TWIRLSConv": lambda i, o: (nn.TWIRLSConv(i, o, 4, 2), ()),
}
"""Layers of sizes (in, out), and their inputs after the features."""
SAME_SIZE = {"AGNNConv", "APPNPConv", "GCN2Conv", "GINEConv"}


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, sizes):
    layer, inputs = LAYERS[name](*sizes)
    x = rows(3, sizes[0])
    result = layer(GRAPHS["several"], x, *inputs)
    for out in result if isinstance(result, tuple) else (result,):
        width = {"GatedGraphConv": 3, "HGTConv": 2 * sizes[1]}.get(name, sizes[0] if name in SAME_SIZE else sizes[1])
        assert out.shape[-1] == width and len(out) in (3, 5)
        if out.requires_grad:
            out.sum().backward(retain_graph=True)
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in layer.parameters())


ON_NUMPY = """
import numpy as np, dglite
from dglite import nn, ops
from dglite.backend import framework as F

g = dglite.graph(([0, 1, 2, 2, 0], [1, 2, 0, 0, 0]))
def rows(*shape):
    return F.tensor(np.ones(shape, "f"), requires_grad=True)
for left, right in (((4, 0), (4, 1)), ((4, 1), (4, 0)), ((0, 1), (0, 3)), ((0,), (1,))):
    a, b = rows(3, *left), rows(3, *right)
    m, s = ops.u_mul_v(g, a, b), ops.u_mul_e_sum(g, a, rows(5, *right))
    assert m.shape[1:] == s.shape[1:] == ops.edge_softmax(g, m).shape[1:] == np.broadcast_shapes(left, right)
    (m.sum() + s.sum()).backward()
    assert a.grad.shape == a.shape and b.grad.shape == b.shape
for i, o in ((0, 3), (3, 0), (0, 0)):
    for layer in (nn.GraphConv(i, o), nn.GATConv(i, o, 2), nn.SAGEConv(i, o, "pool"), nn.DotGatConv(i, o, 2)):
        assert layer(g, rows(3, i)).shape[-1] == o
"""


def test_on_numpy():
    root = Path(__file__).parents[2]
    environment = {**os.environ, "DGLITE_BACKEND": "numpy", "PYTHONPATH": str(root)}
    run = subprocess.run([sys.executable, "-c", ON_NUMPY], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
