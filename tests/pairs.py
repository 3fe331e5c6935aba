"""Choose cases from a product of parameters so that every pair of values, or every value, occurs in some case."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["cases", "turns"]


def cases(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the whole product with ``--full``, else a small part of it in which every pair of values occurs."""
    product = list(itertools.product(*[range(len(axis)) for axis in axes]))
    if os.environ.get("DGLITE_TEST_FULL") != "1":
        product = _covering(product)
    return [tuple(axis[i] for axis, i in zip(axes, case, strict=True)) for case in product]


def turns(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the whole product with ``--full``, else a case for each value of the longest axis; the others take turns.

    For axes that each compile kernels of their own.
    """
    if os.environ.get("DGLITE_TEST_FULL") == "1":
        return list(itertools.product(*axes))
    return [tuple(axis[i % len(axis)] for axis in axes) for i in range(max(map(len, axes)))]


def _covering(product: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Pick greedily the case that brings the most pairs not seen yet."""
    values = np.array(product, np.int64).reshape(len(product), -1)
    axes = itertools.combinations(range(values.shape[1]), 2)
    pairs = np.array([values[:, i] * (values.max() + 1) + values[:, j] for i, j in axes])
    unseen, covering = np.full(len(product), len(pairs)), []
    seen: list[set[int]] = [set() for _ in pairs]
    while unseen.max(initial=0):
        best = int(unseen.argmax())
        covering.append(product[best])
        for numbers, taken in zip(pairs, seen, strict=True):
            if numbers[best] not in taken:
                taken.add(numbers[best])
                unseen -= numbers == numbers[best]
    return covering
