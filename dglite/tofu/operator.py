"""Operators with their descriptions: what the library's rules return, and how a part of an operator is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from ..errors import DGLError
from . import interval
from .strategy import Strategy, TensorShape
from .tdl import OperatorDescription


def bind(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by the names in the operator's schema, defaults filled in."""
    bound: dict[str, Any] = {}
    for number, argument in enumerate(target._schema.arguments):
        if number < len(args) and not argument.kwarg_only:
            bound[argument.name] = args[number]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            bound[argument.name] = argument.default_value
        else:
            raise DGLError(f"{target} needs the argument {argument.name}.")
    return bound


def flat_tensors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors among bound arguments, lists flattened, with the arguments' names."""
    for name, value in arguments.items():
        for x in value if isinstance(value, list | tuple) else (value,):
            if isinstance(x, torch.Tensor):
                yield name, x


def flat_outputs(result: Any) -> list[Any]:
    """Return an operator's outputs, lists flattened and None kept."""
    if not isinstance(result, list | tuple):
        return [result]
    return [output for part in result for output in flat_outputs(part)]


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator, with the shapes of whole tensors.

    Attributes
    ----------
    arguments : dict
        By their names in the schema. Tensors are only asked for shapes and dtypes.
    names : tuple of str
        For each tensor input, the argument it is in.
    inputs, outputs : tuple of shapes
        An output that is None counts as an empty vector.
    """

    target: Any
    arguments: dict[str, Any]
    names: tuple[str, ...]
    inputs: tuple[TensorShape, ...]
    outputs: tuple[TensorShape, ...]

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def shape(self, name: str) -> TensorShape:
        """Return the shape of the tensor argument ``name``."""
        return self.inputs[self.names.index(name)]

    def dims(self, name: str = "dim", tensor: str = "self") -> tuple[int, ...]:
        """Return the dimensions that an argument names, counted from 0; all where it is None or empty."""
        dims, rank = self.arguments.get(name), len(self.shape(tensor))
        dims = [dims] if isinstance(dims, int) else dims
        return tuple(d % rank for d in dims) if dims and rank else tuple(range(rank))


@dataclass(frozen=True)
class OperatorPart:
    """The part ``[lo, hi)`` of a call that is split by a strategy."""

    call: OperatorCall
    strategy: Strategy
    lo: int
    hi: int

    @property
    def index(self) -> str:
        """The index that is split."""
        return self.strategy.index

    @property
    def size(self) -> int:
        """How many of its values the part has."""
        return self.hi - self.lo

    @property
    def adds(self) -> bool:
        """Whether this part adds terms that are added once, such as a bias."""
        return self.lo == 0 and self.hi > 0

    def rows(self, name: str, dim: int) -> tuple[int, int]:
        """Return which rows of the dimension ``dim`` of an input the part has been given."""
        number = self.call.names.index(name)
        span, size = self.strategy.inputs[number][dim], self.call.inputs[number][dim]
        return (0, size) if span is None else span.rows(self.lo, self.hi, size)

    def unclipped(self, name: str, dim: int) -> tuple[int, int]:
        """Return which rows it needs, those that lie in the padding included."""
        number = self.call.names.index(name)
        span = self.strategy.inputs[number][dim]
        return (0, self.call.inputs[number][dim]) if span is None else span.unclipped(self.lo, self.hi)

    def output_rows(self, number: int, dim: int) -> tuple[int, int]:
        """Return which rows of an output the part makes."""
        span, size = self.strategy.outputs[number][dim], self.call.outputs[number][dim]
        return (0, size) if span is None else span.rows(self.lo, self.hi, size)

    def shape(self, number: int = 0) -> TensorShape:
        """Return the shape of the part's output ``number``."""
        rows = (self.output_rows(number, dim) for dim in range(len(self.call.outputs[number])))
        return tuple(last - first for first, last in rows)

    def run(self, arguments: Mapping[str, Any], /, **changed: Any) -> Any:
        """Call the operator on the part's tensors, with some arguments changed."""
        return self.call.target(**{**arguments, **changed})


RunPart = Callable[[OperatorPart, dict[str, Any]], Any]


@dataclass(frozen=True)
class SplitRule:
    """What the library says of a call: its description, and how a part is computed.

    Attributes
    ----------
    extents, keep, exact, additive
        See `interval.strategies`.
    local : callable, optional
        Computes a part from its arguments, whose tensors are cut: ``local(part, arguments)``. Left out, it is the
        operator itself, with the arguments as they are.
    random : bool
        Whether the result is random, so that parts equal the whole in distribution only.
    adjust : callable, optional
        Changes each strategy, to name rows that the description cannot.
    kind : str
        ``"described"``, ``"element-wise"``, or ``"opaque"`` where some dimensions cannot be split.
    """

    description: OperatorDescription
    extents: Mapping[str, int] = field(default_factory=dict)
    keep: Sequence[str] = ()
    exact: bool = False
    additive: bool = False
    local: RunPart | None = None
    random: bool = False
    kind: str = "described"
    adjust: Callable[[Strategy], Strategy] | None = None


@dataclass(frozen=True)
class DescribedOperator:
    """A call with its rule."""

    call: OperatorCall
    rule: SplitRule

    @cached_property
    def strategies(self) -> tuple[Strategy, ...]:
        """Every way to split the call."""
        rule, call = self.rule, self.call
        strategies = interval.strategies(
            rule.description,
            call.inputs,
            call.outputs,
            extents=rule.extents,
            keep=rule.keep,
            exact=rule.exact,
            additive=rule.additive,
        )
        return tuple(map(rule.adjust, strategies)) if rule.adjust else tuple(strategies)


MakeRule = Callable[[OperatorCall], SplitRule | None]

RULES: dict[Any, MakeRule] = {}
"""The rules by operator: an overload, all of its overloads, or the name of one that may not be registered."""


def rule(*targets: Any) -> Callable[[MakeRule], MakeRule]:
    """Register the rule of some operators: a function from a call to its `SplitRule`, or None if it cannot be split."""

    def register(make: MakeRule) -> MakeRule:
        for target in targets:
            RULES[target] = make
        return make

    return register
