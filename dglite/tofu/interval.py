"""Which rows of the inputs a part of an operator needs: intervals that are affine in the bounds of the indices.

With the indices x1 ... xn in ``[lo1, hi1)`` ... ``[lon, hin)``, each bound of a region is a linear function of the
vector (lo1, hi1, ..., lon, hin, 1). To split one index, its two bounds stay symbols and the others take their values:
that leaves the two coefficients and the constant of a `RowSpan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..errors import DGLError
from .affine import Affine
from .strategy import Combine, Number, Region, RowSpan, Strategy
from .tdl import (
    Binary,
    ConstantExpression,
    Element,
    Expression,
    Function,
    OperatorDescription,
    Output,
    Reduction,
    RowRange,
    indices_of,
)

Bound = tuple[Number, Number, Number]
"""Coefficients of ``lo`` and ``hi`` of the split index, and the constant."""


@dataclass(frozen=True)
class Interval:
    """The first row and the row after the last, as linear functions of all indices' bounds.

    Each is a mapping from ``(index, 0)`` for the index's ``lo``, ``(index, 1)`` for its ``hi``, and None for 1.
    """

    start: Mapping[tuple[str, int] | None, Number]
    stop: Mapping[tuple[str, int] | None, Number]

    @classmethod
    def of(cls, start: Affine, last: Affine) -> Interval:
        """Return the rows from the least value of ``start`` to the greatest of ``last``, its own row included."""
        first: dict[tuple[str, int] | None, Number] = {None: start.constant}
        after: dict[tuple[str, int] | None, Number] = {None: last.constant + Fraction(1, last.denominator)}
        for name, coefficient in start.terms:
            _extreme(first, name, coefficient, coefficient < 0)
        for name, coefficient in last.terms:
            _extreme(after, name, coefficient, coefficient > 0)
        return cls(first, after)

    def split(self, index: str, extents: Mapping[str, int]) -> tuple[Bound, Bound]:
        """Return both bounds where ``index`` keeps its symbols and each other index takes all its values."""
        return _settle(self.start, index, extents), _settle(self.stop, index, extents)


def _extreme(vector: dict[tuple[str, int] | None, Number], name: str, coefficient: Number, greatest: bool) -> None:
    """Add ``coefficient`` times the greatest, ``hi - 1``, or the least value, ``lo``, of an index."""
    key = (name, int(greatest))
    vector[key] = vector.get(key, 0) + coefficient
    if greatest:
        vector[None] -= coefficient


def _settle(vector: Mapping[tuple[str, int] | None, Number], index: str, extents: Mapping[str, int]) -> Bound:
    constant = vector[None]
    for key, coefficient in vector.items():
        if key is not None and key[0] != index and key[1]:
            constant += coefficient * extents[key[0]]
    return vector.get((index, 0), 0), vector.get((index, 1), 0), constant


def _intervals(where: Sequence[Affine | RowRange]) -> list[Interval | None]:
    found: list[Interval | None] = []
    for one in where:
        if isinstance(one, Affine):
            found.append(Interval.of(one, one))
        elif one.start is None or one.stop is None:
            found.append(None)
        else:
            found.append(Interval.of(one.start, one.stop - 1))
    return found


def strategies(
    description: OperatorDescription,
    inputs: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int]],
    *,
    extents: Mapping[str, int] | None = None,
    keep: Sequence[str] = (),
    exact: bool = False,
    additive: bool = False,
) -> list[Strategy]:
    """Return every way to split the operator that is described, for given shapes.

    Parameters
    ----------
    inputs, outputs : sequence of shapes
        Of the tensors in the description's order.
    extents : mapping, optional
        How many values indices take that stand alone in no dimension.
    keep : sequence of str
        Indices that are never split.
    exact : bool
        Whether a dimension without the split index is cut to what the operator reads of it, else it is kept whole.
    additive : bool
        Whether to split reductions that something is added to, as the bias is in ``bias[j] + Sum(...)``. The parts then
        have to see to it that one of them adds it.

    Raises
    ------
    DGLError
        If the shapes have other ranks than the description, or an index takes another number of values in one place
        than in another, or in no place alone.
    """
    shapes = _shapes(description, inputs, outputs)
    sizes = _extents(description, shapes, outputs, extents or {})
    found = []
    for index, extent in sizes.items():
        if extent < 2 or index in keep:
            continue
        combines = [_combine(output, index, additive) for output in description.outputs]
        if any(c is None for c in combines) or not any(_mentions(o, index) for o in description.outputs):
            continue
        needs = tuple(
            _region(_accesses(description, name), index, sizes, shapes[name], exact) for name in description.tensors
        )
        makes = tuple(
            _region([o.where], index, sizes, tuple(shape), False)
            for o, shape in zip(description.outputs, outputs, strict=True)
        )
        found.append(Strategy(index, extent, tuple(c for c in combines if c), needs, makes))
    return found


def _shapes(
    description: OperatorDescription, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    if len(inputs) != len(description.tensors) or len(outputs) != len(description.outputs):
        raise DGLError(
            f"the description has {len(description.tensors)} inputs and {len(description.outputs)} outputs, the "
            f"operator {len(inputs)} and {len(outputs)}."
        )
    shapes = {name: tuple(shape) for name, shape in zip(description.tensors, inputs, strict=True)}
    for name, rank in description.ranks.items():
        if len(shapes[name]) != rank:
            raise DGLError(f"{name} is described with {rank} dimensions and has the shape {shapes[name]}.")
    for number, (output, shape) in enumerate(zip(description.outputs, outputs, strict=True)):
        if len(output.where) != len(shape):
            raise DGLError(f"output {number} is described with {len(output.where)} indices, its shape is {shape}.")
    return shapes


def _accesses(description: OperatorDescription, tensor: str) -> list[tuple[Affine | RowRange, ...]]:
    return [
        e.where
        for output in description.outputs
        for e in output.expression.walk()
        if isinstance(e, Element) and e.tensor == tensor
    ]


def _extents(
    description: OperatorDescription,
    shapes: Mapping[str, tuple[int, ...]],
    outputs: Sequence[Sequence[int]],
    given: Mapping[str, int],
) -> dict[str, int]:
    """Return the number of values of each index: of the dimension where it stands alone, outputs before inputs."""
    sizes = dict(given)
    made = [(o.where, tuple(shape), True) for o, shape in zip(description.outputs, outputs, strict=True)]
    read = [(where, shapes[name], False) for name in description.tensors for where in _accesses(description, name)]
    settled = set(given)
    for where, shape, is_output in made + read:
        for one, size in zip(where, shape, strict=True):
            if not (isinstance(one, Affine) and one.constant == 0 and [c for _, c in one.terms] == [1]):
                continue
            name = one.names[0]
            if name in given:
                continue
            if is_output and sizes.get(name, size) != size:
                raise DGLError(f"the index {name} takes {sizes[name]} values in one output and {size} in another.")
            if is_output or name not in settled:
                sizes[name] = min(size, sizes.get(name, size))
            elif sizes[name] > size:
                raise DGLError(f"the index {name} takes {sizes[name]} values, a dimension that it reads has {size}.")
        if is_output:
            settled |= set(sizes)
    for name in _all_indices(description):
        if name not in sizes:
            raise DGLError(f"the extent of index {name} is unknown, since it never occurs alone; give it in extents=")
    return sizes


def _all_indices(description: OperatorDescription) -> list[str]:
    names: dict[str, None] = {}
    for output in description.outputs:
        names |= dict.fromkeys(output.names)
        for e in output.expression.walk():
            if isinstance(e, Reduction):
                names |= dict.fromkeys(e.names)
    return list(names)


def _mentions(output: Output, index: str) -> bool:
    return index in indices_of(output.where) or _binds(output.expression, index)


def _binds(expression: Expression, index: str) -> bool:
    return any(isinstance(e, Reduction) and index in e.names for e in expression.walk())


def _combine(output: Output, index: str, additive: bool) -> Combine | None:
    """Return how parts of ``index`` make the output, None where they do not."""
    for e in output.expression.walk():
        if isinstance(e, Function) and index in indices_of(e.where):
            return None
    if not _mentions(output, index):
        return "concat"  # every part makes the whole
    if index in indices_of(output.where):
        return "concat"
    split = _distributes(output.expression, index)
    return split[0] if split and (additive or not split[1]) else None


def _distributes(expression: Expression, index: str) -> tuple[Combine, bool] | None:
    """Return the reduction of parts of ``index``, if one makes the whole of them, and whether it has other terms."""
    if isinstance(expression, Reduction):
        if index in expression.names:
            return expression.combine, False
        inner = _distributes(expression.body, index)
        return inner if inner and inner[0] == expression.combine else None
    if not isinstance(expression, Binary):
        return None
    left, right = _binds(expression.left, index), _binds(expression.right, index)
    return (_of_sum if expression.operator in "+-" else _of_product)(expression, index, left, right)


def _of_sum(e: Binary, index: str, left: bool, right: bool) -> tuple[Combine, bool] | None:
    sides = [_distributes(side, index) for side, has in ((e.left, left), (e.right, right)) if has]
    if any(side is None or side[0] != "sum" for side in sides):
        # max(x) + c is the max of parts that each have added c, and so is min, but for c - max(x)
        alone = sides[0] if len(sides) == 1 else None
        keeps = alone and alone[0] in ("max", "min") and not (right and e.operator == "-")
        return alone if keeps else None
    zero = any(isinstance(side, ConstantExpression) and not side.value for side in (e.left, e.right))
    return "sum", (len(sides) == 1 and not zero) or any(side[1] for side in sides if side)


def _of_product(e: Binary, index: str, left: bool, right: bool) -> tuple[Combine, bool] | None:
    if (left and right) or (right and e.operator == "/"):
        return None
    inner, factor = (_distributes(e.left, index), e.right) if left else (_distributes(e.right, index), e.left)
    if inner and inner[0] in ("max", "min"):
        return inner if isinstance(factor, ConstantExpression) and factor.value > 0 else None
    return inner if inner and inner[0] == "sum" else None


def _region(
    accesses: Sequence[Sequence[Affine | RowRange]],
    index: str,
    extents: Mapping[str, int],
    shape: tuple[int, ...],
    exact: bool,
) -> Region:
    """Return the rows that all accesses together touch."""
    if not accesses:
        return (None,) * len(shape)
    columns = zip(*(_intervals(where) for where in accesses), strict=True)
    return tuple(_hull(column, index, extents, size, exact) for column, size in zip(columns, shape, strict=True))


def _hull(
    column: Sequence[Interval | None], index: str, extents: Mapping[str, int], size: int, exact: bool
) -> RowSpan | None:
    bounds = [interval.split(index, extents) for interval in column if interval is not None]
    if len(bounds) < len(column) or len({(start[:2], stop[:2]) for start, stop in bounds}) > 1:
        return None
    before, after = min(start[2] for start, _ in bounds), max(stop[2] for _, stop in bounds)
    span = RowSpan(_whole(bounds[0][0][:2]), _whole(bounds[0][1][:2]), *_whole((before, after)))
    if span.start == span.stop == (0, 0) and not (exact and (before > 0 or after < size)):
        return None
    return span


def _whole(numbers: Sequence[Number]) -> tuple[Number, Number]:
    first, second = (int(n) if n.denominator == 1 else n for n in numbers)
    return first, second
