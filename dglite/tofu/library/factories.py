"""Operators that create tensors, random ones included."""

from __future__ import annotations

from typing import Any

import torch

from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..tdl import ElementWise, describe, over
from .common import elementwise, index_names

aten = torch.ops.aten


@rule(aten.full)
def full(call: OperatorCall) -> SplitRule:
    return _of_size(call, random=False)


@rule(aten.rand, aten.randn, aten.empty, aten.empty_strided, aten.new_empty_strided)
def rand(call: OperatorCall) -> SplitRule:
    return _of_size(call, random=True)


def _of_size(call: OperatorCall, random: bool) -> SplitRule:
    names = index_names(len(call.outputs[0]))
    tensors = index_names(len(call.inputs), "x")
    description = describe(lambda *x: over(names, lambda *i: 0), tensors)

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        changed: dict[str, Any] = {"size": list(part.shape())}
        if "stride" in arguments:
            changed["stride"] = _strides(part.shape(), arguments["stride"])
        return part.run(arguments, **changed)

    return SplitRule(description, local=local, random=random, kind="element-wise")


def _strides(shape: tuple[int, ...], strides: list[int]) -> list[int]:
    """Return dense strides for ``shape``, in the order of memory of those given."""
    dense, step = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: strides[d]):
        dense[d], step = step, step * max(shape[d], 1)
    return dense


rule(aten.full_like)(elementwise)


@rule(aten.rand_like, aten.randn_like, aten.bernoulli, aten.native_dropout)
def random_like(call: OperatorCall) -> SplitRule:
    return elementwise(call, random=True)


@rule(aten.arange)
def arange(call: OperatorCall) -> SplitRule:
    start, step = call.arguments.get("start", 0), call.arguments.get("step", 1)

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        first, last = start + part.lo * step, start + part.hi * step
        rest = {name: arguments[name] for name in ("dtype", "layout", "device", "pin_memory")}
        rest["dtype"] = rest["dtype"] or _integers_or_floats(start, step, arguments["end"])
        return aten.arange.start_step(first, last, step, **rest)

    return SplitRule(describe(lambda: lambda i: start + step * ElementWise("float")(i)), local=local)


def _integers_or_floats(*numbers: Any) -> torch.dtype:
    return torch.int64 if all(isinstance(n, int) for n in numbers) else torch.get_default_dtype()
