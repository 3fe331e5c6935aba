"""Reversible residual connections by groups of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, final

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ..base import TorchLayer, nn


@final
class GroupRevRes(TorchLayer):
    r"""Grouped reversible residual connection of Li et al., "Training graph neural networks with 1000 layers", 2021.

    .. math:: z_0 = \sum_{i=2}^{C} x_i, \quad z_i = f_i(z_{i-1}) + x_i, \quad y = z_1 \Vert \dots \Vert z_C

    of the groups :math:`x_1, \dots, x_C` of the features. In a chain of such layers only the last one's output is kept:
    going back, each computes its input from its output, and drops what it computed for the gradient before the next.
    So memory does not grow with depth; each module is run three times. Random numbers are drawn as they were, so
    dropout is the same each time.

    Parameters
    ----------
    gnn_module
        The first group's module, of a graph, features (num_nodes, size / groups) and perhaps more, which keeps the
        size. The other groups get copies.
    groups
        :math:`C`.

    Needs torch's autograd: with another backend, constructing it raises ``DGLError``.

    Shapes
    ------
    x (num_nodes, size) -> (num_nodes, size)
    """

    names_its_layers = True

    def __init__(self, gnn_module: nn.Module, groups: int = 2) -> None:
        super().__init__()
        self.gnn_modules = nn.ModuleList([gnn_module, *(deepcopy(gnn_module) for _ in range(groups - 1))])
        self.groups = groups

    def forward(self, g: DGLGraph, x: Tensor, *args: Tensor) -> Tensor:
        """Return the output; tensors in ``args`` are cut by their last axis and go to the groups' modules.

        Raises ``DGLError`` for a last axis that the groups do not divide.
        """
        for tensor in (x, *args):
            if tensor.shape[-1] % self.groups:
                raise DGLError(
                    f"GroupRevRes: {self.groups} groups do not divide features of shape {tuple(tensor.shape)}"
                )
        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        # Compilers choose themselves what is computed again; transforms know no function that does. Of parameters that
        # FSDP shards, the groups' modules gather others when they are called, which would get no gradient.
        if active.compiling() or active.needs_operator((x, *args, *parameters)):
            return _grouped(self.gnn_modules, g, x, args)
        maker = getattr(x.grad_fn, "call", None)
        call = _GroupCall(self.gnn_modules, g, len(args), maker if isinstance(maker, _GroupCall) else None)
        return _function().apply(call, x, *args, *parameters)


class _GroupCall:
    """One call of the layer: what its gradient needs.

    ``before`` is the call that made the input. That does not keep its output then: it is computed here, from this
    call's own, which the call after this may compute in turn.
    """

    def __init__(self, modules: Any, g: DGLGraph, num_args: int, before: _GroupCall | None) -> None:
        self.modules, self.g, self.num_args, self.before = modules, g, num_args, before
        self.after: _GroupCall | None = None
        self.states: list[bytes] = []
        self.output: Tensor | None = None
        self.args: Sequence[Tensor] = ()

    def forward(self, x: Tensor, *args: Tensor) -> Tensor:
        """Compute the output, noting the states of the random numbers' generator."""
        self.states = []
        return _grouped(self.modules, self.g, x, args, self.states)

    def known_output(self) -> Tensor:
        """Return the output; where it was dropped, the call after this one computes it."""
        if self.output is not None:
            return self.output
        assert self.after is not None
        return self.after.inverse()

    def inverse(self) -> Tensor:
        """Compute the input from the output."""
        outputs = self.known_output().chunk(len(self.modules), -1)
        inputs: list[Tensor] = []
        state = active.random_state()
        for i in reversed(range(len(outputs))):
            if i:
                z = outputs[i - 1]
            else:
                z = framework.stack(inputs, 0).sum(0) if inputs else framework.zeros_like(outputs[0])
            active.restore_random_state(self.states[i])
            with framework.no_grad():
                module_args = _by_group(self.modules, self.args)[i]
                inputs.append(outputs[i] - self.modules[i](self.g, z, *module_args))
        active.restore_random_state(state)
        return framework.cat(inputs[::-1], -1)


