"""A vertex program by torch's operators, level by level: slower than its kernels, differentiable any number of times.

Gradients that are to be differentiated again (``create_graph=True``) are those of this evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...backend import active
from ...expr import Call, Operand, Side, evaluate
from ...opspec import OPERATORS
from ..program.gradient import ancestors
from ..program.ir import Node, NodeKind, RowDomain
from ..program.traced import TracedProgram
from .order import VertexOrder


def differentiable_gradients(
    again: Callable[[list[Tensor]], Sequence[Tensor]],
    tensors: Sequence[Tensor],
    needs: Sequence[bool],
    gradients: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Return gradients by ``tensors``, of those that need one, which have gradients themselves.

    ``again`` computes the results from stand-ins for all tensors: a tensor may be computed from another one of them,
    and that part of its gradient belongs to torch's own graph.
    """
    stand_ins = [x.view_as(x) if needed else x for x, needed in zip(tensors, needs, strict=True)]
    outs = again(stand_ins)
    pairs = [(x, g.view_as(x)) for x, g in zip(outs, gradients, strict=True) if g is not None and x.requires_grad]
    targets = [x for x, needed in zip(stand_ins, needs, strict=True) if needed]
    target_grads: Sequence[Tensor | None] = [None] * len(targets)
    if pairs:
        values, seeds = zip(*pairs, strict=True)
        target_grads = torch.autograd.grad(values, targets, seeds, create_graph=True, allow_unused=True)
    by_target = iter(target_grads)
    return [next(by_target) if needed else None for needed in needs]


Mask = Callable[[Node, int, int, int], Tensor]
"""``mask(node, class, first row, last row)``: the random numbers that an earlier run drew."""


def push_by_torch(
    traced: TracedProgram,
    order: VertexOrder,
    pulls: np.ndarray,
    values: Sequence[Tensor],
    shared: Sequence[Any],
    mask: Mask,
) -> list[Tensor]:
    """Return what the vertices push, (nodes, width) each, in the order of the graph's nodes.

    ``pulls`` (inputs, nodes) is the row of each input in ``values`` that a node pulls, or -1.
    """
    segments = order.segments.tolist()
    starts, segment_of = np.zeros(order.num_nodes + 1, np.int64), np.full(order.num_nodes + 1, -1)
    for number, (_, first, last) in enumerate(segments):
        starts[first:last], segment_of[first:last] = first, number
    states: list[list[Tensor]] = [[] for _ in traced.state_widths]
    pushes: list[list[Tensor]] = [[] for _ in traced.push_widths]
    needed = [ancestors([*program.states, *program.pushes]) for program in traced.programs]

    def state(j: int, rows: np.ndarray) -> Tensor:
        """Return a state of some rows, zeros for row -1."""
        if not states[j]:
            return torch.zeros(len(rows), traced.state_widths[j], dtype=traced.dtype, device=traced.device)
        return rows_of_parts(states[j], segment_of[rows], rows - starts[rows])

    for c, first, last in segments:
        kind = c // (2 << len(traced.inputs))
        program = traced.programs[kind]
        level = _LevelValues(order, pulls, (c, first, last), values, shared, state, mask, traced.device)
        level.compute(needed[kind])
        for parts, nodes in ((states, program.states), (pushes, program.pushes)):
            for column, node in zip(parts, nodes, strict=False):
                column.append(level.rows(node))
        for column, width in list(zip(states, traced.state_widths, strict=True))[len(program.states) :]:
            column.append(torch.zeros(last - first, width, dtype=traced.dtype, device=traced.device))
    nodes = [order.nodes[first:last] for _, first, last in segments]
    back = active.from_numpy(np.argsort(np.concatenate(nodes)), traced.device) if nodes else None
    empty = [torch.zeros(0, width, dtype=traced.dtype, device=traced.device) for width in traced.push_widths]
    return empty if back is None else [torch.cat(column).index_select(0, back) for column in pushes]


def rows_of_parts(parts: Sequence[Tensor], numbers: np.ndarray, rows: np.ndarray) -> Tensor:
    """Return row ``rows[i]`` of part ``numbers[i]`` as row i; zeros for part -1."""
    by_part = np.argsort(numbers, kind="stable")
    used, begin = np.unique(numbers[by_part], return_index=True)
    pieces = []
    for number, places in zip(used.tolist(), np.split(by_part, begin[1:]), strict=True):
        if number < 0:
            pieces.append(parts[0].new_zeros(len(places), parts[0].shape[1]))
        else:
            pieces.append(parts[number].index_select(0, active.from_numpy(rows[places], parts[number].device)))
    if not pieces:
        return parts[0][:0]
    return torch.cat(pieces).index_select(0, active.from_numpy(np.argsort(by_part), parts[0].device))


