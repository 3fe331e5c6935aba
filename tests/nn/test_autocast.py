"""Mixed precision: layers and operations inside ``torch.autocast``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import nn

from dglite import DGLGraph, ops
from dglite.data import KarateClubDataset
from dglite.errors import DGLError
from dglite.nn import EdgeWeightNorm, GATConv, GlobalAttentionPooling, GraphConv, SAGEConv, SparseLinear
from tests.nn import dense
from tests.versions import compiles_whole

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GraphConv": lambda: GraphConv(5, 3),
    "widening GraphConv": lambda: GraphConv(5, 8),
    "GraphConv right": lambda: GraphConv(5, 3, norm="right"),
    "GraphConv left": lambda: GraphConv(5, 3, norm="left"),
    "GATConv": lambda: GATConv(5, 3, 2),
    "SAGEConv mean": lambda: SAGEConv(5, 3, "mean"),
    "SAGEConv gcn": lambda: SAGEConv(5, 3, "gcn"),
    "SAGEConv pool": lambda: SAGEConv(5, 3, "pool"),
    "SAGEConv lstm": lambda: SAGEConv(5, 3, "lstm"),
}
CASES = [(layer, weighted) for layer in LAYERS for weighted in (False, True)]


def autocast() -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.mark.parametrize(("layer", "weighted"), CASES)
@pytest.mark.parametrize("make", [dense.graph, dense.block])
def test_a_layer_runs_and_gives_float32_gradients(make: Callable[[], DGLGraph], layer: str, weighted: bool) -> None:
    torch.manual_seed(0)
    g, module = make(), LAYERS[layer]()
    x = torch.randn(g.num_src_nodes(), 5)
    weight = (torch.rand(g.num_edges()) + 0.5).requires_grad_() if weighted else None
    want = module(g, x, edge_weight=weight)
    with autocast():
        result = module(g, x, edge_weight=weight)
    torch.testing.assert_close(result.float(), want, rtol=0.05, atol=0.05)
    parameters = [*module.parameters(), *([weight] if weighted else [])]
    outer = torch.randn_like(want)
    ours = torch.autograd.grad((result.float() * outer).sum(), parameters, retain_graph=True)
    theirs = torch.autograd.grad((want * outer).sum(), parameters)
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype is torch.float32
        torch.testing.assert_close(x, y, rtol=0.1, atol=0.1)


def test_operands_that_differ_take_autocasts_dtype() -> None:
    g = dense.graph()
    x, w = torch.randn(4, 3), torch.rand(8, 1)
    with autocast():
        mixed = ops.u_mul_e_sum(g, x.bfloat16(), w)
        assert mixed.dtype is torch.bfloat16
        assert torch.equal(mixed, ops.u_mul_e_sum(g, x.bfloat16(), w.bfloat16()))
        assert ops.u_dot_v(g, x, x.bfloat16()).dtype is torch.bfloat16
        assert ops.u_mul_e_sum(g, x.half(), w.bfloat16()).dtype is torch.bfloat16
        assert ops.u_mul_e_sum(g, x, w).dtype is torch.float32
        assert ops.edge_softmax(g, w).dtype is torch.float32


def test_the_error_stays_outside_autocast_and_for_float64() -> None:
    g, x, w = dense.graph(), torch.randn(4, 3), torch.rand(8, 1)
    with pytest.raises(DGLError, match="dtypes bfloat16 and float32; convert them to one dtype"):
        ops.u_mul_e_sum(g, x.bfloat16(), w)
    with autocast(), pytest.raises(DGLError, match="dtypes bfloat16 and float64; convert"):
        ops.u_mul_e_sum(g, x.bfloat16(), w.double())
    with autocast(), torch.autocast("cpu", enabled=False), pytest.raises(DGLError, match="convert"):
        ops.u_mul_e_sum(g, x.bfloat16(), w)


def test_sparse_features_and_edge_weights_run() -> None:
    x = scipy.sparse.random_array((4, 5), density=0.5, random_state=0, dtype="float32")
    layer = SparseLinear(5, 3)
    with autocast():
        torch.testing.assert_close(layer(x).float(), layer(torch.from_numpy(x.toarray())).float(), rtol=0.05, atol=0.05)
        assert EdgeWeightNorm()(dense.graph(), torch.rand(8) + 0.5).dtype is torch.float32


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", ["GraphConv", "GraphConv right", "SAGEConv mean", "attention pooling"])
@compiles_whole
def test_compiled_layers_have_the_dtype_of_eager_ones(name: str, recorded: bool) -> None:
    """A bias of float32, or features beside a gate of bfloat16, made the result float32."""
    torch._dynamo.reset()
    g, x = dense.graph(), torch.randn(dense.graph().num_nodes(), 5)
    layer = GlobalAttentionPooling(nn.Linear(5, 1)) if name == "attention pooling" else LAYERS[name]()
    layer.requires_grad_(recorded)
    with autocast():
        result, want = torch.compile(layer, fullgraph=True, backend="aot_eager")(g, x), layer(g, x)
    torch.testing.assert_close(result, want, rtol=0.05, atol=0.02)


class Two(nn.Module):
    """Two layers over the club, each member its own feature."""

    def __init__(self, make: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = make(34, 16), make(16, 2)

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return self.second(g, F.relu(self.first(g, x)))


@pytest.mark.parametrize(
    "make",
    [GraphConv, lambda i, o: SAGEConv(i, o, "mean"), lambda i, o: SAGEConv(i, o, "pool")],
    ids=["gcn", "mean", "pool"],
)
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=compiles_whole)])
def test_training_converges(make: Callable[[int, int], nn.Module], compiled: bool) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    g = KarateClubDataset()[0]
    labels, known = g.ndata["label"], [0, 33]
    g.add_edges(g.nodes(), g.nodes())
    model = Two(make)
    run = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        with autocast():
            logits = run(g, torch.eye(34))
            loss = F.cross_entropy(logits[known], labels[known])
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.dtype is torch.float32 for p in model.parameters())
        optimizer.step()
    assert loss.item() < 0.1
    assert (logits.argmax(1) == labels).float().mean() > 0.8
