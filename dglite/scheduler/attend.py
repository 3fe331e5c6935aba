"""Rule 5: attention seen in a reduce function becomes one kernel.

What is looked for is a softmax over leaky_relu(left + right), left a number for each source (and head) and right for
each destination, times a feature of the source, summed over the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..expr import Call, Constant, Expr, Operand, Side

__all__ = ["Seen", "find_attention", "leaky_sum"]


class Seen(NamedTuple):
    """The slots of the operands of an attention, and the slope of its leaky ReLU."""

    x: int
    left: int
    right: int
    slope: float


def find_attention(expr: Expr, scores: Mapping[int, Expr]) -> Seen | None:
    """Return the attention whose sum over messages is that of ``expr``, None where it is something else.

    ``scores`` gives what was normalised by a softmax into each operand that is one.
    """
    if not isinstance(expr, Call) or expr.op.name != "mul":
        return None
    for weight, x in (expr.args, reversed(expr.args)):
        if isinstance(weight, Operand) and weight.slot in scores and isinstance(x, Operand) and x.side is Side.U:
            ends = leaky_sum(scores[weight.slot])
            return None if ends is None else Seen(x.slot, *ends)
    return None


def leaky_sum(score: Expr) -> tuple[int, int, float] | None:
    """Return the slots of left and right and the slope where ``score`` is leaky_relu(left + right)."""
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
    if not isinstance(score, Call) or score.op.name != "add":
        return None
    ends = {operand.side: operand.slot for operand in score.args if isinstance(operand, Operand)}
    return (ends[Side.U], ends[Side.V], slope) if ends.keys() == {Side.U, Side.V} else None
