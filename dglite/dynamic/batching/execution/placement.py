"""Which nodes of a session are batches, and where their results and the inputs of operations on matrices lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import DGLError
from ....kernels.cpu.dynamic import batching, placement, program
from ..recording.kinds import DTYPES, TensorKind
from ..recording.signatures import ARGUMENT, Signature, shared, template_table
from .instructions import StackedRows

if TYPE_CHECKING:
    from ..session import Session

STRATEGIES = ("agenda", "depth", "none")


class BatchPlacement:
    """Batches of ``nodes`` of a session.

    Batch b is ``order[bounds[b]:bounds[b + 1]]``, of signature ``signatures[batch_kinds[b]]``; ``heavy`` signatures are
    operations on matrices. After :meth:`lay_out` the results of signature s begin at ``starts[s]`` and its inputs lie
    at ``places`` (address, distance) from ``first_input[s]`` on.
    """

    def __init__(
        self,
        session: Session,
        nodes: np.ndarray,
        strategy: str = "agenda",
        check: Callable[[Signature], None] | None = None,
    ) -> None:
        """``check`` raises for a signature that will not do."""
        if strategy not in STRATEGIES:
            raise DGLError(f"unknown strategy {strategy!r}; expected one of {', '.join(STRATEGIES)}")
        self.nodes, self._graph = nodes, session.graph
        self._pending, numbers = batching.pending_nodes(nodes, session.graph, len(shared))
        self.kind = self._pending.kind
        self.signatures = [session.signature(number) for number in numbers.tolist()]
        if ARGUMENT in self.signatures:
            raise DGLError("values inside of a cell's body stand for any sample's; return from it what is wanted")
        for signature in self.signatures if check is not None else ():
            check(signature)  # type: ignore[misc]
        self.heavy = np.array([signature.matrices is not None for signature in self.signatures], np.bool_)
        if strategy == "agenda":
            self._order, self.bounds = batching.by_agenda(self._pending, self._graph, self.heavy)
        elif strategy == "depth":
            self._order, self.bounds = batching.by_depth(self._pending, len(numbers))
        else:
            self._order, self.bounds = batching.one_by_one(len(nodes))
        self._kinds = self.kind[self._order]
        self.order, self.batch_kinds = nodes[self._order], self._kinds[self.bounds[:-1]]

    def lay_out(self, where: np.ndarray, memory: Callable[[int], Any], integers_anywhere: bool = False) -> None:
        """Give every result, noted in ``where``, and every input of an operation on matrices its place.

        ``memory(num_bytes)`` is asked for once. Inputs are used where they lie if all of a signature's do so in equal
        distances among the results, ``integers_anywhere``, if asked for: they have no gradients, which lie as results
        do.
        """
        sizes = np.array([signature.nbytes for signature in self.signatures], np.int64)
        placed = placement.place_results(self._order, self._pending, sizes, where)
        self.ranks, counts, self.starts, self.result_bytes = placed
        self.first_ranks, self.batch_sizes = self.ranks[self.bounds[:-1]], np.diff(self.bounds)
        self.counts, end, inputs = counts.tolist(), self.result_bytes, list[tuple[int, TensorKind, int]]()
        first = []
        for number, signature in enumerate(self.signatures):
            first.append(len(inputs))
            for kind in signature.matrices.kinds if signature.matrices is not None else ():
                inputs.append((number, kind, end))
                end += (self.counts[number] * kind.nbytes + 63) // 64 * 64
        self.arena, self.num_bytes = memory(end), end
        base = self.arena.address
        where[self.nodes] += base
        self.starts += base
        self.first_input = np.array(first, np.int64)
        self.input_sizes = np.array([kind.nbytes for _, kind, _ in inputs], np.int64)
        self.input_at = np.zeros(len(inputs), np.int64)
        self.places = list[tuple[int, int]]()
        for i, (number, kind, at) in enumerate(inputs):
            limits = base, base + self.result_bytes
            if integers_anywhere and kind.dtype not in DTYPES:
                limits = 1, 1 << 62
            slot = i - first[number]
            place = placement.in_place(self.members(number), slot, kind.nbytes, self._graph, where, *limits)
            # A matrix for each sample is a matrix of all rows only if there is nothing between them.
            if not place[0] or place[1] % kind.item or (len(kind.shape) > 1 and place[1] != kind.nbytes):
                place = self.input_at[i], _ = base + at, kind.nbytes
            self.places.append(place)

    def inputs(self, number: int) -> list[StackedRows]:
        """Return the inputs of an operation on matrices."""
        matrices, first = self.signatures[number].matrices, int(self.first_input[number])
        assert matrices is not None
        return [StackedRows(kind, *place) for kind, place in zip(matrices.kinds, self.places[first:], strict=False)]

    def adds(self, number: int) -> bool:
        """Whether the gradient of the first input of an operation on matrices is added to what is there."""
        return bool(self.input_at[self.first_input[number]] == 0)

    def members(self, number: int) -> np.ndarray:
        """Return the nodes of a signature, in their order."""
        return self.order[self._kinds == number]

    def plan(self, backward: bool, where: np.ndarray, grads: np.ndarray, shift: int) -> program.BatchPlan:
        """Return what the steps of a sweep are made from.

        ``where`` and ``grads`` are where each node's result and its gradient lie; ``shift`` leads from an input to its
        gradient.
        """
        templates = template_table([s.backward if backward else s.forward for s in self.signatures])
        batches = self.order, self.bounds, self.batch_kinds, self.ranks
        inputs = self.heavy, self.first_input, self.input_at, self.input_sizes
        return program.BatchPlan(backward, *batches, *templates, *inputs, shift, self._graph, where, grads)
