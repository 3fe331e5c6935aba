"""The one table of operators and reducers: scalar expression, derivative, identity element.

CPU source, CUDA source, the NumPy oracle and every gradient are derived from these entries, so an operator's meaning
is written here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["COMPARISONS", "OPERATORS", "Operator", "Reducer", "operator"]


@dataclass(frozen=True, eq=False)
class Operator:
    """An element-wise operator.

    ``source`` is a format string over its arguments, the same text in Python, in CUDA C++ and on SIMD vectors; the
    functions that it calls are given by whoever runs it. ``gradient`` gives d(result)/d(argument i) for each argument,
    written with arithmetic and ``call`` on expressions.
    """

    name: str
    arity: int
    source: str
    gradient: tuple[Callable[..., Any], ...]

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Operator], tuple[str]]:
        return operator, (self.name,)


def _step(x: Any, y: Any) -> Any:
    """Return 1/2 where x and y are equal, 0 where x < y, 1 elsewhere: how a maximum shares its gradient."""
    return x.call("eq", y).call("where", 0.5, x.call("lt", y).call("where", 0.0, 1.0))


OPERATORS = {
    entry.name: entry
    for entry in (
        Operator("neg", 1, "(-{0})", (lambda x: -1.0,)),
        Operator("add", 2, "({0} + {1})", (lambda x, y: 1.0, lambda x, y: 1.0)),
        Operator("sub", 2, "({0} - {1})", (lambda x, y: 1.0, lambda x, y: -1.0)),
        Operator("mul", 2, "({0} * {1})", (lambda x, y: y, lambda x, y: x)),
        Operator("div", 2, "({0} / {1})", (lambda x, y: 1.0 / y, lambda x, y: -(x / y) / y)),
        Operator("exp", 1, "exp({0})", (lambda x: x.call("exp"),)),
        Operator("expm1", 1, "expm1({0})", (lambda x: x.call("exp"),)),
        Operator("log", 1, "log({0})", (lambda x: 1.0 / x,)),
        Operator("sqrt", 1, "sqrt({0})", (lambda x: 0.5 / x.call("sqrt"),)),
        Operator("abs", 1, "abs({0})", (lambda x: x.call("sign"),)),
        Operator("sign", 1, "sign({0})", (lambda x: 0.0,)),
        Operator("tanh", 1, "tanh({0})", (lambda x: 1.0 - x.call("tanh") * x.call("tanh"),)),
        Operator("sigmoid", 1, "sigmoid({0})", (lambda x: x.call("sigmoid") * (1.0 - x.call("sigmoid")),)),
        Operator("softplus", 1, "softplus({0})", (lambda x: x.call("sigmoid"),)),
        # The exponent is a number, not a feature: no gradient is taken of it.
        Operator("power", 2, "power({0}, {1})", (lambda x, y: y * x.call("power", y - 1.0), lambda x, y: 0.0)),
        Operator("maximum", 2, "maximum({0}, {1})", (_step, lambda x, y: _step(y, x))),
        Operator("minimum", 2, "minimum({0}, {1})", (lambda x, y: _step(y, x), _step)),
        Operator("gt", 2, "({0} > {1})", (lambda x, y: 0.0, lambda x, y: 0.0)),
        Operator("ge", 2, "({0} >= {1})", (lambda x, y: 0.0, lambda x, y: 0.0)),
        Operator("lt", 2, "({0} < {1})", (lambda x, y: 0.0, lambda x, y: 0.0)),
        Operator("le", 2, "({0} <= {1})", (lambda x, y: 0.0, lambda x, y: 0.0)),
        Operator("eq", 2, "({0} == {1})", (lambda x, y: 0.0, lambda x, y: 0.0)),
        Operator("ne", 2, "({0} != {1})", (lambda x, y: 0.0, lambda x, y: 0.0)),
        Operator(
            "where",
            3,
            "where({0}, {1}, {2})",
            (lambda c, x, y: 0.0, lambda c, x, y: c.call("where", 1.0, 0.0), lambda c, x, y: c.call("where", 0.0, 1.0)),
        ),
    )
}

COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")
"""Operators whose value is a truth, fit to be the first argument of ``where`` and for nothing else."""


def operator(name: str) -> Operator:
    """Return the operator called ``name``; ``KeyError`` lists the known ones."""
    try:
        return OPERATORS[name]
    except KeyError:
        raise KeyError(f"no operator {name!r}; expected one of {', '.join(OPERATORS)}") from None


class Reducer(Enum):
    """A commutative reduction over the messages that reach a node. A node without messages gets 0.

    ``identity`` starts the accumulation. ``PROD`` has no fused kernel: it runs over degree buckets, where its gradient
    is exact even with zeros among the messages.
    """

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"

    __hash__ = object.__hash__  # members are single objects; Enum hashes their names, in Python

    @property
    def identity(self) -> float:
        """The value that leaves any other unchanged when combined with it."""
        return {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}[self.value]

    @property
    def selects(self) -> bool:
        """Whether the result is one of the messages, so that its gradient goes to the winning edge alone."""
        return self in (Reducer.MAX, Reducer.MIN)

    @property
    def fused(self) -> bool:
        """Whether a g-SpMM kernel exists for it."""
        return self is not Reducer.PROD
