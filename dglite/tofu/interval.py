"""Which rows of the inputs a part of an operator needs: intervals that are affine in the bounds of an index.

With the split index in ``[lo, hi)`` and the others taking all their values, the least and the greatest value of an
affine function of the indices are each ``a * lo + b * hi + c``: the coefficients and the constant of a `RowSpan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Where,
    indices_of,
)

Bound = tuple[Number, Number, Number]
"""Coefficients of ``lo`` and ``hi`` of the split index, and the constant."""


def _bound(function: Affine, greatest: bool, index: str, extents: Mapping[str, int]) -> Bound:
    """Return the least value of a function, or the number after its greatest."""
    lo: Number = 0
    hi: Number = 0
    constant = function.constant + (Fraction(1, function.denominator) if greatest else 0)
    for name, coefficient in function.terms:
        if (coefficient > 0) == greatest:  # the index is at its last value, hi - 1
            constant -= coefficient
            if name == index:
                hi = coefficient
            else:
                constant += coefficient * extents[name]
        elif name == index:
            lo = coefficient
    return lo, hi, constant


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

    Raises DGLError if the shapes have other ranks than the description, or an index takes another number of values in
    one place than in another, or in no place alone.

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
    """
    shapes = _shapes(description, inputs, outputs)
    sizes = _extents(description, shapes, outputs, extents or {})
    splits = []
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
        splits.append(Strategy(index, extent, tuple(c for c in combines if c), needs, makes))
    return splits


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


def _accesses(description: OperatorDescription, tensor: str) -> list[Where]:
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
    extents: Mapping[str, int],
) -> dict[str, int]:
    """Return the number of values of each index: of the dimension where it stands alone, outputs before inputs."""
    sizes = dict(extents)
    written = [(o.where, tuple(shape), True) for o, shape in zip(description.outputs, outputs, strict=True)]
    read = [(where, shapes[name], False) for name in description.tensors for where in _accesses(description, name)]
    settled = set(extents)
    for where, shape, is_output in written + read:
        for position, size in zip(where, shape, strict=True):
            if not (isinstance(position, Affine) and position.constant == 0 and [c for _, c in position.terms] == [1]):
                continue
            name = position.names[0]
            if name in extents:
                continue
            if is_output and sizes.get(name, size) != size:
                raise DGLError(f"the index {name} takes {sizes[name]} values in one output and {size} in another.")
            if is_output or name not in settled:
                sizes[name] = min(size, sizes.get(name, size))
            elif sizes[name] > size:
                raise DGLError(f"the index {name} takes {sizes[name]} values, a dimension that it reads has {size}.")
        if is_output:
            settled |= set(sizes)
    for name in (name for output in description.outputs for name in _names(output)):
        if name not in sizes:
            raise DGLError(f"the extent of index {name} is unknown, since it never occurs alone; give it in extents=")
    return sizes


def _names(output: Output) -> list[str]:
    """Return the indices of an output and of its reductions."""
    reductions = [e for e in output.expression.walk() if isinstance(e, Reduction)]
    return [*output.names, *(name for e in reductions for name in e.names)]


def _mentions(output: Output, index: str) -> bool:
    return index in indices_of(output.where) or _binds(output.expression, index)


def _binds(expression: Expression, index: str) -> bool:
    return any(isinstance(e, Reduction) and index in e.names for e in expression.walk())


def _combine(output: Output, index: str, additive: bool) -> Combine | None:
    """Return how parts of ``index`` make the output, None where they do not."""
    for e in output.expression.walk():
        if isinstance(e, Function) and index in indices_of(e.where):
            return None
    if index in indices_of(output.where) or not _binds(output.expression, index):
        return "concat"  # in the second case, every part makes the whole
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
    sides = [_distributes(side, index) for side, contains in ((e.left, left), (e.right, right)) if contains]
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
    accesses: Sequence[Where], index: str, extents: Mapping[str, int], shape: tuple[int, ...], exact: bool
) -> Region:
    """Return the rows that all accesses together touch."""
    if not accesses:
        return (None,) * len(shape)
    columns = zip(*accesses, strict=True)
    return tuple(_hull(column, index, extents, size, exact) for column, size in zip(columns, shape, strict=True))


def _hull(
    column: Sequence[Affine | RowRange | None], index: str, extents: Mapping[str, int], size: int, exact: bool
) -> RowSpan | None:
    bounds = []
    for access in column:
        if access is None:
            return None
        first, last = (access, access) if isinstance(access, Affine) else (access.start, access.stop - 1)
        bounds.append((_bound(first, False, index, extents), _bound(last, True, index, extents)))
    if len({(start[:2], stop[:2]) for start, stop in bounds}) > 1:
        return None
    before, after = min(start[2] for start, _ in bounds), max(stop[2] for _, stop in bounds)
    span = RowSpan(_whole(bounds[0][0][:2]), _whole(bounds[0][1][:2]), *_whole((before, after)))
    if span.start == span.stop == (0, 0) and not (exact and (before > 0 or after < size)):
        return None
    return span


def _whole(numbers: Sequence[Number]) -> tuple[Number, Number]:
    first, second = (int(n) if n.denominator == 1 else n for n in numbers)
    return first, second
