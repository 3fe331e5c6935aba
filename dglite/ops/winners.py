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
    rows = _winning_rows(adj, winners, {operand.side for operand in operands_of(expr)})
    values = [
        None if inputs[operand.slot] is None else _at_winners(inputs[operand.slot], rows[operand.side], feat)
        for operand in operands_of(expr)
    ]
    grads: list[Tensor | None] = [None] * len(needs)
    num_rows = {Side.U: adj.num_src, Side.E: adj.num_edges, Side.V: adj.num_dst}
    for operand in operands_of(expr):
        if not needs[operand.slot]:
            continue
        inner = derivative(expr, operand)
        product = grad if inner == Constant(1.0) else evaluate(inner, values) * grad
        back = active.apply(_Scatter(rows[operand.side], num_rows[operand.side]), product)
        grads[operand.slot] = sum_to(back, shapes[operand.slot])
    return grads


def _winning_rows(adj: Adjacency, winners: np.ndarray, sides: set[Side]) -> dict[Side, np.ndarray]:
    """Return, by side, the operand row that each winner read; -1 where there is no winner."""
    csc = adj.csc()
    rows: dict[Side, np.ndarray] = {}
    none = winners < 0
    if Side.U in sides:
        rows[Side.U] = csc.indices[winners] if csc.indices.size else winners.copy()
    if Side.E in sides:
        rows[Side.E] = (
            winners if csc.edge_ids is None else csc.edge_ids[winners] if csc.edge_ids.size else winners.copy()
        )
    if Side.V in sides:
        nodes = np.arange(adj.num_dst, dtype=winners.dtype).reshape(-1, *(1,) * (winners.ndim - 1))
        rows[Side.V] = np.broadcast_to(nodes, winners.shape).copy()
    return {side: np.where(none, winners, own) for side, own in rows.items()}


def _at_winners(x: Tensor, rows: np.ndarray, feat: tuple[int, ...]) -> Tensor:
    """Return ``x`` at the winning rows, 1 where there is none: a value that no derivative turns into infinity."""
    return active.apply(_Gather(rows, active.shape(x)[0], fill=1), active.broadcast_to(x, feat))


class _Gather:
    """``out[i, k] = x[rows[i, k], k]``, ``fill`` where the row is -1."""

    saved = ()

    def __init__(self, rows: np.ndarray, num_rows: int, fill: int = 0) -> None:
        self.rows, self.num_rows, self.fill = rows, num_rows, fill

    def forward(self, x: Tensor) -> Tensor:
        out, x = active.empty(self.rows.shape, active.dtype(x), active.device(x)), active.contiguous(x)
        addresses = active.address(x), active.address(out), active.num_threads()
        kernels.compiled("winners").gather(active.dtype(x), self.rows, *addresses, self.fill)
        return out

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [active.apply(_Scatter(self.rows, self.num_rows), grad)]


class _Scatter:
    """``out[rows[i, k], k] += x[i, k]``, where the row is not -1."""

    saved = ()

    def __init__(self, rows: np.ndarray, num_rows: int) -> None:
        self.rows, self.num_rows = rows, num_rows

    def forward(self, x: Tensor) -> Tensor:
        shape = (self.num_rows, *self.rows.shape[1:])
        out, x = active.full(shape, 0.0, active.dtype(x), active.device(x)), active.contiguous(x)
        addresses = active.address(x), active.address(out), active.num_threads()
        kernels.compiled("winners").scatter(active.dtype(x), self.rows, *addresses)
        return out

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [active.apply(_Gather(self.rows, self.num_rows), grad)]
