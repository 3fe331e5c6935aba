"""Threads that make batches ahead: order, errors, what is left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from pathlib import Path

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import DataLoader, GraphDataLoader, NeighborSampler, Sampler, as_edge_prediction_sampler
from dglite.dataloading.pipeline import Ordered
from tests.dataloading.graphs import plain, ring
from tests.interrupts import interrupted
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("dglite-loader")]


def none_left():
    """Wait until worker threads have ended; they may be in the middle of a batch."""
    end = time.monotonic() + PATIENCE
    while workers() and time.monotonic() < end:
        time.sleep(0.001)
    return not workers()


@pytest.fixture(autouse=True)
def threads():
    """Check that every test leaves torch's number of threads and no worker behind."""
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    assert none_left() and torch.get_num_threads() == 8
    torch.set_num_threads(before)


class Says(Sampler):
    """Gives its indices; fails, or waits for an event, at some of them."""

    def __init__(self, fails=(), waits=None):
        self.fails, self.waits = fails, waits

    def sample(self, g, indices):
        if self.waits is not None:
            self.waits.wait(PATIENCE)
        if set(indices.tolist()) & set(self.fails):
            raise self.error()
        return indices.tolist()

    @staticmethod
    def error():
        return ZeroDivisionError("mine")


@pytest.mark.parametrize("num_workers", [0, 1, 2, 8])
def test_results_come_in_order(num_workers):
    ordered = Ordered(lambda i: (time.sleep(0.002 * (i % 3)), i)[1], 2, 20, num_workers, 2 * num_workers)
    assert list(ordered) == list(range(2, 20)) and list(ordered) == []


def test_no_more_is_made_ahead_than_asked_for():
    begun, results = [], None

    def produce(i):
        begun.append(i)
        return i

    results = Ordered(produce, 0, 100, 2, 3)
    deadline = time.monotonic() + PATIENCE
    while len(begun) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert sorted(begun) == [0, 1, 2] and next(results) == 0
    results.close()


def exhausted(*_):
    """Raise StopIteration, as ``next`` does of an iterator that has ended: what users' code may let out."""
    return next(iter([]))


class Stops(Says):
    """Stands for a sampler, a data set, a feature store and a negative sampler whose code raises StopIteration."""

    sample = rows = __getitem__ = __call__ = exhausted
    num_rows = 12

    def __len__(self):
        return 4


def stopping_loaders(num_workers):
    """Return loaders, each with code of its user in another place that raises StopIteration."""
    g, nodes, stops, by_one = ring(), range(12), Stops(), NeighborSampler([2])
    edges = {
        "exclude": as_edge_prediction_sampler(by_one, exclude=exhausted),
        "negative sampler": as_edge_prediction_sampler(by_one, negative_sampler=stops),
    }
    results = {name: DataLoader(g, nodes, sampler, num_workers=num_workers) for name, sampler in edges.items()}
    stored = NeighborSampler([2], prefetch_node_feats={"z": stops})
    return results | {
        "sampler": DataLoader(g, nodes, stops, num_workers=num_workers),
        "feature store": DataLoader(g, nodes, stored, num_workers=num_workers),
        "data set": GraphDataLoader(stops, num_workers=num_workers),
        "collate_fn": GraphDataLoader([g] * 4, collate_fn=exhausted, num_workers=num_workers),
    }


@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("place", stopping_loaders(0))
def test_stop_iteration_of_users_code_does_not_end_the_epoch(place, num_workers):
    loader = stopping_loaders(num_workers)[place]
    with pytest.raises(RuntimeError, match="would end the epoch early") as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, StopIteration) and "batch 0 of epoch 0" in caught.value.__notes__[0]


def test_stop_iteration_of_worker_init_fn_does_not_end_the_epoch():
    with pytest.raises(RuntimeError, match="would end the epoch early"):
        list(DataLoader(ring(), range(12), Says(), num_workers=2, worker_init_fn=exhausted))


def test_results_before_a_stop_iteration_come():
    ordered = Ordered(lambda i: exhausted() if i == 3 else i, 0, 10, 2, 4)
    assert [next(ordered) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="StopIteration was raised"):
        next(ordered)
    assert list(ordered) == []


@pytest.mark.parametrize("num_workers", [1, 2, 8])
def test_batches_are_the_same_for_any_number_of_workers(num_workers):
    g = ring(40, 6)

    def epochs(num_workers):
        dglite.seed(5)
        loader = DataLoader(g, range(40), NeighborSampler([2, 3]), batch_size=6, shuffle=True, num_workers=num_workers)
        return [plain(list(loader)) for _ in range(2)]

    first, second = epochs(num_workers)
    assert [first, second] == epochs(0) and first != second


def test_draws_of_a_sampler_of_ones_own_are_keyed_too():
    class Draws(Sampler):
        def sample(self, g, indices):
            return dglite.random.generator().random()

    def drawn(num_workers):
        dglite.seed(5)
        return list(DataLoader(ring(), range(12), Draws(), num_workers=num_workers))

    assert drawn(0) == drawn(3) and len(set(drawn(0))) == 12


