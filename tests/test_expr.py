"""Expressions: arithmetic, derivatives, renumbering."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dglite.expr import (
    Call,
    Constant,
    Expr,
    Operand,
    Side,
    compact,
    derivative,
    evaluate,
    formula,
    operands_of,
    swap_sides,
    write_out_powers,
)
from dglite.opspec import COMPARISONS, OPERATORS, operator
from tests import reference

U0, V1, E2 = Operand(Side.U, 0), Operand(Side.V, 1), Operand(Side.E, 2)


def expressions() -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from([U0, V1, E2]) | st.floats(0.5, 2).map(Constant)
    binary = st.sampled_from([Expr.__add__, Expr.__sub__, Expr.__mul__, Expr.__truediv__])
    return st.recursive(leaves, lambda inner: st.builds(lambda f, a, b: f(a, b), binary, inner, inner), max_leaves=6)


VALUES = [np.float64(1.3), np.float64(0.7), np.float64(1.9)]


def divides_by_zero(expr: Expr) -> bool:
    if not isinstance(expr, Call):
        return False
    if any(map(divides_by_zero, expr.args)):
        return True
    return expr.op.name == "div" and evaluate(expr.args[1], VALUES) == 0


@given(expressions(), st.sampled_from([U0, V1, E2]))
def test_derivative_equals_finite_differences(expr, operand):
    assume(not divides_by_zero(expr))
    step, shifted = 1e-6, list(VALUES)
    shifted[operand.slot] += step
    high = evaluate(expr, shifted)
    shifted[operand.slot] -= 2 * step
    with np.errstate(all="ignore"):
        numeric = (high - evaluate(expr, shifted)) / (2 * step)
        result = evaluate(derivative(expr, operand), VALUES)
    if np.isfinite(numeric) and abs(numeric) < 1e4:
        assert result == pytest.approx(numeric, rel=1e-3, abs=1e-3)


def test_operators_stand_in_one_table():
    for name, entry in OPERATORS.items():
        assert operator(name) is entry and len(entry.gradient) == entry.arity
        assert pickle.loads(pickle.dumps(entry)) is entry
    with pytest.raises(KeyError, match="no operator 'mod'; expected one of neg, add"):
        operator("mod")


def test_trivial_arithmetic_disappears():
    assert U0 * 1.0 is U0 and 1.0 * U0 is U0 and U0 + 0.0 is U0 and U0 / 1.0 is U0
    assert Constant(0.0) == U0 * 0.0
    assert Constant(2.0) * Constant(3.0) == Constant(6.0)
    assert formula(Constant(1.0) / Constant(0.0)) == "(1.0 / 0.0)"


def test_expressions_are_values():
    expr = U0 * E2 + 1.0
    again = Operand(Side.U, 0) * Operand(Side.E, 2) + 1.0
    assert expr == again and hash(expr) == hash(again) and expr is not again
    assert pickle.loads(pickle.dumps(expr)) == expr and copy.deepcopy(expr) == expr
    assert formula(expr) == str(expr) == "((u0 * e2) + 1.0)"
    assert operands_of(expr) == (U0, E2)


def test_an_expression_of_another_process_is_found_among_ours():
    code = (
        "import pickle, sys; from dglite.expr import Operand, Side;"
        "sys.stdout.buffer.write(pickle.dumps(Operand(Side.U, 0) * Operand(Side.E, 1)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert pickle.loads(done.stdout) in {Operand(Side.U, 0) * Operand(Side.E, 1)}


def test_compact_renumbers_by_slot():
    expr, slots = compact(E2 * V1)
    assert slots == (1, 2) and formula(expr) == "(e1 * v0)"


def test_swap_sides_is_its_own_inverse():
    expr = U0 * E2 - V1
    assert formula(swap_sides(expr)) == "((v0 * e2) - u1)"
    assert swap_sides(swap_sides(expr)) == expr


POINTS = {
    "log": [0.3, 1.7],
    "sqrt": [0.3, 1.7],
    "power": [0.3, 1.7],
    "abs": [-0.8, 1.3],
    "sign": [-0.8, 1.3],
}


@pytest.mark.parametrize("name", sorted(OPERATORS))
@pytest.mark.parametrize("second", [0.45, 2.6])
def test_every_operator_s_derivative_equals_finite_differences(name, second):
    """Away from the points where an operator has a step or a corner. The exponent of a power is no variable."""
    arity = OPERATORS[name].arity
    for first in POINTS.get(name, [-1.2, 0.6, 2.1]):
        if name == "where":
            expr = U0.call("gt", V1).call("where", U0 * V1, V1 + U0 * U0)
        elif name in COMPARISONS:
            expr = U0.call(name, V1).call("where", 2.0, 3.0)
        elif name == "power":
            expr = U0.call("power", second)
        else:
            expr = Call(OPERATORS[name], (U0, V1)[:arity])
        values = [np.float64(first), np.float64(second)]
        for operand in operands_of(expr):
            step, sides = 1e-6, []
            for direction in (1, -1):
                shifted = list(values)
                shifted[operand.slot] += direction * step
                sides.append(evaluate(expr, shifted, reference.FUNCTIONS))
            numeric = (sides[0] - sides[1]) / (2 * step)
            result = evaluate(derivative(expr, operand), values, reference.FUNCTIONS)
            assert result == pytest.approx(numeric, rel=1e-6, abs=1e-8), f"{expr} by {operand} at {values}"


@pytest.mark.parametrize(("name", "shares"), [("maximum", (0.5, 0.5)), ("minimum", (0.5, 0.5))])
def test_equal_arguments_share_the_gradient(name, shares):
    expr = U0.call(name, V1)
    for operand, share in zip((U0, V1), shares, strict=True):
        assert evaluate(derivative(expr, operand), [np.float64(2.0)] * 2, reference.FUNCTIONS) == share


def test_an_operand_of_all_edges_stays_where_it_is_on_the_reversed_graph():
    shared = Operand(Side.G, 3)
    assert swap_sides(U0 * shared) == Operand(Side.V, 0) * shared
    assert Side.G.reversed is Side.G and str(U0 + shared) == "(u0 + g3)"


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (2.0, "(u0 * u0)"),
        (3.0, "((u0 * u0) * u0)"),
        (-2.0, "((1.0 / u0) * (1.0 / u0))"),
        (0.5, "sqrt(u0)"),
        (-0.5, "(1.0 / sqrt(u0))"),
        (1.0, "u0"),
        (0.0, "1.0"),
        (1.5, "power(u0, 1.5)"),
    ],
)
def test_powers_are_written_out(exponent, expected):
    assert formula(write_out_powers(Call(OPERATORS["power"], (U0, Constant(exponent))))) == expected
