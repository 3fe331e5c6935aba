"""Operations as torch's machinery sees them: registered, on tensors, counts and text.

While a program is traced, compiled, exported or transformed, and where a tensor is of a class that handles operations
itself, every operation goes to the backend's registered form, ``active.call``; otherwise straight to its ``GraphOp``.
The structure is passed as the two ends of every edge. To register one more operation, derive its class from
:class:`GraphOp`, decorate it with :func:`registered`, and start the public function with ::

    if is_traced(adj, inputs):
        return traced("name", adj, recipe, inputs)

Its ``backward`` must use operations that are registered too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Call, Constant, Expr, Operand, Side
from ..opspec import OPERATORS
from ..structure.adjacency import Adjacency
from ..structure.traced import TracedAdjacency, relation_of


def is_traced(adj: Adjacency | TracedAdjacency, inputs: Sequence[Tensor] = ()) -> bool:
    """Whether an operation on ``adj`` and ``inputs`` has to be a registered one."""
    return type(adj) is not Adjacency or active.compiling() or active.needs_operator(inputs)


def is_read(adj: Adjacency | TracedAdjacency) -> bool:
    """Whether a compiler reads the program or has the structure: what caches of calls hold is not looked at then."""
    return type(adj) is not Adjacency or active.compiling()


def reversed_of(adj: Adjacency | TracedAdjacency) -> Any:
    """Return the relation with every edge reversed; while a compiler reads the program, not by what it cannot read."""
    if type(adj) is Adjacency and active.compiling():
        require_input(adj)
        src, dst = adj.tensors
        return TracedAdjacency(dst, src, adj.num_dst, adj.num_src, adj.idtype)
    return adj.reverse()


def require_input(adj: Adjacency | TracedAdjacency) -> None:
    """Raise :class:`DGLError` while a program is exported if this relation is not one of its inputs."""
    if type(adj) is Adjacency and active.exporting():
        raise DGLError(
            f"the exported program would hold a graph of {adj.num_edges} edges that is not an input, and be for "
            "that graph only: pass the graph as an input, as in dglite.export(model, g, x) with forward(self, g, x)"
        )


def traced(name: str, adj: Any, recipe: str, inputs: Sequence[Tensor]) -> Tensor:
    """Run a registered operation on ``adj``; composed of the library's own where transforms want these."""
    if not active.compiling():  # which reads no more of this than it must
        op = _CLASSES[name].create(adj, recipe, (True,) * len(inputs))
        if active.is_forward_mode(inputs):
            return op.composed(*inputs)
        result = active.transformed(op, inputs)
        if result is not None:
            return result
    require_input(adj)
    return active.call(name, inputs, adj.tensors, (adj.num_src, adj.num_dst), recipe)


