"""What an optimizer of torch does to a parameter, as formulas that kernels are made of, with torch's own state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from ...errors import DGLError
from ...expr import Expr, Operand, Side

_W, _G = (Operand(Side.E, slot) for slot in (0, 1))
_FIRST, _SECOND = (Operand(Side.E, slot) for slot in (2, 3))


Formulas = Sequence[tuple[int, Expr]]
"""What is written, and its formula, in order."""


class UpdateRule(NamedTuple):
    """How one parameter changes.

    ``formulas`` are (what is written, formula) in their order; operands are numbered: 0 the parameter, 1 its gradient,
    then ``states``, then ``numbers``. With ``local`` nothing happens where the gradient is 0. With ``direct`` there is
    only ``keep * parameter + scale * gradient`` to do, and ``numbers`` are keep and scale of the first part of a
    gradient, then of further ones.
    """

    formulas: Formulas
    states: Sequence[Tensor]
    numbers: Sequence[float]
    local: bool = False
    direct: bool = False


def _numbers(first: int, count: int) -> list[Expr]:
    return [Operand(Side.E, first + i) for i in range(count)]


_KEEP, _SCALE = _numbers(2, 2)
_DESCENT = [(0, _KEEP * _W + _SCALE * _G)]


@cache
def _momentum(decays: bool, nesterov: bool) -> Formulas:
    rate, shrink, decayed, new = _numbers(3, 4)
    gradient = _G + shrink * _W if decays else _G
    step = gradient + decayed * _FIRST if nesterov else _FIRST
    return [(2, decayed * _FIRST + new * gradient), (0, _W - rate * step)]


def _sgd(parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> UpdateRule:
    lr, momentum, decay = float(group["lr"]), group["momentum"], float(group["weight_decay"])
    if not momentum:
        return UpdateRule(_DESCENT, (), (1.0 - lr * decay, -lr, 1.0, -lr), local=not decay, direct=True)
    buffer = state.get("momentum_buffer")
    # Torch starts with the gradient itself, whatever the dampening.
    dampening = group["dampening"] if buffer is not None else 0.0
    if buffer is None:
        buffer = state["momentum_buffer"] = torch.zeros_like(parameter, requires_grad=False)
    formulas = _momentum(decay != 0, bool(group["nesterov"]))
    return UpdateRule(formulas, (buffer,), (lr, decay, momentum, 1.0 - dampening))


@cache
def _adaptive(decays: bool) -> Formulas:
    rate, shrink, epsilon = _numbers(3, 3)
    gradient = _G + shrink * _W if decays else _G
    return [(2, _FIRST + gradient * gradient), (0, _W - rate * gradient / (_FIRST.call("sqrt") + epsilon))]


def _adagrad(parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> UpdateRule:
    state["step"] += 1
    decay = float(group["weight_decay"])
    lr = float(group["lr"]) / (1 + (float(state["step"]) - 1) * group["lr_decay"])
    return UpdateRule(_adaptive(decay != 0), (state["sum"],), (lr, decay, group["eps"]), local=not decay)


@cache
def _moments(decays: bool) -> Formulas:
    keep, shrink, decayed, new, kept_2, new_2, rate, root, epsilon = _numbers(4, 9)
    gradient = _G + shrink * _W if decays else _G
    return [
        (2, decayed * _FIRST + new * gradient),
        (3, kept_2 * _SECOND + new_2 * gradient * gradient),
        (0, keep * _W - rate * _FIRST / (_SECOND.call("sqrt") * root + epsilon)),
    ]


def _adam(parameter: Tensor, state: dict[str, Any], group: dict[str, Any], decoupled: bool = False) -> UpdateRule:
    if not state:
        wide = torch.get_default_dtype() is torch.float64  # as torch has it
        state["step"] = torch.zeros((), dtype=torch.float64 if wide else torch.float32)
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.zeros_like(parameter, requires_grad=False)
    state["step"] += 1
    lr, decay, (first, second) = float(group["lr"]), float(group["weight_decay"]), group["betas"]
    first, second, count = float(first), float(second), float(state["step"])
    decoupled = decoupled or group.get("decoupled_weight_decay", False)
    numbers = [1.0 - lr * decay if decoupled else 1.0, decay, first, 1.0 - first, second, 1.0 - second]
    numbers += [lr / (1 - first**count), (1 - second**count) ** -0.5, float(group["eps"])]
    return UpdateRule(_moments(decay != 0 and not decoupled), (state["exp_avg"], state["exp_avg_sq"]), numbers)


_RULES: dict[type[Optimizer], Callable[..., UpdateRule]] = {
    SGD: _sgd,
    Adagrad: _adagrad,
    Adam: _adam,
    AdamW: partial(_adam, decoupled=True),
}
_PLAIN = ("maximize", "amsgrad", "capturable", "differentiable")


class TrainedParameter:
    """A parameter, the ``rule`` of the last step that was planned, and, where it is needed, memory for its gradient."""

    rule: UpdateRule

    def __init__(self, parameter: Tensor, optimizer: Optimizer, group: dict[str, Any]) -> None:
        """``group`` is that of the optimizer which the parameter is in."""
        self.parameter, self._optimizer, self._group = parameter, optimizer, group
        self._grad: Tensor | None = None

    def count(self) -> None:
        """Take the next step's rule, and count that step in the optimizer's state."""
        state: dict[str, Any] = self._optimizer.state[self.parameter]
        self.rule = _RULES[type(self._optimizer)](self.parameter, state, self._group)

    def take_back(self) -> None:
        """Undo the step count."""
        state = self._optimizer.state[self.parameter]
        if "step" in state:
            state["step"] -= 1

    @property
    def grad(self) -> Tensor:
        """The memory of the gradient; what is there is left from an earlier step."""
        if self._grad is None:
            shape, dtype = self.parameter.shape, self.parameter.dtype
            # One element more, since memory is cleared in words of 8 bytes.
            self._grad = torch.empty(shape.numel() + 1, dtype=dtype, device=self.parameter.device)[:-1].view(shape)
        return self._grad


def check_optimizer(optimizer: Optimizer) -> None:
    """Raise unless there is a rule for the optimizer and its options."""
    if type(optimizer) not in _RULES:
        names = ", ".join(kind.__name__ for kind in _RULES)
        raise DGLError(
            f"persistent processors update by {names}; got {type(optimizer).__name__}: use one of these, or train with "
            "dglite.dynamic.backward(losses) and optimizer.step()"
        )
    for group in optimizer.param_groups:
        used = [name for name in _PLAIN if group.get(name)]
        if used:
            raise DGLError(
                f"persistent processors know no {type(optimizer).__name__} with {used[0]}=True; leave it out, or train "
                "with dglite.dynamic.backward(losses) and optimizer.step()"
            )
