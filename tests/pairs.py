"""Choose cases from a product of parameters so that every pair of values, or every value, occurs in some case."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

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
    missing = {pair for case in product for pair in _pairs(case)}
    chosen = []
    while missing:
        best = max(product, key=lambda case: len(missing & _pairs(case)))
        chosen.append(best)
        missing -= _pairs(best)
    return chosen


def _pairs(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    return set(itertools.combinations(enumerate(case), 2))
