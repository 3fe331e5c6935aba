"""Checks and helpers shared by both ways to split full-graph training."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..structure.ids import integer_array


def message_of(weighted: bool) -> Expr:
    """Return what an edge sends: its source's row, times the edge's weight where there are weights."""
    row = Operand(Side.U, 0)
    return row * Operand(Side.E, 1) if weighted else row


def ids_of(ids: Any, name: str) -> np.ndarray:
    return integer_array(ids, name).astype(np.int64)


def check_starts(starts: list[int], world: int, name: str) -> None:
    if len(starts) != world + 1 or starts[0] != 0 or any(a > b for a, b in pairwise(starts)):
        raise DGLError(
            f"{name} are {starts}; expected {world + 1} ascending numbers from 0: the first node of each of {world} "
            "processes, then the number of nodes"
        )


def check_range(ids: np.ndarray, first: int, last: int, name: str) -> None:
    outside = ids[(ids < first) | (ids >= last)]
    if len(outside):
        raise DGLError(f"{name}: got id {outside[0]}; expected ids from {first} to {last - 1}")
