"""Optimizers' update rules as ATen operators: SGD, Adam, AdamW and Adagrad, as `torch.optim` computes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from ..errors import DGLError
from .recording import StepRecorder

__all__ = ["record_update"]

NamedTensors = dict[str, torch.Tensor]
Nodes = dict[str, Node]


def record_update(
    recorder: StepRecorder,
    optimizer: torch.optim.Optimizer | None,
    module_parameters: Nodes,
    tensors: NamedTensors,
    gradients: NamedTensors,
    names: dict[int, str],
) -> tuple[Nodes, Nodes, dict[Node, Node]]:
    """Write an optimizer's step into the graph; without an optimizer, gradients are the updates.

    Parameters
    ----------
    module_parameters, tensors, gradients
        By the parameters' names their nodes, what they are in the recorder, and their gradients.
    names
        The parameters' names by id.

    Returns
    -------
    (state, hyper, updates)
        See `Captured`.
    """
    if optimizer is None:
        return {}, {}, {module_parameters[name]: recorder.node_of(g) for name, g in gradients.items()}
    groups = _groups(optimizer, names)
    update = _RULES[type(optimizer)]
    state: Nodes = {}
    hyper: Nodes = {}
    updates: dict[Node, Node] = {}
    shared: dict[int, _ParameterGroup] = {}

    def before(name: str, kind: str) -> torch.Tensor:
        tensor = recorder.placeholder(f"{name}.{kind}", tensors[name])
        state[f"{name}.{kind}"] = recorder.node_of(tensor)
        return tensor

    for name in [name for name in gradients if name in groups]:
        number, options = groups[name]
        if number not in shared:
            shared[number] = _ParameterGroup(recorder, number, options)
            hyper[f"lr.{number}"] = recorder.node_of(shared[number].lr)
        with recorder:
            new, changed = update(tensors[name], gradients[name], shared[number], partial(before, name))
        updates[module_parameters[name]] = recorder.node_of(new)
        updates |= {recorder.node_of(old): recorder.node_of(value) for old, value in changed}
    for number, group in shared.items():
        if group.counts is not None:
            state[f"step.{number}"], after = map(recorder.node_of, group.counts)
            updates[state[f"step.{number}"]] = after
    return state, hyper, updates


def _groups(optimizer: torch.optim.Optimizer, names: dict[int, str]) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the number and the options of each parameter's group, by name."""
    if type(optimizer) not in _RULES:
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
    return groups


class _ParameterGroup:
    """A parameter group: its options, and what its parameters share.

    Attributes
    ----------
    lr : Tensor
        The learning rate, as precise as Python's numbers, in which torch.optim computes; a tensor times it keeps its
        dtype.
    counts : (Tensor, Tensor) or None
        How many steps there have been without this one and with it, once asked for.
    """

    def __init__(self, recorder: StepRecorder, number: int, options: dict[str, Any]) -> None:
        self.recorder, self.number, self.options = recorder, number, options
        self.lr = self._number("lr")
        self.counts: tuple[torch.Tensor, torch.Tensor] | None = None
        self._computed: dict[str, torch.Tensor] = {}

    def _number(self, name: str) -> torch.Tensor:
        return self.recorder.placeholder(f"{name}.{self.number}", torch.empty((), dtype=torch.float64, device="meta"))

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    def get(self, name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return ``make(count)``, computed once; ``count`` includes this step."""
        if self.counts is None:
            count = self._number("step")
            self.counts = count, count + 1
        if name not in self._computed:
            self._computed[name] = make(self.counts[1])
        return self._computed[name]


def _sgd(p: torch.Tensor, g: torch.Tensor, group: _ParameterGroup, state: Any) -> Any:
    if group["weight_decay"]:
        g = g + p * group["weight_decay"]
    if not group["momentum"]:
        return p - g * group.lr, []
    old = state("momentum_buffer")
    buffer = old * group["momentum"] + g
    step = g + buffer * group["momentum"] if group["nesterov"] else buffer
    return p - step * group.lr, [(old, buffer)]


def _adam(p: torch.Tensor, g: torch.Tensor, group: _ParameterGroup, state: Any) -> Any:
    decay = group["weight_decay"]
    if decay and group["decoupled_weight_decay"]:
        p = p * group.get("kept", lambda _: 1 - group.lr * decay)
    elif decay:
        g = g + p * decay
    beta1, beta2 = group["betas"]
    mean, square = state("exp_avg"), state("exp_avg_sq")
    new_mean = mean * beta1 + g * (1 - beta1)
    new_square = square * beta2 + g * g * (1 - beta2)
    scale = group.get("scale", lambda count: group.lr / (1 - torch.pow(beta1, count)))
    root = group.get("root", lambda count: torch.sqrt(1 - torch.pow(beta2, count)))
    denominator = torch.sqrt(new_square) / root + group["eps"]
    return p - new_mean / denominator * scale, [(mean, new_mean), (square, new_square)]


def _adagrad(p: torch.Tensor, g: torch.Tensor, group: _ParameterGroup, state: Any) -> Any:
    if group["weight_decay"]:
        g = g + p * group["weight_decay"]
    total = state("sum")
    new, lr, decay = total + g * g, group.lr, group["lr_decay"]
    if decay:
        lr = group.get("lr", lambda count: group.lr / (1 + (count - 1) * decay))
    return p - g / (torch.sqrt(new) + group["eps"]) * lr, [(total, new)]


_RULES: dict[type, Any] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adam,
    torch.optim.Adagrad: _adagrad,
}
