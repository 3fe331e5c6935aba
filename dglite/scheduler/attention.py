"""Attention that is written in a reduce function becomes one kernel.

The pattern is a softmax over leaky_relu(left + right), left a number for each source (and head) and right for
each destination, times a feature of the source, summed over the messages. A term of the edge may be added to the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..expr import Call, Constant, Expr, Operand, Side


class ScoreTerms(NamedTuple):
    """The slots of the terms of a score, None where the edge has no term, and the slope of its leaky ReLU."""

    left: int
    right: int
    edge: int | None
    slope: float


class WeightedSum(NamedTuple):
    """The slot of the feature that an attention adds up, and its score."""

    x: int
    score: ScoreTerms


def find_attention(expr: Expr, scores: Mapping[int, Expr]) -> WeightedSum | None:
    """Return the attention that computes the sum of ``expr`` over messages, or None.

    ``scores`` gives what was normalised by a softmax into each operand that is one.
    """
    if not isinstance(expr, Call) or expr.op.name != "mul":
        return None
    for weight, x in (expr.args, reversed(expr.args)):
        if isinstance(weight, Operand) and weight.slot in scores and isinstance(x, Operand) and x.side is Side.U:
            score = find_score(scores[weight.slot])
            return None if score is None else WeightedSum(x.slot, score)
    return None


def find_score(score: Expr) -> ScoreTerms | None:
    """Return the terms and the slope where ``score`` is leaky_relu(left + right), or that with a term of the edge."""
    slope = 1.0
    if isinstance(score, Call) and score.op.name == "where":
        condition, score, low = score.args
        if not (isinstance(condition, Call) and condition.op.name == "gt" and condition.args == (score, Constant(0.0))):
            return None
        if not (isinstance(low, Call) and low.op.name == "mul" and low.args[1] == score):
            return None
        if not isinstance(low.args[0], Constant):
            return None
        slope = low.args[0].value
    terms = _terms(score)
    ends = {operand.side: operand.slot for operand in terms if isinstance(operand, Operand)}
    if len(ends) != len(terms) or not ends.keys() >= {Side.U, Side.V} or ends.keys() - {Side.U, Side.V, Side.E}:
        return None
    return ScoreTerms(ends[Side.U], ends[Side.V], ends.get(Side.E), slope)


def _terms(expr: Expr) -> list[Expr]:
    """Return the terms of a sum."""
    if isinstance(expr, Call) and expr.op.name == "add":
        return [term for arg in expr.args for term in _terms(arg)]
    return [expr]
