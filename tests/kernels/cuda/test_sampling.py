"""Sampling and blocks of a graph on the emulated GPU: the same as on the host for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite import sampling
from dglite.errors import DGLError
from dglite.kernels.cuda.sample import sample
from dglite.ops import devices
from tests.kernels.cuda.emulated import needs_compiler, on_gpu
from tests.sampling.graphs import hetero, random_graph

pytestmark = needs_compiler


@pytest.fixture
def started(monkeypatch):
    """Return the names of the kernels' functions that were called."""
    names = []
    for function in (sample.sample_neighbors, sample.number_ids):

        def call(*args, function=function):
            names.append(function.__name__)
            return function(*args)

        monkeypatch.setattr(sample, function.__name__, call)
    return names


def edges_of(g):
    """Return the ends and the ids of all edges of every type, and the ids of all nodes."""
    results = [part.tolist() for etype in g.canonical_etypes for part in g.edges("all", etype=etype)]
    results += [g.edges[etype].data[dglite.EID].tolist() for etype in g.canonical_etypes]
    results += [frame[dglite.NID].tolist() for frame in g._node_frames if frame is not None and dglite.NID in frame]
    return results


@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("fanout", "replace"), [(3, False), (3, True), (10**9, False), (-1, False), (0, False)])
def test_a_sample_is_that_of_the_host(fanout, replace, idtype, edge_dir, started):
    g, seeds = random_graph(idtype=idtype), [5, 0, 58, 2, 1]
    dglite.seed(7)
    want = sampling.sample_neighbors(g, seeds, fanout, edge_dir, replace=replace)
    assert not started
    dglite.seed(7)
    with on_gpu():
        result = sampling.sample_neighbors(g, seeds, fanout, edge_dir, replace=replace)
    assert started == (["sample_neighbors"] if fanout else [])
    assert edges_of(result) == edges_of(want) and result.idtype == idtype
    assert torch.equal(result.edata["f"], want.edata["f"])


def test_several_types_and_no_seeds(started):
    g, seeds = hetero(), {"user": [0, 2], "game": []}
    dglite.seed(3)
    want = sampling.sample_neighbors(g, seeds, 1)
    dglite.seed(3)
    with on_gpu():
        result = sampling.sample_neighbors(g, seeds, 1)
    assert edges_of(result) == edges_of(want) and started == ["sample_neighbors"] * 2


def test_weights_are_for_the_host(started):
    g = random_graph()
    g.edata["p"] = torch.arange(400) % 2
    with on_gpu():
        result = sampling.sample_neighbors(g, [0, 1], 4, prob="p")
        sampling.sample_neighbors(g, [0, 1], 4, exclude_edges=[3])
    assert not started and result.edata[dglite.EID].numpy().astype(int).min() >= 0
    assert (result.edata["p"] == 1).all()


def test_neighbours_are_drawn_uniformly():
    g = dglite.graph((np.arange(1, 9), np.zeros(8, int)))
    counts = np.zeros(9)
    with on_gpu():
        for _ in range(300):
            counts[sampling.sample_neighbors(g, [0], 3).edges()[0].numpy()] += 1
    assert counts.sum() == 900 and abs(counts[1:] - 112.5).max() < 5 * (112.5 * 5 / 8) ** 0.5


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("dst_nodes", [None, [3, 0, 59, 7], "all"])
def test_a_block_is_that_of_the_host(dst_nodes, idtype, started):
    g = random_graph(idtype=idtype)
    if dst_nodes != "all" and dst_nodes is not None:
        g = dglite.in_subgraph(g, dst_nodes)
    given = torch.arange(60).flip(0) if dst_nodes == "all" else dst_nodes
    want = dglite.to_block(g, given)
    assert not started
    with on_gpu():
        result = dglite.to_block(g, given)
    assert edges_of(result) == edges_of(want) and started == ["number_ids"]
    assert torch.equal(result.srcdata["x"], want.srcdata["x"]) and result.idtype == idtype


def test_a_block_of_several_types(started):
    g = hetero()
    given = {"user": [2, 0, 1], "game": [1, 0]}
    want = dglite.to_block(g, given)
    with on_gpu():
        result = dglite.to_block(g, given)
        empty = dglite.to_block(dglite.graph(([], [])))
    assert edges_of(result) == edges_of(want) and started == ["number_ids"] * 3
    assert empty.num_src_nodes() == 0


def test_what_the_host_numbers(started):
    g = dglite.graph(([1, 2], [2, 3]))
    with on_gpu():
        assert dglite.to_block(g, [2, 3], include_dst_in_src=False).srcdata[dglite.NID].tolist() == [1, 2]
        assert dglite.to_block(g, [2, 3], src_nodes=[2, 3, 1]).srcdata[dglite.NID].tolist() == [2, 3, 1]
        assert not started
        assert dglite.to_block(g, [3, 2, 3]).dstdata[dglite.NID].tolist() == [3, 2, 3]
        with pytest.raises(DGLError, match="dst_nodes lacks node 2 of type '_N', which has in-edges"):
            dglite.to_block(g, [3])


def test_the_host_samples_where_no_kernel_can_be_started(monkeypatch):
    monkeypatch.setattr(type(devices.RUNNERS["cuda"]), "why_unavailable", lambda self: "no driver")
    assert devices.device_on(torch.device("cuda:0")) is devices.HOST
    assert devices.device_on(torch.device("xpu:0")) is devices.HOST
    assert devices.device_on(torch.device("cpu")) is devices.HOST
