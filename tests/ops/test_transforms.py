"""torch.func, forward mode and gradients in batches: the values of loops over ordinary calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.autograd.forward_ad as fw
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap

import dglite
import dglite.function as fn
from dglite import nn, ops

G = dglite.graph(([0, 1, 2, 3, 0, 0, 2], [1, 2, 3, 0, 2, 2, 2]), num_nodes=5)
WITH_LOOPS = dglite.add_self_loop(G)
Function = Callable[[torch.Tensor], torch.Tensor]


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


X, T, MATRICES = _random(5, 3), _random(5, 3, seed=1), _random(2, 3, 4, seed=2)


def _update_all(x: torch.Tensor) -> torch.Tensor:
    with G.local_scope():
        G.ndata["h"] = x
        G.update_all(fn.u_mul_v("h", "h", "m"), fn.mean("m", "o"))
        return G.ndata["o"]


def _own_functions(x: torch.Tensor) -> torch.Tensor:
    with G.local_scope():
        G.ndata["h"] = x
        G.update_all(lambda e: {"m": e.src["h"] * e.dst["h"].sin()}, lambda n: {"o": n.mailbox["m"].sum(1)})
        return G.ndata["o"]


def _readout(x: torch.Tensor) -> torch.Tensor:
    with G.local_scope():
        G.ndata["h"] = x
        return dglite.mean_nodes(G, "h") * dglite.max_nodes(G, "h")


def _layer(make: Callable[[], torch.nn.Module]) -> Function:
    torch.manual_seed(0)
    layer = make().double().eval()
    return lambda x: layer(WITH_LOOPS, x)


FUNCTIONS: dict[str, Function] = {
    "sum": lambda x: ops.copy_u_sum(G, x),
    "mean": lambda x: ops.copy_u_mean(G, x),
    "max": lambda x: ops.copy_u_max(G, x),
    "min of products": lambda x: ops.u_mul_v_min(G, x, x) if hasattr(ops, "u_mul_v_min") else ops.copy_u_min(G, x * x),
    "logsumexp": lambda x: ops.copy_u_logsumexp(G, x),
    "weighted sum": lambda x: ops.u_mul_e_sum(G, x, ops.u_sub_v(G, x, x)),
    "dot": lambda x: ops.u_dot_v(G, x, x),
    "softmax": lambda x: ops.edge_softmax(G, ops.u_add_v(G, x, x)),
    "update_all": _update_all,
    "own functions": _own_functions,
    "readout": _readout,
    "segments": lambda x: ops.segment_reduce(torch.tensor([2, 0, 3]), x, "mean"),
    "gather_mm": lambda x: ops.gather_mm(x, MATRICES, idx_b=torch.tensor([0, 1, 1, 0, 1])),
    "GraphConv": _layer(lambda: nn.GraphConv(3, 2, activation=torch.relu)),
    "SAGEConv": _layer(lambda: nn.SAGEConv(3, 2, "pool")),
    "GATConv": _layer(lambda: nn.GATConv(3, 2, 2)),
    "GATv2Conv": _layer(lambda: nn.GATv2Conv(3, 2, 2)),
    "AGNNConv": _layer(lambda: nn.AGNNConv()),
    "PNAConv": _layer(lambda: nn.PNAConv(3, 2, ["mean", "max", "std"], ["identity", "amplification"], 2.5)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_those_of_the_gradient(name: str) -> None:
    function = FUNCTIONS[name]
    want = torch.autograd.functional.jvp(function, X, T)[1]
    with torch.no_grad():
        torch.testing.assert_close(jvp(function, (X,), (T,))[1], want)
    with fw.dual_level():
        result = fw.unpack_dual(function(fw.make_dual(X, T))).tangent
    torch.testing.assert_close(result, want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_agree(name: str) -> None:
    function = FUNCTIONS[name]
    want = torch.autograd.functional.jacobian(function, X)
    torch.testing.assert_close(jacrev(function)(X), want)
    torch.testing.assert_close(jacfwd(function)(X), want)
    torch.testing.assert_close(torch.autograd.functional.jacobian(function, X, vectorize=True), want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_agree(name: str) -> None:
    def total(x: torch.Tensor) -> torch.Tensor:
        return FUNCTIONS[name](x).sin().sum()

    torch.testing.assert_close(hessian(total)(X), torch.autograd.functional.hessian(total, X))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_batch_is_a_loop(name: str, axis: int) -> None:
    function, xs = FUNCTIONS[name], [X, 2 * X, T]
    batch = torch.stack(xs, axis)
    torch.testing.assert_close(vmap(function, axis)(batch), torch.stack([function(x) for x in xs]))

    def total(x: torch.Tensor) -> torch.Tensor:
        return function(x).sin().sum()

    want = torch.stack([torch.autograd.functional.jacobian(total, x) for x in xs])
    torch.testing.assert_close(vmap(grad(total), axis)(batch), want)


@pytest.mark.parametrize(
    "make", [lambda: nn.GraphConv(3, 2), lambda: nn.GATConv(3, 2, 2), lambda: nn.GINConv(torch.nn.Linear(3, 2))]
)
def test_an_ensemble_is_one_call(make: Callable[[], torch.nn.Module]) -> None:
    models = [make().double() for _ in range(3)]
    parameters, buffers = stack_module_state(models)

    def one(own: dict[str, torch.Tensor], more: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(models[0], (own, more), (WITH_LOOPS, x))

    result = vmap(one, (0, 0, None))(parameters, buffers, X)
    torch.testing.assert_close(result, torch.stack([model(WITH_LOOPS, X) for model in models]))
    gradients = vmap(grad(lambda own, more: one(own, more, X).sin().sum()))(parameters, buffers)
    for i, model in enumerate(models):
        model.zero_grad()
        model(WITH_LOOPS, X).sin().sum().backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[name][i], parameter.grad)


def test_gradients_in_batches_of_a_large_graph() -> None:
    g = dglite.rand_graph(3000, 20000)
    x = torch.randn(3000, 16, requires_grad=True)
    layer = nn.GATConv(16, 8, 2, allow_zero_in_degree=True)
    for result in (ops.copy_u_sum(g, x), layer(g, x), ops.copy_u_max(g, x)):
        outer = torch.randn(3, *result.shape)
        (actual,) = torch.autograd.grad(result, x, outer, is_grads_batched=True, retain_graph=True)
        want = torch.stack([torch.autograd.grad(result, x, one, retain_graph=True)[0] for one in outer])
        torch.testing.assert_close(actual, want, rtol=1e-4, atol=1e-4)


def test_a_batch_of_graphs_edges_is_refused() -> None:
    from dglite.structure.traced import TracedAdjacency

    def of_edges(src: torch.Tensor) -> torch.Tensor:
        return ops.copy_u_sum(TracedAdjacency(src, torch.tensor([0, 1]), 2, 2), torch.ones(2, 1))

    with pytest.raises(dglite.DGLError, match="vmap goes over"):
        vmap(of_edges)(torch.tensor([[0, 1], [1, 0]]))
