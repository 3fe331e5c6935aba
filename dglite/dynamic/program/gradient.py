"""The gradient of a vertex program, as nodes.

It is a vertex program itself, on the reversed graph: it *collects* what a vertex's parents hand on, and hands on what
each child's state gets. Derivatives of operators come from the operator table.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from .ir import Builder, Node, NodeKind, OpaqueCall, RowDomain
from .recipe import BufferRole, ProgramResult


def ancestors(roots: Iterable[Node], stop: Container[Node] = ()) -> list[Node]:
    """Return the roots and all that they are made from, inputs first; nodes of ``stop`` are given, not looked into."""
    visited, pending = set[Node](), list(roots)
    while pending:
        node = pending.pop()
        if node not in visited:
            visited.add(node)
            if node not in stop:
                pending.extend(node.inputs)
    return sorted(visited, key=lambda node: node.number)


def differentiate(builder: Builder, seeds: Sequence[tuple[Node, Node]]) -> list[ProgramResult]:
    """Return the gradients of what the seeds' first nodes are made from; their second nodes are their gradients.

    Several roots of one shared tensor are terms, whose sum is its gradient.
    """
    terms = _GradientTerms(builder)
    for node, seed in seeds:
        terms.add(node, seed)
    for node in reversed(ancestors(node for node, _ in seeds)):
        for domain in (RowDomain.VERTEX, RowDomain.EDGE):
            gradient = terms.total(node, domain)
            if gradient is not None:
                _RULES[node.kind](terms, node, gradient)
    return terms.roots


class _GradientTerms:
    """What has reached columns of the nodes so far, apart for vertices and for edges, and the gradients that are known.

    Only what all share is reached by both.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder, self.roots = builder, list[ProgramResult]()
        self._terms: dict[tuple[Node, RowDomain], dict[tuple[int, int], Node]] = {}

    def add(self, x: Node, term: Node, bounds: tuple[int, int] | None = None) -> None:
        """Add a term of the gradient of ``x``, or of some columns of it."""
        if x.dtype.is_floating_point and x.kind is not NodeKind.FULL and not _is_zero(term):
            terms, bounds = self._terms.setdefault((x, term.domain), {}), bounds or (0, x.width)
            terms[bounds] = self.builder.add(terms.get(bounds), term)

    def root(self, role: BufferRole, key: object, gradient: Node) -> None:
        """Note a gradient that nothing is to be derived from any more."""
        self.roots.append(ProgramResult(role, key, gradient))

    def total(self, x: Node, domain: RowDomain) -> Node | None:
        """Return the gradient of ``x``, None when nothing reached it."""
        terms, rows = self._terms.get((x, domain), {}), list[list[tuple[int, int]]]()
        for bounds in sorted(terms):
            row = next((row for row in rows if row[-1][1] <= bounds[0]), None)
            if row is None:
                rows.append([bounds])
            else:
                row.append(bounds)
        whole: Node | None = None
        for row in rows:
            whole = self.builder.add(whole, self._padded(x, domain, {bounds: terms[bounds] for bounds in row}))
        return whole

    def _padded(self, x: Node, domain: RowDomain, parts: dict[tuple[int, int], Node]) -> Node:
        """Return parts in order that do not overlap as whole rows, 0 in the other columns."""
        builder, columns, at = self.builder, list[Node](), 0
        for (start, stop), part in parts.items():
            if start > at:
                columns.append(builder.full(0.0, x, (start - at,), domain))
            columns.append(part)
            at = stop
        if at < x.width:
            columns.append(builder.full(0.0, x, (x.width - at,), domain))
        return builder.cat(columns)


def _is_zero(x: Node) -> bool:
    return x.kind is NodeKind.FULL and x.attr == 0


def _leaf(role: BufferRole) -> Callable[[_GradientTerms, Node, Node], None]:
    return lambda terms, node, gradient: terms.root(role, node.attr, gradient)


