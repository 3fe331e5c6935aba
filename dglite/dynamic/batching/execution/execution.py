"""One run: batches of what was still to be computed, their results, and the sweep back through them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ....kernels.cpu.dynamic import program
from ....kernels.cpu.dynamic.kernels import MOST_ROWS, run_steps
from ....kernels.cpu.run.launch import launch_at, num_threads
from ...execution.memory import Arena
from ...execution.products import GradientSums
from ..recording.kinds import DTYPES
from ..recording.signatures import places_of
from .device import perform
from .instructions import HostKernels, batch_words, has_kernel, words_of
from .matrices import GradientTarget, TorchCall, WeightProduct
from .placement import BatchPlacement

if TYPE_CHECKING:
    from ..session import Session


_KERNELS, _ANY_NUMBER = HostKernels(), 1 << 62


class BatchedRun(BatchPlacement):
    """Computes ``nodes`` of a session. Its memory holds their results, and what operations on matrices read."""

    def __init__(self, session: Session, nodes: np.ndarray, strategy: str, keep: bool) -> None:
        start = perf_counter()
        super().__init__(session, nodes, strategy)
        self._device = session.device
        self.lay_out(session.where, partial(Arena, device=self._device))
        work = program.build(self.plan(False, session.where, session.where, 0))
        self.gathered = work[-1]
        planned = perf_counter()
        self._saved: dict[int, Any] = {}
        self._kinds_of_batches = self.batch_kinds.tolist()
        self._keep, self._fault = keep, np.zeros(1, np.int64)
        self._perform(work, 0, self._forward)
        if self._fault[0]:
            raise IndexError(f"label {self._fault[0] >> 1} of a loss is not one of its classes")
        session.graph.done[nodes] = True
        self.seconds = planned - start, perf_counter() - planned

    # -- performing ---------------------------------------------------------------------------------------------
    def _perform(self, work: tuple[Any, ...], shift: int, by_torch: Callable[[int], None]) -> None:
        """Run a sweep, the gradients' with a ``shift``: batches without a kernel, or of many rows, ``by_torch``."""
        if self._device.type != "cpu":
            perform(self._device, work, by_torch)
            return
        words, starts, _, rows, _ = work
        threads, addresses = torch.get_num_threads(), (words.ctypes.data, starts.ctypes.data)
        kernels, table, works = self._instructions(shift)
        begin, size = table.ctypes.data, table.strides[0]
        for heavy, first, last, amount, _ in rows.tolist():
            if not heavy:
                run_steps(*addresses, first, last, amount, threads)
            elif kernels[first]:
                used = num_threads(works[first], threads)
                launch_at(kernels[first], begin + first * size, used, used)
            else:
                by_torch(first)

    def _instructions(self, shift: int) -> tuple[list[int], np.ndarray, list[int]]:
        """Return for each batch the kernel, 0 without one, its words, and the work."""
        direction, fault = int(shift != 0), self._fault.ctypes.data
        columns, (work, most) = dict[int, Any](), np.zeros((2, len(self.signatures)), np.int64)
        for number in np.flatnonzero(self.heavy).tolist():
            matrices = self.signatures[number].matrices
            assert matrices is not None
            if has_kernel(matrices):
                inputs, start, adds = self.inputs(number), int(self.starts[number]), self.adds(number)
                work[number], columns[number] = words_of(matrices, inputs, start, shift, adds, _KERNELS, fault)
                most[number] = _ANY_NUMBER
                if isinstance(matrices, WeightProduct):
                    rows = matrices.kinds[0].numel // matrices.kinds[0].shape[-1]
                    most[number] = MOST_ROWS[matrices.forms[direction]] // rows
        ranks, counts = self.first_ranks, self.batch_sizes
        words = batch_words(columns, self.batch_kinds, ranks, counts)[direction]
        kernels = np.where(counts <= most[self.batch_kinds], words[:, 0], 0)
        return kernels.tolist(), words, ((4 + counts) * work[self.batch_kinds] // 2).tolist()

    def _rows(
        self, number: int, arena: Arena, shift: int, rank: int = 0, count: int | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return inputs and results of operations of a signature, all or ``count`` from ``rank`` on; ``shift`` leads to
        their gradients."""
        signature, count = self.signatures[number], self.counts[number] if count is None else count
        assert signature.matrices is not None
        inputs, results, matrices = list[Tensor](), list[Tensor](), signature.matrices
        for kind, address, distance in self.inputs(number):
            inputs.append(arena.view(address + shift + rank * distance, count, distance, kind.shape, kind.stored))
        start = int(self.starts[number]) + shift + rank * signature.nbytes
        for kind, at in zip(matrices.results, places_of(matrices.results), strict=False):
            results.append(arena.view(start + at, count, signature.nbytes, kind.shape, kind.stored))
        return inputs, results

    def _rows_of_batch(self, batch: int, arena: Arena, shift: int) -> tuple[TorchCall, list[Tensor], list[Tensor]]:
        number, matrices = self._kinds_of_batches[batch], self.signatures[self._kinds_of_batches[batch]].matrices
        assert matrices is not None
        return matrices, *self._rows(number, arena, shift, int(self.first_ranks[batch]), int(self.batch_sizes[batch]))

    def _forward(self, batch: int) -> None:
        matrices, inputs, results = self._rows_of_batch(batch, self.arena, 0)
        self._saved[batch] = matrices.forward(inputs, results, self._keep)

    # -- gradients ----------------------------------------------------------------------------------------------
    def prepare(self, session: Session, grads: np.ndarray, active: np.ndarray) -> None:
        """Lay out memory for gradients as that for results is, all 0, and note where each node's lies."""
        self.grad_arena = Arena(self.num_bytes, self._device)
        self.grad_arena.clear(self.result_bytes)
        self._shift = self.grad_arena.address - self.arena.address
        grads[self.nodes] = np.where(active[self.nodes], session.where[self.nodes] + self._shift, 0)

    def backward(self, session: Session, grads: np.ndarray, gradients: GradientSums) -> None:
        """Sweep back through the batches, from the gradients of results to those of inputs and parameters."""
        work = program.build(self.plan(True, session.where, grads, self._shift))
        adds, first = (self.input_at == 0).tolist(), self.first_input.tolist()

        def differentiate(batch: int) -> None:
            matrices, inputs, results = self._rows_of_batch(batch, self.grad_arena, self._shift)
            places = zip(inputs, matrices.kinds, adds[first[self._kinds_of_batches[batch]] :], strict=False)
            into = [GradientTarget(x, add) if kind.dtype in DTYPES else None for x, kind, add in places]
            matrices.backward(self._saved.get(batch), results, into, gradients)

        self._perform(work, self._shift, differentiate)
        for number, signature in enumerate(self.signatures):
            if isinstance(signature.matrices, WeightProduct) and signature.matrices.wants:
                inputs, _ = self._rows(number, self.arena, 0)
                _, grads_of_results = self._rows(number, self.grad_arena, self._shift)
                signature.matrices.add_gradients(inputs[0], grads_of_results[0], gradients)
