"""Where persistent processors run, as a layout and an update ask for it: here threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter, thread_time
from typing import Any, final

import torch
from torch import Tensor

from ...config import num_cores
from ...errors import DGLError
from ...kernels.cpu.dynamic.kernels import matrix_kernel, rowwise_kernel, step_kernel
from ...kernels.cpu.dynamic.processors import Job, submit, wait_for_all
from ...kernels.cpu.dynamic.script import WORTH_SHARING
from ...kernels.render.rows import StepSpec
from ..batching.execution.matrices import Product
from ..batching.recording.signatures import Signature
from ..batching.session import before_computing
from ..execution.memory import Arena

__all__ = ["HOST", "WINDOW", "Count", "HostThreads", "check_device"]


def check_device(tensors: Sequence[Tensor], device: torch.device) -> None:
    """Raise if a tensor that operations use is not where processors are."""
    for tensor in tensors:
        if tensor.device != device:
            raise DGLError(
                f"a weight of shape {list(tensor.shape)} on {tensor.device} is used in a step of processors on "
                f"{device}; move the model there before its handle is made"
            )


WINDOW = 0.02
"""Seconds of steps after which the number of processors is thought over."""
_LEAVING, _TAKING = 0.9, 0.7
"""How much Python computes, in parts of what one of all processors does, above which they leave a core to it, and below
which they take it back."""


class Count:
    """How many processors a step has: so many as given, else as many as torch has threads, or one fewer.

    Where they are as many as cores, Python takes its time from one of them, and the others wait for that one. So they
    leave a core to Python, unless it computes for a small part of a step: see
    docs/decisions/0184-processors-leave-a-core-to-python.md.
    """

    def __init__(self, given: int | None) -> None:
        self.given, self._cores, self._fewer = given, num_cores(), 0
        self._seconds, self._computed = 0.0, 0.0

    def __int__(self) -> int:
        threads = torch.get_num_threads()
        return self.given or (max(1, threads - self._fewer) if self._cores <= threads else threads)

    def note(self, seconds: float, computed: float) -> None:
        """Take note of a step: how long it ran, and for how long Python computed meanwhile."""
        self._seconds, self._computed = self._seconds + seconds, self._computed + computed
        if self._seconds > WINDOW:
            share = self._computed / self._seconds * torch.get_num_threads()
            self._fewer = int(share > (_TAKING if self._fewer else _LEAVING))
            self._seconds, self._computed = 0.0, 0.0


@final
class HostThreads:
    """Threads, ``processors`` of them where that is given. Operations are addresses of kernels."""

    def __init__(self, processors: int | None = None) -> None:
        self._count, self._began = Count(processors), (0.0, 0.0)

    device = torch.device("cpu")
    rowwise, matrix = staticmethod(rowwise_kernel), staticmethod(matrix_kernel)
    arena, job = Arena, Job
    again = True
    """Whether a plan can be filled in again."""
    sharing = False, WORTH_SHARING
    """Whether rows are shared out by elements, and up to which work one processor does it all."""

    def product(self, product: Product, forms: Sequence[str], dtype: str) -> list[int]:
        """Return the operations that multiply by a product's weight."""
        return [matrix_kernel(form, dtype) for form in forms]

    def step(self, spec: StepSpec, late: bool = True) -> int:
        """Return the operation of formulas, of an update unless it is not ``late``."""
        return step_kernel(spec)

    def check(self, signature: Signature) -> None:
        """Raise for an operation that there is none for here (``Unsupported``), or for tensors that are elsewhere."""
        check_device(signature.tensors, self.device)

    def give(self, job: Job, kept: Sequence[Any], layout: Any, loss: Any) -> None:
        """Hand scripts, with all that they refer to, over to a job."""
        job.give(layout.processors, *kept[0])

    def submit(self, job: Job) -> None:
        """Start a job."""
        submit(job)
        self._began = perf_counter(), thread_time()

    def wait(self, job: Job) -> None:
        """Wait until a job has ended."""
        computed = thread_time() - self._began[1]
        job.wait()
        self._count.note(perf_counter() - self._began[0], computed)

    def lacks(self, what: str) -> None:
        """Take note that processors lack an operation: steps with it are done by lazy batching."""

    def bring(self, layout: Any) -> None:
        """Bring what was given to where processors read it: it is there."""

    def fuse(self, listing: Any, trained: Any, rule: Any, parts: Sequence[Any]) -> bool:
        """List a rule together with the sum that it needs; return whether there is an operation for both."""
        return False

    @property
    def processors(self) -> int:
        """How many processors there are now."""
        return int(self._count)


HOST = HostThreads()

before_computing.append(wait_for_all)  # a step may be changing the parameters
