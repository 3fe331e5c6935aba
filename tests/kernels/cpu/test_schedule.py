"""Schedules: which stage runs on which rows, and a team that goes through the lines."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.expr import Operand, Side
from dglite.kernels.cpu.dynamic import schedule
from dglite.kernels.cpu.dynamic.kernels import formula_kernel, reduce_kernel
from dglite.kernels.cpu.run import launch
from dglite.kernels.render.rows import RowAccess

ROWS = np.array([0, 2, 5])  # two classes
EDGES = np.array([0, 0, 4])
STEPS = np.array([[0, 0, 2], [1, 2, 4], [1, 4, 5]])
STEP_EDGES = np.array([[0, 0], [0, 3], [3, 4]])


def lines(
    stages: list[list[int]], bounds: list[int], backward: bool = False, limited: bool = True
) -> tuple[list, list]:
    tables = stages, bounds, [0, 1], [*ROWS, *EDGES], STEPS, STEP_EDGES
    flat = schedule.StageTables(*[np.array(x).reshape(-1) for x in tables])
    result, own, _ = schedule.arrange(flat, backward, limited)
    return result.tolist(), own.tolist()


def test_eager_then_level_by_level_then_late() -> None:
    stages = [[10, 0, 99, 1, 0, -1], [20, 0, 99, 1, 0, -1], [30, 1, 99, 1, 0, -1], [40, 0, 99, 1, 0, -1]]
    # class 0 has an eager stage, class 1 two in the sweep, one over edges, and a late one
    bounds = [0, 1, 1, 1, 1, 3, 4]
    swept = [[20, 2, 4, -1], [30, 0, 3, -1], [20, 4, 5, -1], [30, 3, 4, -1]]
    eager, late = [10, 0, 2, -1], [40, 2, 5, -1]
    assert lines(stages, bounds) == ([eager, *swept, late], [])
    assert lines(stages, bounds, True)[0] == [eager, *swept[2:], *swept[:2], late]


def test_who_runs_a_stage() -> None:
    stages = [[10, 0, 1, 1, 0, 7], [-1, 0, -1, 0, 0, 8]]
    result, own = lines(stages, [0, 0, 0, 0, 0, 2, 2])
    assert result == [[10, 2, 4, 7], [-1, 2, 4, 8], [10, 4, 5, -1], [-1, 4, 5, 8]]
    assert own == [0, 1, 3]
    assert lines(stages, [0, 0, 0, 0, 0, 2, 2], limited=False)[1] == [1, 3]


def test_runs_without_rows_are_left_out() -> None:
    assert lines([[10, 1, 99, 1, 0, -1]], [0, 1, 1, 1, 1, 1, 1]) == ([], [])


@pytest.mark.parametrize("pool", [True, False], ids=["OpenMP", "own"])
@pytest.mark.parametrize("threads", [1, 2])
def test_lines_run_one_after_the_other(threads: int, pool: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level adds 1 to the one below, then all rows are summed up."""
    if not pool:
        monkeypatch.setattr(launch, "openmp", lambda *names: None)
    levels, width = 50, 32
    x, below, total = np.zeros((levels + 1, width)), np.maximum(np.arange(levels + 1) - 1, 0), np.zeros((1, width))
    ones, bounds = np.ones(width), np.array([0, levels + 1])
    a, b = Operand(Side.E, 0), Operand(Side.E, 1)
    add = formula_kernel((a + b,), (RowAccess.INDEXED, RowAccess.SHARED), "float64", width)
    address = x.ctypes.data
    cell = [0, 0, width, address, 8 * width, below.ctypes.data, 1, ones.ctypes.data, 0, 0, 0, address, 8 * width]
    sums = [0, 0, width, bounds.ctypes.data, address, 8 * width, 0, total.ctypes.data, 0]
    words = np.zeros((threads, 6 + len(cell) + len(sums)), np.int64)
    for own in words:
        at = own.ctypes.data + 8 * 6
        own[:6] = 1, add, at, 1, reduce_kernel(RowAccess.SAME, "float64", width), at + 8 * len(cell)
        own[6:] = cell + sums
    result = np.array([*([0, row, row + 1, -1] for row in range(1, levels + 1)), [3, 0, 1, -1]])
    marks, functions = np.zeros((len(result), 2), np.int64), schedule.script_functions()
    places = words.ctypes.data, words.strides[0], result.ctypes.data, 0, 0, threads, marks.ctypes.data
    team = np.array([*places, *functions], np.int64)
    schedule.run_lines(team, 0, 20)
    np.testing.assert_array_equal(x[:, 0], np.minimum(np.arange(levels + 1), 20) * (np.arange(levels + 1) <= 20))
    schedule.run_lines(team, 20, len(result))
    np.testing.assert_array_equal(x[:, 0], np.arange(levels + 1))
    np.testing.assert_array_equal(total[0], np.full(width, levels * (levels + 1) // 2))
