"""One call of a vertex program by its script, on the CPU: forward, and backward from the gradients of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...backend import active
from ...kernels import compiled
from ..program.ir import Node
from ..program.layout import DTYPES, MOST_ROWS
from ..program.traced import TracedProgram
from .by_torch import push_by_torch
from .memory import empty
from .order import VertexOrder
from .products import add_rows
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
        return empty(shape, dtype)

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
        terms = self._go(filled, 1).shared_grads
        shared_grads = self._of_rows(filled)
        shared_grads |= {i: shared_grads[i] + term if i in shared_grads else term for i, term in terms.items()}
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

    def _of_rows(self, filled: FilledScript) -> dict[int, torch.Tensor]:
        """Add up what the rows of all classes give to each shared tensor: many rows by torch, then few by kernels."""
        sums = dict[int, torch.Tensor]()
        words, work, kernels = list[tuple[Any, ...]](), 0, compiled("dynamic.kernels")
        parts = zip(self._script.parts, filled.parts.tolist(), strict=True)
        for part, (count, x, x_row, y, y_row) in sorted(parts, key=lambda pair: -pair[1][0]):
            weight, total = self._shared[part.shared], sums.get(part.shared)
            result = sums[part.shared] = empty(weight.shape, weight.dtype) if total is None else total
            into = result if part.form == "outer" else result.view(1, -1)
            (height, width), dtype = into.shape, DTYPES[into.dtype]
            if count <= MOST_ROWS:
                place = x, x_row, into.data_ptr(), width * into.element_size(), y, y_row
                scales = (kernels.SET if total is None else kernels.ADD)[dtype]
                words.append((kernels.matrix_kernel(part.form, dtype), count, height, width, *place, scales))
                work += count * height * width
                continue
            right = filled.lease.view(y, count, y_row, (width,), into.dtype)
            if part.form == "outer":
                left = filled.lease.view(x, count, x_row, (height,), into.dtype)
                add_rows(left, right, into, total is not None)
            elif total is None:
                into[0].copy_(active.sum(right, 0))
            else:
                into[0].add_(active.sum(right, 0))
        if words:
            table, size = np.array(words, np.int64), len(words[0])
            starts = np.arange(0, table.size, size)
            kernels.run_steps(table.ctypes.data, starts.ctypes.data, 0, len(words), work, torch.get_num_threads())
        return sums
