"""The public functions: make tensors lazy, run what was recorded, differentiate it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import DGLError
from ...kernels.cpu.dynamic.batching import PLACE_BITS, needed_nodes
from ..autocast import as_float32, without_autocast
from ..execution.by_torch import differentiable_gradients
from .execution.by_torch import values_by_torch
from .execution.device import bring
from .execution.differentiation import copy_rows, differentiate
from .execution.execution import BatchedRun
from .execution.matrices import TorchCall
from .recording import recurrent, sequences
from .recording.kinds import DTYPES, TensorKind
from .recording.pointwise import same_session
from .recording.tensor import LazyTensor, later
from .report import remember
from .session import Session, before_computing, current_session, end_session

_RECORDERS = recurrent, sequences
"""Loaded, with what it imports, for what they install: operators and torch functions of lazy tensors."""

Outputs = list[tuple[TensorKind, np.ndarray, list[int]]]


def lazy(x: Any) -> LazyTensor:
    """Return a lazy tensor that stands for ``x``; what is done to it is recorded, not computed.

    Parameters
    ----------
    x
        a tensor (float32, float64, int32, int64 or boolean, on the CPU) with its gradient, if it wants one; an
        integer, as an index or label; a float, of torch's default dtype; or a nested list of numbers. A tensor with a
        row for each sample may be given once: ``x[i]`` is then no operation.

    Write a model for one sample: there is no batch axis. Ordinary torch functions, modules and operators apply;
    everything recorded until :func:`run` or :func:`backward` belongs to one session and is batched together.
    """
    session = current_session()
    if type(x) is LazyTensor:
        return x
    if isinstance(x, int) and not isinstance(x, bool):
        return session.integer(x)
    if isinstance(x, float):
        return session.number(x, torch.get_default_dtype())
    return session.give(as_float32(x if isinstance(x, Tensor) else torch.as_tensor(x)))


def run(outputs: Any, strategy: str = "agenda") -> Any:
    """Compute lazy tensors in batches and return real ones, differentiable as any others. This ends the session.

    Parameters
    ----------
    outputs
        a lazy tensor, or a list of them; the result is a tensor, or a list. Real tensors, which a function of the
        model may have returned, are returned as they are.
    strategy
        ``"agenda"``: of the operations that are ready, all of that signature whose average depth in the graph is least,
        cheap ones before products where that is equal (Neubig et al., 2017). ``"depth"``: operations of equal depth and
        signature (Looks et al., 2017). ``"none"``: one at a time. The results are the same up to rounding.

    Under autocast everything is computed in the dtype of the parameters; lazy tensors are float32 or float64.

    Raises ``DGLError`` for an empty list, for lazy tensors of different sessions, and for an unknown strategy.
    Gradients may be differentiated again (``create_graph=True``); those are computed by torch's operators.
    """
    if isinstance(outputs, Tensor):
        return outputs
    if type(outputs) is not LazyTensor and any(isinstance(x, Tensor) for x in outputs):
        lazies = [x for x in outputs if not isinstance(x, Tensor)]
        computed = iter(run(lazies, strategy) if lazies else ())
        return [x if isinstance(x, Tensor) else next(computed) for x in outputs]
    single = type(outputs) is LazyTensor
    lazies = _checked([outputs] if single else outputs, "run")
    session = lazies[0]._session
    groups, stacked = _computed(session, lazies, strategy)
    results: list[Any] = [None] * len(lazies)
    for (_, _, positions), values in zip(groups, stacked, strict=True):
        for position, value in zip(positions, values.unbind(0), strict=True):
            results[position] = value
    return results[0] if single else results


def backward(losses: Any, strategy: str = "agenda") -> Tensor:
    """Compute the sum of scalar losses, add its gradient to ``.grad`` of all parameters, and return its value.

    This does what ``torch.stack(run(losses)).sum().backward()`` would do, and ends the session. ``losses`` is a lazy
    tensor or a list of them.
    """
    lazies = checked_losses(losses, "backward")
    session = lazies[0]._session
    _, stacked = _computed(session, lazies, strategy)
    function: Any = stacked[0].grad_fn
    if function is not None:
        torch.autograd.backward(stacked, [torch.ones_like(values) for values in stacked])
    if function is None or not function.reached:
        raise DGLError("nothing that was used wants a gradient; parameters need requires_grad=True")
    return torch.stack([values.detach().sum() for values in stacked]).sum()


def _computed(session: Session, lazies: Sequence[LazyTensor], strategy: str) -> tuple[Outputs, Sequence[Tensor]]:
    """Compute lazy tensors and end their session; return their groups and the values of each, differentiable."""
    _compute(session, lazies, strategy)
    end_session(session)
    groups = _groups(lazies)
    tensors = _differentiable(session) if torch.is_grad_enabled() else []
    if tensors:
        return groups, _SessionResults.apply(session, tensors, groups, *tensors)
    return groups, [copy_rows(session, refs, kind) for kind, refs, _ in groups]


class _SessionResults(torch.autograd.Function):
    """Results of a session as functions of its tensors. After the sweep ``reached`` tells if any has a gradient."""

    @staticmethod
    def forward(
        ctx: Any, session: Session, tensors: list[Tensor], groups: Outputs, *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.session, ctx.tensors, ctx.groups = session, tensors, groups
        results = tuple(copy_rows(session, refs, kind) for kind, refs, _ in groups)
        ctx.mark_non_differentiable(*[x for x in results if not x.is_floating_point()])
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # create_graph=True

            def again(stand_ins: list[Tensor]) -> list[Tensor]:
                by_id = {id(x): y for x, y in zip(ctx.tensors, stand_ins, strict=True)}
                return values_by_torch(ctx.session, [(kind, refs) for kind, refs, _ in ctx.groups], by_id)

            ctx.reached = True
            return None, None, None, *differentiable_gradients(again, ctx.tensors, ctx.needs_input_grad[3:], grads)
        outputs = [(kind, refs, grad) for (kind, refs, _), grad in zip(ctx.groups, grads, strict=True)]
        gradient_of = differentiate(ctx.session, outputs)
        ctx.reached = bool(gradient_of)
        return None, None, None, *[gradient_of.get(id(tensor)) for tensor in ctx.tensors]


def _checked(lazies: Any, name: str) -> list[LazyTensor]:
    lazies = list(lazies)
    if not lazies:
        raise DGLError(f"{name} was given an empty list; expected at least one lazy tensor")
    first = lazies[0]
    for x in lazies:
        if type(x) is not LazyTensor:
            raise DGLError(
                f"{name} takes lazy tensors; got {type(x).__name__}. Make inputs lazy with dglite.dynamic.lazy"
            )
        if x._session is not first._session:
            same_session(first, x)
    return lazies


def checked_losses(losses: Any, name: str) -> list[LazyTensor]:
    """Return losses as a list; raise, naming the function, for what is not a lazy loss."""
    lazies = _checked([losses] if type(losses) is LazyTensor else losses, name)
    for kind in {loss._kind for loss in lazies}:
        if kind.numel != 1 or kind.dtype not in DTYPES:
            raise DGLError(f"a loss is one floating-point number; got {kind!r}: sum or average it")
    return lazies


def _compute(session: Session, lazies: Sequence[LazyTensor], strategy: str) -> None:
    """Compute what is not computed yet of what ``lazies`` need."""
    for wait in before_computing:
        wait()
    recording = perf_counter() - session.started
    session.settle()
    try:
        session.check_layouts()
        bring(session)
    except DGLError:
        end_session(session)  # or nothing that is recorded from now on could be computed either
        raise
    targets = np.array([x._ref for x in lazies], np.int64) >> PLACE_BITS
    nodes = needed_nodes(targets, session.graph)
    with without_autocast(session.device.type):
        run = BatchedRun(session, nodes, strategy, keep=torch.is_grad_enabled())
    if len(nodes):
        session.runs.append(run)
    remember(run, strategy, recording)
    session.started = perf_counter()


def _groups(lazies: Sequence[LazyTensor]) -> Outputs:
    """Return, for each kind, the places of its values in the session and their positions in the list."""
    positions: dict[TensorKind, list[int]] = {}
    for position, x in enumerate(lazies):
        positions.setdefault(x._kind, []).append(position)
    return [(kind, np.array([lazies[i]._ref for i in where], np.int64), where) for kind, where in positions.items()]


def _differentiable(session: Session) -> list[Tensor]:
    """Return the tensors that a session's results may have a gradient by, each once."""
    tensors = [tensor for tensor, _ in session.differentiable()]
    tensors += [tensor for tensor, _ in session.parameters.values() if tensor.requires_grad]
    for signature in session.own_signatures:
        if isinstance(signature.matrices, TorchCall):
            tensors += signature.matrices.parameters.values()
    return list({id(tensor): tensor for tensor in tensors}.values())


def _value(x: LazyTensor, strategy: str) -> Tensor:
    _compute(x._session, [x], strategy)
    return copy_rows(x._session, np.array([x._ref], np.int64), x._kind)[0]


later.value, later.backward = _value, backward
