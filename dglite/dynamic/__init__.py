"""Dynamic networks: models whose computation differs from sample to sample, run in batches."""

from __future__ import annotations

from .lazy import LastRun, LazyTensor, backward, cell, last_run, lazy, run

__all__ = ["LastRun", "LazyTensor", "backward", "cell", "last_run", "lazy", "run"]