# -- operations --------------------------------------------------------------------------------------------------------
class GraphOp(ABC):
    """One call of an operation on a relation, with its own gradient: a ``DifferentiableOp``, and more.

    ``adj`` is an adjacency where values are computed, a traced one where results are described or derived.
    """

    name: ClassVar[str]
    saved: Sequence[int] = ()
    aux: Any = None
    shapes: Sequence[tuple[int, ...]] = ()
    adj: Any
    device: Any = None
    needs: tuple[bool, ...] = ()
    batch_axis = 1
    alike = False

    @classmethod
    @abstractmethod
    def parse(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> GraphOp:
        """Make the operation that ``recipe`` describes. ``needs`` tells which inputs need a gradient."""

    @classmethod
    def create(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> GraphOp:
        """Make the operation, which can be made :meth:`again`."""
        op = cls.parse(adj, recipe, needs)
        op.needs = needs
        return op

    @staticmethod
    def structure(src: Tensor, dst: Tensor, num_src: int, num_dst: int, real: bool) -> Any:
        """Return the structure from the tensors and counts of a program; without values unless ``real``."""
        return (relation_of if real else TracedAdjacency)(src, dst, num_src, num_dst)

    @property
    def is_real(self) -> bool:
        """Whether the structure has values."""
        return type(self.adj) is Adjacency

    @classmethod
    def run_again(cls, adj: Any, recipe: str, inputs: Sequence[Tensor]) -> Tensor | None:
        """Return the result as an earlier call on ``adj`` and equal shapes did, without checks; None if there was none.

        An operation whose kernel is cached with the relation, see :mod:`.call_cache`, defines this.
        """
        return None

    def again(self) -> GraphOp:
        """Return the same operation for another call."""
        return self.create(self.adj, self.recipe(), self.needs)

    @abstractmethod
    def recipe(self) -> str:
        """Return the parameters of this operation, without inputs and structure, as text."""

    @abstractmethod
    def describe(self, *inputs: Any) -> tuple[tuple[Sequence[int], str], tuple[Sequence[int], str] | None]:
        """Return shape and dtype of the result, and of what is kept for the gradient."""

    def with_relu(self) -> str | None:
        """Return the recipe of this operation with a ReLU behind it, or None if it has no such form."""
        return None

    def check_values(self, *inputs: Any) -> None:  # noqa: B027
        """Raise :class:`DGLError` for ids among the inputs of a program that a kernel would read out of bounds."""

    @abstractmethod
    def forward(self, *inputs: Any) -> Tensor:
        """Compute the result from checked inputs."""

    @abstractmethod
    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of the inputs, with differentiable operations."""

    @abstractmethod
    def composed(self, *inputs: Tensor) -> Tensor:
        """Return the result of ``forward``, composed of the tensor library's own operations."""


Op = TypeVar("Op", bound=type[GraphOp])
_CLASSES: dict[str, type[GraphOp]] = {}


def registered(op: Op) -> Op:
    """Register the class of an operation with the active backend's compiler."""

    def make(structure: Sequence[Any], recipe: str, needs: Sequence[bool], real: bool) -> GraphOp:
        src, dst, num_src, num_dst = structure
        return op.create(op.structure(src, dst, num_src, num_dst, real), recipe, tuple(needs))

    def run_again(structure: Sequence[Any], recipe: str, inputs: Sequence[Tensor]) -> Tensor | None:
        src, dst, num_src, num_dst = structure
        return op.run_again(op.structure(src, dst, num_src, num_dst, True), recipe, inputs)

    _CLASSES[op.name] = op
    runs_again = any("run_again" in vars(kind) for kind in op.__mro__ if kind is not GraphOp)
    active.register(op.name, make, run_again if runs_again else None)
    return op


def run(op: GraphOp, *inputs: Tensor) -> Tensor:
    """Run ``op`` and record its gradient if one is needed."""
    if is_traced(op.adj, inputs):
        return traced(op.name, op.adj, op.recipe(), inputs)
    return active.apply(op, *inputs)


# -- expressions as text -----------------------------------------------------------------------------------------------
def postfix(expr: Expr) -> str:
    """Return ``expr`` with every operator after its arguments: ``u0 e1 mul``."""
    if isinstance(expr, Operand):
        return f"{expr.side.value}{expr.slot}"
    if isinstance(expr, Constant):
        return expr.text
    assert isinstance(expr, Call)
    return " ".join([postfix(arg) for arg in expr.args]) + " " + expr.op.name


@lru_cache(maxsize=1024)
def expression_of(text: str) -> Expr:
    """Return the expression that :func:`postfix` wrote."""
    stack: list[Expr] = []
    for token in text.split():
        if token in OPERATORS:
            op = OPERATORS[token]
            args = tuple(stack[-op.arity :])
            del stack[-op.arity :]
            stack.append(Call(op, args))
        elif token[0] in _SIDES and token[1:].isdigit():
            stack.append(Operand(_SIDES[token[0]], int(token[1:])))
        else:
            stack.append(Constant(float(token)))
    (expr,) = stack
    return expr


_SIDES = {side.value: side for side in Side}
