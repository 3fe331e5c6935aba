"""What the last run did: batches, bytes, seconds, and a picture of the schedule."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import DGLError

if TYPE_CHECKING:
    from .execution.execution import BatchedRun

_BAR = 40


@dataclass(frozen=True)
class LastRun:
    """How recorded operations were computed. ``batches`` has (operation, how many of them) in the order of execution.

    ``recording_seconds`` are from the session's first operation to the run, so they hold the user's own Python too;
    the others are those of the run. Gathers of the backward sweep are not counted.
    """

    strategy: str
    operations: int
    batches: tuple[tuple[str, int], ...]
    bytes_gathered: int
    recording_seconds: float
    scheduling_seconds: float
    execution_seconds: float

    def __str__(self) -> str:
        total = f"{self.operations} operations in {len(self.batches)} batches ({self.strategy})"
        times = (self.recording_seconds, self.scheduling_seconds, self.execution_seconds)
        seconds = ", ".join(
            f"{name} {1e3 * value:.2f} ms"
            for name, value in zip(("recorded", "scheduled", "executed"), times, strict=True)
        )
        return f"{total}; {self.bytes_gathered} bytes gathered; {seconds}"

    def picture(self, most: int = 60) -> str:
        """Return the schedule as text: a line for each batch, its length in proportion to the operations in it.

        Where there are more than ``most`` batches, neighbouring lines are put together.
        """
        longest = max((count for _, count in self.batches), default=1)
        width = max((len(name) for name, _ in self.batches), default=0)
        group = -(-len(self.batches) // most) or 1
        lines = []
        for first in range(0, len(self.batches), group):
            part = self.batches[first : first + group]
            names = Counter(name for name, _ in part)
            name = part[0][0] if len(names) == 1 else f"{part[0][0]} and {len(part) - 1} more"
            largest = max(count for _, count in part)
            bar = "#" * max(1, round(_BAR * largest / longest))
            lines.append(f"{first:5} {name:<{width + 12}} {sum(count for _, count in part):7} {bar}")
        return "\n".join(lines)


_last = threading.local()


def remember(run: BatchedRun, strategy: str, recording: float) -> None:
    """Keep the report of this thread's last run."""
    sizes = (run.bounds[1:] - run.bounds[:-1]).tolist()
    names = [run.signatures[kind].name for kind in run.batch_kinds.tolist()]
    batches = tuple(zip(names, sizes, strict=True))
    _last.report = LastRun(strategy, len(run.nodes), batches, int(run.gathered), recording, *run.seconds)


def last_run() -> LastRun:
    """Return what this thread's last run (``run``, ``backward`` or ``value``) did."""
    report: LastRun | None = getattr(_last, "report", None)
    if report is None:
        raise DGLError("nothing has been run yet; call dglite.dynamic.run or x.value() first")
    return report
