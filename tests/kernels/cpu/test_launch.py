"""Threads: which pool, who may use it, and the same result from any number of them."""

from __future__ import annotations

import ctypes.util
import multiprocessing
import os
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch

from dglite.expr import Operand, Side
from dglite.kernels.cpu.compile.jit import compile_kernel
from dglite.kernels.cpu.run import launch
from dglite.ops import core
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests import forked
from tests.patience import PATIENCE

U0 = Operand(Side.U, 0)


def aggregate() -> torch.Tensor:
    """Sum over a graph that is large enough for several threads."""
    rng = np.random.default_rng(0)
    adj = Adjacency.from_coo(500, 400, rng.integers(0, 500, 9000), rng.integers(0, 400, 9000))
    x = torch.arange(500 * 16, dtype=torch.float64).reshape(500, 16)
    return core.spmm(adj, U0, Reducer.SUM, (x,))


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@contextmanager
def taken():
    """Another thread uses the pool."""
    launch._Pool.words[0] = 1
    yield
    launch._Pool.words[0] = 0


def test_small_work_runs_here_and_large_work_on_threads():
    assert launch.num_threads(launch.PARALLEL_FROM - 1, 8) == 1
    assert launch.num_threads(launch.PARALLEL_FROM, 8) == 8
    assert launch.num_threads(launch.PARALLEL_FROM, 1) == 1
    assert launch.tasks_for(1, 8) == (1, 1)
    tasks, threads = launch.tasks_for(launch.PARALLEL_FROM, 2)
    assert threads == 2 and tasks > 2


def test_few_edges_among_many_ids_use_threads_for_the_misses_of_their_rows(two_threads):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 1_000_000, (2, 6_000))
    adj, x = Adjacency.from_coo(1_000_000, 1_000_000, src, dst), torch.rand(1_000_000, 1)
    assert len(src) < launch.PARALLEL_FROM  # each would be done by one thread if an edge were an element of work
    before = launch.parallel_launches()
    scores = core.sddmm(adj, U0 + Operand(Side.V, 1), (x, x))
    assert launch.parallel_launches() == before + 1
    assert torch.equal(scores, x[src] + x[dst])


def test_a_thread_that_is_not_the_main_one_uses_the_pool(two_threads):
    want, results, before = aggregate(), list[torch.Tensor](), launch.parallel_launches()
    worker = threading.Thread(target=lambda: results.append(aggregate()))
    worker.start()
    worker.join()
    assert torch.equal(results[0], want)
    assert launch.parallel_launches() == before + 1


def test_a_thread_that_finds_the_pool_taken_does_the_same_alone(two_threads):
    want, before = aggregate(), launch.parallel_launches()
    with taken():
        assert torch.equal(aggregate(), want)
    assert launch.parallel_launches() == before


@pytest.mark.parametrize("threads", [1, 2])
def test_long_work_is_cut_into_several_calls(threads, two_threads, monkeypatch):
    """The first row has most entries, so that calls share it."""
    src, dst = np.arange(9000) % 500, np.maximum(np.arange(9000) - 7000, 0)
    adj, x = Adjacency.from_coo(500, 2000, src, dst), torch.arange(500 * 16, dtype=torch.float64).reshape(500, 16)
    torch.set_num_threads(threads)
    want, calls = core.spmm(adj, U0, Reducer.SUM, (x,)), list[tuple[int, int]]()
    run = launch._run_tasks
    monkeypatch.setattr(launch, "WORK_PER_CALL", 20_000)
    monkeypatch.setattr(launch, "_run_tasks", lambda *words: (calls.append(words), run(*words)))
    assert torch.equal(core.spmm(adj, U0, Reducer.SUM, (x,)), want)
    assert len(calls) == 1 + 11_000 * 16 // (20_000 * threads)


_COUNTING = '''"""Counts how often each task is run, which takes a while."""
from dglite.kernels.cpu.lanes import simd
from dglite.kernels.cpu.lanes.atomic import add_to_word, put_word

word = simd.word


def kernel(args, task, num_tasks):
    if task >= 0:
        add_to_word(word(args, 0) + 8 * task, 1)
        for i in range(word(args, 1)):
            put_word(args, 2, i)
'''


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("tasks", [2, 3, 12, 31])
def test_every_task_is_run_once(threads, tasks):
    """Whether threads find their own tasks or take those of others, or one runs all of them."""
    kernel = compile_kernel("counting", _COUNTING)
    for pool in (nullcontext, taken):
        counts = np.zeros(tasks, np.int64)
        with pool():
            launch.launch(kernel, [counts.ctypes.data, 20_000, 0], tasks, threads)
        assert counts.tolist() == [1] * tasks


