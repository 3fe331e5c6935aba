"""Processors: scripts run in order, wait for each other, end at errors; jobs run one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.compile.written import Kernel
from dglite.kernels.cpu.dynamic.processors import CHECK, WAIT, ProcessorJob, wait_for_all
from dglite.kernels.cpu.lanes.simd import storer, word

store = storer("int64", 1)


@Kernel
def _sum_of_neighbours(args: int, task: int, num_tasks: int) -> None:
    """Set number ``task`` of a row to the sum of all numbers in the row before: what others did must be there."""
    row, total = word(args, 0), 0
    for i in range(num_tasks):
        total += word(row, i)
    store(row + 8 * (num_tasks + task), total)


@Kernel
def _fail(args: int, task: int, num_tasks: int) -> None:
    store(word(args, 0), 7)


ALL = -1


def job_of(processors: int, script: list[tuple[int, int, int, int]], *kept: object) -> ProcessorJob:
    job = ProcessorJob()
    job.give(processors, np.array(script, np.int64), kept)
    return job


@pytest.mark.parametrize("processors", [1, 2, 3])
def test_what_comes_after_a_wait_sees_what_all_did_before(processors: int) -> None:
    levels = 30
    table = np.zeros((levels + 1, processors), np.int64)
    table[0] = 1
    places = [np.array([table[level].ctypes.data]) for level in range(levels)]
    script = [
        instruction
        for level in range(levels)
        for instruction in (
            (_sum_of_neighbours.address, places[level].ctypes.data, ALL, 0),
            (WAIT, level + 1, ALL, 0),
        )
    ]
    for _ in range(3):
        table[1:] = 0
        job = job_of(processors, script, places)
        job.start()
        job.wait()
        assert table[:, 0].tolist() == [processors**level for level in range(levels + 1)]
        assert (table == table[:, :1]).all()


def test_a_reported_error_ends_the_scripts() -> None:
    out, job = np.zeros(1, np.int64), ProcessorJob()
    reports, target = np.array([job.error_address]), np.array([out.ctypes.data])
    report, write = ((_fail.address, place.ctypes.data, 0, 0) for place in (reports, target))
    job.give(1, np.array([report, (WAIT, 1, ALL, 0), (CHECK, 0, ALL, 0), write], np.int64))
    job.start()
    job.wait()
    assert job.error == 7
    assert out[0] == 0
    other = job_of(1, [(CHECK, 0, ALL, 0), write])
    other.start()
    wait_for_all()
    assert other.error == 0
    assert out[0] == 7


def test_one_processor_does_what_is_its_own() -> None:
    table = np.array([[5], [0], [0]])
    places = [np.array([table[level].ctypes.data]) for level in range(2)]
    first, second = ((_sum_of_neighbours.address, places[i].ctypes.data, 1 - i, 0) for i in range(2))
    job = job_of(2, [first, (WAIT, 1, ALL, 0), second])
    job.start()
    job.wait()
    assert table.tolist() == [[5]] * 3


def test_jobs_that_are_submitted_while_one_runs_come_after_it() -> None:
    table = np.zeros((4, 1), np.int64)
    table[0] = 5
    places = [np.array([table[i].ctypes.data]) for i in range(3)]
    jobs = [job_of(1, [(_sum_of_neighbours.address, place.ctypes.data, 0, 0)]) for place in places]
    for job in jobs:
        job.start()
    jobs[0].wait()  # has been waited for already
    wait_for_all()
    assert table.tolist() == [[5]] * 4
    wait_for_all()
