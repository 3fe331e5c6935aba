"""Helpers that many rules share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..operator import OperatorCall, RunPart, SplitRule, TensorShape
from ..tdl import ElementWise, Expression, IndexedFunction, Opaque, Place, Sum, TensorSymbol, describe, over

IndexNames = Sequence[str | None]
"""An index's name for each dimension of a tensor; None where the dimension is read or made as a whole."""

NOTHING = over([], lambda: Place(0, slice(None)))
"""An output that is not asked for."""


def index_names(rank: int, prefix: str = "i") -> list[str]:
    """Return names for the indices of ``rank`` dimensions."""
    return [f"{prefix}{number}" for number in range(rank)]


def broadcast(shape: TensorShape, index: Sequence[Any]) -> tuple[Any, ...]:
    """Return where an operand of ``shape`` is read for the output's ``index``: dimensions of size 1 at 0."""
    return tuple(0 if size == 1 else i for size, i in zip(shape, index[len(index) - len(shape) :], strict=True))


def elementwise(call: OperatorCall, local: RunPart | None = None, random: bool = False) -> SplitRule:
    """Return the rule of an operator whose outputs have the shape that the inputs broadcast to."""

    def outputs(*tensors: TensorSymbol) -> tuple[IndexedFunction, ...]:
        def element(*i: Any) -> Expression:
            read = (x[broadcast(shape, i)] for x, shape in zip(tensors, call.inputs, strict=True))
            return ElementWise(str(call.target))(*read)

        return tuple(over(index_names(len(shape)), element) for shape in call.outputs)

    description = describe(outputs, index_names(len(call.inputs), "x"))
    return SplitRule(description, local=local, random=random, kind="element-wise")


def slices(
    call: OperatorCall,
    inputs: Sequence[IndexNames] | Mapping[str, IndexNames],
    outputs: Sequence[IndexNames],
    local: RunPart | None = None,
    random: bool = False,
    beside: Sequence[int] = (),
    added: Sequence[int] = (),
) -> SplitRule:
    """Return the rule of an operator that is an opaque function of slices, whose inputs are listed or named.

    An index that some outputs lack, named in their ``outputs`` entry by ``+name``, is summed over for them. Outputs
    with numbers in ``beside`` come out whole for every part, whatever index is split. Inputs with numbers in ``added``
    are added to the sum: one part of it has to do so.
    """

    read = [inputs[name] for name in call.names] if isinstance(inputs, Mapping) else inputs

    def output(tensors: Sequence[TensorSymbol], number: int) -> IndexedFunction:
        names, shape = outputs[number], call.outputs[number]
        if number in beside or 0 in shape:
            return over([], lambda: Place(0, *[slice(None)] * len(shape)))
        free = [n for n in names if n and not n.startswith("+")]
        summed = [n[1:] for n in names if n and n.startswith("+")]
        place = [n for n in names if not (n and n.startswith("+"))]

        def element(*i: Any) -> Any:
            indices = dict(zip(free, i, strict=True))
            apart = added if summed else ()

            def body(*j: Any) -> Expression:
                bound = indices | dict(zip(summed, j, strict=True))
                used = (n for n in range(len(tensors)) if n not in apart)
                return Opaque(str(call.target))(*(tensors[n][_positions(read[n], bound)] for n in used))

            value = Sum(over(summed, body)) if summed else body()
            for n in apart:
                value = tensors[n][_positions(read[n], indices)] + value
            return Place(value, *_positions(place, indices))

        return over(free, element)

    def all_outputs(*x: TensorSymbol) -> tuple[IndexedFunction, ...]:
        return tuple(output(x, number) for number in range(len(call.outputs)))

    description = describe(all_outputs, index_names(len(call.inputs), "x"))
    return SplitRule(description, local=local, random=random, kind="opaque", additive=bool(added))


def _positions(names: IndexNames, indices: dict[str, Any]) -> tuple[Any, ...]:
    """Return the index of each name, the whole dimension for a name without one."""
    return tuple(indices[n] if n in indices else slice(None) for n in names)


def aligned(shape: TensorShape, names: Sequence[str | None]) -> list[str | None]:
    """Return the names for an operand that broadcasts: none where its size is 1."""
    names = list(names)[len(names) - len(shape) :]
    return [None if size == 1 else name for size, name in zip(shape, names, strict=True)]


def fitted(shape: TensorShape, names: Sequence[str | None]) -> list[str | None]:
    """Return the names for a tensor that may lack the dimensions without one."""
    return list(names) if len(shape) == len(names) else [name for name in names if name]


def outer(rank: int, inner: Sequence[int]) -> list[str | None]:
    """Return an index for each of ``rank`` dimensions but the ``inner`` ones, which are read as a whole."""
    return [None if d in inner else f"i{d}" for d in range(rank)]


def resized(*names: str) -> RunPart:
    """Return how to run a part of an operator whose arguments ``names`` are the size of its output."""
    return lambda part, arguments: part.run(arguments, **{name: list(part.shape()) for name in names})
