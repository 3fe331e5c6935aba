"""What a vertex program computes, as a graph of nodes that never change.

A value has a row for each vertex or for each edge (a vertex and one of its children), or one row that all share. The
forward program, its gradient, and what remains of both for leaves are all made of these nodes, by one builder that
gives the same node for the same computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from ...backend import active
from ...expr import Call, Constant, Expr, Operand, Side, evaluate
from ...opspec import COMPARISONS, OPERATORS


class RowDomain(Enum):
    """What a value has a row for."""

    VERTEX = "vertex"
    EDGE = "edge"
    SHARED = "shared"

    __hash__ = object.__hash__  # members are single objects; Enum hashes their names, in Python


class NodeKind(Enum):
    """What a node is. The first group is given from outside of the program."""

    PULL = "pull"
    GATHER = "gather"
    CHILD = "child"
    SHARED = "shared"
    GIVEN = "given"
    COLLECT = "collect"

    FULL = "full"
    RANDOM = "random"
    POINTWISE = "pointwise"
    COPY = "copy"
    MATMUL = "matmul"
    REDUCE = "reduce"
    EACH = "each"
    SLICE = "slice"
    CAT = "cat"
    OPAQUE = "opaque"
    VJP = "vjp"
    WEIGHT_GRAD = "weight grad"
    COLUMN_SUM = "column sum"

    __hash__ = object.__hash__


GRADIENT_KINDS = (NodeKind.WEIGHT_GRAD, NodeKind.COLUMN_SUM)
"""Kinds of results that all rows share."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """A value: what makes it, from what, and the shape and dtype of one row.

    ``number`` grows in the order of creation, so inputs come before what uses them.
    """

    number: int
    kind: NodeKind
    inputs: tuple[Node, ...]
    attr: Any
    domain: RowDomain
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def width(self) -> int:
        """How many values a row has."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        name = self.attr if self.kind is NodeKind.POINTWISE else self.kind.value
        detail = (
            f" {self.attr}" if self.kind in (NodeKind.GATHER, NodeKind.CHILD, NodeKind.PULL, NodeKind.SLICE) else ""
        )
        return f"%{self.number} = {name}{detail}({', '.join(f'%{x.number}' for x in self.inputs)})"


@dataclass(frozen=True)
class OpaqueCall:
    """A torch function that is called again: as a node on whole batches of rows, whose number is given as well.

    ``arguments`` fills in tensors; ``output`` is which of several results is meant. Booleans, which columns hold as 0
    and 1, have no gradient: inputs at ``booleans``, and the result where it ``is_boolean``.
    """

    function: Callable[..., Any] = field(compare=False)
    arguments: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] = field(compare=False)
    output: int | None = None
    token: int = 0
    booleans: tuple[int, ...] = ()
    is_boolean: bool = False

    def __call__(self, values: Sequence[torch.Tensor], *num_rows: int) -> torch.Tensor:
        """Return the result."""
        values = [x != 0 if i in self.booleans else x for i, x in enumerate(values)] if self.booleans else values
        args, kwargs = self.arguments(values, *num_rows)
        result = self.function(*args, **kwargs)
        return result if self.output is None else result[self.output]


