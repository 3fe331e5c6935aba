"""Operators that read or write at indices given by a tensor: opaque on the indexed dimensions."""

from __future__ import annotations

from typing import Any

import torch

from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from .common import aligned, index_names, outer, slices

aten = torch.ops.aten


@rule(aten.embedding)
def embedding(call: OperatorCall) -> SplitRule:
    rows = index_names(len(call.shape("indices")))
    return slices(call, [[None, "d"], rows], [[*rows, "d"]])


@rule(aten.gather)
def gather(call: OperatorCall) -> SplitRule:
    rank = len(call.shape("self"))
    names = index_names(rank)
    return slices(call, [outer(rank, call.dims()), names], [names])


@rule(aten.index_select)
def index_select(call: OperatorCall) -> SplitRule:
    rank, (dim,) = len(call.shape("self")), call.dims()
    names = index_names(rank)
    return slices(call, [outer(rank, (dim,)), [names[dim]]], [names])


@rule(aten.scatter_add)
def scatter_add(call: OperatorCall) -> SplitRule:
    """Return the rule of an adding scatter: along the indexed dimension, parts of the index make parts of a sum."""
    shape, (dim,) = call.shape("self"), call.dims()
    whole = {d for d in range(len(shape)) if d != dim and any(other[d] != shape[d] for other in call.inputs)}
    names = outer(len(shape), (dim, *whole))
    along = list(names)
    if call.shape("src") == call.shape("index"):
        along[dim] = "j"
    summed = [f"+{name}" for name in along if name == "j"]
    return slices(call, [names, along, along], [[*names, *summed]], local=_accumulate, added=(0,))


@rule(aten.scatter, aten.scatter_reduce)
def scatter(call: OperatorCall) -> SplitRule | None:
    """Return the rule of a scatter: dimensions that all operands have as a whole, but the one that is indexed."""
    shape = call.shape("self")
    whole = {d for d in range(len(shape)) if any(other[d] != shape[d] for other in call.inputs)}
    names = outer(len(shape), (*call.dims(), *whole))
    return slices(call, [names] * len(call.inputs), [names])


@rule(aten.index)
def index(call: OperatorCall) -> SplitRule | None:
    """Return the rule of ``self[indices]``: by dimensions that are not indexed, and by those of the indices."""
    placed = _index_names(call)
    if placed is None:
        return None
    source, indices, out = placed
    return slices(call, [source, *indices], [out])


@rule(aten.index_put)
def index_put(call: OperatorCall) -> SplitRule | None:
    """Return the rule of ``self[indices] = values``, by dimensions that are not indexed."""
    placed = _index_names(call)
    if placed is None:
        return None
    source, indices, out = placed
    free = {name for name in source if name}
    if not call["accumulate"]:
        values = aligned(call.inputs[-1], [name if name in free else None for name in out])
        return slices(call, [source, *([None] * len(i) for i in indices), values], [source])
    values = aligned(call.inputs[-1], out)
    # an index of one row that all tensors broadcast is in none of them
    read = {name for names in (*indices, values) for name in names}
    summed = [f"+{name}" for name in out if name in read - free]
    return slices(call, [source, *indices, values], [[*source, *summed]], local=_accumulate, added=(0,))


def _accumulate(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    """Add to zeros in all parts of a sum but the one that adds what stood there before."""
    if part.strategy.combine == ("sum",) and not part.adds:
        return part.run(arguments, self=torch.zeros_like(arguments["self"]))
    return part.run(arguments)


def _index_names(call: OperatorCall) -> tuple[list[str | None], list[list[str | None]], list[str | None]] | None:
    """Return indices for the tensor, for the tensors that index it, and for the result.

    None where a mask chooses the rows, so that their number is not known.
    """
    shape = call.shape("self")
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in call["indices"]):
        return None
    used = [d for d, i in enumerate(call["indices"]) if i is not None]
    shapes = [tuple(i.shape) for i in call["indices"] if i is not None]
    common: list[str | None] = list(index_names(max(map(len, shapes)), "j"))
    source = outer(len(shape), used)
    together = used == list(range(used[0], used[-1] + 1))
    out = list(source)
    for d in reversed(used):
        del out[d]
    at = used[0] if together else 0
    return source, [aligned(shape, common) for shape in shapes], out[:at] + common + out[at:]
