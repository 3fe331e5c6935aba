"""Broadcast layouts: every output element reads what NumPy's broadcasting says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dglite.kernels.layout import BroadcastLayout, Pattern, broadcast_layout


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    """Feature shapes that broadcast."""
    whole = draw(st.lists(st.integers(1, 5), max_size=3))
    operands = []
    for _ in range(draw(st.integers(1, 3))):
        own = [size if draw(st.booleans()) else 1 for size in whole]
        operands.append(tuple(own[draw(st.integers(0, len(own))) :]))
    return tuple(operands)


def offset(layout: BroadcastLayout, slot: int, element: int) -> int:
    group, k = divmod(element, layout.inner)
    pattern = layout.patterns[slot]
    step = k if pattern is Pattern.FULL else 0 if pattern is Pattern.SCALAR else k // layout.repeat
    return int(layout.tables[slot, group]) + step


@given(shapes(), st.sampled_from([8, 64]), st.booleans())
def test_every_element_reads_what_numpy_broadcasts(own, lanes, dot):
    layout = broadcast_layout(own, lanes, dot)
    whole = np.broadcast_shapes(*own)
    assert layout.shape == whole and layout.width == math.prod(whole)
    for slot, shape in enumerate(own):
        values = np.arange(math.prod(shape)).reshape(shape)
        want = np.broadcast_to(values, whole).reshape(-1)
        assert [offset(layout, slot, i) for i in range(layout.width)] == want.tolist()
    if dot and whole:
        assert layout.inner == whole[-1]


@pytest.mark.parametrize(
    ("own", "patterns", "groups"),
    [
        (((64,), (64,)), (Pattern.FULL, Pattern.FULL), 1),
        (((64,), (1,)), (Pattern.FULL, Pattern.SCALAR), 1),
        (((4, 16), (4, 1)), (Pattern.FULL, Pattern.REPEAT), 1),
        (((4, 3), (4, 1)), (Pattern.FULL, Pattern.SCALAR), 4),
    ],
)
def test_frequent_shapes_have_their_own_pattern(own, patterns, groups):
    layout = broadcast_layout(own, 64)
    assert (layout.patterns, layout.groups) == (patterns, groups)
