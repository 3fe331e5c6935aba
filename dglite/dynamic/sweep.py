"""Running a vertex program: everything eager, the levels one after the other, everything late; backwards likewise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import DGLError
from ..kernels import compiled
from .memory import Memory, Pool, Span
from .order import Order
from .program import ClassPlan
from .recipe import Role, Root, VertexPlan
from .schedule import Template
from .script import Script, Unsupported, stacked_rows
from .small import MOST_NODES, SmallRun
from .stages import SweepCall, addresses, bind, lies_by_columns

__all__ = ["Engine", "Input", "Sweep"]


@dataclass(frozen=True)
class Input:
    """Pulled values: of all nodes, or of those with ``rows[node] >= 0``, whose values are in that row."""

    rows: torch.Tensor | None
    width: int


@dataclass
class Engine:
    """What stays the same from call to call: the plans of all classes, and memory."""

    plan_of: Callable[[int], ClassPlan]
    slots: int
    state_widths: list[int]
    push_widths: list[int]
    pushed_states: dict[int, int]
    collected: list[tuple[int, bool]]
    dtype: torch.dtype
    pool: Pool
    templates: dict[tuple[bool, tuple[int, ...]], Template] = field(default_factory=dict)
    strides: tuple[tuple[int, ...], ...] = ()
    scripts: dict[Any, Script | None] = field(default_factory=dict)

    def template(self, classes: dict[int, ClassPlan], backward: bool, num_shared: int) -> Template:
        """Return the schedule of the classes that have vertices."""
        key = backward, tuple(classes)
        if key not in self.templates:
            layouts = {c: plan.backward_layout if backward else plan.forward_layout for c, plan in classes.items()}
            known = {c: layout for c, layout in layouts.items() if layout is not None}
            self.templates[key] = Template(known, backward, num_shared)
        return self.templates[key]

    def script(self, order: Order, inputs: tuple[tuple[int, torch.dtype], ...]) -> Script:
        """Return the script of the classes that have vertices; ``inputs`` are the widths and dtypes of what is pulled.

        Raises :class:`Unsupported` where a stage has no kernel.
        """
        key = inputs, order.filled
        if self.scripts.get(key) is None:
            plans = {c: self.plan_of(c) for c in order.filled}
            sizes = self.state_widths, self.push_widths, self.pushed_states, self.dtype, inputs
            self.scripts[key] = made = Script(plans, len(order.classes) - 1, self.slots, self.strides, *sizes)
            return made
        found = self.scripts[key]
        assert found is not None
        return found

    def small_script(self, order: Order, inputs: tuple[tuple[int, torch.dtype], ...]) -> Script | None:
        """Return the script of the classes that have vertices, None where a stage has no kernel."""
        key = inputs, order.filled
        if key not in self.scripts:
            try:
                return self.script(order, inputs)
            except Unsupported:
                self.scripts[key] = None
        return self.scripts[key]


class Sweep(torch.autograd.Function):
    """``Sweep.apply(engine, order, inputs, again, *values, *shared)`` returns the pushed values, (nodes, width) each.

    ``again(values, {id of a shared tensor: stand-in})`` computes them by torch's own means, for a second derivative;
    None where there is no other way.
    """

    @staticmethod
    def forward(
        ctx: Any,
        engine: Engine,
        order: Order,
        inputs: list[Input],
        again: Callable[..., Any] | None,
        *tensors: torch.Tensor,
    ) -> Any:
        """Run the program; remember what its gradient needs."""
        values, shared = tensors[: len(inputs)], tensors[len(inputs) :]
        run: Any = _small_run(ctx, engine, order, inputs, values, shared)
        if run is None:
            run = _Forward(engine, order, inputs, values, shared)
        pushes = run.run()
        ctx.save_for_backward(*tensors)
        ctx.run = run if any(ctx.needs_input_grad) else None
        ctx.again, ctx.num_values = again, len(inputs)
        ctx.set_materialize_grads(False)
        return tuple(pushes)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        """Run the gradient's program."""
        if torch.is_grad_enabled() and ctx.again is not None:
            return None, None, None, None, *_differentiable(ctx, gradients)
        if torch.is_grad_enabled():
            raise DGLError(
                "a vertex program has no second derivative: it ran backward with create_graph=True; compute gradients "
                "of gradients with lazy batching or with a sweep of torch operations"
            )
        assert ctx.saved_tensors is not None  # raises where a parameter has been changed in place since
        if isinstance(ctx.run, SmallRun):
            values, shared = ctx.run.backward(gradients)
        else:
            values, shared = _Backward(ctx.run, gradients).run()
        needs = ctx.needs_input_grad[4:]
        found = [g if needed else None for g, needed in zip([*values, *shared], needs, strict=True)]
        return None, None, None, None, *found


