"""What runs a stage without kernels: products of many rows, and torch's functions.

The rest is kernels, which go through their lines without coming back (see :mod:`dglite.kernels.cpu.dynamic.schedule`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ..program.ir import Node, NodeKind
from ..program.recipe import Cell, Heavy, Place
from .memory import Arena

__all__ = ["Own", "SweepCall", "bind"]

Own = Callable[[int, int], None]
"""Runs a stage without kernels for some rows of the graph's order: from the first to before the last."""
Rows = Callable[[int, int], torch.Tensor]


@dataclass
class SweepCall:
    """One call: the inputs' values, the row of each that each row of the order pulls, the shared tensors, the memory of
    all else, and the addresses in it. ``side`` returns (number of an address, constant, row stride) of a place."""

    values: Sequence[torch.Tensor]
    picked: np.ndarray
    shared: Sequence[torch.Tensor]
    block: Arena
    bases: np.ndarray
    side: Callable[[Place], tuple[int, int, int]]
    shared_grads: dict[int, torch.Tensor] = field(default_factory=dict)

    def rows(self, place: Place | None) -> Rows:
        """Return what gives a place's rows by their numbers."""
        assert place is not None
        number, constant, stride = self.side(place)
        at, shape, dtype = int(self.bases[number]) + constant, (place.width,), place.buffer.dtype
        return lambda first, last: self.block.view(at + first * stride, last - first, stride, shape, dtype)


def bind(stage: Cell | Heavy, call: SweepCall) -> Own:
    """Return what runs a stage."""
    return _bind_pull(stage, call) if isinstance(stage, Cell) else _BINDERS[stage.node.kind](stage, call)


def _bind_pull(stage: Cell, call: SweepCall) -> Own:
    """Pull an input of a dtype that kernels do not move."""
    (_, i), out = stage.readings[0].index, call.rows(stage.places[0])
    values = call.values[i].reshape(-1, stage.width)

    def run(first: int, last: int) -> None:
        out(first, last).copy_(values[torch.from_numpy(call.picked[i, first:last])])

    return run


# -- products --------------------------------------------------------------------------------------------------------
def _bind_matmul(stage: Heavy, call: SweepCall) -> Own:
    weight = call.shared[stage.node.inputs[1].attr]
    weight = weight.t() if stage.node.attr else weight
    x, out = call.rows(stage.places[0]), call.rows(stage.place)
    return lambda first, last: torch.mm(x(first, last), weight, out=out(first, last))  # type: ignore[return-value]


def _bind_gradient(stage: Heavy, call: SweepCall) -> Own:
    """Add a product of rows, or a sum of rows, to the gradient of a shared tensor."""
    sides = [call.rows(place) for place in stage.places]

    def run(first: int, last: int) -> None:
        x, y = sides[0](first, last), sides[-1](first, last)
        _accumulate(call, stage.node, x.sum(0) if len(sides) == 1 else x.t() @ y)

    return run


def _accumulate(call: SweepCall, shared: Node, term: torch.Tensor) -> None:
    index = shared.attr
    term = term if term.is_sparse else term.view(call.shared[index].shape)
    known = call.shared_grads.get(index)
    if known is None or known.is_sparse:
        call.shared_grads[index] = term if known is None else term + known
    else:
        known += term


# -- torch functions -------------------------------------------------------------------------------------------------
def _inputs(stage: Heavy, call: SweepCall) -> list[Rows]:
    """Return what gives each input's rows; all of it where it is shared."""

    def whole(tensor: torch.Tensor) -> Rows:
        return lambda first, last: tensor

    pairs = zip(stage.node.inputs, stage.places, strict=True)
    return [whole(call.shared[x.attr]) if place is None else call.rows(place) for x, place in pairs]


def _bind_opaque(stage: Heavy, call: SweepCall) -> Own:
    inputs, rows = _inputs(stage, call), call.rows(stage.place)

    def run(first: int, last: int) -> None:
        out = rows(first, last)
        out.copy_(stage.node.attr([x(first, last) for x in inputs], last - first).reshape(out.shape))

    return run


def _bind_vjp(stage: Heavy, call: SweepCall) -> Own:
    function, wanted = stage.node.attr
    *inputs, gradients = _inputs(stage, call)
    rows = None if stage.place is None else call.rows(stage.place)

    def run(first: int, last: int) -> None:
        values = [x(first, last).detach() for x in inputs]
        gradient = gradients(first, last)
        with torch.enable_grad():
            target = values[wanted] = values[wanted].requires_grad_()
            result = function(values, last - first)
        (found,) = torch.autograd.grad(result, target, gradient.reshape(result.shape))
        if rows is None:
            _accumulate(call, stage.node.inputs[wanted], found)
        else:
            out = rows(first, last)
            out.copy_(found.reshape(out.shape))

    return run


def _bind_random(stage: Heavy, call: SweepCall) -> Own:
    rows = call.rows(stage.place)
    return lambda first, last: rows(first, last).bernoulli_(stage.node.attr)  # type: ignore[return-value]


_BINDERS: dict[NodeKind, Callable[[Heavy, SweepCall], Own]] = {
    NodeKind.MATMUL: _bind_matmul,
    NodeKind.WEIGHT_GRAD: _bind_gradient,
    NodeKind.COLUMN_SUM: _bind_gradient,
    NodeKind.OPAQUE: _bind_opaque,
    NodeKind.VJP: _bind_vjp,
    NodeKind.RANDOM: _bind_random,
}
