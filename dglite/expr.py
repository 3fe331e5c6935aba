"""Element-wise expressions over an edge's operands: ``u`` (source), ``e`` (edge), ``v`` (destination), ``g`` (all).

An expression is immutable, hashable and prints as its formula. ``fn.u_mul_e`` is ``mul(u0, e0)``; the kernels, their
gradients and the oracle are all made from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import CodeType
from typing import Any

from .opspec import OPERATORS, HashedById, Operator


class Side(HashedById):
    """Whose rows an operand has: source nodes, edges, destination nodes, or the one row that all edges share."""

    U = "u"
    E = "e"
    V = "v"
    G = "g"

    def __repr__(self) -> str:
        return self.value

    @property
    def reversed(self) -> Side:
        """The side on the reversed graph."""
        return {Side.U: Side.V, Side.V: Side.U}.get(self, self)


class Expr:
    """Base of the three kinds of node; gives them arithmetic, with constants folded as they are built."""

    __slots__ = ()

    def __add__(self, other: Expr | float) -> Expr:
        return _binary("add", self, other)

    def __radd__(self, other: float) -> Expr:
        return _binary("add", other, self)

    def __sub__(self, other: Expr | float) -> Expr:
        return _binary("sub", self, other)

    def __rsub__(self, other: float) -> Expr:
        return _binary("sub", other, self)

    def __mul__(self, other: Expr | float) -> Expr:
        return _binary("mul", self, other)

    def __rmul__(self, other: float) -> Expr:
        return _binary("mul", other, self)

    def __truediv__(self, other: Expr | float) -> Expr:
        return _binary("div", self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return _binary("div", other, self)

    def __neg__(self) -> Expr:
        return Call(OPERATORS["neg"], (self,))

    def call(self, name: str, *others: Expr | float) -> Expr:
        """Return the operator ``name`` applied to this and ``others``."""
        if name in ("add", "sub", "mul", "div"):
            return _binary(name, self, *others)
        if name == "power" and others[0] in (Constant(0.0), Constant(1.0)):
            return self if others[0] == Constant(1.0) else Constant(1.0)
        exprs = [x if isinstance(x, Expr) else Constant(float(x)) for x in others]
        if name == "where" and isinstance(self, Call) and not operands_of(self):
            return exprs[0] if evaluate(self, ()) else exprs[1]
        return Call(OPERATORS[name], (self, *exprs))

    def __str__(self) -> str:
        return formula(self)


@dataclass(frozen=True, slots=True, repr=False)
class Operand(Expr):
    """The ``slot``-th tensor of the kernel, with a row for each source, edge or destination by ``side``."""

    side: Side
    slot: int
    _hash: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: kernels are looked up by expression at every call."""
        object.__setattr__(self, "_hash", hash((self.side, self.slot)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Operand, (self.side, self.slot)  # made anew: another process hashes sides differently

    def __repr__(self) -> str:
        return f"{self.side.value}{self.slot}"


@dataclass(frozen=True, slots=True, repr=False)
class Constant(Expr):
    """A Python number."""

    value: float
    text: str = field(init=False, compare=False)
    """The value written out: compilers of torch take a number that they read for a variable."""

    def __post_init__(self) -> None:
        """Write the value out once."""
        object.__setattr__(self, "text", repr(self.value))

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, repr=False)
class Call(Expr):
    """An operator applied to expressions."""

    op: Operator
    args: tuple[Expr, ...]
    size: int = field(init=False, compare=False)
    """Number of operators when the expression is written out, shared parts as often as they occur."""
    operands: tuple[Operand, ...] = field(init=False, compare=False)
    """The distinct operands by slot."""
    _hash: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once, as an operand does, and list the operands."""
        operands: dict[tuple[int, Side], Operand] = {}  # no set, which dynamo before torch 2.8 cannot trace
        for arg in reversed(self.args):
            for operand in operands_of(arg):
                operands[operand.slot, operand.side] = operand
        ascending = tuple(sorted(operands.values(), key=lambda operand: operand.slot))
        object.__setattr__(self, "operands", ascending)
        object.__setattr__(self, "size", 1 + sum(arg.size for arg in self.args if isinstance(arg, Call)))
        object.__setattr__(self, "_hash", hash((self.op, self.args)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self.op, self.args)

    def __repr__(self) -> str:
        return formula(self)


def _binary(name: str, left: Expr | float, right: Expr | float) -> Expr:
    """Build ``left op right`` unless arithmetic with 0 or 1 makes it simpler (gradients are full of these)."""
    left = left if isinstance(left, Expr) else Constant(float(left))
    right = right if isinstance(right, Expr) else Constant(float(right))
    if isinstance(left, Constant) and isinstance(right, Constant) and not (name == "div" and right.value == 0.0):
        folded = {"add": float.__add__, "sub": float.__sub__, "mul": float.__mul__, "div": float.__truediv__}[name]
        return Constant(folded(left.value, right.value))
    a = left.value if isinstance(left, Constant) else None
    b = right.value if isinstance(right, Constant) else None
    if (name in ("mul", "div") and b == 1.0) or (name in ("add", "sub") and b == 0.0):
        return left
    if (name == "mul" and a == 1.0) or (name == "add" and a == 0.0):
        return right
    if name == "mul" and 0.0 in (a, b):
        return Constant(0.0)
    if (name == "mul" and a == -1.0) or (name == "sub" and a == 0.0):
        return -right
    if name in ("mul", "div") and b == -1.0:
        return -left
    return Call(OPERATORS[name], (left, right))


def operands_of(expr: Expr) -> tuple[Operand, ...]:
    """Return the distinct operands of ``expr`` by slot."""
    if isinstance(expr, Call):
        return expr.operands
    return (expr,) if isinstance(expr, Operand) else ()


@lru_cache(maxsize=4096)
def derivative(expr: Expr, operand: Operand) -> Expr:
    """Return d ``expr`` / d ``operand`` by the chain rule over the operator table."""
    if expr == operand:
        return Constant(1.0)
    if not isinstance(expr, Call):
        return Constant(0.0)
    total: Expr = Constant(0.0)
    for arg, gradient in zip(expr.args, expr.op.gradient, strict=True):
        inner = derivative(arg, operand)
        if inner != Constant(0.0):
            total = total + inner * gradient(*expr.args)
    return total


@lru_cache(maxsize=4096)
def shared(expr: Expr) -> Expr:
    """Return the first of the expressions that are equal to this one: what is kept for it is found by identity."""
    return expr


@lru_cache(maxsize=4096)
def compact(expr: Expr) -> tuple[Expr, tuple[int, ...]]:
    """Renumber the operands of ``expr`` 0, 1, ... and return it with the slots that they had.

    Equal computations then have equal expressions, and so share a kernel.
    """
    slots = tuple(operand.slot for operand in operands_of(expr))
    return shared(renumber(expr, {slot: i for i, slot in enumerate(slots)})), slots


def renumber(expr: Expr, positions: Mapping[int, int]) -> Expr:
    """Return ``expr`` with the operand of each slot in slot ``positions[slot]`` instead."""
    if isinstance(expr, Operand):
        return Operand(expr.side, positions[expr.slot])
    if isinstance(expr, Call):
        return Call(expr.op, tuple(renumber(arg, positions) for arg in expr.args))
    return expr


@lru_cache(maxsize=4096)
def swap_sides(expr: Expr) -> Expr:
    """Return ``expr`` as it reads on the reversed graph: source and destination operands change places."""
    if isinstance(expr, Operand):
        return Operand(expr.side.reversed, expr.slot)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(swap_sides(arg) for arg in expr.args))
    return expr


@lru_cache(maxsize=4096)
def write_out_powers(expr: Expr) -> Expr:
    """Return ``expr`` with whole powers written as products and those to one half as roots, as kernels compute them."""
    if not isinstance(expr, Call):
        return expr
    args = tuple(map(write_out_powers, expr.args))
    exponent = args[1].value if expr.op.name == "power" and isinstance(args[1], Constant) else math.nan
    if abs(exponent) == 0.5:
        root = Call(OPERATORS["sqrt"], args[:1])
        return root if exponent > 0 else Call(OPERATORS["div"], (Constant(1.0), root))
    if not exponent.is_integer():
        return Call(expr.op, args)
    if exponent == 0:
        return Constant(1.0)
    base = args[0] if exponent > 0 else Call(OPERATORS["div"], (Constant(1.0), args[0]))
    return _whole_power(base, abs(int(exponent)))


def _whole_power(x: Expr, exponent: int) -> Expr:
    """Return x to a power above 0 by repeated squaring."""
    if exponent == 1:
        return x
    half = _whole_power(x, exponent // 2)
    square = Call(OPERATORS["mul"], (half, half))
    return Call(OPERATORS["mul"], (square, x)) if exponent % 2 else square


def evaluate(
    expr: Expr,
    values: Sequence[Any],
    functions: Mapping[str, Callable[..., Any]] | None = None,
    results: Mapping[Expr, Any] | None = None,
) -> Any:
    """Compute ``expr`` by ordinary arithmetic; ``values[slot]`` (array, tensor, number) stands for each operand.

    ``functions`` gives what operators that are not arithmetic call by name, such as ``exp`` and ``where``; ``results``
    the values of parts that need not be computed again.
    """
    results = dict(results or {})

    def value(node: Expr) -> Any:
        if isinstance(node, Operand):
            return values[node.slot]
        if isinstance(node, Constant):
            return node.value
        if node not in results:
            assert isinstance(node, Call)
            names = {f"x{i}": value(arg) for i, arg in enumerate(node.args)}
            results[node] = eval(_code(node.op.source), dict(functions or {}), names)
        return results[node]

    return value(expr)


@cache
def _code(source: str) -> CodeType:
    """Compile an operator's source as Python: the table of operators remains its only definition."""
    return compile(source.format("x0", "x1", "x2"), source, "eval")


def formula(expr: Expr) -> str:
    """Return ``expr`` as text, e.g. ``(u0 * e1)``."""
    if isinstance(expr, Call):
        return expr.op.source.format(*(formula(arg) for arg in expr.args))
    return repr(expr)
