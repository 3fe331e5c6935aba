"""The array library under the tape, NumPy unless CuPy is chosen, and the random numbers of both."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Library", "library"]


class Library:
    """The array module in use. ``generator`` is the host's; ``xp``'s own draws on a device."""

    def __init__(self) -> None:
        self.xp: Any = np
        self.generator = _generator(None)

    def seed(self, value: int | None) -> None:
        """Restart the generators, so that what follows can be repeated."""
        self.generator = _generator(value)
        if self.xp is not np:
            self.xp.random.seed(None if value is None else value % 2**32)

    def uniform(self, shape: Any) -> Any:
        """Return float32 numbers between 0 and 1."""
        if self.xp is not np:
            return self.xp.random.random_sample(shape).astype(np.float32)
        return self.generator.random(shape, np.float32)

    def normal(self, shape: Any) -> Any:
        """Return float32 numbers of mean 0 and variance 1."""
        if self.xp is not np:
            return self.xp.random.standard_normal(shape).astype(np.float32)
        return self.generator.standard_normal(shape, np.float32)


def _generator(seed: int | None) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(seed))  # the fastest of NumPy's


library = Library()
"""What the process uses."""