def _with_values(module: nn.Module) -> Callable[..., Tensor]:
    """Return a module as a function that reads the parameters and buffers of now.

    When the gradient is computed, ``torch.func.functional_call`` has put others back into the module.
    """
    values = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    functional_call = framework.func.functional_call
    return lambda *args: functional_call(module, values, args)  # type: ignore[no-any-return]


def _grouped(modules: Any, g: DGLGraph, x: Tensor, args: Sequence[Tensor], states: list[bytes] | None = None) -> Tensor:
    """Return the layer's output. To ``states`` is added the generator's before each group's module."""
    parts, total, outputs = x.chunk(len(modules), -1), None, []
    for part in parts[1:]:
        total = part if total is None else total + part
    z = total if total is not None else framework.zeros_like(x)
    for module, part, module_args in zip(modules, parts, _by_group(modules, args), strict=True):
        if states is not None:
            states.append(active.random_state())
        z = part + module(g, z, *module_args)
        outputs.append(z)
    return framework.cat(outputs, -1)


def _by_group(modules: Any, args: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Return the parts of ``args`` that each group's module takes."""
    count = len(modules)
    return list(zip(*(arg.chunk(count, -1) for arg in args), strict=True)) if args else [()] * count


def _differentiable_gradients(
    call: _GroupCall, inputs: Sequence[Tensor], grad: Tensor, needs: Sequence[bool]
) -> list[Tensor | None]:
    """Return the gradients of a call's inputs, of which gradients may be computed in turn."""
    if call.before is not None:
        raise DGLError(
            "GroupRevRes: layers in a chain compute their inputs again, so there are no gradients of their gradients "
            "(create_graph=True); take them by torch.func, as in torch.func.hessian"
        )
    state = active.random_state()
    active.restore_random_state(call.states[0])
    output = _grouped(call.modules, call.g, inputs[0], inputs[1 : 1 + call.num_args])
    active.restore_random_state(state)
    sources = [x for x, needed in zip(inputs, needs, strict=True) if needed]
    gradients = iter(framework.autograd.grad(output, sources, grad, create_graph=True, allow_unused=True))
    return [next(gradients) if needed else None for needed in needs]


@cache
def _function() -> Any:
    """Return torch's function; made at the first call, since only torch has such."""

    class Reversible(framework.autograd.Function):
        @staticmethod
        def forward(ctx: Any, call: _GroupCall, x: Tensor, *others: Tensor) -> Tensor:
            ctx.call, ctx.num_others = call, len(others)
            call.args = others[: call.num_args]
            output = call.forward(x, *call.args)
            call.modules = [_with_values(module) for module in call.modules]
            call.output = output.detach()
            if call.before is not None:
                call.before.output, call.before.after = None, call
            ctx.save_for_backward(*others) if call.before is not None else ctx.save_for_backward(x, *others)
            return output

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
            call, saved = ctx.call, ctx.saved_tensors
            others = saved[len(saved) - ctx.num_others :]
            if framework.is_grad_enabled():  # torch's once_differentiable would give zeros for second derivatives
                return (None, *_differentiable_gradients(call, saved, grad, ctx.needs_input_grad[1:]))
            if call.before is None:
                x = saved[0]
            else:
                x = call.before.output = call.inverse()
            state = active.random_state()
            active.restore_random_state(call.states[0])
            with framework.enable_grad():
                inputs = [
                    tensor.detach().requires_grad_(needed)
                    for tensor, needed in zip((x, *others[: call.num_args]), ctx.needs_input_grad[1:], strict=False)
                ]
                output = call.forward(*inputs)
            active.restore_random_state(state)
            sources = [tensor for tensor in (*inputs, *others[call.num_args :]) if tensor.requires_grad]
            gradients = iter(framework.autograd.grad(output, sources, grad, allow_unused=True))
            everything = (*inputs, *others[call.num_args :])
            if call.after is not None:
                call.output = None
            return (None, *(next(gradients) if tensor.requires_grad else None for tensor in everything))

    return Reversible
