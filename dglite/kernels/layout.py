"""How the feature axes of operands broadcast: computed once per shape, as numbers that kernels use.

The trailing feature axes of the operands broadcast as NumPy's do. A kernel wants one contiguous inner run in which
every operand is read in one of three ways, and, for rarer shapes, a list of groups of such runs:

=========  =============================  =====================================
pattern    offset of output element k     example, out = (heads, width)
=========  =============================  =====================================
FULL       k                              (heads, width)
SCALAR     0                              (1, 1) or no feature axis
REPEAT     k // width                     (heads, 1): one weight per head
=========  =============================  =====================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import zip_longest

import numpy as np


class Pattern(Enum):
    """How an operand's row is read along the output's features."""

    FULL = "full"
    SCALAR = "scalar"
    REPEAT = "repeat"


@dataclass(frozen=True, eq=False)
class BroadcastLayout:
    """Where each operand's value for an output element is.

    Output element ``g * inner + k`` of a row reads operand ``i`` at ``tables[i, g] + pattern_i(k)``. With one group the
    tables are all zero. ``repeat`` is the run length of REPEAT operands (0 without any).
    """

    shape: tuple[int, ...]
    groups: int
    inner: int
    patterns: tuple[Pattern, ...]
    strides: tuple[int, ...]
    repeat: int
    tables: np.ndarray

    @property
    def width(self) -> int:
        """Number of elements in a row of the broadcast result."""
        return self.groups * self.inner


@lru_cache(maxsize=4096)
def broadcast_shape(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the broadcast of feature shapes; ``ValueError`` when they do not fit."""
    return broadcast_sizes(shapes)


def broadcast_sizes(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Do as :func:`broadcast_shape`, of sizes that may be a compiler's symbols, which cannot be hashed."""
    result = []
    for sizes in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        wide = 1
        for size in sizes:
            if size != 1:
                if wide != 1 and size != wide:
                    raise ValueError(f"shapes {shapes} do not broadcast")
                wide = size
        result.append(wide)
    return tuple(reversed(result))


@lru_cache(maxsize=4096)
def broadcast_layout(shapes: tuple[tuple[int, ...], ...], lanes: int, dot: bool = False) -> BroadcastLayout:
    """Lay out operands with feature ``shapes``.

    ``lanes`` is the kernels' block size: REPEAT runs must divide it or be divided by it. With ``dot`` the kernel sums
    the last axis, which therefore is the inner run.
    """
    shape = broadcast_shape(shapes)
    padded = [(1,) * (len(shape) - len(feat)) + tuple(feat) for feat in shapes]
    strides = tuple(math.prod(feat) for feat in padded)
    whole = math.prod(shape)
    if not whole and not dot:  # nothing is read: an axis of size 1 beside one of size 0 is no run that repeats
        full = (Pattern.FULL,) * len(shapes)
        return BroadcastLayout(shape, 1, 0, full, strides, 0, np.zeros((len(shapes), 1), np.int64))
    if not dot:
        patterns = _ungrouped(padded, shape)
        if patterns is not None:
            repeat = _repeat_of(padded, shape, patterns)
            if repeat is not None and (repeat == 0 or _fits(repeat, whole, lanes)):
                tables = np.zeros((len(shapes), 1), np.int64)
                return BroadcastLayout(shape, 1, whole, patterns, strides, repeat, tables)
    axis = max(len(shape) - 1, 0) if dot else _inner_axis(padded, shape)
    kinds = [_pattern(feat[axis:], shape[axis:]) for feat in padded]
    assert None not in kinds, f"no inner run in {shapes}"
    tables = np.stack([_offsets(feat, shape, axis) for feat in padded]) if padded else np.zeros((0, 1), np.int64)
    inner, groups = math.prod(shape[axis:]), math.prod(shape[:axis])
    return BroadcastLayout(shape, groups, inner, tuple(kind for kind in kinds if kind), strides, 0, tables)


def _pattern(feat: tuple[int, ...], shape: tuple[int, ...]) -> Pattern | None:
    if feat == shape:
        return Pattern.FULL
    return Pattern.SCALAR if math.prod(feat) == 1 else None


def _ungrouped(padded: list[tuple[int, ...]], shape: tuple[int, ...]) -> tuple[Pattern, ...] | None:
    """Return the patterns over the whole row if each operand is full, scalar, or full up to an axis and then 1."""
    patterns = []
    for feat in padded:
        pattern = _pattern(feat, shape)
        if pattern is None and _leading(feat, shape) is not None:
            pattern = Pattern.REPEAT
        if pattern is None:
            return None
        patterns.append(pattern)
    return tuple(patterns)


def _leading(feat: tuple[int, ...], shape: tuple[int, ...]) -> int | None:
    """Return how many leading axes are full if all later ones are 1."""
    for axis in range(len(shape)):
        if feat[:axis] == shape[:axis] and math.prod(feat[axis:]) == 1:
            return axis
    return None


def _repeat_of(padded: list[tuple[int, ...]], shape: tuple[int, ...], patterns: tuple[Pattern, ...]) -> int | None:
    runs = {
        math.prod(shape) // math.prod(feat)
        for feat, pattern in zip(padded, patterns, strict=True)
        if pattern is Pattern.REPEAT
    }
    return None if len(runs) > 1 else (runs.pop() if runs else 0)


def _fits(repeat: int, width: int, lanes: int) -> bool:
    return (repeat & (repeat - 1) == 0 and repeat <= lanes) or repeat % lanes == 0


def _inner_axis(padded: list[tuple[int, ...]], shape: tuple[int, ...]) -> int:
    """Return the first axis such that every operand is full or scalar over it and all later axes."""
    axis = len(shape)
    while axis > 0 and all(_pattern(feat[axis - 1 :], shape[axis - 1 :]) for feat in padded):
        axis -= 1
    return axis


def _offsets(feat: tuple[int, ...], shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Return, for each group, the offset in the operand's row of the group's first element."""
    ids = np.arange(math.prod(feat), dtype=np.int64).reshape(feat)
    first = ids[(...,) + (0,) * (len(feat) - axis)] if math.prod(feat) else np.zeros(feat[:axis], np.int64)
    return np.ascontiguousarray(np.broadcast_to(first, shape[:axis]).reshape(-1))
