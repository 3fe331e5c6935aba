"""A call of a vertex program: what was traced of its functions once, the order of its graph, and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..options import current_options
from ..program.traced import Needs, TracedProgram
from .order import Order
from .script import Script
from .sweep import Sweep

__all__ = ["PulledInput", "VertexCall"]

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
    order: Order
    pulled: Sequence[PulledInput]
    name: str

    def script(self, shared: Sequence[Any], pulls: Sequence[bool], wanted: Sequence[bool], returns: bool) -> Script:
        """Return the script for the gradients of inputs and of shared tensors that are wanted.

        Raises :class:`.layout.Unsupported` where a stage has no kernel, unless the script ``returns`` for those.
        """
        traced, order, options = self.traced, self.order, current_options()
        strides = tuple([x.stride() if x is not None else () for x in shared])
        needs, num_classes = Needs(tuple(pulls), tuple(wanted)), len(order.classes) - 1
        key = needs, options, strides, order.filled, num_classes, returns
        if key not in traced.scripts:
            plans = {c: traced.plan(c, needs, options) for c in order.filled}
            traced.scripts[key] = Script(traced, plans, num_classes, strides, returns)
        found: Script = traced.scripts[key]
        return found

    def run(self, values: Sequence[torch.Tensor], again: Callable[..., Any] | None = None) -> Any:
        """Return what the vertices push."""
        grad, shared, order = torch.is_grad_enabled(), self.traced.shared_values(), self.order
        wanted = [grad and x is not None and x.requires_grad for x in shared]
        script = self.script(shared, [grad and x.requires_grad for x in values], wanted, True)
        rows = [p.rows for p in self.pulled]
        outs = Sweep.apply(script, order, rows, again, *values, *[_NOTHING if x is None else x for x in shared])
        pairs = zip(outs, self.traced.pushed, strict=True)
        shaped = [out.view(order.num_nodes, *shape) for out, (shape, _) in pairs]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)
