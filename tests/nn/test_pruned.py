"""Layers whose parameters are computed by hooks or parametrizations give what they give with those parameters set."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import dglite
from tests.nn import dense
from tests.nn.cases import CASES
from tests.nn.laws import Case, graph_of, run

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

Utility = Callable[[nn.Module, str], Any]


def pruned(module: nn.Module, name: str) -> None:
    """Prune half of a parameter, the same half each time."""
    mask = torch.arange(getattr(module, name).numel()) % 2 == 0
    prune.custom_from_mask(module, name, mask.view(getattr(module, name).shape))


UTILITIES: dict[str, Utility] = {
    "prune": pruned,
    "weight_norm": nn.utils.weight_norm,
    "spectral_norm": nn.utils.spectral_norm,
    "parametrized weight_norm": parametrizations.weight_norm,
    "parametrized spectral_norm": parametrizations.spectral_norm,
}


def tables_of(layer: nn.Module, utility: str) -> list[tuple[nn.Module, str]]:
    """Return (module, parameter) to which a utility applies: all for pruning, else the matrices of modules."""
    everything = [
        (module, name)
        for module in layer.modules()
        if not isinstance(module, nn.RNNBase | nn.ParameterList | nn.ParameterDict | nn.MultiheadAttention)
        for name, parameter in module._parameters.items()
        if parameter is not None
    ]
    if utility == "prune":
        return everything
    return [(module, name) for module, name in everything if isinstance(module, nn.Linear) and name == "weight"]


def set_values(plain: nn.Module, layer: nn.Module) -> None:
    """Give the parameters of ``plain`` the values that a call of each module of ``layer`` would compute."""
    for path, module in plain.named_modules():
        source = layer.get_submodule(path)
        for hook in source._forward_pre_hooks.values():
            hook(source, ())
        for name, parameter in module._parameters.items():
            if parameter is not None:
                with torch.no_grad():
                    parameter.copy_(getattr(source, name))


def tensors_of(output: Any) -> list[torch.Tensor]:
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else [output]
    return [part for part in parts if torch.is_tensor(part) and part.requires_grad]


def sum_of_squares(output: Any) -> torch.Tensor:
    return sum((part.square().sum() for part in tensors_of(output)), torch.zeros(()))


def check(case: Case, utility: str) -> None:
    """Train for three steps, each of which leaves what was computed before stale; compare with a plain layer."""
    g = graph_of(case.graphs[0])
    torch.manual_seed(0)
    inputs = case.inputs(g)
    plain, layer = case.layer(), case.layer()
    tables = tables_of(layer, utility)
    paths = {module: path for path, module in layer.named_modules()}
    for module, name in tables:
        UTILITIES[utility](module, name)
    layer.eval()
    optimizer = torch.optim.SGD(layer.parameters(), 1e-3)
    for _ in range(3 if tables else 0):
        result = run(layer, g, inputs)
        set_values(plain, layer)
        expected = run(plain, g, inputs)
        torch.testing.assert_close(tensors_of(result), tensors_of(expected))
        plain.zero_grad()
        optimizer.zero_grad()
        sum_of_squares(expected).backward()
        sum_of_squares(result).backward()
        for module, name in tables:
            check_gradient(module, name, plain.get_submodule(paths[module]).get_parameter(name).grad)
        optimizer.step()


def check_gradient(module: nn.Module, name: str, of_value: torch.Tensor | None) -> None:
    """Compare the gradients of what a parameter is computed from with the gradient of its value, passed on."""
    if of_value is None:
        return
    for hook in module._forward_pre_hooks.values():
        hook(module, ())
    sources = [
        p
        for key, p in module.named_parameters()
        if p.requires_grad and key.startswith((name, f"parametrizations.{name}"))
    ]
    expected = torch.autograd.grad(getattr(module, name), sources, of_value)
    for source, gradient in zip(sources, expected, strict=True):
        torch.testing.assert_close(source.grad, gradient, equal_nan=True)


@pytest.mark.parametrize("case", [case for case in CASES if any(True for _ in case.make().parameters())], ids=str)
def test_computed_parameters_are_those_of_the_call(case: Case) -> None:
    for utility in UTILITIES:
        check(case, utility)


@pytest.mark.parametrize("utility", UTILITIES)
def test_typed_edges_have_computed_weights(utility: str) -> None:
    torch.manual_seed(0)
    g, layer = dense.graph(), dglite.nn.GatedGraphConv(4, 4, 2, 3).double().eval()
    plain, types = copy.deepcopy(layer), torch.arange(dense.graph().num_edges()) % 3
    x = dense.double(g.num_nodes(), 4)
    for linear in layer.linears:
        UTILITIES[utility](linear, "weight")
    for _ in range(2):
        result = layer(g, x, types)
        set_values(plain, layer)
        torch.testing.assert_close(result, plain(g, x, types))
        with torch.no_grad():
            for parameter in layer.linears.parameters():
                parameter.mul_(1.5)


def test_a_parametrization_is_computed_once_for_a_call() -> None:
    class Counted(nn.Module):
        calls = 0

        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            Counted.calls += 1
            return weight * Counted.calls

    g = dense.graph()
    x, edges = dense.double(g.num_nodes(), 4), dense.double(g.num_edges(), 2)
    for layer, name, inputs in (
        (dglite.nn.EdgeConv(4, 3), "theta", (x,)),
        (dglite.nn.EdgeGATConv(4, 2, 3, 2), "fc_edge", (x, edges)),
    ):
        layer = layer.double()
        nn.utils.parametrize.register_parametrization(layer.get_submodule(name), "weight", Counted())
        Counted.calls = 0
        layer(g, *inputs)
        assert Counted.calls == 1


def test_hooks_get_what_a_call_would_give_them() -> None:
    g, layer = dense.graph(), dglite.nn.EdgeConv(4, 3).double()
    prune.l1_unstructured(layer.theta, "weight", 0.3)
    seen: list[Any] = []
    layer.theta.register_forward_pre_hook(lambda module, args, kwargs: seen.append((args, kwargs)), with_kwargs=True)
    x = dense.double(g.num_nodes(), 4)
    layer(g, x)
    ((args, kwargs),) = seen
    assert args[0] is x and kwargs == {}
