"""``dgl.random``: the seed, and random choices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..random import generator, seed

__all__ = ["choice", "seed"]


def choice(a: Any, size: int | tuple[int, ...], replace: bool = True, prob: Tensor | None = None) -> Tensor:
    """Draw from the elements of a vector, or from the numbers below ``a``, as ``numpy.random.choice`` does.

    Raises DGLError: without replacement, more is drawn than there is; or the weights do not fit.

    Parameters
    ----------
    size
        Shape of the result.
    replace
        Whether an element may be drawn again.
    prob
        Weights of the elements, which need not sum to 1; all the same by default.
    """
    count = len(a) if active.is_tensor(a) else int(a)
    weights = None
    if prob is not None:
        weights = active.to_numpy(prob).astype(np.float64)
        weights = weights / weights.sum()
    try:
        samples = generator().choice(count, size, replace, weights)
    except ValueError as error:
        raise DGLError(f"choice: {size} of {count}: {error}") from error
    if not active.is_tensor(a):
        return active.from_numpy(samples)
    rows = active.take(a, samples.reshape(-1))
    return active.reshape(rows, samples.shape)
