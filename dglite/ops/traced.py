"""Operations for ``torch.compile``: their arguments are tensors, numbers and text; a graph is passed by number.

While a compiler reads the program (and when it derives gradients, where only numbers are left) every operation goes to
the backend's registered form, ``active.call``; otherwise straight to its ``GraphOp``. To register one more operation,
derive its class from :class:`GraphOp`, decorate it with :func:`registered`, and start the public function with ::

    if is_traced(adj):
        return traced("name", adj, recipe, inputs)

Its ``backward`` must use operations that are registered too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from ..backend import Tensor, active
from ..expr import Call, Constant, Expr, Operand, Side
from ..opspec import OPERATORS
from ..structure.adjacency import Adjacency

__all__ = [
    "GraphOp",
    "Reference",
    "expression_of",
    "is_traced",
    "postfix",
    "registered",
    "reversed_of",
    "run",
    "traced",
]


class Reference:
    """Stands for an adjacency where there are only numbers, which may be a compiler's symbols.

    In a gradient ``keeper`` is the tensor that keeps the adjacency alive.
    """

    __slots__ = ("keeper", "num_dst", "num_edges", "num_src", "number", "turned")

    def __init__(
        self, number: int, turned: int, num_src: int, num_dst: int, num_edges: int, keeper: Tensor | None = None
    ) -> None:
        self.number, self.turned = number, turned
        self.num_src, self.num_dst, self.num_edges = num_src, num_dst, num_edges
        self.keeper = keeper

    def reverse(self) -> Reference:
        """Return the relation with every edge reversed."""
        return Reference(self.number, 1 - self.turned, self.num_dst, self.num_src, self.num_edges, self.keeper)

    def words(self) -> list[int]:
        """Return the numbers that programs hold of it."""
        return [self.number, self.turned, self.num_src, self.num_dst, self.num_edges]


def is_traced(adj: Adjacency | Reference) -> bool:
    """Whether an operation on ``adj`` has to be a registered one."""
    return type(adj) is not Adjacency or active.compiling()


def reference_of(adj: Adjacency | Reference) -> Reference:
    """Return what stands for ``adj`` in a compiled program."""
    if isinstance(adj, Reference):
        return adj
    return Reference(adj.number, 0, adj.num_src, adj.num_dst, adj.num_edges)


def reversed_of(adj: Adjacency | Reference) -> Any:
    """Return the relation with every edge reversed."""
    return reference_of(adj).reverse() if is_traced(adj) else adj.reverse()


def traced(name: str, adj: Adjacency | Reference, recipe: str, inputs: Sequence[Tensor]) -> Tensor:
    """Run a registered operation on ``adj``."""
    reference = reference_of(adj)
    return active.call(name, inputs, reference.words(), recipe, reference.keeper)


# -- operations --------------------------------------------------------------------------------------------------------
class GraphOp(ABC):
    """One call of an operation on a relation, with a gradient of its own: a ``DifferentiableOp``, and more.

    ``adj`` is an adjacency where values are computed, a reference where results are described or derived.
    """

    name: ClassVar[str]
    saved: Sequence[int] = ()
    kept: Tensor | None = None
    shapes: Sequence[tuple[int, ...]] = ()
    adj: Any
    owner: object = None
    """In a compiled program: what must live as long as a gradient may be asked for."""

    @classmethod
    @abstractmethod
    def parse(cls, adj: Any, recipe: str, needs: tuple[bool, ...]) -> GraphOp:
        """Make the operation that ``recipe`` describes. ``needs`` tells which inputs need a gradient."""

    @abstractmethod
    def recipe(self) -> str:
        """Return all that makes this operation, but for inputs and structure, as text."""

    @abstractmethod
    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], tuple[Sequence[int], str] | None]:
        """Return shape and dtype of the result, and of what is kept for the gradient."""

    @abstractmethod
    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute the result from checked inputs."""

    @abstractmethod
    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of the inputs, with differentiable operations."""


Op = TypeVar("Op", bound=type[GraphOp])


def registered(op: Op) -> Op:
    """Register the class of an operation with the active backend's compiler."""

    def make(
        structure: Sequence[int], recipe: str, needs: Sequence[bool], real: bool, keeper: Tensor | None
    ) -> GraphOp:
        number, turned, num_src, num_dst, num_edges = structure
        reference = Reference(number, turned, num_src, num_dst, num_edges, keeper)
        if not real:
            return op.parse(reference, recipe, tuple(needs))
        adj = Adjacency.numbered(reference.number)
        made = op.parse(adj.reverse() if reference.turned else adj, recipe, tuple(needs))
        made.owner = adj
        return made

    active.register(op.name, make)
    return op


def run(op: GraphOp, *inputs: Tensor) -> Tensor:
    """Run ``op`` and record its gradient where one is asked for."""
    if is_traced(op.adj):
        return traced(op.name, op.adj, op.recipe(), inputs)
    return active.apply(op, *inputs)


# -- expressions as text -----------------------------------------------------------------------------------------------
def postfix(expr: Expr) -> str:
    """Return ``expr`` with every operator after its arguments: ``u0 e1 mul``."""
    if isinstance(expr, Operand):
        return f"{expr.side.value}{expr.slot}"
    if isinstance(expr, Constant):
        return repr(expr.value)
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
