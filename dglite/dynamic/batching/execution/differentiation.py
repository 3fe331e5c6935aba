"""From gradients of results to gradients of all that was given: the sweep back through a session's runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ....backend import active as backend
from ....kernels.cpu.dynamic.batching import PLACE_BITS, PLACE_MASK
from ....kernels.cpu.dynamic.kernels import MOST_ROWS, run_steps, step_kernel
from ....kernels.cpu.dynamic.placement import active_nodes
from ....kernels.render.rows import StepSpec
from ...execution.memory import empty
from ...execution.products import GradientSums
from ..recording.kinds import DTYPES, TensorKind
from ..recording.signatures import MOVED_AS, operand
from .device import bring, run_step

if TYPE_CHECKING:
    from ..session import Session


def _move(kind: TensorKind, into: np.ndarray, values: Tensor, add: bool, out: bool) -> None:
    """Copy or add ``values`` (n, *shape) to rows at the addresses ``into``, or, with ``out``, from there."""
    if not kind.numel or not len(into):
        return
    kernel = step_kernel(StepSpec((operand(0),), (False,), add, False, DTYPES[MOVED_AS[kind.item]]))
    rows = (values.data_ptr(), kind.nbytes, 0)
    listed = (0, 0, into.ctypes.data)
    words = np.array([kernel, len(into), kind.numel, *(rows if out else listed), *(listed if out else rows)], np.int64)
    if not values.is_cpu:
        run_step(values.device, words, into)
        return
    start = np.zeros(1, np.int64)
    run_steps(words.ctypes.data, start.ctypes.data, 0, 1, kind.numel * len(into), torch.get_num_threads())


def copy_rows(session: Session, refs: np.ndarray, kind: TensorKind) -> Tensor:
    """Return values of one kind at ``refs`` as one tensor, (n, *shape)."""
    values = torch.empty((len(refs), *kind.shape), dtype=kind.stored, device=session.device)
    _move(kind, session.where[refs >> PLACE_BITS] + (refs & PLACE_MASK), values, add=False, out=True)
    return values.to(kind.dtype)


def differentiate(session: Session, outputs: Sequence[tuple[TensorKind, np.ndarray, Tensor]]) -> dict[int, Tensor]:
    """Return the gradients of all that was given or is a parameter, by its id, from the gradients of ``outputs``.

    ``outputs`` are (kind, places in the session, gradients (n, *shape)).
    """
    session.settle()
    bring(session)
    session.check_unchanged()
    targets = np.concatenate([refs >> PLACE_BITS for _, refs, _ in outputs])
    sources, grads = session.differentiable(), np.zeros(len(session.where), np.int64)
    wants = [s.matrices is not None and s.matrices.wants for s in session.own_signatures]
    active = active_nodes(targets, session.graph, [node for _, node in sources], wants)
    sources = [(tensor, node) for tensor, node in sources if active[node]]
    buffers = [empty(tensor.shape, tensor.dtype, tensor.device).zero_() for tensor, _ in sources]
    for (_, node), buffer in zip(sources, buffers, strict=True):
        grads[node] = buffer.data_ptr()
    gradients, runs = GradientSums(MOST_ROWS["outer"], session.device), session.runs
    for run in runs:
        run.prepare(session, grads, active)
    for kind, refs, values in outputs:
        nodes = refs >> PLACE_BITS
        if kind.dtype in DTYPES:
            reached = np.nonzero(grads[nodes])[0]
            values = values if len(reached) == len(refs) else values[backend.from_numpy(reached, values.device)]
            _move(kind, (grads[nodes] + (refs & PLACE_MASK))[reached], values.contiguous(), add=True, out=False)
    for run in reversed(runs):
        run.backward(session, grads, gradients)
    for (tensor, _), buffer in zip(sources, buffers, strict=True):
        gradients.add(id(tensor), buffer)
    return gradients.finish()
