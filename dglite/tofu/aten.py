"""How ATen operators, and dglite's own in compiled programs, can be split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .decompositions import meta_like
from .library import RULES
from .library.common import elementwise
from .nodes import argument_key
from .operator import DescribedOperator, OperatorCall, SplitRule, bind, flat_outputs, flat_tensors
from .strategy import Strategy


def strategies_of(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Strategy]:
    """Return every way to split a call of an operator.

    Parameters
    ----------
    target : torch._ops.OpOverload
        The operator.
    args, kwargs
        Its arguments; tensors are asked for shapes and dtypes only, so they may be on ``meta`` or fake.

    Returns
    -------
    list of Strategy
        Empty for an operator that is not described or cannot be split: every worker has to compute it whole.
    """
    operator = operator_of(target, args, kwargs)
    return list(operator.strategies) if operator else []


_OPERATORS: dict[Any, DescribedOperator | None] = {}
_MANY = 4096
"""Calls that are kept."""


def operator_of(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> DescribedOperator | None:
    """Return a call of an operator with its description, None where it has none: see `strategies_of`."""
    if not isinstance(target, torch._ops.OpOverload) or _maker(target) is None:
        return None
    arguments = bind(target, args, kwargs or {})
    key = target, argument_key(arguments, [])
    if key not in _OPERATORS:
        if len(_OPERATORS) >= _MANY:
            _OPERATORS.clear()
        _OPERATORS[key] = _described(target, meta_like(arguments))
    return _OPERATORS[key]


def _described(target: Any, arguments: dict[str, Any]) -> DescribedOperator | None:
    placed = {name: "meta" if name == "device" else value for name, value in arguments.items()}
    tensors = list(flat_tensors(arguments))
    names, shapes = tuple(name for name, _ in tensors), tuple(tuple(x.shape) for _, x in tensors)
    outputs = flat_outputs(target(**placed))
    call = OperatorCall(target, arguments, names, shapes, tuple(map(_shape, outputs)))
    rule = _maker(target)(call)
    return None if rule is None else DescribedOperator(call, rule)


def _maker(target: Any) -> Any:
    maker = RULES.get(target) or RULES.get(target.overloadpacket) or RULES.get(target._schema.name)
    if maker is None and torch.Tag.pointwise in target.tags and not target._schema.name.startswith("aten::_foreach"):
        return _pointwise
    return maker


def _pointwise(call: OperatorCall) -> SplitRule:
    return elementwise(call, random=torch.Tag.nondeterministic_seeded in call.target.tags)


def _shape(output: Any) -> tuple[int, ...]:
    return tuple(output.shape) if isinstance(output, torch.Tensor) else (0,)
