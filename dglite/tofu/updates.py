"""Optimizers' update rules as ATen operators: SGD, Adam, AdamW and Adagrad, as `torch.optim` computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from ..errors import DGLError
from .recording import StepRecorder

__all__ = ["rule_of"]

NamedTensors = dict[str, torch.Tensor]
Nodes = dict[str, Node]
OptimizerRule = Callable[[StepRecorder, NamedTensors, Nodes, NamedTensors], tuple[Nodes, Nodes, dict[Node, Node]]]


def rule_of(optimizer: torch.optim.Optimizer | None, names: dict[int, str]) -> OptimizerRule:
    """Return ``rule(recorder, parameters, nodes, gradients) -> (state, hyper, updates)``, which writes the update.

    ``names`` has the parameters' names by id.
    """
    if optimizer is None:
        return lambda recorder, tensors, nodes, grads: (
            {},
            {},
            {nodes[name]: recorder.node_of(g) for name, g in grads.items()},
        )
    update = _RULES.get(type(optimizer))
    if update is None:
        known = ", ".join(kind.__name__ for kind in _RULES)
        raise DGLError(f"{type(optimizer).__name__} has no update rule for a plan: use one of torch.optim's {known}")
    groups = {}
    for number, group in enumerate(optimizer.param_groups):
        # torch dampens from the second step on, which a graph that is the same in each step cannot.
        for option in ("amsgrad", "maximize", "differentiable", "dampening"):
            if group.get(option):
                given = f"{type(optimizer).__name__}({option}={group[option]})"
                raise DGLError(f"{given} cannot be planned: leave {option} out")
        for p in group["params"]:
            if id(p) not in names:
                raise DGLError("the optimizer has a parameter that is none of the module's: build it from the module")
            groups[names[id(p)]] = (number, group)

    def rule(recorder: StepRecorder, tensors: NamedTensors, nodes: dict[str, Node], grads: NamedTensors) -> Any:
        inputs = _Inputs(recorder)
        updates: dict[Node, Node] = {}
        for name, grad in grads.items():
            if name in groups:
                number, group = groups[name]
                state = inputs.of(name, tensors[name])
                shared = inputs.shared(number)
                with recorder:
                    new, changed = update(tensors[name], grad, group, state, shared)
                updates[nodes[name]] = recorder.node_of(new)
                updates |= {recorder.node_of(old): recorder.node_of(value) for old, value in changed}
        return inputs.state, inputs.hyper, updates | inputs.counted()

    return rule


class _Shared:
    """What the parameters of a group share: the learning rate, and how many steps there have been with this one."""

    def __init__(self, recorder: StepRecorder, number: int) -> None:
        self.recorder, self.number = recorder, number
        self.lr = recorder.placeholder(f"lr.{number}", _number())
        self.counts: tuple[torch.Tensor, torch.Tensor] | None = None
        self._computed: dict[str, torch.Tensor] = {}

    def get(self, name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return ``make(count)``, computed once; ``count`` includes this step."""
        if self.counts is None:
            before = self.recorder.placeholder(
                f"step.{self.number}", torch.empty((), dtype=torch.float64, device="meta")
            )
            self.counts = before, before + 1
        if name not in self._computed:
            self._computed[name] = make(self.counts[1])
        return self._computed[name]


def _number() -> torch.Tensor:
    """Return a number as precise as Python's, in which torch.optim computes; a tensor times it keeps its dtype."""
    return torch.empty((), dtype=torch.float64, device="meta")


class _Inputs:
    """Makes an optimizer's state, learning rates and step counts inputs of the graph."""

    def __init__(self, recorder: StepRecorder) -> None:
        self.recorder = recorder
        self.state: Nodes = {}
        self.hyper: Nodes = {}
        self._shared: dict[int, _Shared] = {}

    def shared(self, group: int) -> _Shared:
        """Return what is shared in a parameter group."""
        if group not in self._shared:
            self._shared[group] = _Shared(self.recorder, group)
            self.hyper[f"lr.{group}"] = self.recorder.node_of(self._shared[group].lr)
        return self._shared[group]

    def of(self, name: str, p: torch.Tensor) -> Callable[[str], torch.Tensor]:
        """Return what makes state of a parameter, by the name that torch.optim has for it."""

        def make(kind: str) -> torch.Tensor:
            tensor = self.recorder.placeholder(f"{name}.{kind}", p)
            self.state[f"{name}.{kind}"] = self.recorder.node_of(tensor)
            return tensor

        return make

    def counted(self) -> dict[Node, Node]:
        """Return the step counts' updates, and make them state."""
        found = {}
        for number, shared in self._shared.items():
            if shared.counts is not None:
                node, after = map(self.recorder.node_of, shared.counts)
                self.state[f"step.{number}"] = node
                found[node] = after
        return found


def _sgd(p: torch.Tensor, g: torch.Tensor, group: dict[str, Any], state: Any, shared: _Shared) -> Any:
    if group["weight_decay"]:
        g = g + p * group["weight_decay"]
    if not group["momentum"]:
        return p - g * shared.lr, []
    old = state("momentum_buffer")
    buffer = old * group["momentum"] + g
    step = g + buffer * group["momentum"] if group["nesterov"] else buffer
    return p - step * shared.lr, [(old, buffer)]


def _adam(p: torch.Tensor, g: torch.Tensor, group: dict[str, Any], state: Any, shared: _Shared) -> Any:
    decay = group["weight_decay"]
    if decay and group["decoupled_weight_decay"]:
        p = p * shared.get("kept", lambda _: 1 - shared.lr * decay)
    elif decay:
        g = g + p * decay
    beta1, beta2 = group["betas"]
    mean, square = state("exp_avg"), state("exp_avg_sq")
    new_mean = mean * beta1 + g * (1 - beta1)
    new_square = square * beta2 + g * g * (1 - beta2)
    scale = shared.get("scale", lambda count: shared.lr / (1 - torch.pow(beta1, count)))
    root = shared.get("root", lambda count: torch.sqrt(1 - torch.pow(beta2, count)))
    denominator = torch.sqrt(new_square) / root + group["eps"]
    return p - new_mean / denominator * scale, [(mean, new_mean), (square, new_square)]


def _adagrad(p: torch.Tensor, g: torch.Tensor, group: dict[str, Any], state: Any, shared: _Shared) -> Any:
    if group["weight_decay"]:
        g = g + p * group["weight_decay"]
    total = state("sum")
    new, lr, decay = total + g * g, shared.lr, group["lr_decay"]
    if decay:
        lr = shared.get("lr", lambda count: shared.lr / (1 + (count - 1) * decay))
    return p - g / (torch.sqrt(new) + group["eps"]) * lr, [(total, new)]


_RULES: dict[type, Any] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
    torch.optim.Adagrad: _adagrad,
}
