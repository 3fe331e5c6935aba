"""The latest edges before a time, beside a search through all edges."""

from __future__ import annotations

import numpy as np
import pytest

import dglite
from dglite import DGLError
from dglite.backend import active
from dglite.dataloading import DataLoader, NeighborSampler, as_edge_prediction_sampler, negative_sampler
from dglite.sampling import latest_neighbors

NUM_NODES, NUM_EDGES = 30, 1500


def tensor(array):
    return active.from_numpy(np.ascontiguousarray(array), None)


def events(idtype="int64", ordered=False, dtype=np.int64, seed=0):
    """Return a graph with times, some equal, and its arrays of sources, destinations and times."""
    random = np.random.default_rng(seed)
    src, dst = random.integers(NUM_NODES - 2, size=(2, NUM_EDGES)).astype(idtype)
    times = random.integers(400, size=NUM_EDGES).astype(dtype)
    times = np.sort(times) if ordered else times
    graph = dglite.graph((tensor(src), tensor(dst)), num_nodes=NUM_NODES)
    graph.edata["t"] = tensor(times)
    return graph, src, dst, times


def latest(dst, times, node, at, k, inclusive, absent=()):
    """Return the ids of the k latest edges, latest last."""
    there = (times <= at) if inclusive else (times < at)
    ids = np.flatnonzero((dst == node) & there & ~np.isin(np.arange(len(dst)), absent))
    return ids[np.argsort(times[ids], kind="stable")][-k:].tolist()


@pytest.mark.parametrize("idtype", ["int32", "int64"])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("dtype", "at_dtype"), [(np.int64, np.int64), (np.float32, np.int64), (np.int32, np.float64)])
@pytest.mark.parametrize("inclusive", [False, True])
def test_latest_neighbors_are_those_of_a_search(idtype, ordered, dtype, at_dtype, inclusive):
    graph, src, dst, times = events(idtype, ordered, dtype)
    random = np.random.default_rng(1)
    nodes, at = random.integers(NUM_NODES, size=80), random.integers(-5, 420, size=80).astype(at_dtype)
    at = at + 0.5 * (np.arange(80) % 2) if at_dtype == np.float64 else at
    results = [np.asarray(x) for x in latest_neighbors(graph, tensor(nodes), tensor(at), 6, inclusive=inclusive)]
    for i in range(80):
        expected = latest(dst, times, nodes[i], at[i], 6, inclusive)
        missing = 6 - len(expected)
        assert results[1][i].tolist() == [-1] * missing + expected
        assert results[0][i].tolist() == [-1] * missing + src[expected].tolist()
        assert results[2][i].tolist() == [0] * missing + times[expected].tolist()


def test_times_that_change_are_read_again():
    graph, _, dst, times = events()
    latest_neighbors(graph, [3], 200, 2)
    graph.edata["t"] = tensor(399 - times)
    assert np.asarray(latest_neighbors(graph, [3], 200, 2).edges)[0].tolist() == latest(
        dst, 399 - times, 3, 200, 2, False
    )
    graph.edata["t"][:] = tensor(times)  # in place
    assert np.asarray(latest_neighbors(graph, [3], 200, 2).edges)[0].tolist() == latest(dst, times, 3, 200, 2, False)


def test_nan_is_never_latest_and_other_wrong_times_are_named():
    graph = dglite.graph(([0, 1, 2], [3, 3, 3]))
    graph.edata["t"] = tensor(np.array([2.0, np.nan, 1.0]))
    assert np.asarray(latest_neighbors(graph, [3], 9, 3).edges).tolist() == [[-1, 2, 0]]
    with pytest.raises(DGLError, match="the time at position 1 is NaN"):
        latest_neighbors(graph, [3, 3], tensor(np.array([1.0, np.nan])), 2)
    with pytest.raises(DGLError, match=r"2 times for 1 nodes|times has shape"):
        latest_neighbors(graph, [3], [1, 2], 2)
    with pytest.raises(DGLError, match="edge_time='when'"):
        latest_neighbors(graph, [3], 1, 2, edge_time="when")
    with pytest.raises(DGLError, match="k"):
        latest_neighbors(graph, [3], 1, 0)


def test_graphs_without_edges_and_no_nodes():
    graph = dglite.graph(([], []), num_nodes=2)
    graph.edata["t"] = tensor(np.zeros(0, np.int64))
    assert np.asarray(latest_neighbors(graph, [1, 0], 5, 3).nodes).tolist() == [[-1] * 3] * 2
    graph, *_ = events()
    assert np.asarray(latest_neighbors(graph, tensor(np.zeros(0, np.int64)), 5, 3).nodes).shape == (0, 3)


