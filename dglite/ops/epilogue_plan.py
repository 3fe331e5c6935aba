"""What a reduction's epilogue is as an expression, and what calls with equal epilogues have in common."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..backend import RESULT
from ..expr import Call, Constant, Expr, Operand, Side, derivative, operands_of
from ..formulas import FORMULAS
from ..kernels.spec import REDUCED
from ..opspec import Reducer
from .biases import Activation
from .operands import reads_edges
from .sparse import saved_slots

ONE = Constant(1.0)


SUMS = (Reducer.SUM, Reducer.MEAN)


class After(NamedTuple):
    """The epilogue of a reduction: ``activation(reduced * factor + added)``.

    ``added`` and ``factor`` are expressions of operands behind those of the reduction: rows of destinations, or one
    that all share. Operands of ``factor`` want no gradient, for which the sum would have to be kept. ``activation`` is
    one whose :func:`~.biases.slope_of` is known.
    """

    added: Expr | None = None
    activation: Activation | None = None
    factor: Expr = ONE


@lru_cache(maxsize=1024)
def added_terms(num_operands: int, bias: bool, residual: bool) -> Expr | None:
    """Return the sum of a bias and a residual, operands behind the others."""
    sides = [Side.G] * bias + [Side.V] * residual
    terms: list[Expr] = [Operand(side, num_operands + i) for i, side in enumerate(sides)]
    return sum(terms[1:], terms[0]) if terms else None


@lru_cache(maxsize=1024)
def split_factor(expr: Expr) -> tuple[Expr, Expr]:
    """Return ``expr`` as a product of two, the second of the last operand if that is of destinations, else 1."""
    if isinstance(expr, Call) and expr.op.name == "mul":
        inner, last = expr.args
        if isinstance(last, Operand) and last.side is Side.V and all(x.slot < last.slot for x in operands_of(inner)):
            return inner, last
    return expr, ONE


@lru_cache(maxsize=1024)
def every_operand(expr: Expr, after: After) -> Expr:
    """Return an expression of all operands."""
    return expr + after.factor + (Constant(0.0) if after.added is None else after.added)


@lru_cache(maxsize=1024)
def epilogue_of(after: After) -> Expr:
    """Return the epilogue as an expression of the reduced value."""
    total = REDUCED * after.factor
    total = total if after.added is None else total + after.added
    if after.activation is None:
        return total
    name, options = after.activation
    return FORMULAS[name].expression(total, **dict(options))


class EpiloguePlan:
    """What calls of equal expressions and needs have in common.

    ``of_product`` are those whose first operand is a product, whose two operands come in its place.
    """

    def __init__(
        self, expr: Expr, reducer: Reducer, after: After, needs: tuple[bool, ...], of_product: bool = False
    ) -> None:
        self.expr, self.reducer, self.after, self.of_product = expr, reducer, after, of_product
        self.every, self.edges = every_operand(expr, after), reads_edges(expr)
        self.reduction = expr, reducer, epilogue_of(after)
        added = after.added
        self.slopes = {} if added is None else {x.slot: (x.side, derivative(added, x)) for x in operands_of(added)}
        needs_reduced = (True, *needs[2:]) if of_product else needs
        factors = {operand.slot for operand in operands_of(after.factor)}
        self.count = len(needs_reduced) - len(factors.union(self.slopes))
        slots = factors.union(saved_slots((expr,) if added is None else (expr, added), needs_reduced))
        saved = (*sorted(slots), *(() if after.activation is None else (RESULT,)))
        if of_product:
            first = (*((0,) if needs[1] else ()), *((1,) if needs[0] else ()))
            saved = (*first, *(slot + 1 if slot != RESULT else slot for slot in saved))
        self.saved = saved


epilogue_plan = lru_cache(maxsize=1024)(EpiloguePlan)
