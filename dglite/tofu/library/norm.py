"""Normalizations and their gradients."""

from __future__ import annotations

from typing import Any

import torch

from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..tdl import Expression, IndexedFunction, Opaque, Place, Sum, TensorSymbol, describe, over
from .common import NOTHING, IndexNames, index_names, outer, slices

aten = torch.ops.aten


@rule(
    aten._softmax,
    aten._log_softmax,
    "aten::_safe_softmax",
    aten._softmax_backward_data,
    aten._log_softmax_backward_data,
)
def softmax(call: OperatorCall) -> SplitRule:
    """Return the rule of a softmax and of its gradient: by all dimensions but its own."""
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


@rule(aten.native_layer_norm_backward)
def layer_norm_backward(call: OperatorCall) -> SplitRule:
    rows, whole = _normalized(call)
    each = rows + whole
    inputs = dict.fromkeys(("grad_out", "input", "mean", "rstd"), each) | dict.fromkeys(("weight", "bias"), whole)
    summed = [f"+{name}" for name in rows] + whole
    return slices(call, inputs, _masked(call, each, summed, summed))


def _normalized(call: OperatorCall) -> tuple[list[str | None], list[str | None]]:
    """Return the indices of the dimensions that a layer normalization keeps apart, and those of the others."""
    rank, inner = len(call.shape("input")), len(call["normalized_shape"])
    return [*index_names(rank - inner)], [None] * inner


@rule(
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten.native_batch_norm,
)
def batch_norm(call: OperatorCall) -> SplitRule:
    """Return the rule of a batch normalization, by channels: the samples' statistics are not a sum of the parts'."""
    rank = len(call.outputs[0])
    each = [None, "c", *[None] * (rank - 2)]
    outputs = [each if len(shape) == rank else ["c"] for shape in call.outputs]
    return slices(call, [each if n == "input" else ["c"] for n in call.names], outputs)


@rule(aten.native_batch_norm_backward)
def batch_norm_backward(call: OperatorCall) -> SplitRule:
    rank = len(call.shape("input"))
    each = [None, "c", *[None] * (rank - 2)]
    inputs = [each if len(shape) == rank else ["c"] for shape in call.inputs]
    return slices(call, inputs, _masked(call, each, ["c"], ["c"]))


@rule(aten.native_group_norm, aten.native_group_norm_backward)
def group_norm(call: OperatorCall) -> SplitRule:
    """Return the rule of a group normalization and of its gradient: by samples, and by channels in whole groups."""
    groups, rank = call["group"], len(call.shape("input"))
    size = call.shape("input")[1] // groups
    mask = call.arguments.get("output_mask", [True] * 3)

    def where(name: str, n: Any, g: Any) -> tuple[Any, ...]:
        if name in ("mean", "rstd"):
            return n, g
        block = slice(g * size, g * size + size)
        return (block,) if name in ("weight", "bias") else (n, block, *[slice(None)] * (rank - 2))

    def outputs(*tensors: TensorSymbol) -> tuple[IndexedFunction, ...]:
        def read(n: Any, g: Any) -> Expression:
            return Opaque("norm")(*(x[where(name, n, g)] for x, name in zip(tensors, call.names, strict=True)))

        def summed(g: Any) -> Any:
            return Place(Sum(lambda n: read(n, g)), *where("weight", 0, g))

        first = over("ng", lambda n, g: Place(read(n, g), *where("input", n, g)))
        rest = over("g", summed) if "output_mask" in call.arguments else over("ng", read)
        return tuple(output if needed else NOTHING for output, needed in zip((first, rest, rest), mask, strict=True))

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        samples, channels = arguments["input"].shape[:2]
        return part.run(arguments, N=samples, C=channels, group=channels // size)

    description = describe(outputs, index_names(len(call.names), "x"))
    return SplitRule(description, extents={"g": groups}, local=local, kind="opaque")