def test_a_type_of_several():
    graph = dglite.heterograph({("u", "a", "v"): ([0, 1], [0, 0]), ("v", "b", "u"): ([0], [1])})
    graph.edges["a"].data["t"] = tensor(np.array([5, 3]))
    assert np.asarray(latest_neighbors(graph, [0], 6, 1, etype="a").nodes).tolist() == [[0]]
    with pytest.raises(DGLError, match="'b' have no feature 't'"):
        latest_neighbors(graph, [0], 6, 1, etype="b")


@pytest.mark.parametrize("fanout", [1, 4, -1])
@pytest.mark.parametrize("num_excluded", [0, 900])
def test_blocks_of_the_latest(fanout, num_excluded):
    graph, _, dst, times = events("int32")
    random = np.random.default_rng(2)
    graph.ndata["t"] = tensor(random.integers(400, size=NUM_NODES))
    absent = random.choice(NUM_EDGES, num_excluded, replace=False)
    sampler = NeighborSampler([2, fanout], time="t", edge_time="t", temporal_strategy="last")
    _, _, blocks = sampler.sample(graph, tensor(np.arange(NUM_NODES)), tensor(absent) if num_excluded else None)
    for block, k in zip(blocks, (2, fanout), strict=True):
        ids, (_, rows) = np.asarray(block.edata[dglite.EID]), (np.asarray(x) for x in block.edges())
        nodes, at = (np.asarray(block.dstdata[name]) for name in (dglite.NID, "_TIME"))
        for i in range(block.num_dst_nodes()):
            expected = latest(dst, times, nodes[i], at[i], NUM_EDGES if k < 0 else k, True, absent)
            assert sorted(ids[rows == i]) == sorted(expected)


def test_types_without_times_are_drawn_uniformly():
    graph = dglite.heterograph({("u", "a", "u"): ([0, 1, 2], [3, 3, 3]), ("u", "b", "u"): ([0, 1], [3, 3])})
    graph.ndata["t"], graph.edges["a"].data["t"] = tensor(np.full(4, 2)), tensor(np.array([1, 2, 3]))
    sampler = NeighborSampler([{"a": 1, "b": 2}], time="t", edge_time="t", temporal_strategy="last")
    _, _, (block,) = sampler.sample(graph, [3])
    assert np.asarray(block.edges["a"].data[dglite.EID]).tolist() == [1]
    assert sorted(np.asarray(block.edges["b"].data[dglite.EID])) == [0, 1]


def test_a_strategy_needs_times():
    with pytest.raises(ValueError, match="needs time and edge_time"):
        NeighborSampler([2], temporal_strategy="last")
    with pytest.raises(ValueError, match="temporal_strategy='recent' is not known"):
        NeighborSampler([2], temporal_strategy="recent")


def test_historical_negatives_are_earlier_destinations():
    graph, src, dst, times = events()
    edges = np.arange(0, NUM_EDGES, 3)
    dglite.seed(0)
    drawn = negative_sampler.Historical(8, share=0.5)(graph, tensor(edges))
    heads, tails = (np.asarray(x).reshape(-1, 8) for x in drawn)
    assert (heads == src[edges][:, None]).all()
    different = 0
    for edge, row in zip(edges, tails, strict=True):
        past = set(dst[(src == src[edge]) & (times < times[edge])].tolist())
        if past:
            assert set(row[:4].tolist()) <= past
            different += not set(row[4:].tolist()) <= past
    assert different > 100
    with pytest.raises(DGLError, match="share"):
        negative_sampler.Historical(2, share=2)
    assert len(negative_sampler.Historical(2)(graph, tensor(np.zeros(0, np.int64)))[0]) == 0


def test_batches_of_pairs_never_see_the_future():
    graph, _, dst, times = events(ordered=True)
    sampler = NeighborSampler([5], time="t", edge_time="t", temporal_strategy="last")
    pairs = as_edge_prediction_sampler(sampler, exclude="self", negative_sampler=negative_sampler.Historical(2))
    for _, positive, _, (block,) in DataLoader(graph, tensor(np.arange(NUM_EDGES)), pairs, batch_size=200):
        batch = np.asarray(positive.edata[dglite.EID])
        ids, (_, rows) = np.asarray(block.edata[dglite.EID]), (np.asarray(x) for x in block.edges())
        nodes, at = (np.asarray(block.dstdata[name]) for name in (dglite.NID, "_TIME"))
        for i in range(0, block.num_dst_nodes(), 17):
            assert sorted(ids[rows == i]) == sorted(latest(dst, times, nodes[i], at[i], 5, True, batch))
