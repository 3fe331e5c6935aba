"""One run: batches of what was still to be computed, their results, and the sweep back through them."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ....kernels.cpu.dynamic import program
from ....kernels.cpu.dynamic.kernels import run_steps
from ...execution.memory import Arena
from ..recording.kinds import DTYPES
from ..recording.signatures import places_of
from .matrices import GradientTarget, TorchCall, WeightProduct
from .placement import BatchPlacement
from .products import GradientSums

if TYPE_CHECKING:
    from ..session import Session


class BatchedRun(BatchPlacement):
    """Computes ``nodes`` of a session. Its memory holds their results, and what operations on matrices read."""

    def __init__(self, session: Session, nodes: np.ndarray, strategy: str, keep: bool) -> None:
        start = perf_counter()
        super().__init__(session, nodes, strategy)
        self.lay_out(session.where, Arena)
        work = program.build(self.plan(False, session.where, session.where, 0))
        self.gathered = work[-1]
        planned = perf_counter()
        self._saved: dict[int, Any] = {}
        self._views = self._split(self.arena, 0)
        self._perform(work, lambda batch: self._forward(batch, keep))
        self._views.clear()
        session.graph.done[nodes] = True
        self.seconds = planned - start, perf_counter() - planned

    # -- performing ---------------------------------------------------------------------------------------------
    def _perform(self, work: tuple[Any, ...], matrices: Any) -> None:
        words, starts, _, rows, _ = work
        threads, addresses = torch.get_num_threads(), (words.ctypes.data, starts.ctypes.data)
        for heavy, first, last, amount, _ in rows.tolist():
            if heavy:
                matrices(first)
            else:
                run_steps(*addresses, first, last, amount, threads)

    def _split(self, arena: Arena, shift: int) -> dict[int, tuple[TorchCall, list[Tensor], list[Tensor]]]:
        """Return (operation, inputs, results) of each batch of one on matrices; ``shift`` leads to their gradients."""
        views, sizes = {}, self.bounds[1:] - self.bounds[:-1]
        for number in np.flatnonzero(self.heavy).tolist():
            batches, matrices = np.flatnonzero(self.batch_kinds == number), self.signatures[number].matrices
            assert matrices is not None
            counts = sizes[batches].tolist()
            inputs, results = ([x.split_with_sizes(counts) for x in side] for side in self._rows(number, arena, shift))
            for i, batch in enumerate(batches.tolist()):
                views[batch] = matrices, [x[i] for x in inputs], [y[i] for y in results]
        return views

    def _rows(self, number: int, arena: Arena, shift: int) -> tuple[list[Tensor], list[Tensor]]:
        """Return the inputs and results of all operations of one signature."""
        signature, first, count = self.signatures[number], int(self.first_input[number]), self.counts[number]
        assert signature.matrices is not None
        inputs, results = [], []
        for (address, distance), kind in zip(self.places[first:], signature.matrices.kinds, strict=False):
            inputs.append(arena.view(address + shift, count, distance, kind.shape, kind.stored))
        start = int(self.starts[number]) + shift
        for kind, at in zip(signature.matrices.results, places_of(signature.matrices.results), strict=False):
            results.append(arena.view(start + at, count, signature.nbytes, kind.shape, kind.stored))
        return inputs, results

    def _forward(self, batch: int, keep: bool) -> None:
        matrices, inputs, results = self._views[batch]
        self._saved[batch] = matrices.forward(inputs, results, keep)

    # -- gradients ----------------------------------------------------------------------------------------------
    def prepare(self, session: Session, grads: np.ndarray, active: np.ndarray) -> None:
        """Lay out memory for gradients as that for results is, all 0, and note where each node's lies."""
        self.grad_arena = Arena(self.num_bytes)
        self.grad_arena.clear(self.result_bytes)
        self._shift = self.grad_arena.address - self.arena.address
        grads[self.nodes] = np.where(active[self.nodes], session.where[self.nodes] + self._shift, 0)

    def backward(self, session: Session, grads: np.ndarray, gradients: GradientSums) -> None:
        """Sweep back through the batches, from the gradients of results to those of inputs and parameters."""
        work = program.build(self.plan(True, session.where, grads, self._shift))
        views = self._split(self.grad_arena, self._shift)
        adds, first, kinds = (self.input_at == 0).tolist(), self.first_input.tolist(), self.batch_kinds.tolist()

        def differentiate(batch: int) -> None:
            matrices, inputs, results = views[batch]
            places = zip(inputs, matrices.kinds, adds[first[kinds[batch]] :], strict=False)
            into = [GradientTarget(x, add) if kind.dtype in DTYPES else None for x, kind, add in places]
            matrices.backward(self._saved[batch], results, into, gradients)

        self._perform(work, differentiate)
        for number, signature in enumerate(self.signatures):
            if isinstance(signature.matrices, WeightProduct) and signature.matrices.wants:
                inputs, _ = self._rows(number, self.arena, 0)
                _, grads_of_results = self._rows(number, self.grad_arena, self._shift)
                signature.matrices.add_gradients(inputs[0], grads_of_results[0], gradients)