def _small_run(
    ctx: Any, engine: Engine, order: Order, inputs: list[Input], values: Sequence[torch.Tensor], shared: Sequence[Any]
) -> SmallRun | None:
    """Return the call as one script; None where the graph is large, or where a stage has no kernel."""
    if order.num_nodes > MOST_NODES or not order.num_nodes:
        return None
    script = engine.small_script(
        order, tuple([(x.width, value.dtype) for x, value in zip(inputs, values, strict=True)])
    )
    if script is None:
        return None
    wanted = ctx.needs_input_grad[4 : 4 + len(inputs)]
    rows = stacked_rows([x.rows for x in inputs], order.num_nodes)
    return SmallRun(script, order, rows, values, _flat(shared), wanted, engine.push_widths, engine.dtype, engine.pool)


def _differentiable(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Return gradients that have gradients, of stand-ins: what they are made of may be made of each other."""
    needed = [i for i, needs in enumerate(ctx.needs_input_grad[4:]) if needs]
    stand_ins = {i: x.view_as(x) if i in needed else x for i, x in enumerate(ctx.saved_tensors)}
    values = [stand_ins.pop(i) for i in range(ctx.num_values)]
    outs = ctx.again(values, {id(ctx.saved_tensors[i]): x for i, x in stand_ins.items()})
    pairs = [(x, g.view_as(x)) for x, g in zip(outs, gradients, strict=True) if g is not None and x.requires_grad]
    every = [*values, *stand_ins.values()]
    targets, given = [x for x, _ in pairs], [g for _, g in pairs]
    found = torch.autograd.grad(targets, [every[i] for i in needed], given, create_graph=True, allow_unused=True)
    return [*map(dict(zip(needed, found, strict=True)).get, range(len(every)))]


def _classes(engine: Engine, order: Order) -> dict[int, ClassPlan]:
    """Return the plans of the classes that have vertices."""
    return {c: engine.plan_of(c) for c in order.filled}


def _spans(order: Order, classes: dict[int, ClassPlan]) -> dict[int, Span]:
    rows, edges = order.class_rows, order.class_edges
    return {c: Span(rows[c], rows[c + 1], edges[c], edges[c + 1]) for c in classes}


def _run(
    engine: Engine, classes: dict[int, ClassPlan], backward: bool, memories: dict[int, Memory], call: SweepCall
) -> None:
    """Run everything eager, then the sweep, then everything late."""
    if not memories:
        return
    template = engine.template(classes, backward, len(call.shared))
    schedule = template.lines(call.order)
    for index, touched in enumerate(schedule.touched):
        if touched == 2:
            call.shared_grads[index] = _empty_like(engine.pool, call.shared[index])
    threads = compiled("schedule").team_of(schedule.work, torch.get_num_threads())
    words = template.words(addresses(template.sources, call), threads)
    template.run(schedule, words, lambda c, stage: bind(stage, memories[c], call))


def _empty_like(pool: Pool, weight: torch.Tensor) -> torch.Tensor:
    """Return memory for a gradient, in the layout of the weight."""
    if weight.dim() == 2 and lies_by_columns(weight):
        return pool.empty(weight.shape[::-1], weight.dtype).t()
    return pool.empty(weight.shape, weight.dtype)


def _picked(engine: Engine, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return some rows of a matrix."""
    if x.dtype is not engine.dtype:
        return x.index_select(0, rows)
    return torch.index_select(x, 0, rows, out=engine.pool.empty((len(rows), x.shape[1]), x.dtype))


class _Forward:
    """One call of the program."""

    def __init__(
        self,
        engine: Engine,
        order: Order,
        inputs: list[Input],
        values: Sequence[torch.Tensor],
        shared: Sequence[torch.Tensor],
    ) -> None:
        self.engine, self.order, self.inputs, self.values = engine, order, inputs, values
        self.classes = _classes(engine, order)
        self.spans = _spans(order, self.classes)
        num_nodes = order.num_nodes
        empty = engine.pool.empty
        self.states = [empty((num_nodes + 1, width), engine.dtype) for width in engine.state_widths]
        for state in self.states:
            state[num_nodes] = 0  # what a vertex without that child gathers
        self.call = SweepCall(order, self.states, _flat(shared), engine.slots, engine.pool)
        self.memories: dict[int, Memory] = {}
        self.picked: dict[tuple[int, int], torch.Tensor] = {}

    def run(self) -> list[torch.Tensor]:
        """Return the pushed values in the order of the graph's nodes."""
        order = self.order
        num_nodes, known = order.num_nodes, self.engine.pushed_states
        pushes = [
            self.states[known[k]][:num_nodes]
            if k in known
            else self.engine.pool.empty((num_nodes, width), self.engine.dtype)
            for k, width in enumerate(self.engine.push_widths)
        ]
        for c, plan in self.classes.items():
            memory = self.memories[c] = Memory(self.spans[c], self.engine.pool, plan.forward.buffers, self.call.buffers)
            for root in plan.forward.roots:
                if root.role in (Role.SCATTER, Role.PUSH):
                    target = self.states if root.role is Role.SCATTER else pushes
                    memory.give(plan.forward.places[root.node].buffer, target[root.key], 0)  # type: ignore[index,call-overload]
            for i, buffer in plan.pulls.items():
                memory.give(buffer, self._pulled(i, c), self.spans[c].first_row)
        _run(self.engine, self.classes, False, self.memories, self.call)
        return [_picked(self.engine, push, order.places_tensor) for push in pushes]

    def _pulled(self, i: int, c: int) -> torch.Tensor:
        """Return an input's values for the vertices of a class, (rows of the class, width)."""
        span = self.spans[c]
        rows = self.order.nodes_tensor[span.first_row : span.first_row + span.num_rows]
        picked = self.inputs[i].rows
        if picked is not None:
            rows = picked.index_select(0, rows)
        self.picked[i, c] = rows
        value = self.values[i]
        return _picked(self.engine, value.reshape(len(value), self.inputs[i].width), rows)


def _state_key(root: Root) -> tuple[int | None, int]:
    """Return the slot (None: of all children) and the state of which a root is the gradient."""
    assert isinstance(root.key, tuple)
    return root.key


def _flat(shared: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the shared tensors, vectors contiguous: kernels read them by address."""
    return [x if x.dim() > 1 else x.contiguous() for x in shared]


class _Backward:
    """The gradient of one call."""

    def __init__(self, forward: _Forward, gradients: Sequence[torch.Tensor | None]) -> None:
        self.forward, self.order, self.engine = forward, forward.order, forward.engine
        self.gradients = [self._given(g, width) for g, width in zip(gradients, self.engine.push_widths, strict=True)]
        known = forward.call
        self.call = SweepCall(known.order, known.states, known.shared, known.slots, known.pool, dict(known.buffers))
        self.memories: dict[int, Memory] = {}
        self.input_grads: dict[int, torch.Tensor] = {}

    def _given(self, gradient: torch.Tensor | None, width: int) -> torch.Tensor:
        if gradient is None:
            return torch.zeros(self.order.num_nodes, width, dtype=self.engine.dtype)
        return _picked(self.engine, gradient.reshape(self.order.num_nodes, width), self.order.nodes_tensor)

    def run(self) -> tuple[list[torch.Tensor | None], list[torch.Tensor | None]]:
        """Return the gradients of the inputs and of the shared tensors, None where nothing reached them."""
        forward = self.forward
        plans = {c: plan.backward for c, plan in forward.classes.items() if plan.backward is not None}
        pulled: dict[tuple[int, int], torch.Tensor] = {}
        for c, plan in plans.items():
            memory = self.memories[c] = Memory(forward.spans[c], self.engine.pool, plan.buffers, self.call.buffers)
            memory.share(forward.memories[c])
            for k, buffer in forward.classes[c].push_grads.items():
                memory.give(buffer, self.gradients[k], 0)
            for root in plan.roots:
                if root.role is Role.PULL_GRAD:
                    i = int(str(root.key))
                    pulled[i, c] = self.engine.pool.empty(
                        (forward.spans[c].num_rows, root.node.width), self.engine.dtype
                    )
                    memory.give(plan.places[root.node].buffer, pulled[i, c], forward.spans[c].first_row)
        self._make_tables(plans)
        classes = {c: forward.classes[c] for c in plans}
        _run(self.engine, classes, True, self.memories, self.call)
        values = [self._input_grad(i, pulled) for i in range(len(forward.inputs))]
        return values, [self.call.shared_grads.get(i) for i in range(len(self.call.shared))]

    def _make_tables(self, plans: dict[int, VertexPlan]) -> None:
        """Work out, for each state, where every parent of a vertex leaves that vertex's share of the gradient."""
        order, num_classes = self.order, len(self.order.class_rows) - 1
        for state, by_slot in self.engine.collected:
            slots = self.engine.slots if by_slot else 1
            bases, strides = np.zeros((2, num_classes, slots), np.int64)
            for c, plan in plans.items():
                for root in plan.roots:
                    if root.role is Role.STATE_GRAD:
                        slot, j = _state_key(root)
                        if j == state and (slot is not None) == by_slot:
                            at = c, 0 if slot is None else slot
                            place = plan.places[root.node]
                            item = place.buffer.dtype.itemsize
                            bases[at] = self.call.buffers[place.buffer] + place.column * item
                            strides[at] = place.buffer.width * item
            make = compiled("levels").addresses
            self.call.tables[state, by_slot] = make(
                order.parent_entries, order.parents, order.bounds, order.classes, bases, strides, by_slot
            )

    def _input_grad(self, i: int, pulled: dict[tuple[int, int], torch.Tensor]) -> torch.Tensor | None:
        """Put the gradients of an input's rows back in their order."""
        forward = self.forward
        parts = {c: gradient for (j, c), gradient in pulled.items() if j == i}
        if not parts:
            return None
        value = forward.values[i]
        covered = sum(len(gradient) for gradient in parts.values())
        made = self.engine.pool.empty((len(value), forward.inputs[i].width), self.engine.dtype)
        if covered < len(value):
            made.zero_()
        for c, gradient in parts.items():
            made.index_copy_(0, forward.picked[i, c], gradient)
        return made.view(value.shape)
