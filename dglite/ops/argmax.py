"""The gradient of max and min: each element's goes to the edge that its value came from.

These edges are the *argmax*, of a minimum too. On them the reduction is an ordinary element-wise expression: the
operands' values are gathered, the expression's derivative is computed on them, and the products are scattered back.
Gather and scatter are each other's gradient, so derivatives of any order exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Constant, Expr, Side, derivative, operands_of
from ..structure.adjacency import Adjacency
from ..structure.arrays import HOST
from ..structure.traced import TracedAdjacency
from .devices import KernelDevice, device_of
from .operands import check_tensor, evaluated, require_alike, sum_to
from .traced import GraphOp, registered, run


def argmax_gradients(
    adj: Adjacency | TracedAdjacency,
    expr: Expr,
    argmax: Tensor,
    inputs: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
    grad: Tensor,
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """Return d(loss)/d(operand) for the needed operands of a max or min reduction.

    ``argmax`` (num_dst, *feat) holds the CSC entry that gave each element, -1 in rows without entries; ``inputs`` the
    saved operands, None where not saved.
    """
    feat = tuple(active.shape(argmax)[1:])
    places = {operand.side: _Place(adj, operand.side) for operand in operands_of(expr)}
    values: list[Tensor | None] = [None] * len(needs)
    for operand in operands_of(expr):
        x = inputs[operand.slot]
        values[operand.slot] = None if x is None else _at_argmax(x, argmax, places[operand.side], feat)
    grads: list[Tensor | None] = [None] * len(needs)
    for operand in operands_of(expr):
        if not needs[operand.slot]:
            continue
        inner = derivative(expr, operand)
        product = grad if inner == Constant(1.0) else evaluated(inner, values) * grad
        back = run(_Scatter(places[operand.side]), product, argmax)
        grads[operand.slot] = sum_to(back, shapes[operand.slot])
    return grads


class _Place:
    """Where the operands of one side are read by the argmax: ``num_rows`` rows, looked up by entry."""

    def __init__(self, adj: Any, side: Side) -> None:
        self.adj, self.side = adj, side
        self.num_rows = {Side.U: adj.num_src, Side.E: adj.num_edges, Side.V: adj.num_dst, Side.G: 1}[side]

    @cached_property
    def lookup(self) -> Any:
        """The row of each entry, an array or, of edges on a device, a tensor; None where an entry is its own row."""
        arrays = self.adj.arrays_made()
        if arrays is not HOST:
            (src, dst), (order, _) = self.adj.ends(arrays), self.adj.order_on(arrays, 1)
            if self.side is Side.E:
                return arrays.astype(order, self.adj.index_dtype)
            return src[order] * 0 if self.side is Side.G else (src if self.side is Side.U else dst)[order]
        csc = self.adj.csc()
        if self.side is Side.E:
            return csc.edge_ids
        if self.side is Side.G:
            return np.zeros(self.adj.num_edges, dtype=csc.indices.dtype)
        return csc.indices if self.side is Side.U else csc.rows()

    def address(self, device: KernelDevice) -> int:
        """Return the address of the lookup where ``device`` reads it, 0 without one."""
        return 0 if self.lookup is None else device.array(self.adj, f"lookup {self.side.value}", self.lookup)

    def rows_at(self, argmax: Tensor) -> Tensor:
        """Return the row of each winning entry, int64; ``num_rows`` in rows without entries."""
        missing, entries = argmax < 0, active.astype(argmax, "int64")
        if self.lookup is not None:
            lookup = self.lookup
            if active.is_tensor(lookup):
                end = active.full((1,), 0, "int64", active.device(argmax))
                lookup = active.concat([active.astype(lookup, "int64"), end])
            else:
                lookup = active.from_numpy(np.append(lookup, 0).astype(np.int64), active.device(argmax))
            flat = active.take(lookup, active.reshape(active.functions["where"](missing, 0, entries), (-1,)))
            entries = active.reshape(flat, active.shape(argmax))
        return active.functions["where"](missing, self.num_rows, entries)


def _at_argmax(x: Tensor, argmax: Tensor, place: _Place, feat: tuple[int, ...]) -> Tensor:
    """Return ``x`` at the winning rows, 1 in rows without a winner: no derivative turns that into infinity."""
    return run(_Gather(place, fill=1), active.broadcast_to(x, feat), argmax)


class _AtArgmax(GraphOp):
    """An operation on a tensor and the argmax, an integer tensor (num_dst, *feat)."""

    alike = True

    def __init__(self, place: _Place, fill: int = 0) -> None:
        self.adj, self.place, self.fill = place.adj, place, fill
        self.saved = (1,)

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> _AtArgmax:
        side, fill = recipe.split()
        return cls(_Place(adj, Side(side)), int(fill))

    def recipe(self) -> str:
        return f"{self.place.side.value} {self.fill}"

    def _check(self, x: Tensor, argmax: Tensor, num_rows: int) -> None:
        check_tensor(x, num_rows, "row")
        require_alike((x, argmax), dtypes=False)
        if active.shape(argmax)[0] != self.adj.num_dst:
            raise DGLError(f"got winners of {active.shape(argmax)[0]} nodes; expected {self.adj.num_dst}")
        if active.dtype(argmax) not in ("int32", "int64"):
            raise DGLError(f"got winners of dtype {active.dtype(argmax)}; expected int32 or int64")

    def check_values(self, *inputs: Tensor) -> None:
        argmax = inputs[1]
        are_edges = ((argmax >= -1) & (argmax < self.adj.num_edges)).all()
        message = f"got winners that are no edges; expected numbers from -1 to {self.adj.num_edges - 1}"
        if not active.on_cpu(argmax):
            active.require(are_edges, message)  # by the device: the host would wait
        elif not bool(are_edges):
            raise DGLError(message)

    def _run(self, kernel: str, x: Tensor, argmax: Tensor, out: Tensor, last: int) -> Tensor:
        device, argmax, x = device_of(x), active.contiguous(argmax), active.contiguous(x)
        rows, *feat = active.shape(argmax)
        getattr(device.kernels("graph.argmax"), kernel)(
            *(active.dtype(x), active.dtype(argmax), (rows, math.prod(feat)), active.address(argmax)),
            *(self.place.address(device), active.address(x), active.address(out), device.queue, last),
        )
        return out


@registered
class _Gather(_AtArgmax):
    """``out[i, k] = x[row of argmax[i, k], k]``, ``fill`` where that is -1."""

    name = "gather_argmax"

    def describe(self, x: Tensor, argmax: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        self._check(x, argmax, self.place.num_rows)
        return (active.shape(argmax), active.dtype(x)), None

    def forward(self, x: Tensor, argmax: Tensor) -> Tensor:
        out = active.new_empty(x, active.shape(argmax))
        return self._run("gather", x, argmax, out, self.fill)

    def composed(self, *inputs: Tensor) -> Tensor:
        x, argmax = inputs
        missing = active.full((1, *active.shape(argmax)[1:]), self.fill, active.dtype(x), active.device(x))
        return active.pick(active.concat([x, missing]), self.place.rows_at(argmax))

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [run(_Scatter(self.place), grad, inputs[1]), None]


@registered
class _Scatter(_AtArgmax):
    """``out[row of argmax[i, k], k] += x[i, k]``, where that is not -1."""

    name = "scatter_argmax"

    def describe(self, x: Tensor, argmax: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        self._check(x, argmax, self.adj.num_dst)
        return ((self.place.num_rows, *active.shape(argmax)[1:]), active.dtype(x)), None

    def forward(self, x: Tensor, argmax: Tensor) -> Tensor:
        shape = (self.place.num_rows, *active.shape(argmax)[1:])
        out = active.full(shape, 0.0, active.dtype(x), active.device(x))
        return self._run("scatter", x, argmax, out, self.place.num_rows)

    def composed(self, *inputs: Tensor) -> Tensor:
        x, argmax = inputs
        return active.put_sum(x, self.place.rows_at(argmax), self.place.num_rows + 1)[: self.place.num_rows]

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [run(_Gather(self.place), grad, inputs[1]), None]
