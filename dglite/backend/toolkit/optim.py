"""Optimizers, with torch's defaults and update rules. Parameters are written in place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, final

import numpy as np

from ...errors import DGLError
from ..autograd import Tensor


class Optimizer(ABC):
    """Holds parameters in groups, each with its settings: ``param_groups``, as in torch."""

    def __init__(self, params: Iterable[Any], **settings: Any) -> None:
        listed = list(params)
        if not listed:
            raise DGLError("an optimizer was given no parameters")
        groups = listed if isinstance(listed[0], dict) else [{"params": listed}]
        self.param_groups: list[dict[str, Any]] = [
            {**settings, **group, "params": list(group["params"])} for group in groups
        ]
        self._memory: dict[int, list[Any]] = {}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter._writes[0] += 1
                    self._update(parameter, parameter.grad.data, group, self._memory.setdefault(id(parameter), []))

    @abstractmethod
    def _update(self, parameter: Tensor, gradient: Any, settings: dict[str, Any], memory: list[Any]) -> None:
        """Write the parameter's new values. ``memory`` is what this has kept for it, empty at first."""


@final
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if wanted."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)

    def _update(self, parameter: Tensor, gradient: Any, settings: dict[str, Any], memory: list[Any]) -> None:
        if settings["weight_decay"]:
            gradient = gradient + settings["weight_decay"] * parameter.data
        if settings["momentum"]:
            if not memory:
                memory.append(gradient.copy())
            else:
                memory[0] *= settings["momentum"]
                memory[0] += gradient
            gradient = gradient + settings["momentum"] * memory[0] if settings["nesterov"] else memory[0]
        parameter.data -= settings["lr"] * gradient


class _Adam(Optimizer):
    """Kingma and Ba, "Adam: a method for stochastic optimization", 2015."""

    decoupled: bool

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def _update(self, parameter: Tensor, gradient: Any, settings: dict[str, Any], memory: list[Any]) -> None:
        if not memory:
            memory += [0, *(np.zeros_like(parameter.data) for _ in range(4))]
        memory[0] += 1
        steps, mean, square, work, decayed = memory
        values, (first, second), lr = parameter.data, settings["betas"], settings["lr"]
        if settings["weight_decay"] and self.decoupled:
            values *= 1 - lr * settings["weight_decay"]
        elif settings["weight_decay"]:
            np.multiply(values, settings["weight_decay"], out=decayed)
            gradient = np.add(decayed, gradient, out=decayed)
        mean *= first
        mean += np.multiply(gradient, 1 - first, out=work)
        square *= second
        np.multiply(gradient, gradient, out=work)
        square += np.multiply(work, 1 - second, out=work)
        np.sqrt(square, out=work)
        work /= (1 - second**steps) ** 0.5
        work += settings["eps"]
        np.divide(mean, work, out=work)
        values -= np.multiply(work, lr / (1 - first**steps), out=work)


@final
class Adam(_Adam):
    """Adam; weight decay is added to the gradient."""

    decoupled = False


@final
class AdamW(_Adam):
    """Adam with weight decay apart from the gradient: Loshchilov and Hutter, 2019."""

    decoupled = True