def _shared(terms: _GradientTerms, node: Node, gradient: Node) -> None:
    """Sum what reached one row that all share over the rows."""
    attributes = node.attr, RowDomain.SHARED, node.shape, node.dtype
    terms.root(BufferRole.SHARED_GRAD, node.attr, terms.builder.make(NodeKind.COLUMN_SUM, (gradient,), *attributes))


def _pointwise(terms: _GradientTerms, node: Node, gradient: Node) -> None:
    builder = terms.builder
    if node.attr == "where":  # not a product with 0: the gradient of what is not chosen may be infinite
        condition, x, y = node.inputs
        terms.add(x, builder.pointwise("where", condition, gradient, 0.0, like=gradient))
        terms.add(y, builder.pointwise("where", condition, 0.0, gradient, like=gradient))
        return
    for i, x in enumerate(node.inputs):
        if x.dtype.is_floating_point:
            terms.add(x, builder.pointwise("mul", gradient, builder.derivative(node, i), like=gradient))


def _copy(terms: _GradientTerms, node: Node, gradient: Node) -> None:
    if node.attr is None:  # else F detaches it
        terms.add(node.inputs[0], gradient)


def _matmul(terms: _GradientTerms, node: Node, gradient: Node) -> None:
    x, weight = node.inputs
    terms.add(x, terms.builder.matmul(gradient, weight, not node.attr))
    pair, attributes = (gradient, x) if node.attr else (x, gradient), (RowDomain.SHARED, weight.shape, weight.dtype)
    product = terms.builder.make(NodeKind.WEIGHT_GRAD, pair, weight.attr, *attributes)
    terms.root(BufferRole.SHARED_GRAD, weight.attr, product)


def _cat(terms: _GradientTerms, node: Node, gradient: Node) -> None:
    at = 0
    for part in node.inputs:
        terms.add(part, terms.builder.slice(gradient, at, at + part.width))
        at += part.width


def _reduce(terms: _GradientTerms, node: Node, gradient: Node) -> None:
    """Hand a gradient on to all children, or in equal parts to those that have the extreme value."""
    builder, (x,) = terms.builder, node.inputs
    if node.attr != "sum":
        is_extreme = builder.boolean(builder.pointwise("eq", x, builder.each(node)))
        part = builder.pointwise("div", gradient, builder.reduce(is_extreme))
        terms.add(x, builder.pointwise("mul", builder.each(part), is_extreme))
    else:
        terms.add(x, builder.each(gradient))


def _opaque(terms: _GradientTerms, node: Node, gradient: Node) -> None:
    assert isinstance(node.attr, OpaqueCall)
    for i, x in enumerate(() if node.attr.is_boolean else node.inputs):
        if not x.dtype.is_floating_point or i in node.attr.booleans:
            continue
        inputs, attributes = (*node.inputs, gradient), ((node.attr, i), x.domain, x.shape, x.dtype)
        vjp = terms.builder.make(NodeKind.VJP, inputs, *attributes)
        if x.domain is RowDomain.SHARED:
            terms.root(BufferRole.SHARED_GRAD, x.attr, vjp)
        else:
            terms.add(x, vjp)


_RULES: dict[NodeKind, Callable[[_GradientTerms, Node, Node], None]] = {
    NodeKind.PULL: _leaf(BufferRole.PULL_GRAD),
    NodeKind.GATHER: _leaf(BufferRole.STATE_GRAD),
    NodeKind.CHILD: lambda terms, node, gradient: terms.root(BufferRole.STATE_GRAD, (None, node.attr), gradient),
    NodeKind.SHARED: _shared,
    NodeKind.POINTWISE: _pointwise,
    NodeKind.COPY: _copy,
    NodeKind.MATMUL: _matmul,
    NodeKind.REDUCE: _reduce,
    NodeKind.EACH: lambda terms, node, gradient: terms.add(node.inputs[0], terms.builder.reduce(gradient)),
    NodeKind.SLICE: lambda terms, node, gradient: terms.add(node.inputs[0], gradient, node.attr),
    NodeKind.CAT: _cat,
    NodeKind.RANDOM: lambda terms, node, gradient: None,
    NodeKind.OPAQUE: _opaque,
}
