"""What torch does to modules, of every layer: parametrisations, pruning, hooks, FSDP, DDP, swapped parameters.

Each treatment has a process of its own: it changes layers, and some of them torch's state.
"""

from __future__ import annotations

import copy
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import dglite.nn
from dglite import DGLError
from tests import forked
from tests.nn.cases import CASES
from tests.nn.laws import graph_of
from tests.situations.operations import OTHER_LAYERS, Operation, _layer
from tests.situations.situations import function_of
from tests.versions import has_torch

FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
STEP = 1 if FULL else 6
Outcome = tuple[list[torch.Tensor], list[torch.Tensor]]


def layers(first: int, step: int) -> Iterator[Operation]:
    """Return every layer as it is new, in float64; ``step`` and ``first`` choose some."""
    for case in CASES[first::step]:
        graph = graph_of(case.graphs[0])
        yield _layer(case.name, case.layer(), graph, case.inputs(graph))
    for name, (make, graph, inputs) in list(OTHER_LAYERS.items())[first::step]:
        torch.manual_seed(0)
        layer = make()
        if isinstance(layer, nn.Module):
            yield _layer(name, layer.double().eval(), graph, inputs)


def result(operation: Operation) -> list[torch.Tensor]:
    torch.manual_seed(0)
    with torch.no_grad():
        return function_of(operation)(*operation.inputs)


def with_gradients(operation: Operation) -> list[torch.Tensor]:
    """Return results and the gradients of inputs and parameters."""
    torch.manual_seed(0)
    assert operation.layer is not None
    inputs = [x.clone().requires_grad_() for x in operation.inputs]
    results = function_of(operation)(*inputs)
    total = sum((x.sin().sum() for x in results if x.requires_grad), torch.zeros((), dtype=torch.float64))
    if total.requires_grad:
        total.backward()
    leaves = [*inputs, *operation.layer.parameters()]
    gradients = [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]
    gradients = [x.full_tensor() if hasattr(x, "full_tensor") else x for x in gradients]
    for x in leaves:
        x.grad = None
    return [x.detach() for x in results] + gradients


def _weights(layer: nn.Module, least: int = 0) -> list[tuple[nn.Module, str, nn.Parameter]]:
    return [
        (module, name, weight)
        for module in layer.modules()
        for name, weight in module.named_parameters(recurse=False)
        if weight.dim() >= least and not isinstance(module, nn.RNNBase)
    ]


class _Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def parametrized(operation: Operation) -> Outcome:
    """Each parameter is twice a tensor that is half of it."""
    want = with_gradients(operation)[: len(result(operation))]
    for module, name, weight in _weights(operation.layer):
        with torch.no_grad():
            weight.mul_(0.5)
        parametrize.register_parametrization(module, name, _Doubled())
    return with_gradients(operation)[: len(want)], want


def normed(operation: Operation) -> Outcome:
    """``weight_norm`` of matrices, then another norm."""
    for module, name, _ in _weights(operation.layer, 2):
        if not isinstance(module, nn.Embedding):
            parametrizations.weight_norm(module, name)
    result(operation)
    with torch.no_grad():
        for name, weight in operation.layer.named_parameters():
            if name.endswith("original0"):
                weight.mul_(2)
    twice = result(operation)
    for module in list(operation.layer.modules()):
        for name in list(getattr(module, "parametrizations", ())):
            parametrize.remove_parametrizations(module, name)
    return twice, result(operation)


def spectral(operation: Operation) -> Outcome:
    """``spectral_norm`` by hooks."""
    for module, name, weight in _weights(operation.layer, 2):
        if weight.dim() == 2:
            torch.nn.utils.spectral_norm(module, name)
    operation.layer.eval()
    normed = result(operation)
    for module in list(operation.layer.modules()):
        for hook in list(module._forward_pre_hooks.values()):
            if type(hook).__name__ == "SpectralNorm":
                torch.nn.utils.remove_spectral_norm(module, hook.name)
    return normed, result(operation)


def pruned(operation: Operation) -> Outcome:
    """Parameters that are pruned, with a gradient, and those made so for good."""
    for module, name, weight in _weights(operation.layer):
        if weight.numel() > 1:
            prune.l1_unstructured(module, name, amount=0.4)
    masked = with_gradients(operation)[: len(result(operation))]
    for module in list(operation.layer.modules()):
        for hook in list(module._forward_pre_hooks.values()):
            if isinstance(hook, prune.BasePruningMethod):
                prune.remove(module, hook._tensor_name)
    return masked, result(operation)


def hooked(operation: Operation) -> Outcome:
    """Backward hooks of every module inside."""
    want = with_gradients(operation)
    for module in operation.layer.modules():
        module.register_full_backward_hook(lambda module, inputs, outputs: None)
    return with_gradients(operation), want


def replaced(operation: Operation) -> Outcome:
    """Parameters that are swapped, assigned and loaded in place of others."""
    result(operation)
    for _, _, weight in _weights(operation.layer):  # torch's own recurrent modules refer to theirs
        torch.utils.swap_tensors(weight, nn.Parameter(1.5 * weight.detach()))
    swapped = result(operation)
    other = _copied(operation)
    for weight in operation.layer.parameters():
        weight.data = 1.5 * weight.data
    state = {name: 1.5 * x if x.is_floating_point() else x for name, x in operation.layer.state_dict().items()}
    operation.layer.load_state_dict(state, assign=True)
    return swapped + result(operation), other + _copied(operation)


