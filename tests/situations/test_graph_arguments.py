"""Graphs as arguments of torch's transforms and programs, which take them apart: values, and the graph unharmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import dglite
import dglite.function as fn
from dglite import DGLGraph, nn, ops
from tests.versions import exports

X = torch.randn(10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Call = Callable[[DGLGraph, torch.Tensor], torch.Tensor]


def batch(*sizes: int) -> DGLGraph:
    return dglite.batch([dglite.add_self_loop(dglite.rand_graph(size, 2 * size)) for size in sizes])


def layer(make: Callable[[], torch.nn.Module]) -> Any:
    torch.manual_seed(0)
    return make().double().eval()


def _verb(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["x"] = x
        g.update_all(fn.copy_u("x", "m"), fn.max("m", "h"))
        return g.ndata["h"]


def _centred(g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    with g.local_scope():
        g.ndata["x"] = x
        return x - dglite.broadcast_nodes(g, dglite.max_nodes(g, "x"))


CONV, TYPED = layer(lambda: nn.GraphConv(4, 3)), layer(lambda: nn.RelGraphConv(4, 3, 3))
FUNCTIONS: dict[str, Call] = {
    "layer": CONV,
    "attention": layer(lambda: nn.GATConv(4, 2, 2)),
    "pooling": nn.SumPooling(),
    "update_all": _verb,
    "readout": _centred,
    "self-loops": lambda g, x: CONV(dglite.add_self_loop(g), x),
    "subgraph": lambda g, x: CONV(dglite.add_self_loop(dglite.node_subgraph(g, [0, 1, 2])), x[:3]),
    "edge types": lambda g, x: TYPED(g, x, torch.arange(g.num_edges()) % 3),
}
PAIR = torch.stack([X, 2 * X])


def _total(function: Call) -> Call:
    return lambda g, x: function(g, x).sin().sum()


TRANSFORMS: dict[str, Callable[[Call], tuple[Callable[[DGLGraph], Any], Callable[[DGLGraph], Any]]]] = {
    "grad": lambda f: (
        lambda g: torch.func.grad(_total(f), 1)(g, X),
        lambda g: torch.func.grad(lambda x: _total(f)(g, x))(X),
    ),
    "jacrev": lambda f: (
        lambda g: torch.func.jacrev(f, 1)(g, X),
        lambda g: torch.func.jacrev(lambda x: f(g, x))(X),
    ),
    "jacfwd": lambda f: (
        lambda g: torch.func.jacfwd(f, 1)(g, X),
        lambda g: torch.func.jacfwd(lambda x: f(g, x))(X),
    ),
    "vmap": lambda f: (
        lambda g: torch.vmap(f, in_dims=(None, 0))(g, PAIR),
        lambda g: torch.stack([f(g, x) for x in PAIR]),
    ),
    "grad in vmap": lambda f: (
        lambda g: torch.vmap(torch.func.grad(_total(f), 1), in_dims=(None, 0))(g, PAIR),
        lambda g: torch.stack([torch.func.grad(lambda x: _total(f)(g, x))(x) for x in PAIR]),
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_transform_takes_a_graph_as_an_argument(name: str, transform: str) -> None:
    """The tensors that a graph is taken apart into were made inside of the transform: torch's assertion failed."""
    g = batch(3, 5, 2)
    call, reference = TRANSFORMS[transform](FUNCTIONS[name])
    torch.testing.assert_close(call(g), reference(g.clone()))
    assert not any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in pytree.tree_leaves(g))
    torch.testing.assert_close(FUNCTIONS[name](g, X), FUNCTIONS[name](g.clone(), X))


def test_a_function_of_a_graph_is_made_functional() -> None:
    g = batch(3, 5, 2)
    torch.testing.assert_close(torch.func.functionalize(CONV)(g, X), CONV(g, X))


def test_features_gathered_inside_of_a_transform_are_no_wrappers_later() -> None:
    g = batch(3, 5, 2)
    g.ndata["x"] = X
    part = dglite.node_subgraph(g, [1, 3])
    torch.func.grad(lambda y: (part.ndata["x"] * y).sum())(torch.ones(4, dtype=torch.float64))
    assert not torch._C._functorch.is_functorch_wrapped_tensor(part.ndata["x"])
    torch.testing.assert_close(part.ndata["x"], X[[1, 3]])


FAKES: dict[str, Call] = {
    "sizes": lambda g, x: x[:3] * g.batch_num_nodes()[:, None],
    "encoder": layer(lambda: nn.SetTransformerEncoder(4, 2, 2, 4)),
    "decoder": layer(lambda: nn.SetTransformerDecoder(4, 2, 2, 4, 1, 2)),
}


@pytest.mark.parametrize("name", FAKES)
def test_batches_without_values_are_described(name: str) -> None:
    """Their sizes were read by NumPy, as classic code's lists and to pair rows of sets."""
    arguments = batch(3, 5, 2), X
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = pytree.tree_map_only(torch.Tensor, mode.from_tensor, arguments)
        assert FAKES[name](*fakes).shape == FAKES[name](*arguments).shape


def test_self_loops_are_added_to_a_graph_of_symbols() -> None:
    leaves, spec = pytree.tree_flatten((batch(3, 5, 2), X))

    def function(*leaves: torch.Tensor) -> torch.Tensor:
        return FUNCTIONS["self-loops"](*pytree.tree_unflatten(leaves, spec))

    program = make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*leaves)
    torch.testing.assert_close(program(*leaves), function(*leaves))


def test_jacobians_of_no_nodes() -> None:
    g, decoder = dglite.batch([dglite.graph(([], []), num_nodes=0)]), FAKES["decoder"]
    assert torch.func.jacrev(lambda x: decoder(g, x))(X[:0]).shape == (1, 8, 0, 4)


class _Two(torch.nn.Module):
    def forward(self, graphs: list[DGLGraph], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first, second = graphs
        return ops.copy_u_sum(first, x).sum(0) + ops.copy_u_mean(second, y).sum(0)


class _Held(torch.nn.Module):
    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return 2 * g.ndata["x"] + x


@exports
def test_a_tensor_that_is_two_inputs_of_the_example_is_two_inputs_of_the_program() -> None:
    """The program read the first for both: another value without torch's check of inputs."""
    g, other = dglite.rand_graph(5, 9), dglite.rand_graph(7, 12)
    program = dglite.export(_Two(), [g, g], X[:5], X[:5]).module()
    program.validate_inputs = False
    torch.testing.assert_close(program([g, other], X[:5], X[:7]), _Two()([g, other], X[:5], X[:7]))
    g.ndata["x"] = X[:5]
    program = dglite.export(_Held(), g, X[:5]).module()
    program.validate_inputs = False
    torch.testing.assert_close(program(g, 3 * X[:5]), _Held()(g, 3 * X[:5]))


class _Called(torch.nn.Module):
    def __init__(self, function: Call) -> None:
        super().__init__()
        self.function = function

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return self.function(g, x)


PNA = layer(lambda: nn.PNAConv(4, 3, ["mean"], ["identity"], 2.0))


@exports
@pytest.mark.parametrize("function", [_centred, PNA, CONV])
def test_an_example_of_one_graph_is_for_any_number(function: Call) -> None:
    model = _Called(function)
    program, g = dglite.export(model, batch(4), X[:4]).module(), batch(3, 5, 2)
    torch.testing.assert_close(program(g, X), model(g, X))
