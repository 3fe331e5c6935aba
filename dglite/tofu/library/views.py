"""Views and other operators that only move elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..operator import OperatorCall, OperatorPart, SplitRule, TensorShape, rule
from ..tdl import Expression, IndexedFunction, Opaque, Place, TensorSymbol, describe, over
from .common import elementwise, fitted, index_names, outer, resized, slices

aten = torch.ops.aten


rule(aten.alias, aten.detach, aten._to_copy, aten.lift_fresh_copy, aten.copy)(elementwise)


def _moved(call: OperatorCall, where: Callable[[tuple[Any, ...]], tuple[Any, ...]], **options: Any) -> SplitRule:
    """Return the rule of an operator whose output has the input's element ``where(i)`` at ``i``."""
    names = index_names(len(call.outputs[0]))
    return SplitRule(describe(lambda x: over(names, lambda *i: x[where(i)])), **options)


@rule(aten.permute)
def permute(call: OperatorCall) -> SplitRule:
    dims = call.dims("dims")
    names = index_names(len(dims))
    return SplitRule(
        describe(lambda x: over([names[d] for d in dims], lambda *i: x[tuple(i[dims.index(d)] for d in range(len(i)))]))
    )


@rule(aten.unsqueeze)
def unsqueeze(call: OperatorCall) -> SplitRule:
    new = call["dim"] % len(call.outputs[0])
    return _moved(call, lambda i: i[:new] + i[new + 1 :])


@rule(aten.squeeze)
def squeeze(call: OperatorCall) -> SplitRule:
    shape = call.inputs[0]
    named = call.dims() if "dim" in call.arguments else range(len(shape))
    squeezed = {d for d in named if shape[d] == 1}

    def where(i: tuple[Any, ...]) -> tuple[Any, ...]:
        rest = iter(i)
        return tuple(0 if d in squeezed else next(rest) for d in range(len(shape)))

    # a part of one row would lose a dimension that the whole keeps
    return _moved(call, where, local=_reshape)


