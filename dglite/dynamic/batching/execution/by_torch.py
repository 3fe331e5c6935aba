"""A session's results again by torch's operators, batch by batch, for gradients that have gradients themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ....backend import active
from ....errors import DGLError
from ....expr import evaluate
from ....kernels.cpu.dynamic import program
from ....kernels.cpu.dynamic.batching import PLACE_BITS, PLACE_MASK
from ....kernels.cpu.dynamic.kernels import step_of
from ...autocast import without_autocast
from ...execution.by_torch import rows_of_parts
from ...program.surroundings import generator_states
from ..recording.signatures import Signature, places_of

if TYPE_CHECKING:
    from ..recording.kinds import TensorKind
    from ..session import Session


def values_by_torch(
    session: Session, outputs: Sequence[tuple[TensorKind, np.ndarray]], stand_ins: Mapping[int, Tensor]
) -> list[Tensor]:
    """Return the values of each kind at places in the session, (n, *shape), computed again.

    ``stand_ins`` are in the places of tensors from outside, by the ids of these.
    """
    session.settle()
    session.check_unchanged()
    generators = generator_states(session.device)
    with torch.enable_grad(), without_autocast(session.device.type):
        replay = _SessionReplay(session, stand_ins)
        for run in session.runs:
            for batch, number in enumerate(run.batch_kinds.tolist()):
                replay.add(run.signatures[number], run.order[run.bounds[batch] : run.bounds[batch + 1]])
        values = [replay.read(refs, kind.numel).view(-1, *kind.shape).to(kind.dtype) for kind, refs in outputs]
    pairs = zip(generators, generator_states(session.device), strict=True)
    if not all(torch.equal(before, after) for (_, before), (_, after) in pairs):
        raise DGLError(
            "a lazy result that depends on random numbers, such as dropout, has no second derivative: they would be "
            "drawn again. Switch dropout off (model.eval()), or multiply by a lazy mask that you draw yourself"
        )
    return values


class _SessionReplay:
    """Values by node of the session. A part is a tensor (nodes, columns); a node's result is one part, or several."""

    def __init__(self, session: Session, stand_ins: Mapping[int, Tensor]) -> None:
        self._session, self._stand_ins = session, stand_ins
        self._parts: list[tuple[int, Tensor]] = []
        """Each part, with the byte of its nodes' results at which it begins."""
        num_nodes = len(session.graph.sigs)
        self._last, self._rank = np.full(num_nodes, -1), np.zeros(num_nodes, np.int64)
        """The last part of each node, and the node's row there."""
        for x in session.external.values():
            self._note(np.array([x.node]), [(0, stand_ins.get(id(x.tensor), self._there(x.values)).reshape(1, -1))])
        for dtype, (pool, ref) in session.pools.items():
            self._note(np.array([ref >> PLACE_BITS]), [(0, self._there(torch.tensor([pool.tolist()], dtype=dtype)))])

    def _there(self, x: Tensor) -> Tensor:
        return active.to_device(x, self._session.device, True)

    def _note(self, nodes: np.ndarray, parts: Sequence[tuple[int, Tensor]]) -> None:
        self._parts += parts
        self._last[nodes], self._rank[nodes] = len(self._parts) - 1, np.arange(len(nodes))

    def read(self, refs: np.ndarray, count: int) -> Tensor:
        """Return ``count`` values from each place on, (places, count)."""
        nodes, places = refs >> PLACE_BITS, refs & PLACE_MASK
        numbers = self._last[nodes]
        while (before := places < self._of_part(numbers, lambda part: part[0])).any():
            numbers = numbers - before
        starts, items, widths = (
            self._of_part(numbers, look)
            for look in (lambda part: part[0], lambda part: part[1].itemsize, lambda part: part[1].shape[1])
        )
        columns = (places - starts) // items + self._rank[nodes] * widths
        used, compact = np.unique(numbers, return_inverse=True)
        flat = [self._parts[number][1].reshape(-1, 1) for number in used.tolist()]
        every = (columns[:, None] + np.arange(count)).reshape(-1)
        return rows_of_parts(flat, np.repeat(compact, count), every).view(len(refs), count)

    def _of_part(self, numbers: np.ndarray, look: Callable[[tuple[int, Tensor]], int]) -> np.ndarray:
        used, compact = np.unique(numbers, return_inverse=True)
        return np.array([look(self._parts[number]) for number in used.tolist()], np.int64)[compact]

    def add(self, signature: Signature, nodes: np.ndarray) -> None:
        """Compute a batch."""
        graph = self._session.graph
        args = [graph.args[graph.argptr[nodes] + slot] for slot in range(signature.arity)]
        if signature.matrices is None:
            self._note(nodes, [(0, self._pointwise(signature, args, len(nodes)))])
            return
        matrices = signature.matrices
        pairs = zip(args, matrices.kinds, strict=True)
        inputs = [self.read(refs, kind.numel).view(-1, *kind.shape) for refs, kind in pairs]
        results = matrices.again(inputs, self._stand_ins)
        starts = places_of(matrices.results)[:-1]
        stored = [x.to(kind.stored).reshape(len(nodes), -1) for x, kind in zip(results, matrices.results, strict=True)]
        self._note(nodes, list(zip(starts, stored, strict=True)))

    def _pointwise(self, signature: Signature, args: Sequence[np.ndarray], rows: int) -> Tensor:
        """Compute the steps of formulas, whose results lie side by side."""
        results = dict[int, Tensor]()
        for words in signature.forward:
            spec, width, count = step_of(words[program.KERNEL]), words[program.WIDTH], words[program.RESULTS]
            each = range(program.FIRST_ROWS, len(words), program.WORDS_PER_ROWS)
            places: list[Any] = [words[at : at + program.WORDS_PER_ROWS] for at in each]
            operands = []
            for role, slot, place, spread in places[count : count + words[program.OPERANDS]]:
                operand = (
                    results[place] if role == program.OWN else self.read(args[slot] + place, 1 if spread else width)
                )
                operands.append(operand)
            for formula, (_, _, place, _) in zip(spec.formulas, places, strict=False):
                value = torch.as_tensor(evaluate(formula, operands, active.functions)).expand(rows, width)
                results[place] = value.sum(1, keepdim=True) if spec.total else value
        return torch.cat([results[place] for place in sorted(results)], 1)
