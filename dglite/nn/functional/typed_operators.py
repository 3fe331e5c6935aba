"""Linear maps by type as operators of torch's programs.

Both operators stand for a number that is linear in each of its parts: the sum over rows or edges of ``x @
matrices[type] @ y * weight``. The derivative by a part is a function of the others, so an operator computes any part,
the ``target``, from the others, and its gradients are calls of itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...ops import core
from ...ops.operands import to_common_dtype
from ...ops.traced import GraphOp, registered, traced
from .typed_pairs import edge_pairs

Parts = dict[str, Tensor]
_ORDER = ("x", "matrices", "y", "weight")


def typed_rows(x: Tensor, types: Any, matrices: Tensor) -> Tensor:
    """Return each row times the matrix of its type, as part of a program."""
    structure = _RowTypes(framework.as_tensor(types, device=x.device), matrices.shape[0])
    x, matrices = to_common_dtype((x, matrices))
    return traced(_TypedRows.name, structure, f"y x,matrices {matrices.shape[0]}", (x, matrices))


def typed_edges(adjacency: Any, target: str, parts: Parts, types: Any, num_types: int) -> Tensor:
    """Return a part from the others, as part of a program.

    The parts are ``x`` (num_src, *batch, in), ``matrices`` (num_types, *batch, in, out), ``y`` (num_dst, *batch, out)
    and ``weight`` (num_edges, *batch), which may be left out.
    """
    tensors = to_common_dtype(list(parts.values()))
    types = framework.as_tensor(types, device=tensors[0].device)
    return traced(_TypedEdges.name, adjacency, f"{target} {','.join(parts)} {num_types}", (*tensors, types))


class _TypedForm(GraphOp):
    """One part of a form from others, which are inputs; a subclass may have the types as one more."""

    batch_axis = 0

    def __init__(self, adj: Any, target: str, parts: Sequence[str], num_types: int, needs: Sequence[bool]) -> None:
        self.adj, self.target, self.parts, self.num_types = adj, target, parts, num_types
        self.saved = range(len(needs))

    @classmethod
    def parse(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> Self:
        target, parts, num_types = recipe.split()
        return cls(adj, target, parts.split(","), int(num_types), needs)

    def recipe(self) -> str:
        return f"{self.target} {','.join(self.parts)} {self.num_types}"

    @abstractmethod
    def num_rows(self) -> dict[str, Any]:
        """Return the number of rows of each part."""

    def named(self, inputs: Sequence[Tensor]) -> Parts:
        """Return the parts among the inputs by name."""
        return dict(zip(self.parts, inputs, strict=False))

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        parts, rows = self.named(inputs), self.num_rows()
        to_common_dtype(list(parts.values()))
        batch = active.shape(parts["x" if "x" in parts else "y"])[1:-1]
        for name, x in parts.items():
            shape, axis = tuple(active.shape(x)), {"matrices": -2, "weight": None}.get(name, -1)
            fits = shape[:1] == (rows[name],) and shape[1:axis] == tuple(batch)
            if not fits or active.device(x) != active.device(inputs[0]):
                raise DGLError(
                    f"a product by type got {name} of shape {shape} on {active.device(x)}; expected {rows[name]} rows, "
                    f"then the axes {tuple(batch)}, on {active.device(inputs[0])}"
                )
        last = {
            "x": lambda: parts["matrices"].shape[-2:-1],
            "matrices": lambda: (parts["x"].shape[-1], parts["y"].shape[-1]),
            "y": lambda: parts["matrices"].shape[-1:],
            "weight": tuple,
        }
        return ((rows[self.target], *batch, *last[self.target]()), active.dtype(inputs[0])), None

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        parts, grads = {**self.named(inputs), self.target: grad}, list[Tensor | None]()
        for name, needed in zip(self.parts, needs, strict=False):
            others = {key: parts[key] for key in _ORDER if key in parts and key != name}
            recipe = f"{name} {','.join(others)} {self.num_types}"
            rest = inputs[len(self.parts) : len(needs)]
            grads.append(traced(self.name, self.adj, recipe, (*others.values(), *rest)) if needed else None)
        return grads + [None] * (len(needs) - len(grads))


def _products(x: Tensor, rows: Tensor, types: Tensor, matrices: Tensor) -> Tensor:
    """Return ``x[rows[i]] @ matrices[types[i]]`` for every i: all rows are multiplied by the matrices of all types."""
    count = matrices.shape[0]
    active.require(((types >= 0) & (types < count)).all(), f"a type is not a number from 0 to {count - 1}")
    products = framework.einsum("n...i,t...io->nt...o", x, matrices)
    return products.flatten(0, 1).index_select(0, rows * count + types)  # type: ignore[no-any-return]


def _outer(x: Tensor, y: Tensor, types: Tensor, num_types: int) -> Tensor:
    return active.put_sum(x[..., :, None] * y[..., None, :], types, num_types)


# -- rows --------------------------------------------------------------------------------------------------------------
class _RowTypes:
    """The types of rows, in the place of a relation. A program's structure is the tensor of types, twice."""

    num_dst = 0

    def __init__(self, types: Tensor, num_types: int) -> None:
        self.types, self.num_src, self.tensors = types, num_types, (types, types)

    def groups(self) -> Any:
        """Return the groups of rows: made once for a tensor of types, as long as it has these values."""
        counts = self.num_src, self.num_dst
        return active.structure_of(*self.tensors, counts, lambda: core.group_rows(self.types, self.num_src))


