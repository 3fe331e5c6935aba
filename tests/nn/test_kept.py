"""What layers keep for the gradient, beside input, result and parameters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dglite
from dglite.nn import AGNNConv, APPNPConv, ChebConv, GatedGraphConv, GraphConv, PNAConv, SAGEConv, SGConv

NODES, WIDTH = 40, 16


def kept(layer: torch.nn.Module) -> float:
    """Return how much a call keeps, in tensors of the features' size; a few numbers for each node are less than one."""
    dglite.seed(0)
    g = dglite.rand_graph(NODES, NODES)
    x = torch.ones(NODES, WIDTH, requires_grad=True)
    results = dict[int, int]()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        results[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = layer(g, x)
    for known in (x, result, *layer.parameters()):
        results.pop(known.untyped_storage().data_ptr(), None)
    return sum(results.values()) / x.untyped_storage().nbytes()


@pytest.mark.parametrize(
    ("make", "tensors"),
    [
        (lambda: GraphConv(WIDTH, WIDTH, allow_zero_in_degree=True), 0),
        (lambda: SAGEConv(WIDTH, WIDTH, "mean"), 0),
        (lambda: SGConv(WIDTH, WIDTH, 3, allow_zero_in_degree=True), 0),
        (lambda: ChebConv(WIDTH, WIDTH, 3), 2),
        (lambda: AGNNConv(allow_zero_in_degree=True), 1),  # unit vectors
        (lambda: GatedGraphConv(WIDTH, WIDTH, 1, 1), 5),  # sums, two gates, the new state and what of it is reset
    ],
    ids=["GraphConv", "SAGEConv", "SGConv", "ChebConv", "AGNNConv", "GatedGraphConv"],
)
def test_a_layer_keeps_no_more_than_its_gradient_reads(make: Callable[[], torch.nn.Module], tensors: int) -> None:
    assert tensors <= kept(make()) < tensors + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: GraphConv(WIDTH, 2),
        lambda: GraphConv(WIDTH, 2, norm="left"),
        lambda: SGConv(WIDTH, 2, 2),
        lambda: ChebConv(WIDTH, 2, 3),
        lambda: APPNPConv(2, 0.1),
        lambda: PNAConv(WIDTH, 2, ["mean", "std"], ["identity", "amplification"], 1.5),
    ],
    ids=["GraphConv", "GraphConv left", "SGConv", "ChebConv", "APPNPConv", "PNAConv"],
)
def test_a_graph_that_was_used_in_inference_mode_is_trained_on(make: Callable[[], torch.nn.Module]) -> None:
    """Degrees' scales are kept with the graph; torch saves no tensor for backward that inference mode made."""
    layer, x = make(), torch.ones(NODES, WIDTH)
    g = dglite.add_self_loop(dglite.rand_graph(NODES, NODES))
    other = dglite.graph(g.edges(), num_nodes=NODES)
    with torch.inference_mode():
        expected = layer(g, x)
    x.requires_grad_()
    result = layer(g, x)
    assert torch.equal(result.detach(), expected)
    (gradient,), (of_other,) = (torch.autograd.grad(y.sum(), x) for y in (result, layer(other, x)))
    assert torch.equal(gradient, of_other)
