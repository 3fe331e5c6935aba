"""Linear maps by edge type whose matrices are combinations of a few bases, as functions and as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...ops import core
from ...ops.operands import to_common_dtype
from ...ops.traced import GraphOp, registered, traced
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from .convolution import reduce_neighbours
from .typed_pairs import edge_pairs


def sum_of_bases(
    adjacency: Adjacency, x: Tensor, types: Any, coefficients: Tensor, bases: Tensor, edge_weight: Tensor | None
) -> Tensor:
    """Return the sum over in-edges ``u -> v`` of ``w * x[u] @ (coefficients @ bases)[type]``, (num_dst, out).

    Where nodes times bases are fewer than the pairs of nodes and types, neighbours are added up once for each basis, in
    one pass over the edges, and multiplied by it; else once for each pair.
    """
    num_bases, width, out = active.shape(bases)
    pairs = edge_pairs(adjacency, types, len(coefficients))
    if adjacency.num_dst * num_bases > pairs.groups.num_rows:
        matrices = (coefficients @ bases.reshape(num_bases, width * out)).reshape(len(coefficients), width, out)
        return pairs.sum(x, matrices, edge_weight)
    return _by_bases(adjacency, x, core.take_rows(coefficients, pairs.types), bases, edge_weight)


def _by_bases(adjacency: Any, x: Tensor, weights: Tensor, bases: Tensor, edge_weight: Tensor | None) -> Tensor:
    """Return the sums over neighbours for each basis, times the bases; ``weights`` (num_edges, B)."""
    num_bases, width, out = active.shape(bases)
    weights = weights[:, :, None]
    if edge_weight is not None:
        weights = weights * edge_weight.reshape(-1, 1, 1)
    total = reduce_neighbours(adjacency, x[:, None, :], Reducer.SUM, weights)
    return total.reshape(adjacency.num_dst, num_bases * width) @ bases.reshape(num_bases * width, out)


def bases_in_program(
    adjacency: Any, x: Tensor, types: Any, coefficients: Tensor, bases: Tensor, edge_weight: Tensor | None
) -> Tensor:
    """Return :func:`sum_of_bases` as part of a program: one operator where no gradient is recorded."""
    tensors = [x, coefficients, bases, *([] if edge_weight is None else [edge_weight])]
    types = framework.as_tensor(types, device=x.device)
    if active.requires_grad(*tensors):
        return _by_bases(adjacency, x, core.take_rows(coefficients, types), bases, edge_weight)
    return traced(_TypedBases.name, adjacency, "", (*to_common_dtype(tensors), types))


@registered
class _TypedBases(GraphOp):
    """:func:`sum_of_bases`, which chooses by the number of pairs, known when the program runs.

    Inputs: x, coefficients, bases, the edges' weights if any, and their types. A gradient is that of the steps.
    """

    name = "typed_bases"
    batch_axis = 0

    def __init__(self, adj: Any, needs: Sequence[bool]) -> None:
        self.adj, self.saved = adj, range(len(needs))

    @classmethod
    def parse(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> _TypedBases:
        return cls(adj, needs)

    def recipe(self) -> str:
        return ""

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        (x, *_, types), adj = inputs, self.adj
        to_common_dtype(inputs[:-1])
        shapes = [tuple(active.shape(tensor)) for tensor in inputs]
        num_bases, width, out = (*shapes[2], 0, 0, 0)[:3]
        expected = [(adj.num_src, width), (*shapes[1][:1], num_bases), (num_bases, width, out)]
        devices = {str(active.device(tensor)) for tensor in inputs}
        if shapes[:3] != expected or any(shape[:1] != (adj.num_edges,) for shape in shapes[3:]) or len(devices) > 1:
            raise DGLError(
                f"a sum by type got tensors of shapes {shapes} on {sorted(devices)}; expected rows of {adj.num_src} "
                f"sources, coefficients, bases, weights and types of {adj.num_edges} edges, on one device"
            )
        if len(shapes[-1]) != 1 or "int" not in active.dtype(types):
            raise DGLError(f"got types of shape {shapes[-1]} and dtype {active.dtype(types)}; expected integers")
        return ((adj.num_dst, out), active.dtype(x)), None

    def _named(self, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Return x, the types, coefficients, bases, and the edges' weights or None."""
        x, coefficients, bases, *weight, types = inputs
        return x, types, coefficients, bases, weight[0] if weight else None

    def forward(self, *inputs: Tensor) -> Tensor:
        return sum_of_bases(self.adj, *self._named(inputs))

    def composed(self, *inputs: Tensor) -> Tensor:
        x, types, coefficients, bases, weight = self._named(inputs)
        count = active.shape(coefficients)[0]
        active.require(((types >= 0) & (types < count)).all(), f"a type is not a number from 0 to {count - 1}")
        return _by_bases(self.adj, x, coefficients.index_select(0, types), bases, weight)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return active.gradients(self.composed, inputs[:-1], grad, needs)