def test_every_pool_gives_the_same(two_threads, monkeypatch):
    torch.set_num_threads(1)
    alone = aggregate()
    torch.set_num_threads(2)
    assert torch.equal(aggregate(), alone)
    monkeypatch.setattr(launch, "openmp", lambda *names: None)
    before = launch.parallel_launches()
    assert torch.equal(aggregate(), alone)
    assert launch.parallel_launches() == before + 1
    with taken():
        assert torch.equal(aggregate(), alone)


def _child(connection) -> None:
    connection.send((launch.num_threads(1 << 20, 8), aggregate().sum().item()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_worker_runs_serially_and_does_not_hang(two_threads):
    want = aggregate().sum().item()  # starts the pool that does not survive the fork
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_child, args=(theirs,))
    worker.start()
    assert ours.poll(PATIENCE), "the worker hangs"
    assert ours.recv() == (1, want)
    worker.join(PATIENCE)
    assert worker.exitcode == 0


def test_kernels_leave_torchs_number_of_threads_alone():
    """Numba's pool, were it started, would set it to the number of cores."""
    code = """
import torch
torch.set_num_threads(1)
from tests.kernels.cpu.test_launch import aggregate
aggregate()
print(torch.get_num_threads())
"""
    done = forked.run(forked.code, code)
    assert done.stdout == "1\n", done.stderr


@pytest.mark.skipif(ctypes.util.find_library("gomp") is None, reason="the system has no GNU OpenMP of its own")
def test_without_torch_the_systems_openmp_serves():
    code = """
import sys
import numpy as np
from dglite.expr import Operand, Side
from dglite.kernels.cpu.run import launch
from dglite.ops import core
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from dglite.backend import active, toolkit
rows = np.arange(9000) % 400
adj = Adjacency.from_coo(9000, 400, np.arange(9000), rows)
type(active).num_threads = lambda self: 2
out = core.spmm(adj, Operand(Side.U, 0), Reducer.SUM, (toolkit.ones(9000, 16),))
assert "torch" not in sys.modules
np.testing.assert_array_equal(out.numpy()[:, 0], np.bincount(rows))
print(launch.parallel_launches())
"""
    environment = {**os.environ, "DGLITE_BACKEND": "numpy"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.stdout == "1\n", run.stderr


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_of_our_own_run_every_task_once(threads, monkeypatch):
    monkeypatch.setattr(launch, "openmp", lambda *names: None)
    kernel, counts = compile_kernel("counting", _COUNTING), np.zeros(40, np.int64)
    for _ in range(100):
        launch.launch(kernel, [counts.ctypes.data, 10, 0], 40, threads)
    assert counts.tolist() == [100] * 40


def test_an_interrupt_waits_for_threads_of_our_own():
    """What they write to is the caller's: its memory must not go before they have returned."""
    code = """
import signal, threading, time
import numpy as np
from dglite.kernels.cpu.compile.jit import compile_kernel
from dglite.kernels.cpu.run import launch
from tests.kernels.cpu.test_launch import _COUNTING
launch.openmp = lambda *names: None
signal.signal(signal.SIGINT, signal.default_int_handler)
kernel, interrupted = compile_kernel("counting", _COUNTING), 0
for turn in range(30):
    counts = np.zeros(6, np.int64)
    launch.launch(kernel, [counts.ctypes.data, 1, 0], 6, 3)
    timer = threading.Timer(0.002, signal.raise_signal, [signal.SIGINT])
    try:
        timer.start()
        launch.launch(kernel, [counts.ctypes.data, 3_000_000, 0], 6, 3)
        timer.join()
        time.sleep(1)
    except KeyboardInterrupt:
        interrupted += 1
    assert counts.tolist() in ([1] * 6, [2] * 6), counts
    timer.join()
print(interrupted)
"""
    run = forked.run(forked.code, code)
    assert run.stdout == "30\n", run.stderr