def _reshape(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    return arguments["self"].reshape(part.shape())


@rule(aten.expand)
def expand(call: OperatorCall) -> SplitRule:
    return replace(elementwise(call, local=resized("size")), kind="described")


def _groups(before: TensorShape, after: TensorShape) -> list[tuple[range, range]]:
    """Return the runs of dimensions that a view turns into one another: those with the same number of elements."""
    groups, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        first, second = i, j
        left, right = 1, 1
        while True:
            if i < len(before) and (left < right or i == first) and (left <= right or j == len(after)):
                left, i = left * before[i], i + 1
            elif j < len(after) and (right < left or j == second):
                right, j = right * after[j], j + 1
            else:
                break
        groups.append((range(first, i), range(second, j)))
    return groups


@rule(aten.view, aten._unsafe_view, aten.reshape)
def view(call: OperatorCall) -> SplitRule | None:
    """Return the rule of a reshape: dimensions that are merged or split are split in blocks of rows."""
    before, after = call.inputs[0], call.outputs[0]
    if 0 in before:
        return None
    read: list[Any] = [slice(None)] * len(before)
    written: list[Any] = [slice(None)] * len(after)
    blocks: dict[str, tuple[int, int, int, int, int]] = {}
    for source, sink in _groups(before, after):
        sources = [d for d in source if before[d] > 1]
        sinks = [d for d in sink if after[d] > 1]
        if sources and sinks:
            d, e = sources[0], sinks[0]
            extent = math.gcd(before[d], after[e])
            blocks[f"i{d}"] = (d, before[d] // extent, e, after[e] // extent, extent)

    def block(i: Any, size: int) -> Any:
        return i if size == 1 else slice(i * size, i * size + size)

    def element(x: TensorSymbol) -> IndexedFunction:
        def at(*i: Any) -> Any:
            for u, (d, rows, e, out_rows, _) in zip(i, blocks.values(), strict=True):
                read[d], written[e] = block(u, rows), block(u, out_rows)
            return Place(Opaque("view")(x[tuple(read)]), *written)

        return over(list(blocks), at)

    extents = {name: extent for name, (*_, extent) in blocks.items()}
    return SplitRule(describe(element), extents=extents, local=_reshape)


@rule(aten.slice)
def slice_tensor(call: OperatorCall) -> SplitRule:
    (dim,) = call.dims()
    start, _, step = slice(call["start"], call["end"], call["step"]).indices(call.shape("self")[dim])

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        # the part of the input begins with the slice's first row
        return part.run(arguments, start=0, end=None)

    return _moved(call, lambda i: (*i[:dim], i[dim] * step + start, *i[dim + 1 :]), exact=True, local=local)


@rule(aten.select)
def select(call: OperatorCall) -> SplitRule:
    (dim,) = call.dims()
    row = call["index"] % call.shape("self")[dim]

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        return part.run(arguments, index=0)

    return _moved(call, lambda i: (*i[:dim], row, *i[dim:]), exact=True, local=local)


@rule(aten.split_with_sizes)
def split(call: OperatorCall) -> SplitRule:
    shape, (dim,) = call.shape("self"), call.dims()
    names = outer(len(shape), (dim,))
    sizes = [shape_of[dim] for shape_of in call.outputs if len(shape_of) == len(shape)]
    if len(set(sizes)) != 1:
        return slices(call, [names], [fitted(shape_of, names) for shape_of in call.outputs])

    # pieces of one size are split alike: a part has the same rows of each
    def piece(x: TensorSymbol, number: int) -> IndexedFunction:
        start = number * sizes[0]
        return over(index_names(len(shape)), lambda *i: x[(*i[:dim], i[dim] + start, *i[dim + 1 :])])

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        if part.index != f"i{dim}":
            return part.run(arguments)
        x, size = arguments["self"], part.size
        return [x.narrow(dim, number * sizes[0], size).clone() for number in range(len(sizes))]

    return SplitRule(describe(lambda x: tuple(piece(x, number) for number in range(len(sizes)))), local=local)


@rule(aten.cat)
def cat(call: OperatorCall) -> SplitRule | None:
    rank = len(call.outputs[0])
    dim = call["dim"] % rank
    if any(len(shape) != rank for shape in call.inputs):
        return None  # torch ignores empty vectors beside tensors of other ranks
    ends = [0]
    for shape in call.inputs:
        ends.append(ends[-1] + shape[dim])

    # of an operand that does not reach a part, clipping leaves no rows
    def element(*operands: TensorSymbol) -> IndexedFunction:
        def at(*i: Any) -> Expression:
            reads = (x[(*i[:dim], i[dim] - start, *i[dim + 1 :])] for x, start in zip(operands, ends[:-1], strict=True))
            return Opaque("cat")(*reads)

        return over(index_names(rank), at)

    return SplitRule(describe(element, index_names(len(call.inputs), "x")), extents={f"i{dim}": ends[-1]})


@rule(aten.flip)
def flip(call: OperatorCall) -> SplitRule:
    shape, dims = call.shape("self"), call.dims("dims") if call["dims"] else ()
    return _moved(call, lambda i: tuple(shape[d] - 1 - j if d in dims else j for d, j in enumerate(i)))


@rule(aten.repeat)
def repeat(call: OperatorCall) -> SplitRule:
    """Return the rule of a repetition: only dimensions that are not repeated are split."""
    repeats, shape = call["repeats"], call.shape("self")
    new = len(repeats) - len(shape)
    whole = [d for d, times in enumerate(repeats) if times != 1 or d < new]
    names = outer(len(repeats), whole)
    return slices(call, [names[new:]], [names])


@rule(aten.diagonal)
def diagonal(call: OperatorCall) -> SplitRule:
    rank = len(call.shape("self"))
    first, second = call["dim1"] % rank, call["dim2"] % rank
    names = outer(rank, (first, second))
    return slices(call, [names], [[n for n in names if n] + [None]])


@rule(aten.constant_pad_nd)
def constant_pad_nd(call: OperatorCall) -> SplitRule:
    shape, pad = call.shape("self"), call["pad"]
    rank = len(shape)
    before = {rank - 1 - n // 2: pad[n] for n in range(0, len(pad), 2)}

    def element(x: TensorSymbol) -> IndexedFunction:
        return over(
            index_names(rank), lambda *i: Opaque("pad")(x[tuple(j - before.get(d, 0) for d, j in enumerate(i))])
        )

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        changed = list(pad)
        for d in before:
            if part.strategy.inputs[0][d] is not None:
                (first, last), (start, stop) = part.rows("self", d), part.unclipped("self", d)
                at = 2 * (rank - 1 - d)
                size = stop - start
                # a part all in the padding has been given no rows
                left = min(first - start, size) if first < last else size
                changed[at : at + 2] = [left, size - left - (last - first)]
        return part.run(arguments, pad=changed)

    extents = dict(zip(index_names(rank), call.outputs[0], strict=True))
    return SplitRule(describe(element), extents=extents, local=local)


@rule(aten.slice_scatter, aten.select_scatter)
def scatter_slice(call: OperatorCall) -> SplitRule:
    names = outer(len(call.shape("self")), call.dims())
    return slices(call, [names, fitted(call.shape("src"), names)], [names])