class Builder:
    """Makes nodes. Equal computations give one node, and arithmetic with 0 and 1 disappears."""

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}
        self._count = 0
        self.ones: Callable[[int, int], Node] = _no_constants
        """Returns a shared matrix of ones; set by the recorder, which has the shared tensors."""
        self.transposes: dict[Node, Node] = {}
        """Shared matrices that are the transpose of another one."""

    def make(
        self,
        kind: NodeKind,
        inputs: Sequence[Node],
        attr: Any,
        domain: RowDomain,
        shape: Sequence[int],
        dtype: torch.dtype,
        unique: bool = False,
    ) -> Node:
        """Return the node of these properties."""
        key = kind, tuple(x.number for x in inputs), attr, domain, tuple(shape), dtype
        if not unique and key in self._nodes:
            return self._nodes[key]
        node = Node(self._count, kind, tuple(inputs), attr, domain, tuple(shape), dtype)
        self._count += 1
        if not unique:
            self._nodes[key] = node
        return node

    # -- values without inputs ----------------------------------------------------------------------------------
    def full(
        self, value: float, like: Node, shape: Sequence[int] | None = None, domain: RowDomain | None = None
    ) -> Node:
        """Return ``value`` in the shape and domain of ``like``, unless others are given."""
        shape = like.shape if shape is None else shape
        return self.make(NodeKind.FULL, (), value, domain or like.domain, shape, like.dtype)

    # -- element-wise -------------------------------------------------------------------------------------------
    def pointwise(self, name: str, *args: Node | float, like: Node | None = None) -> Node:
        """Return an operator's value; numbers and constants are folded where that is exact."""
        nodes = [x for x in args if isinstance(x, Node)]
        varying = [x for x in nodes if x.domain is not RowDomain.SHARED] or nodes
        like = like or max(varying, key=lambda x: x.dtype.is_floating_point)
        full = [x if isinstance(x, Node) else self.full(float(x), like) for x in args]
        constants = [x.attr if x.kind is NodeKind.FULL else None for x in full]
        if all(c is not None for c in constants) and name not in COMPARISONS and name != "where":
            return self.full(_constant(name, [float(c) for c in constants if c is not None]), like)
        simpler = self._simplified(name, full, constants, like)
        if simpler is not None:
            return simpler
        domain = varying[0].domain if any(x.domain is not RowDomain.SHARED for x in nodes) else RowDomain.SHARED
        return self.make(NodeKind.POINTWISE, full, name, domain, like.shape, like.dtype)

    def _simplified(self, name: str, args: list[Node], constants: list[Any], like: Node) -> Node | None:
        """Return what ``0 + x``, ``1 * x`` and their kin come to, None when nothing is simpler."""
        a, b = (*constants, None, None)[:2]
        if (name in ("add", "sub") and b == 0) or (name in ("mul", "div") and b == 1):
            return self.spread(args[0], like)
        if (name == "add" and a == 0) or (name == "mul" and a == 1):
            return self.spread(args[1], like)
        if (name == "mul" and 0 in (a, b)) or (name == "div" and a == 0):
            return self.full(0.0, like)
        if (name == "sub" and a == 0) or (name == "mul" and a == -1):
            return self.pointwise("neg", self.spread(args[1], like), like=like)
        if name == "mul" and b == -1:
            return self.pointwise("neg", self.spread(args[0], like), like=like)
        return None

    def spread(self, x: Node, like: Node) -> Node:
        """Return ``x``, with a row for each vertex or edge where it had one row for all."""
        if x.domain is like.domain or like.domain is RowDomain.SHARED:
            return x
        return self.make(NodeKind.COPY, (x,), None, like.domain, like.shape, like.dtype)

    def copy(self, x: Node) -> Node:
        """Return the same values in a place of their own."""
        return self.make(NodeKind.COPY, (x,), None, x.domain, x.shape, x.dtype, unique=True)

    def add(self, x: Node | None, y: Node) -> Node:
        """Return the sum, or ``y`` when there is no ``x`` yet."""
        return y if x is None else self.pointwise("add", x, y)

    # -- booleans, as columns of 0 and 1 ------------------------------------------------------------------------
    def boolean(self, comparison: Node) -> Node:
        """Return a comparison as a column."""
        return self.pointwise("where", comparison, 1.0, 0.0)

    def is_true(self, x: Node) -> Node:
        """Return the comparison that a column of booleans is made from, or one that compares it with 0."""
        constants = [y.attr if y.kind is NodeKind.FULL else None for y in x.inputs[1:]]
        if x.kind is NodeKind.POINTWISE and x.attr == "where" and constants == [1.0, 0.0]:
            return x.inputs[0]
        return self.pointwise("ne", x, 0.0)

    def where(self, condition: Node, x: Node | float, y: Node | float) -> Node:
        """Return ``x`` where a column of booleans is true, else ``y``."""
        return self.pointwise("where", self.is_true(condition), x, y)

    def formula(self, expr: Expr, values: Sequence[Node | float], like: Node | None = None) -> Any:
        """Return an expression over ``values`` as a node, or as a number where it depends on no node."""
        if isinstance(expr, Operand):
            return values[expr.slot]
        if isinstance(expr, Constant):
            return expr.value if like is None else self.full(expr.value, like)
        assert isinstance(expr, Call)
        return self.pointwise(expr.op.name, *(self.formula(arg, values, like) for arg in expr.args), like=like)

    def derivative(self, node: Node, argument: int) -> Node:
        """Return d(``node``) / d(its input ``argument``), from the operator table."""
        operands = [Operand(Side.E, i) for i in range(len(node.inputs))]
        gradient = OPERATORS[node.attr].gradient[argument](*operands)
        expr = gradient if isinstance(gradient, Expr) else Constant(float(gradient))
        return self.formula(expr, node.inputs, node)  # type: ignore[no-any-return]

    # -- places -------------------------------------------------------------------------------------------------
    def slice(self, x: Node, start: int, stop: int) -> Node:
        """Return columns ``start`` to ``stop``, taken as early as possible: of what an operator is applied to."""
        if (start, stop) == (0, x.width):
            return x if len(x.shape) == 1 else self.reshaped(x, (x.width,))
        if x.kind is NodeKind.SLICE:
            return self.slice(x.inputs[0], x.attr[0] + start, x.attr[0] + stop)
        if x.kind is NodeKind.FULL:
            return self.full(x.attr, x, (stop - start,))
        if x.kind is NodeKind.CAT:
            at = 0
            for part in x.inputs:
                if at <= start and stop <= at + part.width:
                    return self.slice(part, start - at, stop - at)
                at += part.width
        if x.kind in (NodeKind.POINTWISE, NodeKind.COPY):
            parts = [self.slice(arg, start, stop) for arg in x.inputs]
            return self.make(x.kind, parts, x.attr, x.domain, (stop - start,), x.dtype)
        if x.kind is NodeKind.EACH:
            return self.each(self.slice(x.inputs[0], start, stop))
        return self.make(NodeKind.SLICE, (x,), (start, stop), x.domain, (stop - start,), x.dtype)

    def reshaped(self, x: Node, shape: Sequence[int]) -> Node:
        """Return the same row in another shape."""
        if tuple(shape) == x.shape:
            return x
        if x.kind is NodeKind.FULL:
            return self.full(x.attr, x, shape)
        source, bounds = (x.inputs[0], x.attr) if x.kind is NodeKind.SLICE else (x, (0, x.width))
        if tuple(shape) == source.shape and bounds == (0, source.width):
            return source
        return self.make(NodeKind.SLICE, (source,), bounds, x.domain, shape, x.dtype)

    def cat(self, parts: Sequence[Node]) -> Node:
        """Return rows side by side."""
        parts = [part for part in parts if part.width] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        first, shape = parts[0], (sum(part.width for part in parts),)
        if all(part.kind is NodeKind.FULL and part.attr == first.attr for part in parts):
            return self.full(first.attr, first, shape)
        return self.make(NodeKind.CAT, parts, None, first.domain, shape, first.dtype)

    # -- between vertices and edges -----------------------------------------------------------------------------
    def each(self, x: Node) -> Node:
        """Return a vertex's value once for each of its children."""
        if x.kind is NodeKind.FULL:
            return self.full(x.attr, x, domain=RowDomain.EDGE)
        return self.make(NodeKind.EACH, (x,), None, RowDomain.EDGE, x.shape, x.dtype)

    def reduce(self, x: Node, reducer: str = "sum") -> Node:
        """Return the ``"sum"``, ``"max"`` or ``"min"`` over a vertex's children, 0 without children."""
        if x.kind is NodeKind.FULL and x.attr == 0:
            return self.full(0.0, x, domain=RowDomain.VERTEX)
        return self.make(NodeKind.REDUCE, (x,), reducer, RowDomain.VERTEX, x.shape, x.dtype)

    # -- products -----------------------------------------------------------------------------------------------
    def matmul(self, x: Node, weight: Node, turned: bool = False) -> Node:
        """Return ``x @ weight``, or ``x @ weight.T`` where it is ``turned``; 0 where ``x`` is 0."""
        if weight in self.transposes:
            return self.matmul(x, self.transposes[weight], not turned)
        columns = weight.shape[0] if turned else weight.shape[1]
        if x.kind is NodeKind.FULL and x.attr == 0:
            return self.full(0.0, x, (columns,))
        return self.make(NodeKind.MATMUL, (x, weight), turned, x.domain, (columns,), x.dtype)


def _no_constants(height: int, width: int) -> Node:
    raise AssertionError("constants are made while a function is traced")


def _constant(name: str, values: list[float]) -> float:
    """Compute an operator of numbers, in float64."""
    call = Call(OPERATORS[name], tuple(Operand(Side.E, i) for i in range(len(values))))
    result = evaluate(call, [torch.tensor(value, dtype=torch.float64) for value in values], active.functions)
    return float(result)