def _copied(operation: Operation) -> list[torch.Tensor]:
    """Return the result with copies of all parameters, which nothing was made of before."""
    file = io.BytesIO()
    torch.save(operation.layer.state_dict(), file)
    file.seek(0)
    operation.layer.load_state_dict(copy.deepcopy(torch.load(file)), assign=True)
    return result(operation)


def _process_group() -> None:
    from torch.distributed import HashStore, init_process_group, is_initialized

    if not is_initialized():
        init_process_group("gloo", store=HashStore(), rank=0, world_size=1)


class _Model(nn.Module):
    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self.layer, self.operation = operation.layer, operation

    def forward(self, *xs: torch.Tensor) -> Any:
        return function_of(self.operation)(*xs)


def in_ddp(operation: Operation) -> Outcome:
    """``DistributedDataParallel``, forward and backward."""
    _process_group()
    if not list(operation.layer.parameters()):
        return [], []
    want, model = with_gradients(operation), _Model(operation)
    wrapped = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    return with_gradients(Operation("", wrapped, operation.inputs, operation.layer)), want


def sharded(operation: Operation) -> Outcome:
    """``fully_shard`` of the layer."""
    return _sharded(operation, lambda layer: [layer])


def sharded_inside(operation: Operation) -> Outcome:
    """``fully_shard`` of every module inside."""
    inner = lambda layer: [x for x in layer.modules() if list(x.parameters(recurse=False)) and x is not layer]  # noqa: E731
    return _sharded(operation, lambda layer: [*inner(layer), layer])


def _sharded(operation: Operation, modules: Callable[[nn.Module], list[nn.Module]]) -> Outcome:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    _process_group()
    if not list(operation.layer.parameters()):
        return [], []
    want, mesh = with_gradients(operation), init_device_mesh("cpu", (1,))
    for module in modules(operation.layer):
        fully_shard(module, mesh=mesh)
    return with_gradients(operation), want


def scripted(operation: Operation) -> Outcome:
    """``torch.jit.script``."""
    torch.jit.script(operation.layer)
    return [], []


class _OfGraph(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, g: Any, x: Any) -> Any:
        return self.layer(g, x)


def symbolically_traced(operation: Operation) -> Outcome:
    """``torch.fx.symbolic_trace``, which passes stand-ins for the graph, too."""
    torch.fx.symbolic_trace(_OfGraph(operation.layer))
    raise AssertionError("traced")


TREATMENTS = {
    treatment.__name__: treatment
    for treatment in (
        *(parametrized, normed, spectral, pruned, hooked, replaced, in_ddp, scripted, symbolically_traced),
        *((sharded, sharded_inside) if has_torch("2.7") else ()),
    )
}
ADMITTED = {
    "sharded_inside": "DGLError: FSDP gathers .* shard the layer as a whole",
    "symbolically_traced": "DGLError: torch.fx.symbolic_trace passes stand-ins|DGLError: .* must be a tensor|"
    "TypeError: FeatureDropout",
    "scripted": "DGLError: torch.jit.script compiles no layer .* dglite.export",
}


def _judge_all(treatment: str, first: int) -> None:
    torch.set_num_threads(1)
    for operation in layers(first, STEP):
        print(json.dumps([operation.name, "ended the process"]), flush=True)
        print(json.dumps([operation.name, _judge(treatment, operation)]), flush=True)


def _judge(treatment: str, operation: Operation) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.testing.assert_close(*TREATMENTS[treatment](operation), rtol=1e-6, atol=1e-8)
        except AssertionError as error:
            return f"wrong: {' '.join(str(error).split())}"
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "right"


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_treated_layers_are_right_or_refused(treatment: str) -> None:
    done = forked.run(_judge_all, treatment, list(TREATMENTS).index(treatment) % STEP)
    verdicts = dict(map(json.loads, done.stdout.splitlines()))
    admitted = re.compile(f"right$|{ADMITTED.get(treatment, 'right$')}")
    strange = {name: verdict for name, verdict in verdicts.items() if not admitted.match(verdict)}
    assert verdicts
    assert not strange, f"{json.dumps(strange, indent=2)}\n{done.stderr}"
    assert done.returncode == 0, done.stderr


def test_layers_are_leaves_of_a_tracer_that_says_so() -> None:
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module: nn.Module, name: str) -> bool:
            return type(module).__module__.startswith("dglite.") or super().is_leaf_module(module, name)

    model = _OfGraph(dglite.nn.GraphConv(3, 2))
    g, x = dglite.graph(([0, 1], [1, 0])), torch.rand(2, 3)
    torch.testing.assert_close(torch.fx.GraphModule(model, Tracer().trace(model))(g, x), model(g, x))


def _reversible() -> tuple[nn.Module, Any, torch.Tensor]:
    torch.manual_seed(0)
    g = dglite.graph(([0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 0, 2]))
    layer = dglite.nn.GroupRevRes(dglite.nn.GraphConv(2, 2, activation=torch.tanh), 2).double()
    return layer, g, torch.randn(4, 4, dtype=torch.float64)


def test_a_reversible_layer_has_second_derivatives() -> None:
    """They were zeros: torch's ``once_differentiable`` raises an error only where a path leads through it."""
    layer, g, x = _reversible()

    def total(x: torch.Tensor) -> torch.Tensor:
        return layer(g, x).sin().sum()

    torch.testing.assert_close(torch.autograd.functional.hessian(total, x), torch.func.hessian(total)(x))


def test_second_derivatives_of_a_chain_of_reversible_layers_are_refused() -> None:
    layer, g, x = _reversible()
    x.requires_grad_()
    with pytest.raises(DGLError, match=r"create_graph=True.*torch.func"):
        torch.autograd.grad(layer(g, layer(g, x)).sin().sum(), x, create_graph=True)
