"""What runs a stage without kernels: products of many rows, and torch's functions.

The rest of a sweep is kernels, which go through their lines without coming back (see :mod:`.schedule`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .ir import Domain, NodeKind
from .layout import GradientSource, SharedSource, StateSource, TableSource
from .memory import Memory, Pool
from .order import Order
from .recipe import Buffer, Heavy
from .schedule import Own

__all__ = ["SweepCall", "addresses", "bind"]


@dataclass
class SweepCall:
    """What all classes share in one call. ``buffers`` has the address that row 0 of the graph has in each buffer."""

    order: Order
    states: list[torch.Tensor]
    shared: list[torch.Tensor]
    slots: int
    pool: Pool
    buffers: dict[Buffer, int] = field(default_factory=dict)
    shared_grads: dict[int, torch.Tensor] = field(default_factory=dict)
    tables: dict[tuple[int, bool], Any] = field(default_factory=dict)


def addresses(sources: Sequence[Any], call: SweepCall) -> list[int]:
    """Return the address of each source of a schedule's words."""
    order, slots = call.order, call.slots
    tables, states, shared, gradients = call.tables, call.states, call.shared, call.shared_grads
    find = {
        Buffer: call.buffers.__getitem__,
        str: lambda name: order.address(name, slots),
        StateSource: lambda source: states[source.state].data_ptr(),
        SharedSource: lambda source: shared[source.index].data_ptr(),
        GradientSource: lambda source: gradients[source.index].data_ptr() if source.index in gradients else 0,
        TableSource: lambda source: tables[source.state, source.by_slot].ctypes.data,
    }
    return [find[type(source)](source) for source in sources]


def bind(stage: Heavy, memory: Memory, call: SweepCall) -> Own:
    """Return what runs a stage for a run of rows."""
    return _BINDERS[stage.node.kind](stage, memory, call)


class _ClassRows:
    """Some rows of a class's tensor, asked for by their numbers in the graph."""

    def __init__(self, tensor: torch.Tensor, start: int) -> None:
        self._tensor, self._start = tensor, start

    def __call__(self, first: int, last: int) -> torch.Tensor:
        return self._tensor[first - self._start : last - self._start]


def _rows(memory: Memory, place: Any, domain: Domain) -> _ClassRows:
    return _ClassRows(memory.tensor(place), memory.span.first(domain))


# -- products --------------------------------------------------------------------------------------------------------
def _bind_matmul(stage: Heavy, memory: Memory, call: SweepCall) -> Own:
    domain, weight = stage.node.domain, call.shared[stage.node.inputs[1].attr]
    weight = weight.t() if stage.node.attr else weight
    x, out = (_rows(memory, place, domain) for place in (stage.places[0], stage.place))

    def run(first: int, last: int, adds: bool) -> None:
        torch.mm(x(first, last), weight, out=out(first, last))

    return run


def _bind_weight_grad(stage: Heavy, memory: Memory, call: SweepCall) -> Own:
    """Add ``x.T @ gradient``, in the layout of the weight."""
    domain, index = stage.node.inputs[0].domain, stage.node.attr
    weight = call.shared[index]
    turned = lies_by_columns(weight)
    places = reversed(stage.places) if turned else stage.places
    left, right = (_rows(memory, place, domain) for place in places)

    def run(first: int, last: int, adds: bool) -> None:
        known, x, y = call.shared_grads.get(index), left(first, last).t(), right(first, last)
        if known is None:
            made = call.pool.empty((x.shape[0], y.shape[1]), x.dtype)
            call.shared_grads[index] = made.t() if turned else made
            torch.mm(x, y, out=made)
        elif adds:
            (known.t() if turned else known).addmm_(x, y)
        else:
            torch.mm(x, y, out=known.t() if turned else known)

    return run


def lies_by_columns(weight: torch.Tensor) -> bool:
    """Whether a matrix lies by columns; its gradient does likewise."""
    return weight.stride(0) == 1 and weight.shape[0] > 1


def _bind_column_sum(stage: Heavy, memory: Memory, call: SweepCall) -> Own:
    index = stage.node.attr
    x = _rows(memory, stage.places[0], stage.node.inputs[0].domain)

    def run(first: int, last: int, adds: bool) -> None:
        _accumulate(call, index, x(first, last).sum(0), adds)

    return run


def _accumulate(call: SweepCall, index: int, term: torch.Tensor, adds: bool) -> None:
    known = call.shared_grads.get(index)
    if known is None:
        call.shared_grads[index] = term if term.is_sparse else term.view(call.shared[index].shape)
    elif not adds:
        known.copy_(term.to_dense().view(known.shape))
    elif known.is_sparse:
        call.shared_grads[index] = known + term
    else:
        known += term if term.is_sparse else term.view(known.shape)


# -- torch functions -------------------------------------------------------------------------------------------------
def _inputs(stage: Heavy, memory: Memory, call: SweepCall) -> list[Callable[[int, int], torch.Tensor]]:
    """Return what gives each input's rows; all of it where it is shared."""
    found: list[Callable[[int, int], torch.Tensor]] = []
    for x, place in zip(stage.node.inputs, stage.places, strict=True):
        if place is None:
            found.append(lambda first, last, whole=call.shared[x.attr]: whole)  # type: ignore[misc]
        else:
            found.append(_rows(memory, place, x.domain))
    return found


def _bind_opaque(stage: Heavy, memory: Memory, call: SweepCall) -> Own:
    node, inputs = stage.node, _inputs(stage, memory, call)
    rows = _rows(memory, stage.place, node.domain)

    def run(first: int, last: int, adds: bool) -> None:
        out = rows(first, last)
        out.copy_(node.attr([x(first, last) for x in inputs], last - first).reshape(out.shape))

    return run


def _bind_vjp(stage: Heavy, memory: Memory, call: SweepCall) -> Own:
    function, wanted = stage.node.attr
    *inputs, gradients = _inputs(stage, memory, call)
    rows = None if stage.place is None else _rows(memory, stage.place, stage.node.domain)

    def run(first: int, last: int, adds: bool) -> None:
        values = [x(first, last).detach() for x in inputs]
        gradient = gradients(first, last)
        with torch.enable_grad():
            target = values[wanted] = values[wanted].requires_grad_()
            result = function(values, last - first)
        (found,) = torch.autograd.grad(result, target, gradient.reshape(result.shape))
        if rows is None:
            _accumulate(call, stage.node.inputs[wanted].attr, found, adds)
        else:
            out = rows(first, last)
            out.copy_(found.reshape(out.shape))

    return run


def _bind_random(stage: Heavy, memory: Memory, call: SweepCall) -> Own:
    rows = _rows(memory, stage.place, stage.node.domain)

    def run(first: int, last: int, adds: bool) -> None:
        rows(first, last).bernoulli_(stage.node.attr)

    return run


_BINDERS = {
    NodeKind.MATMUL: _bind_matmul,
    NodeKind.WEIGHT_GRAD: _bind_weight_grad,
    NodeKind.COLUMN_SUM: _bind_column_sum,
    NodeKind.OPAQUE: _bind_opaque,
    NodeKind.VJP: _bind_vjp,
    NodeKind.RANDOM: _bind_random,
}
