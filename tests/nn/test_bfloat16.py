"""How far gradients inside ``torch.autocast`` with bfloat16 are from those of float32, over all convolutions.

The bound is relative, of the norm of each gradient. bfloat16 has 8 bits, so that an activation near 0 may fall to the
other side, which moves a gradient by some per cent; nothing may add up to more. Left out are third moments, whose cube
root has an infinite derivative at 0, where those of two messages are.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import Linear

import dglite
from dglite import nn

SIZE, BOUND, CANCELLED = 32, 0.15, 0.01


def big() -> dglite.DGLGraph:
    dglite.seed(0)
    return dglite.add_self_loop(dglite.rand_graph(600, 6000))


G = big()
NODES, EDGES = G.num_nodes(), G.num_edges()


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


X, E, WIDE = rows(NODES, SIZE), rows(EDGES, 8), rows(EDGES, SIZE)
ETYPES, NTYPES = torch.arange(EDGES) % 3, torch.arange(NODES) % 2
D = SIZE
LAYERS = {
    "AGNNConv": lambda: (nn.AGNNConv(), (X,)),
    "APPNPConv": lambda: (nn.APPNPConv(3, 0.1), (X,)),
    "CFConv": lambda: (nn.CFConv(D, 8, D, D), (X, E)),
    "ChebConv": lambda: (nn.ChebConv(D, D, 3), (X,)),
    "DGNConv": lambda: (
        nn.DGNConv(D, D, ["dir1-av", "dir1-dx", "sum", "mean"], ["identity"], 2.0),
        (X, None, rows(NODES, 3).detach()),
    ),
    "DotGatConv": lambda: (nn.DotGatConv(D, 8, 4), (X,)),
    "EGATConv": lambda: (nn.EGATConv(D, 8, 8, 8, 4), (X, E)),
    "EGNNConv": lambda: (nn.EGNNConv(D, D, D, 8), (X, rows(NODES, 3), E)),
    "EdgeConv": lambda: (nn.EdgeConv(D, D), (X,)),
    "EdgeGATConv": lambda: (nn.EdgeGATConv(D, 8, 8, 4), (X, E)),
    "GATConv": lambda: (nn.GATConv(D, 8, 4), (X,)),
    "GATv2Conv": lambda: (nn.GATv2Conv(D, 8, 4), (X,)),
    "GCN2Conv": lambda: (nn.GCN2Conv(D, 1), (X, rows(NODES, D))),
    "GINConv max": lambda: (nn.GINConv(Linear(D, D), "max"), (X,)),
    "GINConv sum": lambda: (nn.GINConv(Linear(D, D), "sum"), (X,)),
    "GINEConv": lambda: (nn.GINEConv(Linear(D, D)), (X, WIDE)),
    "GMMConv": lambda: (nn.GMMConv(D, D, 8, 2), (X, E)),
    "GatedGCNConv": lambda: (nn.GatedGCNConv(D, 8, D), (X, E)),
    "GatedGraphConv": lambda: (nn.GatedGraphConv(D, D, 2, 3), (X, ETYPES)),
    "GraphConv": lambda: (nn.GraphConv(D, D), (X,)),
    "HGTConv": lambda: (nn.HGTConv(D, 8, 4, 2, 3), (X, NTYPES, ETYPES)),
    "NNConv": lambda: (nn.NNConv(D, 8, Linear(8, D * 8)), (X, E)),
    "PNAConv": lambda: (nn.PNAConv(D, D, ["mean", "max", "std", "var"], ["identity", "amplification"], 2.0), (X,)),
    "RelGraphConv": lambda: (nn.RelGraphConv(D, D, 3), (X, ETYPES)),
    "RelGraphConv basis": lambda: (nn.RelGraphConv(D, D, 3, "basis", 2), (X, ETYPES)),
    "SAGEConv gcn": lambda: (nn.SAGEConv(D, D, "gcn"), (X,)),
    "SAGEConv lstm": lambda: (nn.SAGEConv(D, D, "lstm"), (X,)),
    "SAGEConv mean": lambda: (nn.SAGEConv(D, D, "mean"), (X,)),
    "SAGEConv pool": lambda: (nn.SAGEConv(D, D, "pool"), (X,)),
    "SGConv": lambda: (nn.SGConv(D, D, 2), (X,)),
    "TAGConv": lambda: (nn.TAGConv(D, D), (X,)),
    "TWIRLSConv": lambda: (nn.TWIRLSConv(D, D, D, 4), (X,)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_near_those_of_float32(name: str) -> None:
    torch.manual_seed(0)
    layer, args = LAYERS[name]()
    layer = layer.train()
    expected = [*layer.parameters(), *(x for x in args if x is not None and x.requires_grad)]

    def gradients(cast: bool) -> tuple[torch.Tensor | None, ...]:
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
            result = layer(G, *args)
        results = result if isinstance(result, tuple) else (result,)
        torch.manual_seed(2)
        loss = sum((x.float() * torch.randn(x.shape)).sum() for x in results)
        return torch.autograd.grad(loss, expected, allow_unused=True)

    exact, grads = gradients(False), gradients(True)
    compared = [(x, y) for x, y in zip(grads, exact, strict=True) if y is not None]
    largest = max(float(y.norm()) for _, y in compared)
    for x, y in compared:
        assert x is not None and x.dtype is y.dtype is torch.float32
        # Batch normalisation cancels the gradient of a bias before it, all but rounding errors: hence of the largest.
        assert (x - y).norm() <= BOUND * max(float(y.norm()), CANCELLED * largest)
