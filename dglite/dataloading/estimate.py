"""What a training run will take on this machine, from a few of its steps."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..backend.memory import spelt_bytes
from ..config import available_memory
from ..errors import DGLError
from ..structure.ids import count_of
from .loader import Loader
from .schedule import scheduled_stores

_EVERY = 0.01
"""Seconds between two looks at the memory in use."""


class RunEstimate(NamedTuple):
    """What :func:`estimate` returns; printed, a few lines.

    Attributes
    ----------
    epochs, steps
        of the run, and steps of an epoch.
    measured
        steps that were run.
    first, step
        seconds until the first step was done, in which kernels are compiled and formats made, and of a further one.
    seconds
        of the whole run.
    memory
        highest memory of this process during the steps, in bytes, without pages of mapped files, which the system may
        drop; None where the system does not tell.
    free
        bytes that are free beside that, None where the system does not tell.
    disk
        bytes that an epoch reads from disks, None where the system does not tell.
    """

    epochs: int
    steps: int
    measured: int
    first: float
    step: float
    seconds: float
    memory: int | None
    free: int | None
    disk: int | None

    def __str__(self) -> str:
        free = "" if self.free is None else f", {spelt_bytes(self.free)} free"
        memory = "not known here" if self.memory is None else spelt_bytes(self.memory) + free
        disk = "not known here" if self.disk is None else f"{spelt_bytes(self.disk)} read in an epoch"
        lines = [
            f"run        {self.epochs:,} epochs of {self.steps:,} steps, of which {self.measured:,} were measured",
            f"time       about {self.seconds:,.3g} s: {self.first:,.3g} to the first step, {self.step:,.3g} for each",
            f"memory     {memory}",
            f"disk       {disk}",
        ]
        return "\n".join(lines)


def estimate(
    step: Callable[..., Any] | None = None, loader: Any = None, *, epochs: int = 1, seconds: float = 3.0
) -> RunEstimate:
    """Return the memory, disk reads and time that a training run will take here, from a few of its steps.

    Steps run for a few seconds, with the loader's workers at work, and the rate holds for the others. A loader is at
    the same batch afterwards; what ``step`` changes stays changed, so let it train a copy of the model.

    Raises DGLError: there is neither a step nor a loader, the loader has no length or no batches, or an argument is out
    of range. What ``step`` raises is passed on.

    Parameters
    ----------
    step
        called with each batch, or without arguments where there is no loader: a step of training; by default batches
        are only made.
    loader
        gives batches, and has a length; by default an epoch is one step, as on a whole graph.
    epochs
        of the run.
    seconds
        time to measure for; at least two steps are run where an epoch has them.

    Examples
    --------
    >>> import dglite, torch
    >>> g = dglite.rand_graph(1000, 10_000)
    >>> loader = dglite.dataloading.DataLoader(
    ...     g, torch.arange(1000), dglite.dataloading.NeighborSampler([5]), batch_size=10
    ... )
    >>> run = dglite.estimate(loader=loader, epochs=20, seconds=0.1)  # print it: time, memory, reads
    >>> run.steps, run.seconds > 0
    (100, True)
    """
    epochs = count_of(epochs, "epochs", 1)
    if step is None and loader is None:
        raise DGLError("there is nothing to measure: give a function that makes a step, a loader, or both")
    if step is not None and not callable(step):
        raise DGLError(f"step must be a function of a batch, got {type(step).__name__}")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise DGLError(f"seconds must be a number above 0, got {seconds!r}")
    steps = 1 if loader is None else _length(loader)
    least = 2 if loader is None else min(2 + _waiting(loader), steps)
    state = loader.state_dict() if isinstance(loader, Loader) else None
    read, ends = _disk_reads(), [time.perf_counter()]
    try:
        with _highest_memory() as memory:
            batches = itertools.repeat(None) if loader is None else iter(loader)
            for batch in batches:
                if step is not None:
                    step() if loader is None else step(batch)
                ends.append(time.perf_counter())
                if len(ends) > least and ends[-1] - ends[0] > seconds:
                    break
            if hasattr(batches, "close"):
                batches.close()
    finally:
        if state is not None:
            loader.load_state_dict(state)
    count = len(ends) - 1
    if not count:
        raise DGLError("the loader gave no batch, so there is nothing to measure")
    # Batches that were made while the first step ran come at once: what follows them is the rate.
    begin = min(least, count) - 1
    rate = (ends[-1] - ends[begin + 1]) / (count - 1 - begin) if count > begin + 1 else (ends[-1] - ends[0]) / count
    first = ends[1] - ends[0]
    planned = epochs if scheduled_stores(getattr(loader, "graph_sampler", None)) else 1
    total = planned * first + rate * (epochs * steps - planned)
    disk = None if read is None else (_disk_reads() or 0) - read
    return RunEstimate(
        epochs, steps, count, first, rate, total, memory[0] if memory else None, available_memory(),
        None if disk is None else disk * steps // count,
    )  # fmt: skip


def _length(loader: Any) -> int:
    try:
        length = len(loader)
    except TypeError:
        raise DGLError(f"{type(loader).__name__} has no length; give a loader that knows its batches") from None
    if not length:
        raise DGLError("the loader has no batches")
    return length


def _waiting(loader: Any) -> int:
    return loader._ahead() if isinstance(loader, Loader) else 0


@contextmanager
def _highest_memory() -> Iterator[list[int]]:
    """Yield a list that holds the highest memory of the process so far, or nothing if the system has no such number."""
    highest: list[int] = []
    if _memory() is None:
        yield highest
        return
    is_done = threading.Event()

    def look() -> None:
        highest[:] = [max(*highest, _memory() or 0, 0)]

    def watch() -> None:
        while not is_done.wait(_EVERY):
            look()

    watcher = threading.Thread(target=watch, name="dglite-memory", daemon=True)
    look()
    watcher.start()
    try:
        yield highest
    finally:
        is_done.set()
        watcher.join()
        look()


def _memory() -> int | None:
    """Return the resident memory of this process in bytes, without pages of files."""
    values = [_number("/proc/self/status", name) for name in ("RssAnon", "RssShmem")]
    return None if None in values else sum(map(int, values)) << 10  # type: ignore[arg-type]


def _disk_reads() -> int | None:
    """Return the bytes that this process has read from disks."""
    return _number("/proc/self/io", "read_bytes")


def _number(path: str, name: str) -> int | None:
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux, or not allowed
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)
