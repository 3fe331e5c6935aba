"""The handle that a user trains by: steps that return at once, and their losses."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ...errors import DGLError
from ...locks import new_lock
from ..batching.api import checked_losses, run
from ..batching.recording.kinds import DTYPES
from ..batching.recording.tensor import LazyTensor
from ..batching.session import Session, end_session
from .gpu import gpu_of
from .host import HostThreads
from .layout import UnsupportedOperation
from .plan import PlanCache, StepPlan, key_of
from .rules import TrainedParameter, check_optimizer


def persistent(
    parameters: Iterable[Tensor],
    optimizer: Optimizer,
    processors: int | None = None,
    rows_per_warp: int | None = None,
) -> Persistent:
    """Return a handle that trains ``parameters`` by persistent processors.

    Parameters
    ----------
    parameters
        the optimizer's parameters: contiguous tensors of float32 or of float64, on the CPU or on one GPU.
    optimizer
        ``SGD`` (momentum, Nesterov, weight decay), ``Adagrad``, ``Adam`` or ``AdamW`` of torch. Its state stays in it,
        and learning rates may be changed between steps.
    processors
        how many threads a step runs on. Unless given they are as many as torch has, one fewer where Python needs a core
        and would have none: that is looked at every 20 ms. Results are the same, bit by bit. On a GPU, how many
        blocks; as many as run at once, unless given.
    rows_per_warp
        on a GPU, how many rows of a weight a warp multiplies at a time. Unless given, the first steps try some, and
        the fastest is kept. Losses are the same up to rounding.

    Raises ``DGLError`` for other optimizers, and where ``parameters`` and those of the optimizer differ.

    >>> import torch
    >>> import torch.nn.functional as F
    >>> from dglite import dynamic
    >>> model = torch.nn.Linear(4, 3)
    >>> handle = dynamic.persistent(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.1))
    >>> for label in range(3):
    ...     before = handle.step(F.cross_entropy(model(dynamic.lazy(torch.ones(4))), dynamic.lazy(label)))
    >>> last = handle.sync()
    """
    return Persistent(list(parameters), optimizer, processors, rows_per_warp)


class Persistent:
    """Trains by steps that return before they are done. See :func:`persistent`."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        optimizer: Optimizer,
        processors: int | None = None,
        rows_per_warp: int | None = None,
    ) -> None:
        check_optimizer(optimizer)
        if processors is not None and processors < 1:
            raise DGLError(f"a step needs at least one processor; got processors={processors}")
        self._optimizer = optimizer
        groups = {id(x): group for group in optimizer.param_groups for x in group["params"]}
        _check_parameters(parameters, groups)
        self._machine: Any = gpu_of(parameters, processors, rows_per_warp) or HostThreads(processors)
        self._trained = {id(x): TrainedParameter(x, optimizer, groups[id(x)]) for x in parameters}
        self._lock = new_lock()
        self._running: StepPlan | None = None
        self._plans = PlanCache()
        self._last: float | None = None
        self._warned: set[str] = set()

    def step(self, losses: Any) -> float | None:
        """Start a step of training on lazy losses, and return the loss of the step before, None for the first.

        ``losses`` is a scalar lazy tensor, or a list of them, whose sum is the loss. This ends their session. Forward,
        backward and update run while Python goes on, so parameters must not be read or changed before :meth:`sync`;
        recording lazy operations, and asking for their values, is fine. Only the handle's parameters are trained;
        ``.grad`` is neither read nor written.

        Raises ``DGLError`` for losses that depend on no parameter of the handle, and for tensors that torch has
        computed from parameters. An error of the step before (``IndexError`` for a label out of range) is raised here,
        and neither that step nor this one is done.
        """
        lazies = checked_losses(losses, "step")
        session = lazies[0]._session
        end_session(session)
        with self._lock:
            try:
                step = self._planned(session, lazies)
            except UnsupportedOperation as reason:
                if not self._machine.falls_back:
                    raise DGLError(
                        f"persistent processors have no instruction for {reason}, and on a GPU nothing else computes "
                        "lazy tensors: write the model without it, or train on the CPU, where such steps run by "
                        "dynamic.run"
                    ) from None
                return self._run_slowly(lazies, str(reason))
            try:
                before = self._finish()
            except IndexError:
                step.take_back()
                raise
            step.started()
            step.job.start()
            self._running = step
        return before

    def sync(self) -> float | None:
        """Wait for the last step and return its loss (None if there was none); parameters are then up to date."""
        with self._lock:
            return self._finish()

    # -- one step -----------------------------------------------------------------------------------------------
    def _finish(self) -> float | None:
        step, self._running = self._running, None
        if step is None:
            return self._last
        step.job.wait()
        error, loss = step.job.error, float(step.loss[0])
        self._plans.keep(step)
        if error:
            step.take_back()
            raise IndexError(
                f"label {error >> 1} of a loss is not one of its classes; that step was not done, and "
                "parameters are as they were before it"
            )
        self._last = loss
        return self._last

    def _planned(self, session: Session, lazies: Sequence[LazyTensor]) -> StepPlan:
        """Return the step as scripts: those of a session of the same operations filled in, or new ones."""
        session.check_layouts()
        machine = self._machine
        key, sizes = key_of(session, lazies, self._trained, machine.processors) if machine.again else (None, ())
        plan = self._plans.take(key, sizes)
        if plan is not None and plan.fits() and plan.fill_in(session, sizes):
            return plan
        session.settle()
        return StepPlan(session, lazies, self._trained, machine, key, sizes)

    # -- what processors cannot do ------------------------------------------------------------------------------
    def _run_slowly(self, lazies: Sequence[LazyTensor], reason: str) -> float | None:
        """Do a step by lazy batching and the optimizer itself."""
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(
                f"persistent processors have no instruction for {reason}; steps with it run by dynamic.run and "
                "optimizer.step()",
                stacklevel=3,
            )
        before = self._finish()
        total = torch.stack([loss.reshape(()) for loss in run(list(lazies))]).sum()
        parameters = [trained.parameter for trained in self._trained.values() if trained.parameter.requires_grad]
        if not total.requires_grad:
            raise DGLError("the losses depend on no parameter of this handle, so there is nothing to train")
        grads = torch.autograd.grad(total, parameters, allow_unused=True)
        old_grads = [x.grad for x in parameters]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        self._optimizer.step()
        for parameter, old in zip(parameters, old_grads, strict=True):
            parameter.grad = old
        self._last = float(total.detach())
        return before


def _check_parameters(parameters: Sequence[Tensor], groups: dict[int, Any]) -> None:
    if not parameters:
        raise DGLError("persistent was given no parameters; expected those of the optimizer")
    for x in parameters:
        fits = isinstance(x, Tensor) and x.is_leaf and x.dtype in DTYPES and x.device.type in ("cpu", "cuda")
        if not fits or x.device != parameters[0].device:
            description = f"{x.dtype} tensor on {x.device}" if isinstance(x, Tensor) else type(x).__name__
            raise DGLError(
                f"parameters are leaf tensors of float32 or float64 on the CPU or on one GPU; got a {description}"
            )
        if not x.is_contiguous():
            raise DGLError(f"a parameter of shape {list(x.shape)} is not contiguous; replace it by x.contiguous()")
    if {id(x) for x in parameters} != set(groups):
        raise DGLError(
            f"{len(parameters)} parameters were given, and the optimizer has {len(groups)}, not the same ones; give "
            "both the same list"
        )
