"""The array library under the tape, NumPy or CuPy: its devices, its random numbers, what it does not support."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DGLError


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


class Device(str):
    """A device by its name: the same as another library's of that name, and a string for what takes strings."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other if isinstance(other, str) else str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


HOST = Device("cpu")


def mixture(first: str, second: str) -> str:
    """Return what is wrong with an operation on tensors of two libraries."""
    return (
        f"tensors of {first} and of {second} meet; the features of a graph are of one framework: convert one of them, "
        "by torch.from_numpy(array) or tensor.numpy()"
    )


def not_torchs(x: Any) -> Any:
    """Return ``x``; a tensor of torch's raises DGLError: NumPy would convert it, and its gradient would be lost."""
    if type(x).__module__.startswith("torch"):
        raise DGLError(mixture(library.xp.__name__, "torch"))
    return x
