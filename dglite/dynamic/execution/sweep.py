"""A call of a vertex program: everything eager, the levels one after the other, everything late; backwards likewise."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...config import debug_level
from ...errors import DGLWarning
from ...ops import devices
from ..options import current_options
from ..program.ir import Node
from ..program.traced import GradientNeeds, TracedProgram
from .by_torch import differentiable_gradients, push_by_torch
from .device import DeviceRun, DeviceScript
from .order import VertexOrder
from .run import SweepRun
from .script import ProgramScript, stacked_rows

_NOTHING = torch.empty(0)


@dataclass
class PulledInput:
    """One input: its values, and where each vertex's lies, -1 where it has none (None: as the vertices do)."""

    values: Any
    rows: torch.Tensor | None


@dataclass
class VertexCall:
    """A call of a program: what is traced, the order of its graph, its inputs. ``name`` is that of its function."""

    traced: TracedProgram
    order: VertexOrder
    pulled: Sequence[PulledInput]
    name: str

    def script(
        self, shared: Sequence[Any], pulls: Sequence[bool], trained: Sequence[bool], returns: bool
    ) -> ProgramScript:
        """Return the script for the gradients of inputs and of shared tensors that are wanted.

        Raises :class:`.layout.UnsupportedOperation` where a stage has no kernel, unless the script
        ``returns`` for those.
        """
        traced, order, options = self.traced, self.order, current_options()
        strides = tuple([x.stride() if x is not None else () for x in shared])
        needs, num_classes = GradientNeeds(tuple(pulls), tuple(trained)), len(order.classes) - 1
        key = needs, options, strides, order.filled, num_classes, returns
        if key not in traced.scripts:
            plans = {c: traced.plan(c, needs, options) for c in order.filled}
            if traced.device.type == "cpu":
                script = ProgramScript(traced, plans, num_classes, strides, returns)
            else:
                script = DeviceScript(traced, plans, num_classes, strides)
            traced.scripts[key] = script
            if debug_level():
                self._warn(script)
        cached: ProgramScript = traced.scripts[key]
        return cached

    def _warn(self, script: ProgramScript) -> None:
        """Warn once for each trace of operations that return to Python at every level."""
        reasons = {script.reason(stage) for stages in script.python_stages for stage in stages} - {""}
        reasons = {reason.removesuffix(" in a vertex program") for reason in reasons}
        if reasons and not self.traced.warned:
            self.traced.warned = True
            warnings.warn(
                f"{self.name} leaves its kernels at every level: there is none for {', '.join(sorted(reasons))}; "
                "dglite.explain(program, graph, *inputs) shows all stages",
                DGLWarning,
                stacklevel=6,
            )

    def run(self, values: Sequence[torch.Tensor], stand_ins: Mapping[int, torch.Tensor] | None = None) -> Any:
        """Return what the vertices push; with ``stand_ins`` in the places of shared tensors, by their ids."""
        grad, shared, order = torch.is_grad_enabled(), self.traced.shared_values(), self.order
        if stand_ins:
            shared = [stand_ins.get(id(x), x) for x in shared]
        if self.traced.device.type != "cpu" and devices.why_no_kernels(self.traced.device):
            return self._shaped(self._by_torch(values, shared))
        trained = [grad and x is not None and x.requires_grad for x in shared]
        script = self.script(shared, [grad and x.requires_grad for x in values], trained, True)
        rows = [p.rows for p in self.pulled]
        outs = ProgramSweep.apply(
            script, order, rows, self.traced, *values, *[_NOTHING if x is None else x for x in shared]
        )
        return self._shaped(outs)

    def _shaped(self, outs: Sequence[torch.Tensor]) -> Any:
        pairs = zip(outs, self.traced.pushed, strict=True)
        shaped = [out.view(self.order.num_nodes, *shape) for out, (shape, _) in pairs]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)

    def _by_torch(self, values: Sequence[torch.Tensor], shared: Sequence[Any]) -> list[torch.Tensor]:
        """Return what the vertices push by torch's operators, level by level, on a device that has no kernels."""
        traced = self.traced
        rows = stacked_rows([p.rows for p in self.pulled], self.order.num_nodes)

        def draw(node: Node, c: int, first: int, last: int) -> torch.Tensor:
            return torch.empty(last - first, node.width, dtype=node.dtype, device=traced.device).bernoulli_(node.attr)

        return push_by_torch(traced, self.order, rows, values, shared, draw)


class ProgramSweep(torch.autograd.Function):
    """``Sweep.apply(script, order, rows, traced, *values, *shared)`` returns the pushed values, (nodes, width) each.

    ``rows`` has, for each input, the row that each node pulls, -1 for no row; None: that of its own number.
    """

    @staticmethod
    def forward(
        ctx: Any,
        script: ProgramScript,
        order: VertexOrder,
        rows: list[torch.Tensor | None],
        traced: TracedProgram,
        *tensors: torch.Tensor,
    ) -> Any:
        """Run the program; remember what its gradient needs."""
        values, shared = tensors[: len(rows)], tensors[len(rows) :]
        call = order, rows, values, shared
        run = DeviceRun(script, *call) if isinstance(script, DeviceScript) else SweepRun(script, *call)
        pushes = run.forward()
        ctx.save_for_backward(*tensors)
        ctx.run = run if any(ctx.needs_input_grad) else None
        ctx.traced, ctx.num_values = traced, len(rows)
        ctx.set_materialize_grads(False)
        return tuple(pushes)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        """Run the gradient's program, or torch's operators where the gradient is to be differentiated again."""
        tensors, needs = ctx.saved_tensors, ctx.needs_input_grad[4:]  # raises where a parameter was written to since
        if torch.is_grad_enabled():

            def again(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
                return ctx.run.by_torch(ctx.traced, values[: ctx.num_values], values[ctx.num_values :])

            return None, None, None, None, *differentiable_gradients(again, tensors, needs, gradients)
        values, shared = ctx.run.backward(gradients)
        grads = [g if needed else None for g, needed in zip([*values, *shared], needs, strict=True)]
        return None, None, None, None, *grads
