"""The generator behind dglite's own randomness: random graphs, sampling, walks. Tensor libraries keep theirs."""

from __future__ import annotations

import numpy as np

__all__ = ["generator", "seed"]

_generator = np.random.default_rng()


def seed(value: int) -> None:
    """Restart the generator, so that what follows can be repeated. Layers draw from the framework: seed that too."""
    global _generator
    _generator = np.random.default_rng(value)


def generator() -> np.random.Generator:
    """Return the generator in use."""
    return _generator
