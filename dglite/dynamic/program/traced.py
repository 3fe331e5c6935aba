"""A traced F for every class of vertices: with and without children, with and without each input.

What a vertex does not have is 0. Where zeros meet products and sums, work disappears: leaves, half of the vertices of a
binary tree, need no product with their children's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...opspec import OPERATORS
from ..options import Options
from .gradient import ProgramGradients, ancestors, differentiate
from .ir import Builder, Domain, Node, NodeKind
from .plan import make_plan
from .recipe import Buffer, Place, Role, Root, VertexPlan
from .trace import TracedFunction

__all__ = ["ClassPlan", "Needs", "plan_class"]


@dataclass(frozen=True)
class Needs:
    """Which gradients are wanted: of inputs, of shared tensors. Both are empty where none is."""

    pulls: tuple[bool, ...] = ()
    shared: tuple[bool, ...] = ()

    @property
    def any(self) -> bool:
        """Whether any is."""
        return any(self.pulls) or any(self.shared)


@dataclass
class ClassPlan:
    """The two programs of one class of vertices; ``backward`` is None where no gradient is wanted."""

    forward: VertexPlan
    backward: VertexPlan | None
    pulls: dict[int, Buffer]
    push_grads: dict[int, Buffer]


_SAVED = (
    NodeKind.PULL,
    NodeKind.GATHER,
    NodeKind.CHILD,
    NodeKind.SHARED,
    NodeKind.MATMUL,
    NodeKind.SUM,
    NodeKind.OPAQUE,
    NodeKind.RANDOM,
)


def plan_class(
    builder: Builder,
    program: TracedFunction,
    has_children: bool,
    absent: Sequence[int],
    collected: Sequence[tuple[int, bool]],
    needs: Needs,
    options: Options,
) -> ClassPlan:
    """Plan ``program`` for vertices of one class.

    ``absent`` lists the inputs that they do not have, ``collected`` the (state, by slot) in which parents hand on
    gradients.
    """
    results = _specialised(builder, [*program.states, *program.pushes], has_children, set(absent))
    states, pushes = results[: len(program.states)], results[len(program.states) :]
    roots = [Root(Role.SCATTER, j, node) for j, node in enumerate(states)]
    roots += [Root(Role.PUSH, k, node) for k, node in enumerate(pushes)]
    made = set(ancestors(results))
    pulls = {
        node.attr: Buffer(Domain.VERTEX, node.width, node.dtype, Role.PULL, node.attr)
        for node in made
        if node.kind is NodeKind.PULL
    }
    given = {node: Place(pulls[node.attr], 0, node.width) for node in made if node.kind is NodeKind.PULL}
    forward = make_plan(builder, roots, given, False, options)
    backward, push_places = None, dict[Node, Place]()
    if needs.any:
        gradient_roots, push_places = _gradient(builder, states, pushes, collected, needs)
        kept = _kept(gradient_roots, made, forward)
        forward = make_plan(builder, [*roots, *(Root(Role.KEEP, None, node) for node in kept)], given, False, options)
        saved = {node: place for node, place in forward.places.items() if node in made}
        backward = make_plan(builder, gradient_roots, {**saved, **push_places}, True, options)
    push_grads = {node.attr: place.buffer for node, place in push_places.items()}
    return ClassPlan(forward, backward, pulls, push_grads)


def _gradient(
    builder: Builder,
    states: Sequence[Node],
    pushes: Sequence[Node],
    collected: Sequence[tuple[int, bool]],
    needs: Needs,
) -> tuple[list[Root], dict[Node, Place]]:
    """Return the results of the gradient's program, and the places of what it is given."""
    seeds, places = [], {}
    for k, node in enumerate(pushes):
        if node.dtype.is_floating_point:
            given = builder.make(NodeKind.GIVEN, (), k, Domain.VERTEX, (node.width,), node.dtype)
            places[given] = Place(Buffer(Domain.VERTEX, node.width, node.dtype, Role.PUSH, k), 0, node.width)
            seeds.append((node, given))
    for j, by_slot in collected:
        if j < len(states):
            node = states[j]
            seeds.append(
                (node, builder.make(NodeKind.COLLECT, (), (j, by_slot), Domain.VERTEX, (node.width,), node.dtype))
            )
    return _gradient_roots(differentiate(builder, seeds), needs), places


def _gradient_roots(found: ProgramGradients, needs: Needs) -> list[Root]:
    roots = [Root(Role.STATE_GRAD, key, node) for key, node in found.gathers.items()]
    roots += [Root(Role.STATE_GRAD, (None, j), node) for j, node in found.children.items()]
    roots += [Root(Role.PULL_GRAD, i, node) for i, node in found.pulls.items() if needs.pulls[i]]
    roots += [Root(Role.SHARED_GRAD, i, node) for i, nodes in found.shared.items() if needs.shared[i] for node in nodes]
    return roots


def _kept(roots: Sequence[Root], made: set[Node], forward: VertexPlan) -> list[Node]:
    """Return what of the forward program its gradient reads and what would be dear to compute again."""

    def is_kept(node: Node) -> bool:
        costly = node.kind is NodeKind.POINTWISE and OPERATORS[node.attr].costly
        return node in made and (node in forward.places or node.kind in _SAVED or costly)

    everything = ancestors(root.node for root in roots)
    stops = {node for node in everything if is_kept(node)}
    reached = [node for node in ancestors((root.node for root in roots), stops) if node in stops]
    return [node for node in reached if node.kind not in (NodeKind.GATHER, NodeKind.CHILD, NodeKind.SHARED)]


# -- what is left when something is 0 --------------------------------------------------------------------------------
def _specialised(builder: Builder, roots: Sequence[Node], has_children: bool, absent: set[int]) -> list[Node]:
    """Return the results for vertices without children, or without some inputs."""
    made: dict[Node, Node] = {}
    for node in ancestors(roots):
        made[node] = _rebuilt(builder, node, [made[x] for x in node.inputs], has_children, absent)
    return [made[root] for root in roots]


def _rebuilt(builder: Builder, node: Node, inputs: list[Node], has_children: bool, absent: set[int]) -> Node:
    if (node.kind is NodeKind.PULL and node.attr in absent) or (node.kind is NodeKind.GATHER and not has_children):
        return builder.full(0.0, node)
    if node.domain is Domain.EDGE and not has_children:
        return builder.full(0.0, node)  # of no rows
    if all(x is y for x, y in zip(inputs, node.inputs, strict=True)):
        return node
    if node.kind is NodeKind.POINTWISE:
        return builder.pointwise(node.attr, *inputs, like=node)
    if node.kind is NodeKind.MATMUL:
        return builder.matmul(inputs[0], inputs[1], node.attr)
    if node.kind is NodeKind.SUM:
        return builder.sum(inputs[0])
    if node.kind is NodeKind.EACH:
        return builder.each(inputs[0])
    if node.kind is NodeKind.CAT:
        return builder.cat(inputs)
    if node.kind is NodeKind.SLICE:
        return builder.reshaped(builder.slice(inputs[0], *node.attr), node.shape)
    return builder.make(node.kind, inputs, node.attr, node.domain, node.shape, node.dtype)
