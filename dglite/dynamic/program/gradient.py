"""The gradient of a vertex program, as nodes.

It is a vertex program itself, on the reversed graph: it *collects* what a vertex's parents hand on, and hands on what
each child's state gets. Derivatives of operators come from the operator table.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .ir import Builder, Domain, Node, NodeKind, OpaqueCall

__all__ = ["ProgramGradients", "ancestors", "differentiate"]


@dataclass
class ProgramGradients:
    """Nodes of the gradient, by what they are the gradient of. ``shared`` lists terms whose sum is the gradient."""

    pulls: dict[int, Node] = field(default_factory=dict)
    gathers: dict[tuple[int, int], Node] = field(default_factory=dict)
    children: dict[int, Node] = field(default_factory=dict)
    shared: dict[int, list[Node]] = field(default_factory=dict)


def ancestors(roots: Iterable[Node], stop: Container[Node] = ()) -> list[Node]:
    """Return the roots and all that they are made from, inputs first; nodes of ``stop`` are given, not looked into."""
    seen, pending = set[Node](), list(roots)
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            if node not in stop:
                pending.extend(node.inputs)
    return sorted(seen, key=lambda node: node.number)


class _Terms:
    """What has reached the nodes so far: whole rows, and slices of rows, apart for vertices and for edges."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.whole: dict[tuple[Node, Domain], Node | None] = {}
        self.parts: dict[tuple[Node, Domain], dict[tuple[int, int], Node]] = {}

    def add(self, x: Node, term: Node) -> None:
        """Add a term of the gradient of ``x``."""
        if (
            x.dtype.is_floating_point
            and x.kind is not NodeKind.FULL
            and not (term.kind is NodeKind.FULL and term.attr == 0)
        ):
            key = x, term.domain
            self.whole[key] = self.builder.add(self.whole.get(key), term)

    def add_part(self, x: Node, bounds: tuple[int, int], term: Node) -> None:
        """Add a term of the gradient of some columns of ``x``."""
        if x.dtype.is_floating_point and not (term.kind is NodeKind.FULL and term.attr == 0):
            parts = self.parts.setdefault((x, term.domain), {})
            parts[bounds] = self.builder.add(parts.get(bounds), term)

    def total(self, x: Node, domain: Domain) -> Node | None:
        """Return the gradient of ``x``, None when nothing reached it."""
        whole, parts = self.whole.get((x, domain)), self.parts.get((x, domain))
        if not parts:
            return whole
        bounds = sorted(parts)
        apart = all(a[1] <= b[0] for a, b in pairwise(bounds))
        for group in [bounds] if apart else [[b] for b in bounds]:
            whole = self.builder.add(whole, self._padded(x, domain, {b: parts[b] for b in group}))
        return whole

    def _padded(self, x: Node, domain: Domain, parts: dict[tuple[int, int], Node]) -> Node:
        """Return parts that do not overlap as whole rows, 0 where there is none."""
        builder, found, at = self.builder, list[Node](), 0
        for (start, stop), part in sorted(parts.items(), key=lambda item: item[0]):
            if start > at:
                found.append(builder.full(0.0, x, (start - at,), domain))
            found.append(part)
            at = stop
        if at < x.width:
            found.append(builder.full(0.0, x, (x.width - at,), domain))
        return builder.cat(found)


def differentiate(builder: Builder, seeds: Sequence[tuple[Node, Node]]) -> ProgramGradients:
    """Return the gradients of what the seeds' first nodes are made from; their second nodes are their gradients."""
    terms, found = _Terms(builder), ProgramGradients()
    for node, seed in seeds:
        terms.add(node, seed)
    for node in reversed(ancestors(node for node, _ in seeds)):
        if node.domain is Domain.SHARED:
            _finish_shared(builder, terms, node, found)
            continue
        gradient = terms.total(node, node.domain)
        if gradient is None:
            continue
        if node.kind is NodeKind.PULL:
            found.pulls[node.attr] = gradient
        elif node.kind is NodeKind.GATHER:
            found.gathers[node.attr] = gradient
        elif node.kind is NodeKind.CHILD:
            found.children[node.attr] = gradient
        else:
            _RULES[node.kind](builder, terms, node, gradient, found)
    return found


def _finish_shared(builder: Builder, terms: _Terms, node: Node, found: ProgramGradients) -> None:
    """Sum what reached one row that all share over the rows; hand on what reached columns of it."""
    for domain in (Domain.VERTEX, Domain.EDGE):
        total = terms.total(node, domain)
        if total is None:
            continue
        if node.kind is NodeKind.SLICE:
            terms.add_part(node.inputs[0], node.attr, total)
        else:
            column_sum = builder.make(NodeKind.COLUMN_SUM, (total,), node.attr, Domain.SHARED, node.shape, node.dtype)
            found.shared.setdefault(node.attr, []).append(column_sum)


def _pointwise(builder: Builder, terms: _Terms, node: Node, gradient: Node, found: ProgramGradients) -> None:
    for i, x in enumerate(node.inputs):
        if x.dtype.is_floating_point:
            terms.add(x, builder.pointwise("mul", gradient, builder.derivative(node, i), like=gradient))


def _matmul(builder: Builder, terms: _Terms, node: Node, gradient: Node, found: ProgramGradients) -> None:
    x, weight = node.inputs
    terms.add(x, builder.matmul(gradient, weight, not node.attr))
    pair = (gradient, x) if node.attr else (x, gradient)
    product = builder.make(NodeKind.WEIGHT_GRAD, pair, weight.attr, Domain.SHARED, weight.shape, weight.dtype)
    found.shared.setdefault(weight.attr, []).append(product)


def _slice(builder: Builder, terms: _Terms, node: Node, gradient: Node, found: ProgramGradients) -> None:
    terms.add_part(node.inputs[0], node.attr, gradient)


def _cat(builder: Builder, terms: _Terms, node: Node, gradient: Node, found: ProgramGradients) -> None:
    at = 0
    for part in node.inputs:
        terms.add(part, builder.slice(gradient, at, at + part.width))
        at += part.width


def _opaque(builder: Builder, terms: _Terms, node: Node, gradient: Node, found: ProgramGradients) -> None:
    assert isinstance(node.attr, OpaqueCall)
    for i, x in enumerate(node.inputs):
        if not x.dtype.is_floating_point:
            continue
        vjp = builder.make(NodeKind.VJP, (*node.inputs, gradient), (node.attr, i), x.domain, x.shape, x.dtype)
        if x.domain is Domain.SHARED:
            found.shared.setdefault(x.attr, []).append(vjp)
        else:
            terms.add(x, vjp)


_RULES = {
    NodeKind.POINTWISE: _pointwise,
    NodeKind.COPY: lambda builder, terms, node, gradient, found: terms.add(node.inputs[0], gradient),
    NodeKind.MATMUL: _matmul,
    NodeKind.SUM: lambda builder, terms, node, gradient, found: terms.add(node.inputs[0], builder.each(gradient)),
    NodeKind.EACH: lambda builder, terms, node, gradient, found: terms.add(node.inputs[0], builder.sum(gradient)),
    NodeKind.SLICE: _slice,
    NodeKind.CAT: _cat,
    NodeKind.STOP: lambda *_: None,
    NodeKind.FULL: lambda *_: None,
    NodeKind.RANDOM: lambda *_: None,
    NodeKind.OPAQUE: _opaque,
}
