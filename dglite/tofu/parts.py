"""Run a part of an operator that is split by one index, or by several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DGLError
from .layout import SliceAxis, nests, slice_of_regions
from .operator import DescribedOperator, OperatorPart
from .slices import slice_shape


@dataclass(frozen=True)
class _NestedPart(OperatorPart):
    """A part of a part: what its rule runs is a part by another index."""

    cuts: tuple[SliceAxis, ...] = ()
    rest: OperatorPart | None = None
    local: Any = None

    def run(self, arguments: Mapping[str, Any], /, **changed: Any) -> Any:
        values = {**arguments, **changed}
        return self.local(self.rest, values) if self.rest else self.call.target(**values)

    def shape(self, number: int = 0) -> tuple[int, ...]:
        cuts = [(cut.strategy.outputs[number], cut.lo, cut.hi) for cut in self.cuts]
        return slice_shape(slice_of_regions(cuts, self.call.outputs[number], str(self.call.target)))


def part_runner(op: DescribedOperator, cuts: Sequence[SliceAxis]) -> Callable[[dict[str, Any]], Any]:
    """Return a function from the part's arguments, tensors cut, to its outputs.

    Raises ``DGLError``: if the operator cannot be split by all of these indices at once.
    """
    local, call = op.rule.local, op.call
    if not local:
        return lambda arguments: call.target(**arguments)
    if not nests(call.target, [cut.strategy for cut in cuts]):
        indices = " and ".join(cut.strategy.index for cut in cuts)
        raise DGLError(f"{call.target} cannot be run split by {indices} at once")
    part = _NestedPart(call, cuts[-1].strategy, cuts[-1].lo, cuts[-1].hi, tuple(cuts), None, local)
    for cut in reversed(cuts[:-1]):
        part = _NestedPart(call, cut.strategy, cut.lo, cut.hi, tuple(cuts), part, local)
    return lambda arguments: local(part, arguments)
