"""One run: batches of what was still to be computed, their results, and the sweep back through them."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ...errors import DGLError
from ...kernels.cpu import batching, program
from ...kernels.cpu.launch import PARALLEL_FROM
from ...kernels.cpu.steps import run_steps, run_steps_by_rows
from .arena import Arena
from .gradients import Gradients
from .matrices import Product
from .signatures import DTYPES, Matrices, TensorKind, shared, template_table

if TYPE_CHECKING:
    from .session import Session

__all__ = ["STRATEGIES", "Run"]

STRATEGIES = ("agenda", "depth", "none")


def _check(strategy: str) -> None:
    if strategy not in STRATEGIES:
        raise DGLError(f"unknown strategy {strategy!r}; expected one of {', '.join(STRATEGIES)}")


class Run:
    """Computes ``nodes`` of a session. Its memory holds their results, and what operations on matrices read."""

    def __init__(self, session: Session, nodes: np.ndarray, strategy: str, keep: bool) -> None:
        start = perf_counter()
        self.nodes = nodes
        self._group(session, strategy)
        self._lay_out(session)
        work = self._build(session, backward=False, shift=0, grads=session.where)
        self.gathered = work[-1]
        planned = perf_counter()
        self._kept: dict[int, Any] = {}
        self._views = self._split(self.arena, 0)
        self._perform(work, lambda batch: self._forward(batch, keep))
        self._views.clear()
        session.done[nodes] = True
        self.seconds = planned - start, perf_counter() - planned

    # -- planning -----------------------------------------------------------------------------------------------
    def _group(self, session: Session, strategy: str) -> None:
        _check(strategy)
        nodes = self.nodes
        arrays = session.argptr, session.args
        place, depth, kind, numbers = batching.depths_of(nodes, session.sigs, *arrays, session.num_nodes, len(shared))
        self.signatures = [session.signature(number) for number in numbers.tolist()]
        self.heavy = np.array([signature.matrices is not None for signature in self.signatures])
        if strategy == "agenda":
            order, bounds = batching.by_agenda(nodes, place, depth, kind, *arrays, self.heavy)
        elif strategy == "depth":
            order, bounds = batching.by_depth(depth, kind, len(numbers))
        else:
            order, bounds = batching.one_by_one(len(nodes))
        self._order, self._kind = order, kind
        self.order, self.bounds, self.batch_kinds = nodes[order], bounds, kind[order[bounds[:-1]]]
        self.depths = depth[order]

    def _lay_out(self, session: Session) -> None:
        """Give every result and every input of an operation on matrices its place."""
        sizes = np.array([signature.nbytes for signature in self.signatures], np.int64)
        placed = program.place_results(self._order, self._kind, self.nodes, sizes, session.where)
        self.ranks, counts, self._starts, self._result_bytes = placed
        inputs: list[tuple[int, int, TensorKind]] = []
        first_input, end = [], self._result_bytes
        for number, signature in enumerate(self.signatures):
            first_input.append(len(inputs))
            for kind in signature.matrices.kinds if signature.matrices is not None else ():
                inputs.append((number, end, kind))
                end += (int(counts[number]) * kind.nbytes + 63) // 64 * 64
        self.arena, self._nbytes = Arena(end), end
        base = self.arena.address
        session.where[self.nodes] += base
        self._starts += base
        self._first_input, self._counts = np.array(first_input, np.int64), counts
        self._places = [(base + at, kind.nbytes) for _, at, kind in inputs]
        self._input_at = np.array([base + at for _, at, _ in inputs], np.int64)
        self._input_sizes = np.array([kind.nbytes for _, _, kind in inputs], np.int64)
        self._find_in_place(session, inputs)
        used = (self._input_at == 0).tolist()
        self._adds = {
            s.matrices: used[first : first + len(s.matrices.kinds)]
            for s, first in zip(self.signatures, first_input, strict=True)
            if s.matrices is not None
        }

    def _find_in_place(self, session: Session, inputs: Sequence[tuple[int, int, TensorKind]]) -> None:
        """Use inputs where they lie if all of a signature's do so in equal distances."""
        kinds = self._kind[self._order]
        limits = self.arena.address, self.arena.address + self._result_bytes
        for i, (number, _, kind) in enumerate(inputs):
            members, slot = self.order[kinds == number], i - int(self._first_input[number])
            address, distance = program.in_place(
                members, slot, kind.nbytes, session.argptr, session.args, session.where, *limits
            )
            # A matrix for each sample is a matrix of all rows only if there is nothing between them.
            if address and distance % kind.item == 0 and (len(kind.shape) < 2 or distance == kind.nbytes):
                self._places[i], self._input_at[i] = (address, distance), 0

    def _build(self, session: Session, backward: bool, shift: int, grads: np.ndarray) -> tuple[Any, ...]:
        templates = template_table([s.backward if backward else s.forward for s in self.signatures])
        batches = self.order, self.bounds, self.batch_kinds, self.ranks
        inputs = self._first_input, self._input_at, self._input_sizes
        plan = program.BatchPlan(backward, *batches, *templates, self.heavy, *inputs, shift)
        where = session.where[: session.num_nodes]
        return program.build(plan, program.Graph(session.argptr, session.args, where, grads))

    # -- performing ---------------------------------------------------------------------------------------------
    def _perform(self, work: tuple[Any, ...], matrices: Any) -> None:
        words, starts, _, rows, _ = work
        threads, addresses = torch.get_num_threads(), (words.ctypes.data, starts.ctypes.data)
        for heavy, first, last, amount, apart in rows.tolist():
            if heavy:
                matrices(first)
            elif apart and threads > 1 and amount > (last - first) * PARALLEL_FROM:
                run_steps_by_rows(words, starts, first, last, threads)
            else:
                run_steps(*addresses, first, last, amount, threads)

    def _split(self, arena: Arena, shift: int) -> dict[int, tuple[Matrices, list[Tensor], list[Tensor]]]:
        """Return (operation, inputs, results) of each batch of one on matrices; ``shift`` leads to their gradients."""
        found, sizes = {}, self.bounds[1:] - self.bounds[:-1]
        for number in np.flatnonzero(self.heavy).tolist():
            batches, matrices = np.flatnonzero(self.batch_kinds == number), self.signatures[number].matrices
            assert matrices is not None
            counts = sizes[batches].tolist()
            inputs, results = ([x.split_with_sizes(counts) for x in side] for side in self._rows(number, arena, shift))
            for i, batch in enumerate(batches.tolist()):
                found[batch] = matrices, [x[i] for x in inputs], [y[i] for y in results]
        return found

    def _rows(self, number: int, arena: Arena, shift: int) -> tuple[list[Tensor], list[Tensor]]:
        """Return the inputs and results of all operations of one signature."""
        signature, first, count = self.signatures[number], int(self._first_input[number]), int(self._counts[number])
        assert signature.matrices is not None
        inputs, results = [], []
        for (address, distance), kind in zip(self._places[first:], signature.matrices.kinds, strict=False):
            inputs.append(arena.view(address + shift, count, distance, kind.shape, kind.dtype))
        at = int(self._starts[number]) + shift
        several = len(signature.matrices.results) > 1
        for kind in signature.matrices.results:
            results.append(arena.view(at, count, signature.nbytes, kind.shape, kind.dtype))
            at += (kind.nbytes + 7) // 8 * 8 if several else kind.nbytes
        return inputs, results

    def _forward(self, batch: int, keep: bool) -> None:
        matrices, inputs, results = self._views[batch]
        self._kept[batch] = matrices.forward(inputs, results, keep)

    # -- gradients ----------------------------------------------------------------------------------------------
    def prepare(self, session: Session, grads: np.ndarray, active: np.ndarray) -> None:
        """Lay out memory for gradients as that for results is, all 0, and note where each node's lies."""
        self.grad_arena = Arena(self._nbytes)
        self.grad_arena.clear(self._result_bytes)
        self._shift = self.grad_arena.address - self.arena.address
        grads[self.nodes] = np.where(active[self.nodes], session.where[self.nodes] + self._shift, 0)

    def backward(self, session: Session, grads: np.ndarray, gradients: Gradients) -> None:
        """Sweep back through the batches, from the gradients of results to those of inputs and parameters."""
        work, views = self._build(session, True, self._shift, grads), self._split(self.grad_arena, self._shift)

        def differentiate(batch: int) -> None:
            matrices, into, results = views[batch]
            wanted = [x if kind.dtype in DTYPES else None for x, kind in zip(into, matrices.kinds, strict=True)]
            matrices.backward(self._kept[batch], results, wanted, self._adds[matrices], gradients)

        self._perform(work, differentiate)
        for number, signature in enumerate(self.signatures):
            if isinstance(signature.matrices, Product) and signature.matrices.wants:
                product = signature.matrices
                inputs, _ = self._rows(number, self.arena, 0)
                _, grad = self._rows(number, self.grad_arena, self._shift)
                rows = product.rows_of(inputs[0]), product.columns_of(grad[0])
                gradients.product(product.weight, product.bias, rows, product.turned)
