"""Schedules: which stage runs on which rows, and a team that goes through the lines."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.expr import Operand, Side
from dglite.kernels.cpu import schedule
from dglite.kernels.cpu.cell import formula_kernel
from dglite.kernels.cpu.product import column_sum_kernel
from dglite.kernels.render_cell import RowAccess

ROWS = np.array([0, 2, 5])  # two classes
EDGES = np.array([0, 0, 4])
STEPS = np.array([[0, 0, 2], [1, 2, 4], [1, 4, 5]])
STEP_EDGES = np.array([[0, 0], [0, 3], [3, 4]])


def lines(stages: list[list[int]], bounds: list[int], backward: bool = False) -> tuple[list, list, list]:
    found, own, touched, _ = schedule.arrange(
        np.array(stages), np.array(bounds), np.array([0, 1]), ROWS, EDGES, STEPS, STEP_EDGES, backward, 2
    )
    return found.tolist(), own.tolist(), touched.tolist()


def test_eager_then_level_by_level_then_late() -> None:
    stages = [
        [10, 0, 99, -1, 1, 0, -1],
        [20, 0, 99, -1, 1, 0, -1],
        [30, 1, 99, -1, 1, 0, -1],
        [40, 0, 99, -1, 1, 0, -1],
    ]
    bounds = [
        0,
        1,
        1,
        1,
        1,
        3,
        4,
    ]  # class 0 has an eager stage, class 1 two in the sweep, one over edges, and a late one
    swept = [[20, 2, 4, 0, -1], [30, 0, 3, 0, -1], [20, 4, 5, 0, -1], [30, 3, 4, 0, -1]]
    eager, late = [10, 0, 2, 0, -1], [40, 2, 5, 0, -1]
    assert lines(stages, bounds) == ([eager, *swept, late], [], [0, 0])
    assert lines(stages, bounds, True)[0] == [eager, *swept[2:], *swept[:2], late]


def test_who_runs_a_stage_and_whether_it_adds_to_a_gradient() -> None:
    stages = [[10, 0, 1, 1, 1, 0, 7], [-1, 0, -1, 0, 0, 0, 8]]
    found, own, touched = lines(stages, [0, 0, 0, 0, 0, 2, 2])
    assert found == [[10, 2, 4, 0, 7], [-1, 2, 4, 0, 8], [10, 4, 5, 1, -1], [-1, 4, 5, 1, 8]]
    assert own == [0, 1, 3]
    assert touched == [1, 2]


def test_runs_without_rows_are_left_out() -> None:
    stages = [[10, 1, 99, 0, 1, 0, -1]]
    assert lines(stages, [0, 1, 1, 1, 1, 1, 1]) == ([], [], [0, 0])


@pytest.mark.parametrize("pool", [True, False], ids=["team", "lines"])
@pytest.mark.parametrize("threads", [1, 2])
def test_lines_run_one_after_the_other(threads: int, pool: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level adds 1 to the one below, then all rows are summed up, twice."""
    if not pool:
        monkeypatch.setattr(schedule, "openmp", lambda *names: None)
    levels, width = 50, 32
    x, below, total, ones = (
        np.zeros((levels + 1, width)),
        np.maximum(np.arange(levels + 1) - 1, 0),
        np.zeros(width),
        np.ones(width),
    )
    a, b = Operand(Side.E, 0), Operand(Side.E, 1)
    add = formula_kernel((a + b,), (RowAccess.INDEXED, RowAccess.SHARED), "float64", width)
    address = x.ctypes.data
    cell = [0, 0, width, address, 8 * width, below.ctypes.data, 1, ones.ctypes.data, 0, 0, 0, address, 8 * width]
    sums = [0, 0, width, address, 8 * width, total.ctypes.data, 0]
    words = np.zeros((threads, 8 + len(cell) + len(sums)), np.int64)
    for own in words:
        at = own.ctypes.data
        own[:8] = 1, 0, add, at + 64, 1, 6, column_sum_kernel("float64", width), at + 8 * (8 + len(cell))
        own[8:] = cell + sums
    made = [[0, row, row + 1, 0, -1] for row in range(1, levels + 1)]
    made += [[4, 0, levels + 1, adds, -1] for adds in (0, 1)]
    schedule.run_lines(words, np.array(made), 0, len(made))
    np.testing.assert_array_equal(x[:, 0], np.arange(levels + 1))
    np.testing.assert_array_equal(total, np.full(width, levels * (levels + 1)))