def test_the_trainer_keeps_the_cores_that_workers_do_not_take():
    g = ring()
    inside = [torch.get_num_threads() for _ in DataLoader(g, range(12), Says(), num_workers=1)]
    assert set(inside) == {7} and torch.get_num_threads() == 8
    outer, inner = (DataLoader(g, range(12), Says(), num_workers=n) for n in (1, 2))
    one, two = iter(outer), iter(inner)
    assert torch.get_num_threads() == 6, "three quarters, whatever the number of workers"
    list(two)
    assert torch.get_num_threads() == 7
    list(one)
    many = iter(DataLoader(g, range(12), Says(), num_workers=9))
    assert torch.get_num_threads() == 6
    del many


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_exception_comes_in_its_turn_with_its_traceback_and_indices(num_workers):
    loader = DataLoader(ring(), range(12), Says(fails=[5]), batch_size=2, num_workers=num_workers)
    seen = []
    with pytest.raises(ZeroDivisionError, match="mine") as raised:
        seen.extend(loader)
    assert seen == [] or seen == [[0, 1], [2, 3]]
    assert "raise self.error()" in "".join(traceback.format_exception(raised.value))
    assert raised.value.__notes__ == ["(batch 2 of epoch 0: indices [4, 5])"]
    broken = iter(loader)
    assert [next(broken), next(broken)] == [[0, 1], [2, 3]]
    with pytest.raises(ZeroDivisionError):
        next(broken)
    with pytest.raises(StopIteration):
        next(broken)


def test_an_iterator_that_is_dropped_frees_its_threads():
    loader = DataLoader(ring(), range(12), Says(), num_workers=3)
    for _ in loader:
        break
    assert none_left() and torch.get_num_threads() == 8
    held = iter(loader)
    next(held)
    held.close()
    assert next(held, None) is None and none_left()


def test_an_exception_in_the_users_loop_frees_the_threads():
    with pytest.raises(KeyboardInterrupt):
        for _ in DataLoader(ring(), range(12), Says(), num_workers=3):
            raise KeyboardInterrupt
    gc.collect()


def test_waiting_for_a_batch_can_be_interrupted():
    waits = threading.Event()
    batches = iter(DataLoader(ring(), range(12), Says(waits=waits), num_workers=1))
    interrupted(lambda: next(batches), after=lambda: time.sleep(0.05))
    assert torch.get_num_threads() == 8
    waits.set()


def test_worker_init_fn_runs_in_each_thread():
    begun = []
    loader = DataLoader(ring(), range(12), Says(), num_workers=2, worker_init_fn=begun.append)
    assert len(list(loader)) == 12 and set(begun) == {0, 1}

    def wrong(number):
        raise ValueError(f"worker {number}")

    with pytest.raises(ValueError, match="worker"):
        list(DataLoader(ring(), range(12), Says(), num_workers=2, worker_init_fn=wrong))


def test_many_epochs_leave_nothing_behind():
    def open_files():
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    loader = DataLoader(ring(), range(4), NeighborSampler([1]), batch_size=2, num_workers=2)
    list(loader)
    files = open_files()
    for i in range(300):
        for _ in loader:
            if i % 3 == 0:
                break
    assert none_left() and open_files() <= files


def test_a_program_ends_though_a_loader_is_open():
    code = """
        import dglite, torch
        from dglite.dataloading import DataLoader, NeighborSampler
        g = dglite.graph((torch.arange(9), torch.arange(9)))
        held = iter(DataLoader(g, range(9), NeighborSampler([1]), num_workers=2))
        next(held)
    """
    done = subprocess.run(  # without the warning of a cache that cannot be written
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_that_cannot_be_started(monkeypatch):
    started = []

    def start(self):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(self)
        original(self)

    original = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start"):
        iter(DataLoader(ring(), range(12), Says(), num_workers=2))


def test_numbers_that_are_none():
    for option, value in (("num_workers", -1), ("num_workers", 1.5), ("batch_size", 0), ("prefetch_factor", 0)):
        with pytest.raises(ValueError, match=f"{option} must be an integer"):
            DataLoader(ring(), range(12), Says(), **{option: value})
    with pytest.raises(TypeError, match="'workers'"):
        DataLoader(ring(), range(12), Says(), workers=2)
    with pytest.raises(DGLError, match="nothing to load"):
        DataLoader(ring(), [], Says())


@pytest.mark.parametrize("taken", [0, 1, 4, 20])
def test_exchanges_are_made_as_often_as_they_were_asked_for(taken):
    """Up to what ``next`` has asked for and ``ahead`` more, also of an iterator that is closed then."""
    made = []
    exchanges = Ordered(lambda i: (time.sleep(0.001), made.append(i))[1], 3, 23, 1, 2, exchanges=True)
    for _ in range(taken):
        next(exchanges)
    exchanges.close()
    assert made == list(range(3, 3 + min(taken + 2, 20))) and list(exchanges) == []


def test_exchanges_that_failed_are_the_last():
    made = []
    exchanges = Ordered(lambda i: made.append(i) or 1 // (4 - i), 0, 20, 1, 5, exchanges=True)
    with pytest.raises(ZeroDivisionError):
        list(exchanges)
    exchanges.close()
    assert made == [0, 1, 2, 3, 4]