@registered
class _TypedRows(_TypedForm):
    """The parts are ``x`` (rows, *batch, in), ``y`` (rows, *batch, out) and ``matrices``."""

    name = "typed_rows"

    @staticmethod
    def structure(src: Tensor, dst: Tensor, num_src: int, num_dst: int, real: bool) -> _RowTypes:
        return _RowTypes(src, num_src)

    def num_rows(self) -> dict[str, Any]:
        return {**dict.fromkeys("xy", active.shape(self.adj.types)[0]), "matrices": self.num_types}

    def forward(self, *inputs: Tensor) -> Tensor:
        parts, groups = self.named(inputs), self.adj.groups()
        if self.target == "matrices":
            return core.grouped_outer(groups, parts["x"], parts["y"])
        if self.target == "x":
            return core.grouped_mm(groups, parts["y"], active.swap_last(parts["matrices"]))
        return core.grouped_mm(groups, parts["x"], parts["matrices"])

    def composed(self, *inputs: Tensor) -> Tensor:
        parts, types = self.named(inputs), self.adj.types.long()
        if self.target == "matrices":
            return _outer(parts["x"], parts["y"], types, self.num_types)
        rows = framework.arange(types.shape[0], device=types.device)
        if self.target == "x":
            return _products(parts["y"], rows, types, active.swap_last(parts["matrices"]))
        return _products(parts["x"], rows, types, parts["matrices"])


# -- edges -------------------------------------------------------------------------------------------------------------
@registered
class _TypedEdges(_TypedForm):
    """The parts are those of :func:`typed_edges`; the last input is the types."""

    name = "typed_edges"

    def num_rows(self) -> dict[str, Any]:
        adj = self.adj
        return {"x": adj.num_src, "y": adj.num_dst, "weight": adj.num_edges, "matrices": self.num_types}

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        shape, dtype = tuple(active.shape(inputs[-1])), active.dtype(inputs[-1])
        if len(shape) != 1 or shape[0] != self.adj.num_edges or "int" not in dtype:
            raise DGLError(f"got types of shape {shape} and dtype {dtype}; expected an integer for each edge")
        return super().describe(*inputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        parts, adj = self.named(inputs), self.adj
        weight = parts["weight"][..., None] if "weight" in parts else None
        pairs = edge_pairs(adj.reverse() if self.target == "x" else adj, inputs[-1], self.num_types)
        if self.target == "x":
            return pairs.sum(parts["y"], active.swap_last(parts["matrices"]), weight)
        if self.target == "y":
            return pairs.sum(parts["x"], parts["matrices"], weight)
        if self.target == "weight":
            return pairs.scores(parts["x"], parts["matrices"], parts["y"])[..., 0]
        return pairs.outer(parts["x"], parts["y"], weight)

    def composed(self, *inputs: Tensor) -> Tensor:
        parts, types = self.named(inputs), inputs[-1].long()
        src, dst = (active.to_device(x, types.device).long() for x in self.adj.tensors)
        if self.target == "x":
            rows = _products(parts["y"], dst, types, active.swap_last(parts["matrices"]))
        elif self.target == "matrices":
            rows = parts["x"].index_select(0, src)
        else:
            rows = _products(parts["x"], src, types, parts["matrices"])
        if self.target == "weight":
            return (rows * parts["y"].index_select(0, dst)).sum(-1)  # type: ignore[no-any-return]
        if "weight" in parts:
            rows = rows * parts["weight"][..., None]
        if self.target == "matrices":
            return _outer(rows, parts["y"].index_select(0, dst), types, self.num_types)
        return active.put_sum(rows, *((src, self.adj.num_src) if self.target == "x" else (dst, self.adj.num_dst)))
