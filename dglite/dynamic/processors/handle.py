"""The handle that a user trains by: steps that return at once, and their losses."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import increment_version
from torch.optim import Optimizer

from ...errors import DGLError
from ...kernels.cpu.batching import PLACE_BITS
from ...kernels.cpu.rowwise import CLEAR, TOTALS
from ...kernels.cpu.script import FOLLOWS, make_scripts
from ..batching.api import run
from ..batching.matrices import Product
from ..batching.pointwise import same_session
from ..batching.session import Session, end_session
from ..batching.signatures import DTYPES
from ..batching.tensor import LazyTensor
from .card import card_of
from .host import Host
from .layout import Layout, Unsupported
from .rules import check_optimizer, rule_of
from .update import Listing, Trained, updates

__all__ = ["Persistent", "persistent"]

_MASK = (1 << PLACE_BITS) - 1


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
        the optimizer's parameters: contiguous tensors of float32 or of float64, on the CPU or on one card.
    optimizer
        ``SGD`` (momentum, Nesterov, weight decay), ``Adagrad``, ``Adam`` or ``AdamW`` of torch. Its state stays in it,
        and learning rates may be changed between steps.
    processors
        how many threads a step runs on; as many as torch has, unless given. Where recording takes as long as the steps,
        one less leaves a core to it. On a card, how many blocks; as many as run at once, unless given.
    rows_per_warp
        on a card, how many rows of a weight a warp multiplies at a time. Unless given, the first steps try some, and
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


class _Step:
    """A step that was started: its job, where its loss will be, and the counters that it has raised."""

    def __init__(self, job: Any, loss: np.ndarray, counted: Sequence[Tensor]) -> None:
        self.job, self.loss, self.counted = job, loss, counted

    def take_back(self) -> None:
        """Count as if the step had not been."""
        for counter in self.counted:
            counter -= 1


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
        self._machine: Any = card_of(parameters, processors, rows_per_warp) or Host(processors)
        self._trained = {id(x): Trained(x, groups[id(x)]) for x in parameters}
        self._lock = threading.Lock()
        self._running: _Step | None = None
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
        lazies = _checked(losses)
        session = lazies[0]._session
        end_session(session)
        with self._lock:
            try:
                step = self._planned(session, lazies)
            except Unsupported as reason:
                self._machine.lacks(str(reason))
                return self._run_slowly(lazies, str(reason))
            try:
                before = self._finish()
            except IndexError:
                step.take_back()
                raise
            self._machine.submit(step.job)
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
        if step.job.error:
            step.take_back()
            for one in self._trained.values():
                one.clear()
            raise IndexError(
                f"label {step.job.error >> 1} of a loss is not one of its classes; that step was not done, and "
                "parameters are as they were before it"
            )
        self._last = float(step.loss[0])
        return self._last

    def _planned(self, session: Session, lazies: Sequence[LazyTensor]) -> _Step:
        session.settle()
        refs = np.array([x._ref for x in lazies], np.int64)
        layout = Layout(session, refs >> PLACE_BITS, self._machine)
        given = self._given(session)
        wanted = {key for key, one in self._trained.items() if one.parameter.requires_grad}
        places = {node: self._trained[key].grad.data_ptr() for key, node in given.items()}
        layout.find_gradients(refs >> PLACE_BITS, places, wanted)
        reached = self._reached(layout, given, wanted)
        rules = [(one, rule_of(self._optimizer, one.parameter, one.group)) for one in reached]
        counted = [x["step"] for x in (self._optimizer.state[one.parameter] for one in reached) if "step" in x]
        loss, job = np.zeros(1), self._machine.job()
        before, after = updates(layout, rules, given)
        before.add([CLEAR, layout.grad_arena.address, layout.result_bytes], layout.result_bytes // 8)
        between = _seeds(layout, lazies, refs, loss)
        forward, kept = layout.stage(False)
        backward_, kept_2 = layout.stage(True)
        listed = [listing.placed() for listing in (before, between, after)]
        heavies = layout.heavies(job.error_address)
        scripts = make_scripts(forward, backward_, heavies, *listed, *self._machine.sharing)
        job.give(*scripts, forward, backward_, kept, kept_2, layout, before, between, after, loss)
        for one in reached:
            increment_version(one.parameter)
        return _Step(job, loss, counted)

    def _given(self, session: Session) -> dict[int, int]:
        """Return the nodes of parameters that operations read directly, by the parameters' ids."""
        products = [s.matrices for s in session.own if isinstance(s.matrices, Product)]
        tensors = [x.tensor for x in session.given.values() if x.kind.dtype in DTYPES]
        tensors += [x for product in products for x in (product.weight, product.bias) if x is not None]
        for tensor in tensors:
            if tensor.requires_grad and not tensor.is_leaf:
                raise DGLError(
                    f"a tensor of shape {list(tensor.shape)} was computed by torch ({type(tensor.grad_fn).__name__}) "
                    "from what wants a gradient. With persistent processors parameters are used lazily only: look rows "
                    "up one by one, embedding(dynamic.lazy(word)), and compute on dynamic.lazy(parameter)"
                )
        return {key: x.node for key, x in session.given.items() if key in self._trained and x.tensor.requires_grad}

    def _reached(self, layout: Layout, given: dict[int, int], wanted: set[int]) -> list[Trained]:
        products = [s.matrices for s, reached in zip(layout.signatures, layout.reached, strict=True) if reached]
        used = {id(x) for p in products if isinstance(p, Product) for x in (p.weight, p.bias)}
        used |= {key for key, node in given.items() if layout.grads[node]}
        found = [one for key, one in self._trained.items() if key in used & wanted]
        if not found:
            raise DGLError("the losses depend on no parameter of this handle, so there is nothing to train")
        return found

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
        parameters = [one.parameter for one in self._trained.values() if one.parameter.requires_grad]
        if not total.requires_grad:
            raise DGLError("the losses depend on no parameter of this handle, so there is nothing to train")
        grads = torch.autograd.grad(total, parameters, allow_unused=True)
        kept = [x.grad for x in parameters]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        self._optimizer.step()
        for parameter, old in zip(parameters, kept, strict=True):
            parameter.grad = old
        self._last = float(total.detach())
        return before


