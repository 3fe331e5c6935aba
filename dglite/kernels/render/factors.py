"""Factors that are the same for all entries of a row: the row's sum is multiplied once, instead of every message."""

from __future__ import annotations

from ...expr import Call, Constant, Expr, Side, operands_of
from ...opspec import OPERATORS, Reducer

__all__ = ["OF_ROW", "row_factors"]

OF_ROW = (Side.V, Side.G)
"""Sides whose operands are the same for all entries of a row."""


def row_factors(expr: Expr, reducer: Reducer) -> tuple[Expr, list[tuple[str, Expr]]]:
    """Split ``expr`` into what is summed and the (operator source, operand) pairs that one row shares.

    A sum of products with the destination's own factor is that factor times the sum: one multiplication per row, not
    one per edge. Normalised aggregation, ``u0 * u1 * v2``, reads like this.
    """
    if reducer.selects:
        return expr, []
    inner, factors = _split_factors(expr)
    return Constant(1.0) if inner is None else inner, factors


def _split_factors(expr: Expr) -> tuple[Expr | None, list[tuple[str, Expr]]]:
    """Return the factors of ``expr`` that differ between a row's entries as one expression, and the others."""
    if _is_of_row(expr):
        return None, [(OPERATORS["mul"].source, expr)]
    if not isinstance(expr, Call) or expr.op.name not in ("mul", "div"):
        return expr, []
    left, factors = _split_factors(expr.args[0])
    right = expr.args[1]
    if expr.op.name == "div":
        if _is_of_row(right):
            return left, [*factors, (expr.op.source, right)]
        return (Constant(1.0) if left is None else left) / right, factors
    right_inner, right_factors = _split_factors(right)
    factors += right_factors
    if left is None or right_inner is None:
        return right_inner if left is None else left, factors
    return Call(OPERATORS["mul"], (left, right_inner)), factors


def _is_of_row(expr: Expr) -> bool:
    return bool(operands_of(expr)) and all(operand.side in OF_ROW for operand in operands_of(expr))
