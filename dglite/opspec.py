"""The one table of operators and reducers: scalar expression, derivative, identity element.

Kernels for CPU and GPU, the NumPy oracle, the libraries' functions and every gradient are derived from these entries.
What torch computes element by element and can be said in these operators is in `formulas`; an operator is needed only
where its value or its derivative would lose digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Operator:
    """An element-wise operator.

    ``source`` is a format string over its arguments, the same text in Python, in CUDA C++ and on SIMD vectors. A
    function that it calls is ``numpy`` on arrays, ``torch`` by its name there, and in kernels one of
    ``kernels/cpu/lanes/elementary.py`` and ``kernels/cuda/source/common.cuh``. ``gradient`` gives
    d(result)/d(argument i) for each argument, written with arithmetic and ``call`` on expressions. What is ``costly``
    is kept for the gradient, the rest computed again.
    """

    name: str
    arity: int
    source: str
    gradient: tuple[Callable[..., Any], ...]
    numpy: Callable[..., Any] | None = None
    torch: str | None = None
    costly: bool = False

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Operator], tuple[str]]:
        return operator, (self.name,)


def _arithmetic(name: str, arity: int, source: str, *gradient: Callable[..., Any], costly: bool = False) -> Operator:
    """Return an operator that Python writes with a sign."""
    return Operator(name, arity, source, gradient, costly=costly)


def _function(
    name: str, numpy: Callable[..., Any], *gradient: Callable[..., Any], torch: str | None = None, costly: bool = True
) -> Operator:
    """Return an operator that is a function, in torch called as here unless ``torch`` says how."""
    arguments = ", ".join(f"{{{place}}}" for place in range(len(gradient)))
    return Operator(name, len(gradient), f"{name}({arguments})", gradient, numpy, torch or name, costly)


def _erf(x: Any) -> Any:
    """Return the error function; SciPy is imported with the first one."""
    from scipy.special import erf

    return erf(x)


def _sigmoid(x: Any) -> Any:
    return 0.5 * (np.tanh(0.5 * x) + 1.0)  # never overflows


def _share(x: Any, y: Any) -> Any:
    """Return 1/2 where x and y are equal, 0 where x < y, 1 elsewhere: how a maximum shares its gradient."""
    return x.call("eq", y).call("where", 0.5, x.call("lt", y).call("where", 0.0, 1.0))


def _of_base(x: Any, y: Any) -> Any:
    """Return d(x ** y)/dx, 0 for y = 0 even where x is 0."""
    return y.call("eq", 0.0).call("where", 0.0, y * x.call("power", y - 1.0))


def _of_exponent(x: Any, y: Any) -> Any:
    """Return d(x ** y)/dy, 0 where x is 0 and stays it."""
    slope = x.call("power", y) * x.call("log")
    return y.call("ge", 0.0).call("where", x.call("eq", 0.0).call("where", 0.0, slope), slope)


def _nothing(*_: Any) -> float:
    return 0.0


OPERATORS = {
    entry.name: entry
    for entry in (
        _arithmetic("neg", 1, "(-{0})", lambda x: -1.0),
        _arithmetic("add", 2, "({0} + {1})", lambda x, y: 1.0, lambda x, y: 1.0),
        _arithmetic("sub", 2, "({0} - {1})", lambda x, y: 1.0, lambda x, y: -1.0),
        _arithmetic("mul", 2, "({0} * {1})", lambda x, y: y, lambda x, y: x),
        _arithmetic("div", 2, "({0} / {1})", lambda x, y: 1.0 / y, lambda x, y: -(x / y) / y, costly=True),
        _arithmetic("gt", 2, "({0} > {1})", _nothing, _nothing),
        _arithmetic("ge", 2, "({0} >= {1})", _nothing, _nothing),
        _arithmetic("lt", 2, "({0} < {1})", _nothing, _nothing),
        _arithmetic("le", 2, "({0} <= {1})", _nothing, _nothing),
        _arithmetic("eq", 2, "({0} == {1})", _nothing, _nothing),
        _arithmetic("ne", 2, "({0} != {1})", _nothing, _nothing),
        _function("exp", np.exp, lambda x: x.call("exp")),
        _function("expm1", np.expm1, lambda x: x.call("exp")),
        _function("log", np.log, lambda x: 1.0 / x),
        _function("sqrt", np.sqrt, lambda x: 0.5 / x.call("sqrt")),
        _function("abs", np.abs, lambda x: x.call("sign"), costly=False),
        _function("sign", np.sign, _nothing, costly=False),
        _function("tanh", np.tanh, lambda x: 1.0 - x.call("tanh") * x.call("tanh")),
        _function("sigmoid", _sigmoid, lambda x: x.call("sigmoid") * (1.0 - x.call("sigmoid"))),
        _function(
            "softplus", lambda x: np.logaddexp(x, 0), lambda x: x.call("sigmoid"), torch="nn.functional.softplus"
        ),
        _function("erf", _erf, lambda x: 2 / math.sqrt(math.pi) * (-(x * x)).call("exp")),
        _function("power", np.power, _of_base, _of_exponent, torch="pow"),
        _function("maximum", np.maximum, _share, lambda x, y: _share(y, x), costly=False),
        _function("minimum", np.minimum, lambda x, y: _share(y, x), _share, costly=False),
        _function(
            "where",
            np.where,
            _nothing,
            lambda c, x, y: c.call("where", 1.0, 0.0),
            lambda c, x, y: c.call("where", 0.0, 1.0),
            costly=False,
        ),
    )
}

MESSAGES = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "dot": "mul", "pow": "power"}
"""The operator of each built-in binary message, such as ``u_add_v``; ``dot`` sums the last axis, too."""

COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")
"""Comparison operators; their boolean result may only be used as the condition of ``where``."""


def operator(name: str) -> Operator:
    """Return the operator called ``name``; ``KeyError`` lists the known ones."""
    try:
        return OPERATORS[name]
    except KeyError:
        raise KeyError(f"no operator {name!r}; expected one of {', '.join(OPERATORS)}") from None


class HashedById(Enum):
    """An enumeration whose members are hashed as the single objects that they are; Enum hashes names, in Python.

    In a class of its own: older compilers of torch do not hash objects whose class defines how.
    """

    __hash__ = object.__hash__


class Reducer(HashedById):
    """A commutative reduction over the messages that reach a node. A node without messages gets 0.

    ``identity`` starts the accumulation. ``PROD`` has no fused kernel: it runs over degree buckets, where its gradient
    is exact even with zeros among the messages. ``LOGSUMEXP`` is composed of two passes, a maximum and a sum.
    """

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    LOGSUMEXP = "logsumexp"

    @property
    def identity(self) -> float:
        """The value that leaves any other unchanged when combined with it."""
        return {"max": -math.inf, "min": math.inf, "prod": 1.0, "logsumexp": -math.inf}.get(self.value, 0.0)

    @property
    def selects(self) -> bool:
        """Whether the result is one of the messages, so that its gradient goes to the winning edge alone."""
        return self in (Reducer.MAX, Reducer.MIN)

    @property
    def fused(self) -> bool:
        """Whether g-SpMM computes it, in one pass or composed."""
        return self is not Reducer.PROD

    @property
    def composed(self) -> bool:
        """Whether it takes several reductions, so that no kernel has it by its name."""
        return self is Reducer.LOGSUMEXP
