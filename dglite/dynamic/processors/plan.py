"""A step of training as scripts: made from a session, or filled in anew from another session of the same operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.autograd.graph import increment_version

from ...errors import DGLError
from ...kernels.cpu.dynamic.batching import PLACE_BITS, PLACE_MASK
from ...kernels.cpu.dynamic.kernels import CLEAR, TOTALS
from ...kernels.cpu.dynamic.program import BATCH_WORDS
from ...kernels.cpu.dynamic.script import FOLLOWS, Stage, make_script
from ..batching.recording.kinds import DTYPES
from ..batching.recording.tensor import LazyTensor
from ..batching.session import Session
from .layout import StepLayout
from .rules import TrainedParameter
from .update import OperationList, ParameterUpdates

_MOST_WORDS, _MOST_BYTES, _MOST_PLANS = 256, 1 << 21, 64
"""Plans are kept of short sessions, with little memory each, and not too many."""
_LEAST_SIZE = 8
"""Row counts below this cannot be recognised among other constants."""


class StepPlan:
    """A step: its job, and where its loss will be."""

    def __init__(
        self,
        session: Session,
        lazies: Sequence[LazyTensor],
        trained: dict[int, TrainedParameter],
        machine: Any,
        key: Any,
        sizes: tuple[int, ...],
    ) -> None:
        """Plan a step for a machine (see :class:`.host.HostThreads`); the session has been settled.

        With a ``key`` the plan can be filled in again; ``sizes`` is the number of rows of each size class of the key.
        """
        self.sizes = self._now = sizes
        self.key = key
        refs = np.array([x._ref for x in lazies], np.int64)
        stays = None if key is None else {x.node for k, x in session.external.items() if k in trained}
        self.layout = layout = StepLayout(session, refs >> PLACE_BITS, stays, machine)
        nodes = _parameter_nodes(session, trained)
        trained_ids = {key for key, parameter in trained.items() if parameter.parameter.requires_grad}
        places = {node: trained[key].grad.data_ptr() for key, node in nodes.items()}
        layout.find_gradients(refs >> PLACE_BITS, places, trained_ids)
        layout.prepare(machine.processors, trained_ids)
        self.reached = _reached(layout, trained, nodes, trained_ids)
        self._count()
        self.loss, self.job = np.zeros(1), machine.job()
        self._updates = updates = ParameterUpdates(layout, self.reached, nodes)
        sized = self._script(_seeds(layout, lazies, refs, self.loss))
        tensors = [x for s in layout.signatures for x in s.tensors]
        tensors += [x for parameter in self.reached for x in (parameter.parameter, *parameter.rule.states)]
        self._pointers = [(x, x.data_ptr()) for x in tensors]
        self.reusable = key is not None and updates.repeats and layout.copies is not None
        self.reusable = self.reusable and layout.arena.nbytes + layout.grad_arena.nbytes <= _MOST_BYTES
        self._sized = self._find_sized(*sized) if self.reusable else None

    def _script(self, seeds: OperationList) -> tuple[Stage, Stage, np.ndarray]:
        """Write the scripts of the job; return both sweeps, and the words of operations on batches."""
        layout, before, after = self.layout, self._updates.before, self._updates.after
        before.add([CLEAR, layout.grad_arena.address, layout.result_bytes], layout.result_bytes // 8)
        for address, nbytes in layout.cleared:
            before.add([CLEAR, address, nbytes], nbytes // 8)
        (forward, forward_lists), (backward, backward_lists) = layout.stage(False), layout.stage(True)
        listed = [listing.placed() for listing in (before, seeds, after)]
        batches = layout.batches(self.job.error_address)
        instructions = make_script(forward, backward, batches, listed, layout.processors, *layout.machine.sharing)
        script, words = (instructions, batches.words), batches.words.reshape(-1)
        self._scripts = script, forward, backward, forward_lists, backward_lists, before, seeds, after
        self.job.load(self._scripts, layout, self.loss)
        return forward, backward, words

    def _find_sized(
        self, forward: Stage, backward: Stage, words: np.ndarray
    ) -> list[tuple[np.ndarray, int, int]] | None:
        """Return (array, position, size index) of every argument that is a row count, None if counts are ambiguous."""
        layout, places = self.layout, list[tuple[np.ndarray, int]]()
        resizable = all(s.form is not None or (s.formulas and s.formulas.width == 1) for s in layout.signatures)
        if not resizable or layout.input_at.any() or min(self.sizes, default=0) < _LEAST_SIZE:
            return None
        for stage in (forward, backward):
            places += [(stage.words, at + 2) for at in stage.starts.tolist() if stage.words[at + 2] != 1]
        places += [(words, at + 1) for at in range(0, len(words), BATCH_WORDS) if words[at]]
        places += [(self._updates.after.array, at) for at in self._updates.after.sized]
        if any(int(array[at]) not in self.sizes for array, at in places):
            return None
        return [(array, at, self.sizes.index(int(array[at]))) for array, at in places]

    def _count(self) -> None:
        for parameter in self.reached:
            parameter.count()

    def started(self) -> None:
        """Tell torch that parameters change."""
        for parameter in self.reached:
            increment_version(parameter.parameter)

    def take_back(self) -> None:
        """Undo the step count."""
        for parameter in self.reached:
            parameter.take_back()

    # -- again --------------------------------------------------------------------------------------------------
    def holds(self, sizes: tuple[int, ...]) -> bool:
        """Whether there is room for rows of these numbers."""
        if self._sized is None:
            return sizes == self.sizes
        return all(size <= most for size, most in zip(sizes, self.sizes, strict=True))

    def fits(self) -> bool:
        """Whether tensors are where they were."""
        return all(x.data_ptr() == pointer for x, pointer in self._pointers)

    def rest(self) -> None:
        """Give memory back that only a step needs."""
        self.layout.rest()

    def fill_in(self, session: Session, sizes: tuple[int, ...]) -> bool:
        """Take values, graphs and numbers from a session of the same operations; return whether that could be done."""
        layout = self.layout
        if sizes != self._now:
            for array, at, size in self._sized or ():
                array[at] = sizes[size]
            self._now = sizes
        layout.refill(session)
        self._count()
        if not self._updates.refill(layout):
            self.take_back()
            return False
        self.job.reset()
        self.loss[:] = 0.0
        return True


class PlanCache:
    """Plans that may be filled in again, by what their sessions had recorded."""

    def __init__(self) -> None:
        self._plans: dict[Any, list[StepPlan]] = {}
        self._count = 0

    def take(self, key: Any, sizes: tuple[int, ...]) -> StepPlan | None:
        """Return a plan that is not in use, and has room for rows of these numbers."""
        for i, plan in enumerate(self._plans.get(key, ())):
            if plan.holds(sizes):
                self._count -= 1
                return self._plans[key].pop(i)
        return None

    def keep(self, plan: StepPlan) -> None:
        """Put a plan back, when its step is over."""
        plan.rest()
        if plan.reusable:
            if self._count >= _MOST_PLANS:
                self._plans.clear()
                self._count = 0
            self._plans.setdefault(plan.key, []).append(plan)
            self._count += 1


def key_of(
    session: Session, lazies: Sequence[LazyTensor], trained: dict[int, TrainedParameter], processors: int
) -> tuple[Any, tuple[int, ...]]:
    """Return what sessions have in common that are the same but for values, graphs and numbers of rows, and these.

    The key is None where nobody knows. To be called before the session is settled.
    """
    if len(session.graph.sigs) or session.macros or len(session.recorded) > _MOST_WORDS:
        return None, ()
    sizes: dict[int, int] = {}
    parts: list[Any] = [processors]
    stream, at = session.recorded.tolist(), 0
    while at < len(stream):
        signature = session.signature(stream[at])
        end = at + 1 + signature.arity
        if signature.form is None:
            if signature.number < 0 and signature.key is None:
                return None, ()
            parts += [signature.key if signature.number < 0 else signature.number, *stream[at + 1 : end]]
        else:
            parts += [signature.form, *[sizes.setdefault(n, len(sizes)) for n in signature.lengths]]
            parts += stream[at + 1 : end]
        at = end
    for x in session.external.values():
        parameter_id = id(x.tensor) if id(x.tensor) in trained else 0
        if len(x.kind.shape) == 1 and x.kind.dtype not in DTYPES:
            parts += [x.node, x.kind.dtype, sizes.setdefault(x.kind.shape[0], len(sizes))]
        else:
            parts += [x.node, x.kind, x.tensor.requires_grad, parameter_id]
    parts += [(ref, len(pool)) for pool, ref in session.pools.values()]
    parts += [(x._ref, x._kind) for x in lazies]
    parts += [parameter.parameter.requires_grad for parameter in trained.values()]
    return tuple(parts), tuple(sizes)


def _parameter_nodes(session: Session, trained: dict[int, TrainedParameter]) -> dict[int, int]:
    """Return the nodes of parameters that operations read directly, by the parameters' ids."""
    tensors = [x.tensor for x in session.external.values() if x.kind.dtype in DTYPES]
    tensors += [x for s in session.own_signatures for x in s.tensors]
    for tensor in tensors:
        if tensor.requires_grad and not tensor.is_leaf:
            raise DGLError(
                f"a tensor of shape {list(tensor.shape)} was computed by torch ({type(tensor.grad_fn).__name__}) "
                "from what wants a gradient. With persistent processors parameters are used lazily only: look rows up "
                "by lazy numbers, embedding(dynamic.lazy(words)), and compute on dynamic.lazy(parameter)"
            )
    return {key: x.node for key, x in session.external.items() if key in trained and x.tensor.requires_grad}


