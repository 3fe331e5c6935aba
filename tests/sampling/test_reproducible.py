"""What is drawn follows the seed, whatever thread or process draws it and however many there are."""

from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest
import torch

import dglite
from dglite import sampling
from dglite.kernels.cpu.run import launch
from tests.patience import PATIENCE
from tests.sampling.graphs import random_graph

GRAPH = random_graph(500, 9000)
GRAPH.edata["w"] = torch.rand(9000)
SEEDS = torch.randint(0, 500, (300,))

DRAWS = {
    "uniform": lambda: sampling.sample_neighbors(GRAPH, SEEDS, 7).edata[dglite.EID],
    "again": lambda: sampling.sample_neighbors(GRAPH, SEEDS, 7, replace=True).edata[dglite.EID],
    "weighted": lambda: sampling.sample_neighbors(GRAPH, SEEDS, 7, prob="w").edata[dglite.EID],
    "by type": lambda: sampling.sample_etype_neighbors(GRAPH, SEEDS, [0, 4000, 9000], [3, 4]).edata[dglite.EID],
    "heaviest": lambda: sampling.select_topk(GRAPH, 5, "w").edata[dglite.EID],
    "labor": lambda: sampling.sample_labors(GRAPH, SEEDS, 7, importance_sampling=2)[0].edata[dglite.EID],
    "walk": lambda: sampling.random_walk(GRAPH, SEEDS, length=9, prob="w", restart_prob=0.05)[0],
    "node2vec": lambda: sampling.node2vec_random_walk(GRAPH, SEEDS, 0.5, 2, 9),
    "visits": lambda: sampling.RandomWalkNeighborSampler(GRAPH, 3, 0.2, 10, 4)(SEEDS).edges()[0],
    "non-edges": lambda: sampling.global_uniform_negative_sampling(GRAPH, 100)[0],
}


def drawn(name):
    dglite.seed(7)
    return DRAWS[name]().clone()


@pytest.fixture
def two_threads(monkeypatch):
    """Make every kernel run in several tasks on two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(launch, "PARALLEL_FROM", 0)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", DRAWS)
def test_one_thread_or_two(name, two_threads):
    several = drawn(name)
    torch.set_num_threads(1)
    assert torch.equal(drawn(name), several)
    other = DRAWS[name]()
    assert name == "heaviest" or other.shape != several.shape or not torch.equal(other, several)


@pytest.mark.parametrize("name", DRAWS)
def test_in_a_worker_thread(name, two_threads):
    results = []
    worker = threading.Thread(target=lambda: results.append(drawn(name)))
    worker.start()
    worker.join()
    assert torch.equal(results[0], drawn(name))


def _from_child(function):
    """Return what ``function`` returns in a forked process."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(function()))
    child.start()
    assert ours.poll(PATIENCE)
    result = ours.recv()
    child.join()
    return result


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_in_a_forked_process(two_threads):
    for name in DRAWS:
        expected = drawn(name).numpy()
        np.testing.assert_array_equal(_from_child(lambda name=name: drawn(name).numpy()), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_forked_processes_draw_differently():
    def draw():
        return DRAWS["uniform"]().numpy()

    def run():
        dglite.seed(3)
        return [_from_child(draw), _from_child(draw), draw()]

    first, again = run(), run()
    for i in range(3):
        np.testing.assert_array_equal(first[i], again[i])
        assert not np.array_equal(first[i], first[(i + 1) % 3])
