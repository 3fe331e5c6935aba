"""Where persistent processors run, as a layout and an update ask for it: here threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter, thread_time
from typing import Any, final

import torch

from ...config import num_cores
from ...kernels.cpu.dynamic.processors import ProcessorJob, wait_for_all
from ...kernels.cpu.dynamic.script import WORTH_SHARING
from ..batching.execution.instructions import HostKernels
from ..batching.session import before_computing
from ..execution.memory import Arena

WINDOW = 0.02
"""Seconds of steps after which the number of processors is thought over."""
_LEAVING, _TAKING = 0.9, 0.7
"""How much Python computes, in parts of what one of all processors does, above which they leave a core to it, and below
which they take it back."""


class ProcessorCount:
    """How many processors a step has: the number that the user fixed, else as many as torch has threads, or one fewer.

    Where they are as many as cores, Python takes its time from one of them, and the others wait for that one. So they
    leave a core to Python, unless it computes for a small part of a step: see
    docs/decisions/0184-processors-leave-a-core-to-python.md.
    """

    def __init__(self, fixed: int | None) -> None:
        self.fixed, self._cores, self._fewer = fixed, num_cores(), 0
        self._seconds, self._computed = 0.0, 0.0

    def __int__(self) -> int:
        threads = torch.get_num_threads()
        return self.fixed or (max(1, threads - self._fewer) if self._cores <= threads else threads)

    def note(self, seconds: float, computed: float) -> None:
        """Take note of a step: how long it ran, and for how long Python computed meanwhile."""
        self._seconds, self._computed = self._seconds + seconds, self._computed + computed
        if self._seconds > WINDOW:
            share = self._computed / self._seconds * torch.get_num_threads()
            self._fewer = int(share > (_TAKING if self._fewer else _LEAVING))
            self._seconds, self._computed = 0.0, 0.0


@final
class HostJob(ProcessorJob):
    """A step on threads, which lets a count know how long it took."""

    def __init__(self, count: ProcessorCount) -> None:
        super().__init__()
        self._count, self._began = count, (0.0, 0.0)

    def load(self, scripts: Sequence[Any], layout: Any, loss: Any) -> None:
        """Take over scripts, with all that they refer to."""
        self.give(layout.processors, *scripts[0])

    def start(self) -> None:
        """Start it."""
        super().start()
        self._began = perf_counter(), thread_time()

    def wait(self) -> None:
        """Wait for its end."""
        computed = thread_time() - self._began[1]
        super().wait()
        self._count.note(perf_counter() - self._began[0], computed)


@final
class HostThreads(HostKernels):
    """Threads, ``processors`` of them where that is given. Operations are addresses of kernels."""

    def __init__(self, processors: int | None = None) -> None:
        self._count = ProcessorCount(processors)

    device = torch.device("cpu")
    arena = Arena
    again = falls_back = takes_programs = True
    """Whether a plan can be filled in again; whether lazy batching does what has no operation here; whether vertex
    programs have one."""
    sharing = False, WORTH_SHARING
    """Whether rows are shared out by elements, and up to which work one processor does it all."""

    def job(self) -> HostJob:
        """Return a job that a script is to be given to."""
        return HostJob(self._count)

    def bring(self, layout: Any) -> None:
        """Bring what was given to where processors read it: it is there."""

    def fuse(self, listing: Any, trained: Any, parts: Sequence[Any], numbers: int) -> bool:
        """List a rule together with the sum that it needs; return whether there is an operation for both."""
        return False

    @property
    def processors(self) -> int:
        """How many processors there are now."""
        return int(self._count)


before_computing.append(wait_for_all)  # a step may be changing the parameters