def _seeds(layout: Layout, lazies: Sequence[LazyTensor], refs: np.ndarray, loss: np.ndarray) -> Listing:
    """Return what sums up the losses and starts their gradients."""
    listing, nodes, kinds = Listing(layout.machine), refs >> PLACE_BITS, {x._kind.item for x in lazies}
    losses, unused = layout.where[nodes] + (refs & _MASK), np.zeros(1)
    # A loss that depends on no parameter has no gradient to start.
    grads = np.where(layout.grads[nodes] != 0, layout.grads[nodes] + (refs & _MASK), unused.ctypes.data)
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


def _checked(losses: Any) -> list[LazyTensor]:
    lazies = [losses] if type(losses) is LazyTensor else list(losses)
    if not lazies:
        raise DGLError("step was given an empty list; expected at least one lazy loss")
    for loss in lazies:
        if type(loss) is not LazyTensor:
            raise DGLError(
                f"step takes lazy losses; got {type(loss).__name__}. Make inputs lazy with dglite.dynamic.lazy"
            )
        if loss._kind.numel != 1 or loss._kind.dtype not in DTYPES:
            raise DGLError(f"a loss is one floating-point number; got {loss._kind!r}: sum or average it")
        same_session(lazies[0], loss)
    return lazies


def _check_parameters(parameters: Sequence[Tensor], groups: dict[int, Any]) -> None:
    if not parameters:
        raise DGLError("persistent was given no parameters; expected those of the optimizer")
    for x in parameters:
        known = isinstance(x, Tensor) and x.is_leaf and x.dtype in DTYPES and x.device.type in ("cpu", "cuda")
        if not known or x.device != parameters[0].device:
            what = f"{x.dtype} tensor on {x.device}" if isinstance(x, Tensor) else type(x).__name__
            raise DGLError(f"parameters are leaf tensors of float32 or float64 on the CPU or on one card; got a {what}")
        if not x.is_contiguous():
            raise DGLError(f"a parameter of shape {list(x.shape)} is not contiguous; replace it by x.contiguous()")
    if {id(x) for x in parameters} != set(groups):
        raise DGLError(
            f"{len(parameters)} parameters were given, and the optimizer has {len(groups)}, not the same ones; give "
            "both the same list"
        )
