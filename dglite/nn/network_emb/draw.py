"""Negative samples: nodes with probability proportional to their frequency to the power of 3/4."""

from __future__ import annotations

import numpy as np

from ...errors import DGLError
from ...random import generator


class Draw:
    """Draws numbers with probabilities in proportion to ``counts ** 0.75`` (Mikolov et al., 2013)."""

    def __init__(self, counts: np.ndarray) -> None:
        weights = counts.astype(np.float64) ** 0.75
        if not weights.sum() > 0:
            raise DGLError("negative samples are drawn by how often nodes are met, but the graph has no edges")
        self.probabilities = weights / weights.sum()
        self._ends = np.cumsum(self.probabilities)

    def __call__(self, count: int) -> np.ndarray:
        """Return ``count`` numbers, int64."""
        places = generator().random(count) * self._ends[-1]
        return np.searchsorted(self._ends, places, side="right").clip(max=len(self._ends) - 1)
