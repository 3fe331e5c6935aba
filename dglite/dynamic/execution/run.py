"""One call of a vertex program by its script, on the CPU: forward, and backward from the gradients of its results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ...kernels import compiled
from ..program.ir import Node
from ..program.traced import TracedProgram
from .by_torch import push_by_torch
from .memory import Arena, empty
from .order import VertexOrder
from .products import GradientSums
from .script import CallAddresses, FilledScript, ProgramScript, stacked_rows
from .stages import SweepCall, run_stage


class SweepRun:
    """One call of a program by its script, which is filled in by one call and run, where it has kernels, by another."""

    def __init__(
        self,
        script: ProgramScript,
        order: VertexOrder,
        rows: list[torch.Tensor | None],
        values: Sequence[torch.Tensor],
        shared: Sequence[torch.Tensor],
    ) -> None:
        self._script, self._order = script, order
        # Kernels read vectors by address.
        self._shared = [x.resolve_neg() if x.dim() > 1 else x.resolve_neg().contiguous() for x in shared]
        self._values = [x.resolve_neg().contiguous() for x in values]
        self._rows_of = stacked_rows(rows, order.num_nodes)
        self._lengths = np.array([len(x) for x in values], np.int64)
        self._pushes = [self._empty((order.num_nodes, width), script.dtype) for width in script.push_widths]
        self._filled: FilledScript | None = self._fill(None)

    def _fill(self, lease: Any) -> FilledScript:
        """Fill the script in; the memory of the values is that of an earlier time where there was one."""
        script = self._script
        self._value_grads: list[torch.Tensor | None] = [None] * len(self._values)
        for i in script.input_grads:
            self._value_grads[i] = self._empty(self._values[i].shape, self._values[i].dtype)
        self._push_grads = [self._empty(x.shape, x.dtype) for x in self._pushes] if script.has_backward else []
        addresses = CallAddresses(
            [x.data_ptr() for x in self._values],
            [0 if x is None else x.data_ptr() for x in self._value_grads],
            [x.data_ptr() for x in self._pushes],
            [x.data_ptr() for x in self._push_grads] or [0] * len(self._pushes),
        )
        filled = self._filled_in(addresses, lease)
        self._lease = filled.lease
        return filled

    def _empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return empty(shape, dtype, self._script.device)

    def _filled_in(self, addresses: CallAddresses, lease: Any) -> FilledScript:
        kernels = compiled("dynamic.schedule")
        threads = kernels.team_of(torch.get_num_threads())
        return self._script.fill(
            self._order, self._shared, self._rows_of, self._lengths, addresses, threads, None, lease,
            kernels.SHARED_FROM,
        )  # fmt: skip

    def forward(self) -> list[torch.Tensor]:
        """Return the pushed values in the order of the graph's nodes."""
        assert self._filled is not None
        self._go(self._filled, 0)
        pushes, self._pushes = self._pushes, [x.detach() for x in self._pushes]
        return pushes

    def backward(self, gradients: Sequence[torch.Tensor | None]) -> tuple[list[Any], list[Any]]:
        """Return the gradients of the inputs and of the shared tensors, None where nothing reached them."""
        filled = self._filled if self._filled is not None else self._fill(self._lease)
        self._filled = None  # what it gives is no longer ours: another time it is filled in anew
        for gradient, into in zip(gradients, self._push_grads, strict=False):
            into.zero_() if gradient is None else into.copy_(gradient.view(into.shape))
        sums = self._go(filled, 1).shared_grads
        self._add_rows(filled, sums)
        shared_grads = sums.finish()
        return self._value_grads, [shared_grads.get(i) for i in range(len(self._shared))]

    def by_torch(
        self, traced: TracedProgram, values: Sequence[torch.Tensor], shared: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Return the pushed values again, as torch's operators compute them from tensors in the place of the call's."""
        if self._filled is None:
            self._filled = self._fill(self._lease)
        call = SweepCall(self._values, self._shared, self._script, self._filled)

        def mask(node: Node, c: int, first: int, last: int) -> torch.Tensor:
            place = self._script.plans[c].forward.places.get(node)
            if place is None:  # its products are 0 for these vertices
                return torch.zeros(last - first, node.width, dtype=node.dtype, device=traced.device)
            return call.rows(place, first, last).clone()

        return push_by_torch(traced, self._order, self._rows_of, values, shared, mask)

    def _go(self, filled: FilledScript, direction: int) -> SweepCall:
        """Go through the lines of a direction."""
        kernels, team, lines = compiled("dynamic.schedule"), filled.teams[direction], filled.lines[direction]
        call, done = SweepCall(self._values, self._shared, self._script, filled), 0
        for at in filled.python_lines[direction].tolist():
            kernels.run_lines(team, done, at)
            _, first, last, number = lines[at].tolist()
            run_stage(self._script.python_stages[direction][number], call, first, last)
            done = at + 1
        kernels.run_lines(team, done, len(lines))
        return call

    def _add_rows(self, filled: FilledScript, sums: GradientSums) -> None:
        """Add what the rows of all classes give to each shared tensor, parts of many rows first."""
        parts = zip(self._script.parts, filled.parts.tolist(), strict=True)
        for part, (count, *places) in sorted(parts, key=lambda pair: -pair[1][0]):
            like = self._shared[part.shared]
            rows = partial(_rows, filled.lease, like.dtype, count, places)
            sums.add_rows(part.shared, like, part.form, count, places, rows)


def _rows(lease: Arena, dtype: torch.dtype, count: int, places: Sequence[int], *widths: int) -> list[torch.Tensor]:
    """Return the rows at two addresses with strides, of two widths."""
    pairs = zip(places[::2], places[1::2], widths, strict=True)
    return [lease.view(address, count, stride, (width,), dtype) for address, stride, width in pairs]
