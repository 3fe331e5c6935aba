"""Graphs are pickled and copied whole."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import dglite
from tests.io.graphs import KINDS, assert_same


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pickled_graph_is_the_same(kind, protocol):
    g = KINDS[kind]()
    assert_same(g, pickle.loads(pickle.dumps(g, protocol)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_deep_copy_is_the_same_and_its_own(kind):
    g = KINDS[kind]()
    for i in range(len(g.node_counts)):
        for name, column in g.node_frame_at(i).items():
            g.node_frame_at(i)[name] = column.detach()
    copied = copy.deepcopy(g)
    assert_same(KINDS[kind]() if kind == "empty" else g, copied)
    for i in range(len(g.node_counts)):
        for name, column in copied.node_frame_at(i).items():
            assert column is not g.node_frame_at(i)[name]


def test_a_graph_pickled_before_attributes_were_renamed_is_read():
    g = KINDS["batched"]()
    names = {
        "type_graph": "_metagraph",
        "node_counts": "_num_nodes",
        "node_frames": "_node_frames",
        "edge_frames": "_edge_frames",
        "numpy_idtype": "_idtype",
        "batch_node_counts": "_batch_num_nodes",
        "batch_edge_counts": "_batch_num_edges",
    }
    old = object.__new__(dglite.DGLGraph)
    old.__setstate__({names.get(name, name): value for name, value in g.__getstate__().items()})
    assert_same(g, old)


def test_formats_and_waiting_messages():
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["h"] = torch.ones(3, 1)
    g.create_formats_()
    g.send(g.edges(), dglite.function.copy_u("h", "m"))
    result = pickle.loads(pickle.dumps(g))
    assert result.formats()["created"] == ["coo"]
    assert result.ndata["h"].tolist() == [[1.0], [1.0], [1.0]]


def test_a_selected_feature_is_pickled_alone():
    g = dglite.graph(([], []), num_nodes=2)
    whole = dglite.graph(([], []), num_nodes=100_000)
    whole.ndata["h"] = torch.rand(100_000, 4)
    g.node_frames = [whole.node_frame_at(0).take(torch.tensor([7, 0]).numpy())]
    content = pickle.dumps(g)
    assert len(content) < 10_000
    assert torch.equal(pickle.loads(content).ndata["h"], whole.ndata["h"][[7, 0]])
