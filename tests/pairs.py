"""Choose cases from a product of parameters so that every pair of values, or every value, occurs in some case."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
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
    pairs = [list(itertools.combinations(enumerate(case), 2)) for case in product]
    having = defaultdict(list)
    for number, of_case in enumerate(pairs):
        for pair in of_case:
            having[pair].append(number)
    new = [len(of_case) for of_case in pairs]
    chosen = []
    while having:
        best = new.index(max(new))
        chosen.append(product[best])
        for pair in pairs[best]:
            for number in having.pop(pair, ()):
                new[number] -= 1
    return chosen
