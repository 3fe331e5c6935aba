"""Normalizations and their gradients."""

from __future__ import annotations

import torch

from ..operator import OperatorCall, SplitRule, rule
from .common import IndexNames, index_names, outer, slices

aten = torch.ops.aten


@rule(aten._softmax, aten._log_softmax, "aten::_safe_softmax")
def softmax(call: OperatorCall) -> SplitRule:
    """Return the rule of a softmax: by all dimensions but its own."""
    rank = len(call.outputs[0])
    names = outer(rank, (call["dim"] % max(rank, 1),))
    return slices(call, [names] * len(call.inputs), [names])


def _masked(call: OperatorCall, *names: IndexNames) -> list[IndexNames]:
    """Return the indices of the outputs, none for those that ``output_mask`` leaves out."""
    return [indices if needed else [] for indices, needed in zip(names, call["output_mask"], strict=True)]


@rule(aten.native_layer_norm)
def layer_norm(call: OperatorCall) -> SplitRule:
    rows, whole = _normalized(call)
    return slices(call, {"input": rows + whole, "weight": whole, "bias": whole}, [rows + whole] * 3)


def _normalized(call: OperatorCall) -> tuple[list[str | None], list[str | None]]:
    """Return the indices of the dimensions that a layer normalization keeps apart, and those of the others."""
    rank, inner = len(call.shape("input")), len(call["normalized_shape"])
    return [*index_names(rank - inner)], [None] * inner
