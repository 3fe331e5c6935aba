"""The gradient of max and min: it goes to the operands of the entry that won each element.

At the winners the reduction is an ordinary element-wise expression: the operands' values there are gathered, the
expression's derivative is computed on them, and the products are scattered back. Gather and scatter are each other's
gradient, so derivatives of any order exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import kernels
from ..backend import Tensor, active
from ..expr import Constant, Expr, Side, derivative, evaluate, operands_of
from ..structure.adjacency import Adjacency
from .operands import sum_to

__all__ = ["winner_gradients"]


def winner_gradients(
    adj: Adjacency,
    expr: Expr,
    winners: np.ndarray,
    inputs: Sequence[Tensor | None],
    shapes: Sequence[tuple[int, ...]],
    grad: Tensor,
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """Return d(loss)/d(operand) for the needed operands of a max or min reduction.

    ``winners`` (num_dst, *feat) holds the CSC entry that won each element, -1 in rows without entries; ``inputs`` the
    saved operands, None where not saved.
    """
    feat = winners.shape[1:]
    places = {operand.side: _Place(adj, winners, operand.side) for operand in operands_of(expr)}
    values = [
        None if inputs[operand.slot] is None else _at_winners(inputs[operand.slot], places[operand.side], feat)
        for operand in operands_of(expr)
    ]
    grads: list[Tensor | None] = [None] * len(needs)
    for operand in operands_of(expr):
        if not needs[operand.slot]:
            continue
        inner = derivative(expr, operand)
        product = grad if inner == Constant(1.0) else evaluate(inner, values, active.functions) * grad
        back = active.apply(_Scatter(places[operand.side]), product)
        grads[operand.slot] = sum_to(back, shapes[operand.slot])
    return grads


class _Place:
    """Where the operands of one side are read by the winners: ``num_rows`` rows, looked up by entry."""

    def __init__(self, adj: Adjacency, winners: np.ndarray, side: Side) -> None:
        csc = adj.csc()
        self.winners = winners
        self.lookup: np.ndarray | None
        if side is Side.U:
            self.lookup, self.num_rows = csc.indices, adj.num_src
        elif side is Side.V:
            self.lookup, self.num_rows = csc.rows(), adj.num_dst
        elif side is Side.G:
            self.lookup, self.num_rows = np.zeros(adj.num_edges, dtype=winners.dtype), 1
        else:
            self.lookup, self.num_rows = csc.edge_ids, adj.num_edges

    @property
    def address(self) -> int:
        """Address of the lookup, 0 where an entry is its own row."""
        return 0 if self.lookup is None else int(self.lookup.ctypes.data)


def _at_winners(x: Tensor, place: _Place, feat: tuple[int, ...]) -> Tensor:
    """Return ``x`` at the winning rows, 1 where there is none: a value that no derivative turns into infinity."""
    return active.apply(_Gather(place, fill=1), active.broadcast_to(x, feat))


class _Gather:
    """``out[i, k] = x[row of winners[i, k], k]``, ``fill`` where there is no winner."""

    saved = ()

    def __init__(self, place: _Place, fill: int = 0) -> None:
        self.place, self.fill = place, fill

    def forward(self, x: Tensor) -> Tensor:
        winners = self.place.winners
        out, x = active.empty(winners.shape, active.dtype(x), active.device(x)), active.contiguous(x)
        addresses = self.place.address, active.address(x), active.address(out), active.num_threads()
        kernels.compiled("winners").gather(active.dtype(x), winners, *addresses, self.fill)
        return out

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [active.apply(_Scatter(self.place), grad)]


class _Scatter:
    """``out[row of winners[i, k], k] += x[i, k]``, where there is a winner."""

    saved = ()

    def __init__(self, place: _Place) -> None:
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        winners = self.place.winners
        shape = (self.place.num_rows, *winners.shape[1:])
        out, x = active.full(shape, 0.0, active.dtype(x), active.device(x)), active.contiguous(x)
        addresses = self.place.address, active.address(x), active.address(out), active.num_threads()
        kernels.compiled("winners").scatter(active.dtype(x), winners, *addresses)
        return out

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [active.apply(_Gather(self.place), grad)]