class _LevelValues:
    """Values of one level of one class, (rows, width) each: rows ``first`` to ``last`` of the order."""

    def __init__(
        self,
        order: VertexOrder,
        pulls: np.ndarray,
        segment: tuple[int, int, int],
        inputs: Sequence[Tensor],
        shared: Sequence[Any],
        state: Callable[[int, np.ndarray], Tensor],
        mask: Mask,
        device: torch.device,
    ) -> None:
        self._device = device
        self._order, self._pulls, self._segment = order, pulls, segment
        self._inputs, self._shared, self._state, self._mask = inputs, shared, state, mask
        _, first, last = segment
        self._edges = int(order.bounds[first]), int(order.bounds[last])
        self._parents = active.from_numpy(order.parents[slice(*self._edges)] - first, device)
        self._values: dict[Node, Tensor] = {}

    def compute(self, nodes: Sequence[Node]) -> None:
        """Compute nodes, whose inputs come before them."""
        for node in nodes:
            rows = self._count(node)
            if rows == 0:  # without children: torch cannot differentiate some functions of no rows twice
                self._values[node] = torch.zeros(0, node.width, dtype=node.dtype, device=self._device)
                continue
            value: Tensor = _COMPUTE[node.kind](self, node, rows)
            plain = node.kind is NodeKind.SHARED
            self._values[node] = value if plain else value.reshape(-1 if rows is None else rows, node.width)

    def rows(self, node: Node) -> Tensor:
        """Return a value with a row for each vertex or edge."""
        rows, value = self._count(node), self._values[node]
        return value if rows is not None else value.reshape(1, -1).expand(self._segment[2] - self._segment[1], -1)

    def _count(self, node: Node) -> int | None:
        if node.domain is RowDomain.SHARED:
            return None
        first, last = self._segment[1:] if node.domain is RowDomain.VERTEX else self._edges
        return last - first

    def _args(self, node: Node) -> list[Tensor]:
        """Return inputs of an operation by rows; those that all rows share as one row."""
        values = [(x, self._values[x]) for x in node.inputs]
        return [value.reshape(1, -1) if x.domain is RowDomain.SHARED else value for x, value in values]

    # -- what each kind of node is ------------------------------------------------------------------------------
    def pull(self, node: Node, rows: int) -> Tensor:
        nodes, values = self._order.nodes[self._segment[1] : self._segment[2]], self._inputs[node.attr]
        return rows_of_parts([values.reshape(len(values), -1)], *_with_absent(self._pulls[node.attr, nodes]))

    def gather(self, node: Node, rows: int) -> Tensor:
        slot, j = node.attr
        bounds, children = self._order.bounds[self._segment[1] : self._segment[2] + 1], self._order.children
        exists = bounds[:-1] + slot < bounds[1:]
        picked = np.full(rows, -1)
        picked[exists] = children[(bounds[:-1] + slot)[exists]]
        return self._state(j, picked)

    def child(self, node: Node, rows: int) -> Tensor:
        return self._state(node.attr, self._order.children[slice(*self._edges)])

    def shared(self, node: Node, rows: None) -> Tensor:
        return self._shared[node.attr]  # type: ignore[no-any-return]

    def full(self, node: Node, rows: int | None) -> Tensor:
        return torch.full((1 if rows is None else rows, node.width), node.attr, dtype=node.dtype, device=self._device)

    def random(self, node: Node, rows: int) -> Tensor:
        first, last = self._segment[1:] if node.domain is RowDomain.VERTEX else self._edges
        return self._mask(node, self._segment[0], first, last)

    def pointwise(self, node: Node, rows: int | None) -> Tensor:
        call = Call(OPERATORS[node.attr], tuple(Operand(Side.E, i) for i in range(len(node.inputs))))
        return evaluate(call, self._args(node), active.functions)  # type: ignore[no-any-return]

    def copy(self, node: Node, rows: int) -> Tensor:
        (x,) = self._args(node)
        return (x if node.attr is None else x.detach()).expand(rows, -1)

    def matmul(self, node: Node, rows: int) -> Tensor:
        x, weight = (self._values[y] for y in node.inputs)
        return x @ (weight.t() if node.attr else weight)

    def reduce(self, node: Node, rows: int) -> Tensor:
        (x,), zeros = self._args(node), torch.zeros(rows, node.width, dtype=node.dtype, device=self._device)
        if node.attr == "sum":
            return zeros.index_add(0, self._parents, x)
        index = self._parents[:, None].expand_as(x)
        return zeros.scatter_reduce(0, index, x, f"a{node.attr}", include_self=False)

    def each(self, node: Node, rows: int) -> Tensor:
        return self._args(node)[0].index_select(0, self._parents)

    def slice(self, node: Node, rows: int | None) -> Tensor:
        return self._args(node)[0][:, slice(*node.attr)]

    def cat(self, node: Node, rows: int) -> Tensor:
        return torch.cat(self._args(node), 1)

    def opaque(self, node: Node, rows: int) -> Tensor:
        return node.attr([self._values[x] for x in node.inputs], rows).to(node.dtype)  # type: ignore[no-any-return]


def _with_absent(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return part and row of each row of one part; part -1 for row -1."""
    return np.where(rows < 0, -1, 0), rows


_METHODS = vars(_LevelValues)
_COMPUTE: dict[NodeKind, Callable[..., Tensor]] = {
    kind: _METHODS[kind.value] for kind in NodeKind if kind.value in _METHODS
}
"""What computes a node of each kind of a forward program: the method that is called as the kind."""
