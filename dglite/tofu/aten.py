"""How ATen operators, and dglite's own in compiled programs, can be split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from .library import RULES
from .library.common import elementwise
from .operator import DescribedOperator, OperatorCall, SplitRule, bind, flat_outputs, flat_tensors
from .strategy import Strategy


def strategies_of(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, outputs: Any = None
) -> list[Strategy]:
    """Return every way to split a call of an operator.

    Parameters
    ----------
    target : torch._ops.OpOverload
        The operator.
    args, kwargs
        Its arguments; tensors are asked for shapes and dtypes only, so they may be on ``meta`` or fake.
    outputs : optional
        What the call returns, where that is known: the values in a graph's nodes. Else it is run on ``meta``.

    Returns
    -------
    list of Strategy
        Empty for an operator that is not described or cannot be split: every worker has to compute it whole.
    """
    operator = operator_of(target, args, kwargs, outputs)
    return list(operator.strategies) if operator else []


def operator_of(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, outputs: Any = None
) -> DescribedOperator | None:
    """Return a call of an operator with its description, None where it has none: see `strategies_of`."""
    if not isinstance(target, torch._ops.OpOverload) or _maker(target) is None:
        return None
    arguments = bind(target, args, kwargs or {})
    output_shapes = None if outputs is None else tuple(map(_shape, flat_outputs(outputs)))
    return _cached(target, tuple((name, _frozen(value)) for name, value in arguments.items()), output_shapes)


def _maker(target: Any) -> Any:
    maker = RULES.get(target) or RULES.get(target.overloadpacket) or RULES.get(target._schema.name)
    if maker is None and torch.Tag.pointwise in target.tags and not target._schema.name.startswith("aten::_foreach"):
        return _pointwise
    return maker


def _pointwise(call: OperatorCall) -> SplitRule:
    return elementwise(call, random=torch.Tag.nondeterministic_seeded in call.target.tags)


class _Meta(tuple):
    """Shape, strides and dtype of a tensor argument, to tell calls apart by."""

    __slots__ = ()


def _frozen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Meta((tuple(value.shape), value.stride(), value.dtype))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return type(value), value


def _thawed(value: Any) -> Any:
    if isinstance(value, _Meta):
        shape, stride, dtype = value
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    if len(value) == 2 and isinstance(value[0], type):
        return value[1]
    return [_thawed(item) for item in value]


@lru_cache(maxsize=4096)
def _cached(
    target: Any, frozen: tuple[tuple[str, Any], ...], outputs: tuple[Any, ...] | None
) -> DescribedOperator | None:
    arguments = {name: _thawed(value) for name, value in frozen}
    if outputs is None:
        placed = {name: "meta" if name == "device" else value for name, value in arguments.items()}
        outputs = tuple(map(_shape, flat_outputs(target(**placed))))
    tensors = list(flat_tensors(arguments))
    call = OperatorCall(
        target, arguments, tuple(name for name, _ in tensors), tuple(tuple(x.shape) for _, x in tensors), outputs
    )
    rule = _maker(target)(call)
    return None if rule is None else DescribedOperator(call, rule)


def _shape(output: Any) -> tuple[int, ...]:
    return tuple(output.shape) if isinstance(output, torch.Tensor) else (0,)
