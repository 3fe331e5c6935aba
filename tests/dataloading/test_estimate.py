"""Estimates of training runs, beside runs."""

from __future__ import annotations

import copy
import sys
import time

import numpy as np
import pytest

import dglite
from dglite import DGLError
from dglite.dataloading import DataLoader, MappedFeatures, NeighborSampler, ScheduledFeatures
from tests.patience import PATIENCE

torch = pytest.importorskip("torch")


def loader(count=2000, workers=0, **options):
    dglite.seed(0)
    g = dglite.rand_graph(2000, 20_000)
    return DataLoader(g, torch.arange(count), NeighborSampler([5, 5], **options), batch_size=10, num_workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_some_steps_are_run_and_the_loader_stays_where_it_was(workers):
    batches, seen = loader(workers=workers), []
    iterator = iter(batches)
    next(iterator)
    iterator.close()
    state = copy.deepcopy(batches.state_dict())
    run = dglite.estimate(seen.append, batches, epochs=7, seconds=0.05)
    assert batches.state_dict() == state
    assert (run.epochs, run.steps, run.measured) == (7, 200, len(seen))
    assert 2 <= run.measured <= 200
    assert run.first > 0
    assert run.seconds == pytest.approx(run.first + (7 * 200 - 1) * run.step)
    assert "7 epochs of 200 steps" in str(run)


def test_the_time_is_that_of_the_steps():
    def step():
        time.sleep(0.02)

    run = dglite.estimate(step, epochs=100, seconds=0.1)
    assert run.steps == 1
    assert 2.0 <= run.seconds < 2.0 * PATIENCE
    assert run.step >= 0.02


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others do not tell the memory")
def test_the_memory_of_steps_is_seen():
    size = 200 << 20

    def step(_):
        x = np.ones(size, np.uint8)
        time.sleep(0.05)
        del x

    before = dglite.estimate(lambda _: None, loader(), seconds=0.05)
    run = dglite.estimate(step, loader(), seconds=0.05)
    assert size // 2 < run.memory - before.memory < 3 * size
    assert run.free > 0


def test_reads_are_those_of_an_epoch(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2000, 4), np.float32))
    store = ScheduledFeatures(MappedFeatures(tmp_path / "x.npy"), "20 MB")
    run = dglite.estimate(loader=loader(prefetch_node_feats={"x": store}), epochs=3, seconds=0.05)
    assert run.disk is None or run.disk >= 0
    assert run.seconds == pytest.approx(3 * run.first + (3 * 200 - 3) * run.step)  # each epoch is planned anew


def test_one_batch_and_short_epochs():
    run = dglite.estimate(loader=loader(10), seconds=0.01)
    assert (run.steps, run.measured) == (1, 1)
    assert run.seconds > 0
    run = dglite.estimate(loader=[1, 2, 3], epochs=2)
    assert (run.steps, run.measured) == (3, 3)


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((), {}, "nothing to measure"),
        ((3,), {}, "step must be a function"),
        ((None, iter([])), {}, "has no length"),
        ((None, []), {}, "no batches"),
        ((print,), {"epochs": 0}, "epochs"),
        ((print,), {"seconds": float("nan")}, "seconds must be a number above 0"),
        ((print,), {"seconds": 0}, "seconds must be a number above 0"),
    ],
)
def test_arguments(arguments, options, match):
    with pytest.raises(DGLError, match=match):
        dglite.estimate(*arguments, **options)


def test_an_error_of_a_step_is_passed_on_and_the_loader_stays_where_it_was():
    batches = loader()
    state = batches.state_dict()

    def step(_):
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError, match="no"):
        dglite.estimate(step, batches)
    assert batches.state_dict() == state
    assert len(list(batches)) == 200
