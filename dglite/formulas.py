"""torch's element-wise functions, each written once, as an expression over its arguments.

The recorder, vertex programs, lazy tensors and the tape of arrays take their operation of that name from here. A
parameter without a default, or with None, is an operand: a tensor or a number. One with another default is an option,
which becomes part of the expression; a formula returns None for options that it has no expression for. Parameters have
the names and the order that torch gives them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from .expr import Call, Expr, Operand, Side
from .opspec import COMPARISONS, OPERATORS

ALIASES = {
    "absolute": "abs",
    "clip": "clamp",
    "divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "log_sigmoid": "logsigmoid",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "swish": "silu",
    "true_divide": "div",
    "truediv": "div",
}
"""Other spellings."""


@dataclass(frozen=True)
class Formula:
    """A function of torch's.

    ``operands`` and ``options`` are names of parameters, options with their defaults; the first ``required`` operands
    must be given. ``expression(*operands, **options)`` makes the expression.
    """

    name: str
    expression: Callable[..., Any]
    operands: tuple[str, ...]
    required: int
    options: Mapping[str, Any]

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters."""
        return inspect.signature(self.expression)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.signature.parameters)

    def arguments(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a call's (operands, options) by name; ``TypeError`` where it does not fit the parameters."""
        names = self._names
        bound = dict(zip(names, args, strict=False)) | kwargs
        if len(bound) != len(args) + len(kwargs) or not bound.keys() <= set(names):
            raise TypeError(f"{self.name} takes {', '.join(names)}")
        if any(name not in bound for name in self.operands[: self.required]):
            raise TypeError(f"{self.name} needs {', '.join(self.operands[: self.required])}")
        operands = {name: bound[name] for name in self.operands if bound.get(name) is not None}
        return operands, {name: bound[name] for name in self.options if name in bound}

    def bind(self, operands: tuple[str, ...], options: tuple[tuple[str, Any], ...] = ()) -> Expr | None:
        """Return the expression with the named operands as edge operands, in their order; None without a formula."""
        return _written(self.expression, operands, options)


@lru_cache(maxsize=1024)
def _written(
    expression: Callable[..., Any], operands: tuple[str, ...], options: tuple[tuple[str, Any], ...]
) -> Expr | None:
    edges = {name: Operand(Side.E, slot) for slot, name in enumerate(operands)}
    formula: Expr | None = expression(**edges, **dict(options))
    return formula


FORMULAS: dict[str, Formula] = {}
"""By torch's name."""


def _formula(name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated expression under ``name``, its own by default."""

    def register(expression: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(expression).parameters.values()
        operands = [p for p in parameters if p.default in (p.empty, None)]
        required = sum(p.default is p.empty for p in operands)
        options = {p.name: p.default for p in parameters if p not in operands}
        called = name or expression.__name__
        FORMULAS[called] = Formula(called, expression, tuple(p.name for p in operands), required, options)
        return expression

    return register


# -- operators ---------------------------------------------------------------------------------------------------------
def _unary(name: str) -> None:
    @_formula(name)
    def apply(input: Any) -> Any:
        return input.call(name)


def _binary(name: str) -> None:
    @_formula(name)
    def apply(input: Any, other: Any) -> Any:
        return Call(OPERATORS[name], (input, other))  # x * 0 is kept: it is NaN where x is


for _name in ("neg", "exp", "expm1", "log", "sqrt", "abs", "sign", "tanh", "sigmoid", "erf"):
    _unary(_name)
for _name in ("mul", "maximum", "minimum", *COMPARISONS):
    _binary(_name)


@_formula()
def add(input: Any, other: Any, alpha: float = 1) -> Any:
    """``input + alpha * other``."""
    return input + other * alpha


@_formula()
def sub(input: Any, other: Any, alpha: float = 1) -> Any:
    """``input - alpha * other``."""
    return input - other * alpha


@_formula()
def rsub(input: Any, other: Any, alpha: float = 1) -> Any:
    """``other - alpha * input``."""
    return other - input * alpha


@_formula()
def div(input: Any, other: Any, rounding_mode: str = "") -> Any:
    """``input / other``."""
    return None if rounding_mode else input / other


@_formula()
def addcmul(input: Any, tensor1: Any, tensor2: Any, value: float = 1) -> Any:
    """``input + value * tensor1 * tensor2``."""
    return input + tensor1 * tensor2 * value


@_formula()
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """``input + weight * (end - input)``."""
    return input + weight * (end - input)


# -- powers and logarithms ---------------------------------------------------------------------------------------------
@_formula()
def reciprocal(input: Any) -> Any:
    """``1 / input``."""
    return 1.0 / input


@_formula()
def square(input: Any) -> Any:
    """``input ** 2``."""
    return input * input


@_formula()
def rsqrt(input: Any) -> Any:
    """``1 / sqrt(input)``."""
    return 1.0 / input.call("sqrt")


@_formula()
def log2(input: Any) -> Any:
    """The logarithm to base 2."""
    return input.call("log") * (1 / math.log(2))


@_formula()
def log10(input: Any) -> Any:
    """The logarithm to base 10."""
    return input.call("log") * (1 / math.log(10))


# -- bounds: the gradient passes where torch lets it pass --------------------------------------------------------------
@_formula()
def relu(input: Any) -> Any:
    """Not a maximum: that would share the gradient at 0, where torch's is 0. NaN stays NaN."""
    return input.call("le", 0.0).call("where", 0.0, input)


@_formula()
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """At the bounds the gradient passes; a NaN stays one, and has none."""
    if min is None and max is None:
        return None
    for bound, inside, beyond in ((min, "ge", "lt"), (max, "le", "gt")):
        if bound is not None:
            within = input.call(inside, bound).call("where", input, math.nan)
            input = input.call(beyond, bound).call("where", bound, within)
    return input


@_formula()
def clamp_min(input: Any, min: Any) -> Any:
    """``clamp`` from below."""
    return clamp(input, min)


@_formula()
def clamp_max(input: Any, max: Any) -> Any:
    """``clamp`` from above."""
    return clamp(input, None, max)


@_formula()
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """``input`` between the bounds, at which the gradient is 0."""
    below = input.call("ge", max_val).call("where", max_val, input)
    return input.call("le", min_val).call("where", min_val, below)


@_formula()
def relu6(input: Any) -> Any:
    """``input`` between 0 and 6."""
    return hardtanh(input, 0.0, 6.0)


# -- activations -------------------------------------------------------------------------------------------------------
@_formula()
def leaky_relu(input: Any, negative_slope: float = 0.01) -> Any:
    """``input`` above 0, ``negative_slope * input`` elsewhere."""
    return input.call("gt", 0.0).call("where", input, negative_slope * input) if negative_slope else None


@_formula()
def elu(input: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """``input`` above 0, ``alpha * expm1(input)`` elsewhere; both times ``scale``.

    The exponential sees nothing above 0, where it could overflow and spoil the gradient.
    """
    if 0.0 in (alpha, scale, input_scale):
        return None  # that times a NaN is one, and expressions drop what is multiplied by 0
    above = input.call("gt", 0.0)
    low = (above.call("where", 0.0, input) * input_scale).call("expm1") * alpha
    return above.call("where", input, low) * scale


@_formula()
def celu(input: Any, alpha: float = 1.0) -> Any:
    """``input`` above 0, ``alpha * expm1(input / alpha)`` elsewhere."""
    return elu(input, alpha, 1.0, 1.0 / alpha) if alpha else None


@_formula()
def selu(input: Any) -> Any:
    """The self-normalising unit of Klambauer et al., 2017."""
    return elu(input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@_formula()
def silu(input: Any) -> Any:
    """``input * sigmoid(input)``."""
    return input * input.call("sigmoid")


@_formula()
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """``log(1 + exp(beta * input)) / beta``, and ``input`` where ``beta * input`` exceeds ``threshold``."""
    if not beta:
        return None
    steep = input * float(beta)
    return steep.call("gt", threshold).call("where", input, steep.call("softplus") * (1.0 / beta))


@_formula()
def logsigmoid(input: Any) -> Any:
    """``log(sigmoid(input))``."""
    return -(-input).call("softplus")


@_formula()
def mish(input: Any) -> Any:
    """``input * tanh(softplus(input))``."""
    return input * input.call("softplus").call("tanh")


@_formula()
def softsign(input: Any) -> Any:
    """``input / (1 + |input|)``."""
    return input / (input.call("abs") + 1.0)


@_formula()
def tanhshrink(input: Any) -> Any:
    """``input - tanh(input)``."""
    return input - input.call("tanh")


@_formula()
def gelu(input: Any, approximate: str = "none") -> Any:
    """``input`` times the normal distribution's Phi(input), or its approximation by ``"tanh"``."""
    if approximate == "tanh":
        inner = (input + input * input * input * 0.044715) * math.sqrt(2 / math.pi)
        return input * 0.5 * (inner.call("tanh") + 1.0)
    return input * 0.5 * ((input * math.sqrt(0.5)).call("erf") + 1.0) if approximate == "none" else None