def _reached(
    layout: StepLayout, trained: dict[int, TrainedParameter], nodes: dict[int, int], trained_ids: set[int]
) -> list[TrainedParameter]:
    used = layout.read_with_gradient() | {key for key, node in nodes.items() if layout.grads[node]}
    reached = [parameter for key, parameter in trained.items() if key in used & trained_ids]
    if not reached:
        raise DGLError("the losses depend on no parameter of this handle, so there is nothing to train")
    return reached


def _seeds(layout: StepLayout, lazies: Sequence[LazyTensor], refs: np.ndarray, loss: np.ndarray) -> OperationList:
    """Return what sums up the losses and starts their gradients."""
    listing, nodes, kinds = OperationList(layout.machine), refs >> PLACE_BITS, {x._kind.item for x in lazies}
    losses, unused = layout.where[nodes] + (refs & PLACE_MASK), np.zeros(1)
    # A loss that depends on no parameter has no gradient to start.
    grads = np.where(layout.grads[nodes] != 0, layout.grads[nodes] + (refs & PLACE_MASK), unused.ctypes.data)
    listing.keep.append(unused)
    items = np.array([x._kind.item for x in lazies])
    repeated = len(set(refs.tolist())) < len(lazies)
    for item in sorted(kinds):
        here = items == item
        values, starts = losses[here], grads[here]
        listing.keep += [values, starts]
        words = [TOTALS, loss.ctypes.data, len(values), item, values.ctypes.data, starts.ctypes.data, int(repeated)]
        listing.add(words, 1, FOLLOWS)
    return listing
