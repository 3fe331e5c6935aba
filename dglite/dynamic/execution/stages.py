"""What runs a stage without kernels: products of many rows, and torch's functions.

The rest is kernels, which go through their lines without coming back (see :mod:`dglite.kernels.cpu.dynamic.schedule`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from ...backend import active
from ..program.ir import Node, NodeKind
from ..program.recipe import DenseOp, Place, PointwiseKernel
from .products import GradientSums, add_rows, multiply
from .script import FilledScript, ProgramScript


@dataclass
class SweepCall:
    """One direction of a call: the inputs' values, the shared tensors, and the script with its memory."""

    values: Sequence[torch.Tensor]
    shared: Sequence[torch.Tensor]
    script: ProgramScript
    filled: FilledScript

    @cached_property
    def shared_grads(self) -> GradientSums:
        """The gradients of shared tensors, none at first."""
        return GradientSums(self.script.most_rows, self.script.device)

    def rows(self, place: Place, first: int, last: int) -> torch.Tensor:
        """Return rows of a place."""
        number, constant, stride = self.script.side(place)
        at = int(self.filled.bases[number]) + constant + first * stride
        return self.filled.lease.view(at, last - first, stride, (place.width,), place.buffer.dtype)  # type: ignore[no-any-return]


def run_stage(stage: PointwiseKernel | DenseOp, call: SweepCall, first: int, last: int) -> None:
    """Run a stage for the rows of the graph's order from ``first`` to before ``last``."""
    if isinstance(stage, PointwiseKernel):  # it pulls an input of a dtype that kernels do not move
        (_, i), into = stage.readings[0].index, call.rows(stage.places[0], first, last)
        picked = active.from_numpy(call.filled.picked[i, first:last], into.device)
        into.copy_(call.values[i].reshape(-1, stage.width).index_select(0, picked))
        return
    pairs = zip(stage.node.inputs, stage.places, strict=True)
    inputs = [call.shared[x.attr] if place is None else call.rows(place, first, last) for x, place in pairs]
    out = None if stage.place is None else call.rows(stage.place, first, last)
    _RUN[stage.node.kind](stage.node, call, inputs, out)


def _matmul(node: Node, call: SweepCall, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
    x, weight = inputs
    multiply(x, weight.t() if node.attr else weight, out)


def _gradient(node: Node, call: SweepCall, inputs: list[torch.Tensor], out: None) -> None:
    """Add a product of rows, or a sum of rows, to the gradient of a shared tensor."""
    if len(inputs) == 1:
        term = inputs[0].sum(0)
    else:
        x, y = inputs
        term = x.new_empty(x.shape[1], y.shape[1])
        add_rows(x, y, term, False)
    _accumulate(call, node.attr, term)


def _accumulate(call: SweepCall, index: int, term: torch.Tensor) -> None:
    call.shared_grads.add(index, term if term.is_sparse else term.view(call.shared[index].shape))


def _opaque(node: Node, call: SweepCall, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
    out.copy_(node.attr(inputs, len(out)).reshape(out.shape))


def _vjp(node: Node, call: SweepCall, inputs: list[torch.Tensor], out: torch.Tensor | None) -> None:
    (function, argument), gradient = node.attr, inputs[-1]
    values = [x.detach() for x in inputs[:-1]]
    with torch.enable_grad():
        target = values[argument] = values[argument].requires_grad_()
        result = function(values, len(gradient))
    (slope,) = torch.autograd.grad(result, target, gradient.reshape(result.shape))
    if out is None:
        _accumulate(call, node.inputs[argument].attr, slope)
    else:
        out.copy_(slope.reshape(out.shape))


def _random(node: Node, call: SweepCall, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
    out.bernoulli_(node.attr)


_RUN: dict[NodeKind, Callable[..., None]] = {
    NodeKind.MATMUL: _matmul,
    NodeKind.WEIGHT_GRAD: _gradient,
    NodeKind.COLUMN_SUM: _gradient,
    NodeKind.OPAQUE: _opaque,
    NodeKind.VJP: _vjp,
    NodeKind.RANDOM: _random,
}
