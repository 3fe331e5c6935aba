"""Lazy batching: models written for one sample, recorded and then computed in batches.

Neubig, Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs", 2017.
"""

from __future__ import annotations

from .api import backward, lazy, run
from .recording.cell import cell
from .recording.tensor import LazyTensor
from .report import LastRun, last_run

__all__ = ["LastRun", "LazyTensor", "backward", "cell", "last_run", "lazy", "run"]
