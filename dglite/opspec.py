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

__all__ = ["OPERATORS", "Operator", "Reducer", "operator"]


@dataclass(frozen=True, eq=False)
class Operator:
    """An element-wise operator.

    ``source`` is a format string over its arguments, the same text in Python, in CUDA C++ and on SIMD vectors.
    ``gradient`` gives d(result)/d(argument i) for each argument, written with ordinary arithmetic on expressions.
    """

    name: str
    arity: int
    source: str
    gradient: tuple[Callable[..., Any], ...]

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Operator], tuple[str]]:
        return operator, (self.name,)


OPERATORS = {
    entry.name: entry
    for entry in (
        Operator("neg", 1, "(-{0})", (lambda x: -1.0,)),
        Operator("add", 2, "({0} + {1})", (lambda x, y: 1.0, lambda x, y: 1.0)),
        Operator("sub", 2, "({0} - {1})", (lambda x, y: 1.0, lambda x, y: -1.0)),
        Operator("mul", 2, "({0} * {1})", (lambda x, y: y, lambda x, y: x)),
        Operator("div", 2, "({0} / {1})", (lambda x, y: 1.0 / y, lambda x, y: -x / (y * y))),
    )
}


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
