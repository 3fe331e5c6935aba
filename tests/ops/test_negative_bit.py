"""Tensors whose memory holds the other sign, as the imaginary part of a conjugate, are read with their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dglite
from dglite import dynamic, nn, ops
from tests.nn import dense


def negated(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor equal to ``x`` in every respect but its memory."""
    y = torch._neg_view(-x.detach())
    assert y.is_neg() and torch.equal(y, x)
    return y


G = dense.graph()
NODES, EDGES = torch.randn(G.num_nodes(), 4), torch.randn(G.num_edges(), 4)
OPERATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": lambda x, e: ops.copy_u_sum(G, x),
    "max": lambda x, e: ops.u_mul_e_max(G, x, e),
    "sddmm": lambda x, e: ops.u_dot_v(G, x, x),
    "softmax": lambda x, e: ops.edge_softmax(G, e),
    "segments": lambda x, e: ops.segment_reduce(torch.tensor([2, 0, len(x) - 2]), x),
    "gather": lambda x, e: ops.gather_mm(x, x[:4, None].expand(4, 4, 4).contiguous(), idx_b=torch.arange(len(x)) % 4),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_and_gradients_read_the_sign(name: str) -> None:
    operation = OPERATIONS[name]
    results = []
    for turn in (lambda x: x.clone(), negated):
        x, e = (turn(rows).requires_grad_() for rows in (NODES, EDGES))
        for _ in range(3):  # a repeated call goes straight to its kernel
            with torch.no_grad():
                out = operation(x, e)
        recorded = operation(x, e)
        grads = torch.autograd.grad(recorded, (x, e), turn(torch.ones_like(recorded)), allow_unused=True)
        results.append([out, recorded, *(grad for grad in grads if grad is not None)])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("layer", [nn.GraphConv(4, 3), nn.GATConv(4, 3, 2), nn.SAGEConv(4, 3, "pool")], ids=str)
def test_layers_read_the_sign(layer: torch.nn.Module) -> None:
    torch.testing.assert_close(layer(dglite.add_self_loop(G), negated(NODES)), layer(dglite.add_self_loop(G), NODES))


def test_lazy_tensors_read_the_sign() -> None:
    (result,) = dynamic.run([dynamic.lazy(negated(NODES[0])) * 2])
    torch.testing.assert_close(result, NODES[0] * 2)


def test_complex_features_are_refused() -> None:
    with pytest.raises(dglite.DGLError, match="complex64; expected one of float32"):
        ops.copy_u_sum(G, torch.complex(NODES, NODES).conj())
