"""Optimizers' update rules as ATen operators: SGD, Adam, AdamW and Adagrad, as `torch.optim` computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from ..errors import DGLError
from .recording import Recorder

__all__ = ["rule_of"]

Tensors = dict[str, torch.Tensor]
Rule = Callable[[Recorder, Tensors, dict[str, Node], Tensors], tuple[dict[str, Node], dict[str, Node], dict[Node, Node]]]


def rule_of(optimizer: torch.optim.Optimizer | None, names: dict[int, str]) -> Rule:
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
        for option in ("amsgrad", "maximize", "differentiable"):
            if group.get(option):
                raise DGLError(f"{type(optimizer).__name__}({option}=True) cannot be planned: leave {option} out")
        for p in group["params"]:
            if id(p) not in names:
                raise DGLError("the optimizer has a parameter that is none of the module's: build it from the module")
            groups[names[id(p)]] = (number, group)

    def rule(recorder: Recorder, tensors: Tensors, nodes: dict[str, Node], grads: Tensors) -> Any:
        inputs = _Inputs(recorder)
        updates: dict[Node, Node] = {}
        for name, grad in grads.items():
            if name not in groups:
                continue
            number, group = groups[name]
            state = inputs.of(name, tensors[name])
            with recorder:
                new, changed = update(tensors[name], grad, inputs.rate(number), group, state)
            updates[nodes[name]] = recorder.node_of(new)
            updates |= {recorder.node_of(old): recorder.node_of(value) for old, value in changed}
        return inputs.state, inputs.hyper, updates

    return rule


class _Inputs:
    """Makes an optimizer's state and learning rates inputs of the graph."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.state: dict[str, Node] = {}
        self.hyper: dict[str, Node] = {}
        self._rates: dict[int, torch.Tensor] = {}

    def rate(self, group: int) -> torch.Tensor:
        if group not in self._rates:
            self._rates[group] = self.recorder.placeholder(f"lr.{group}", torch.empty((), device="meta"))
            self.hyper[f"lr.{group}"] = self.recorder.node_of(self._rates[group])
        return self._rates[group]

    def of(self, name: str, p: torch.Tensor) -> Callable[..., torch.Tensor]:
        def make(kind: str, like: torch.Tensor = p) -> torch.Tensor:
            tensor = self.recorder.placeholder(f"{name}.{kind}", like)
            self.state[f"{name}.{kind}"] = self.recorder.node_of(tensor)
            return tensor

        return make


def _sgd(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor, group: dict[str, Any], state: Any) -> Any:
    if group["weight_decay"]:
        g = g + p * group["weight_decay"]
    if not group["momentum"]:
        return p - g * lr, []
    old = state("momentum_buffer")
    buffer = old * group["momentum"] + g * (1 - group["dampening"]) if group["dampening"] else old * group["momentum"] + g
    step = g + buffer * group["momentum"] if group["nesterov"] else buffer
    return p - step * lr, [(old, buffer)]


def _adam(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor, group: dict[str, Any], state: Any) -> Any:
    if group["weight_decay"] and not group.get("decoupled_weight_decay"):
        g = g + p * group["weight_decay"]
    elif group["weight_decay"]:
        p = p * (1 - lr * group["weight_decay"])
    return _adam_step(p, g, lr, group, state)


def _adamw(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor, group: dict[str, Any], state: Any) -> Any:
    return _adam_step(p * (1 - lr * group["weight_decay"]), g, lr, group, state)


def _adam_step(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor, group: dict[str, Any], state: Any) -> Any:
    beta1, beta2 = group["betas"]
    step, mean, square = state("step", torch.empty((), device="meta")), state("exp_avg"), state("exp_avg_sq")
    count = step + 1
    new_mean = mean * beta1 + g * (1 - beta1)
    new_square = square * beta2 + g * g * (1 - beta2)
    scale = lr / (1 - torch.pow(beta1, count))
    root = torch.sqrt(new_square) / torch.sqrt(1 - torch.pow(beta2, count)) + group["eps"]
    return p - new_mean / root * scale, [(step, count), (mean, new_mean), (square, new_square)]


def _adagrad(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor, group: dict[str, Any], state: Any) -> Any:
    if group["weight_decay"]:
        g = g + p * group["weight_decay"]
    total = state("sum")
    new, changed = total + g * g, []
    if group["lr_decay"]:
        step = state("step", torch.empty((), device="meta"))
        changed, lr = [(step, step + 1)], lr / (1 + step * group["lr_decay"])
    return p - g / (torch.sqrt(new) + group["eps"]) * lr, [(total, new), *changed]


_RULES: dict[type, Any] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: _adam,
    torch.optim.AdamW: _adamw,
    torch.optim.Adagrad: _adagrad,
}
