"""Loss functions that are operators in ATen."""

from __future__ import annotations

import torch

from ..operator import OperatorCall, SplitRule, rule
from .common import IndexNames, slices

aten = torch.ops.aten

SUM = 2
"""The sum among the reductions of losses, as ATen numbers them."""


@rule(aten.nll_loss_forward, aten.nll_loss2d_forward)
def nll_loss(call: OperatorCall) -> SplitRule | None:
    """Return the rule of the negative log-likelihood: by samples where it is their sum.

    The mean divides by the total weight of all samples, so it is not a sum of parts. Decomposed into a gather, two sums
    and a quotient, it splits.
    """
    names = _samples(call)
    target = names["target"]
    if call["reduction"] != SUM or not target:
        return None
    return slices(call, names, [[f"+{n}" for n in target]] * 2)


@rule(aten.nll_loss_backward, aten.nll_loss2d_backward)
def nll_loss_backward(call: OperatorCall) -> SplitRule:
    names = _samples(call)
    scalar = call.shape("grad_output") == ()
    names["grad_output"] = [] if scalar else names["target"]
    return slices(call, names, [names["self"]])


def _samples(call: OperatorCall) -> dict[str, IndexNames]:
    rank = len(call.shape("target"))
    target = [f"i{d}" for d in range(rank)]
    return {
        "self": [*target[:1], None, *target[1:]],
        "target": target,
        "weight": [None],
        "total_weight": [],
    }
