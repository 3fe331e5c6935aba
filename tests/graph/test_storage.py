"""Copies, scopes, index types, pickling, and what a graph prints."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import torch

import dglite
from dglite import hints
from dglite.convert import create_block, graph, heterograph
from dglite.errors import DGLError, DGLWarning
from dglite.graph import DGLGraph


def featured():
    g = graph(([0, 1, 2], [1, 2, 0]))
    g.ndata["h"], g.edata["w"] = torch.ones(3, 2), torch.ones(3)
    return g


def typed():
    return heterograph({("user", "plays", "game"): ([0, 1], [0, 1]), ("user", "knows", "user"): ([0], [1])})


@pytest.mark.parametrize("copied", [DGLGraph.clone, DGLGraph.local_var, copy.copy])
def test_copies_share_structure_and_columns(copied):
    g = featured()
    other = copied(g)
    assert other.adjacency() is g.adjacency() and other.ndata["h"] is g.ndata["h"]
    other.ndata["h"] = torch.zeros(3)
    other.edata["new"] = torch.zeros(3)
    other.add_nodes(1)
    assert g.ndata["h"].shape == (3, 2) and "new" not in g.edata and g.num_nodes() == 3


def test_local_scope_restores_features_and_structure():
    g = featured()
    column = g.ndata["h"]
    with g.local_scope():
        g.ndata["h"] = torch.zeros(3)
        g.ndata["x"] = g.ndata.pop("h")
        g.edata.clear()
        with g.local_scope():
            g.add_nodes(2)
        assert g.num_nodes() == 3
    assert g.ndata["h"] is column and list(g.ndata) == ["h"] and list(g.edata) == ["w"]
    with pytest.raises(RuntimeError), g.local_scope():
        g.ndata["x"] = torch.zeros(3)
        raise RuntimeError
    assert list(g.ndata) == ["h"]
    fresh = graph(([0], [1]))
    with fresh.local_scope():
        fresh.ndata["h"] = torch.zeros(2)
    assert not fresh.ndata


def test_index_types():
    g = featured()
    assert g.idtype == torch.int64 and g.long() is g
    small = g.int()
    assert small.idtype == torch.int32 and small.edges()[0].dtype == torch.int32 and small.ndata["h"] is g.ndata["h"]
    assert small.long().idtype == torch.int64 and g.astype("int32").idtype == torch.int32
    with pytest.raises(DGLError, match=r"idtype must be int32 or int64, got torch\.float32"):
        g.astype(torch.float32)
    with pytest.raises(DGLError, match="idtype must be int32 or int64"):
        g.astype(np.uint8)


def test_devices():
    g = featured()
    assert g.device == torch.device("cpu") and g.to(torch.device("cpu")) is g and g.cpu() is g
    copy = g.to("cpu")  # DGL compares a device with the text, so that this is another graph there
    copy.ndata["copied"] = torch.ones(g.num_nodes())
    assert copy.device == g.device and "copied" not in g.ndata
    there = g.to("meta")
    assert there.device == torch.device("meta") and there.ndata["h"].device.type == "meta" and g.device.type == "cpu"
    assert there.num_nodes() == 3 and there.edges()[0].device.type == "meta" and there.adjacency() is g.adjacency()
    with pytest.raises(DGLError, match="is on cpu, but the graph is on meta"):
        there.ndata["x"] = torch.ones(3)
    with pytest.raises(DGLError, match="is on meta, but the graph is on cpu"):
        g.ndata["x"] = torch.ones(3, device="meta")


@pytest.mark.parametrize("make", [featured, typed, lambda: create_block(([0, 1], [0, 0]), 2, 1), DGLGraph])
@pytest.mark.parametrize("through", [lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy])
def test_pickling(make, through):
    g = make()
    other = through(g)
    assert repr(other) == repr(g) and other.device == g.device and other.idtype == g.idtype
    for etype in g.canonical_etypes:
        assert [x.tolist() for x in other.edges(etype=etype)] == [x.tolist() for x in g.edges(etype=etype)]
    if g.ndata and g.is_homogeneous:
        assert other.ndata["h"].equal(g.ndata["h"]) and other.ndata["h"] is not g.ndata["h"]


def test_a_slice_can_be_pickled_and_cloned_but_not_changed():
    part = pickle.loads(pickle.dumps(typed()["plays"]))
    assert part.num_edges() == 2


def test_graphs_die_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        g = featured()
        g.nodes[[0]].data["h"], g.ndata["h"], g.adjacency().csc()
        with g.local_scope():
            g.reverse()
        watch = weakref.ref(g)
        del g
        assert watch() is None
    finally:
        gc.enable()


def test_repr():
    assert repr(featured()) == (
        "Graph(num_nodes=3, num_edges=3,\n"
        "      ndata_schemes={'h': Scheme(shape=(2,), dtype=torch.float32)}\n"
        "      edata_schemes={'w': Scheme(shape=(), dtype=torch.float32)})"
    )
    assert repr(typed()) == (
        "Graph(num_nodes={'game': 2, 'user': 2},\n"
        "      num_edges={('user', 'knows', 'user'): 1, ('user', 'plays', 'game'): 2},\n"
        "      metagraph=[('user', 'user', 'knows'), ('user', 'game', 'plays')])"
    )
    assert repr(create_block(([0, 1], [0, 0]), 2, 1)) == "Block(num_src_nodes=2, num_dst_nodes=1, num_edges=2)"
    several = create_block({("a", "x", "b"): ([0], [0]), ("b", "y", "b"): ([1], [0])})
    assert repr(several) == (
        "Block(num_src_nodes={'a': 1, 'b': 2},\n      num_dst_nodes={'b': 1},\n"
        "      num_edges={('a', 'x', 'b'): 1, ('b', 'y', 'b'): 1},\n"
        "      metagraph=[('a', 'b', 'x'), ('b', 'b', 'y')])"
    )


def test_repr_shows_the_features_of_every_type():
    g = typed()
    g.nodes["user"].data["age"] = torch.ones(2)
    assert repr(g).endswith(
        "      metagraph=[('user', 'user', 'knows'), ('user', 'game', 'plays')],\n"
        "      ndata_schemes={'user': {'age': Scheme(shape=(), dtype=torch.float32)}})"
    )
    block = create_block(([0, 1], [0, 0]), 2, 1)
    block.srcdata["h"] = torch.ones(2, 3)
    assert repr(block) == (
        "Block(num_src_nodes=2, num_dst_nodes=1, num_edges=2,\n"
        "      srcdata_schemes={'h': Scheme(shape=(3,), dtype=torch.float32)})"
    )
    assert repr(dglite.batch([featured(), featured()])).startswith("Graph(num_nodes=6, num_edges=6, batch_size=2,\n")
    assert repr(graph(([], []))) == "Graph(num_nodes=0, num_edges=0,\n      ndata_schemes={}\n      edata_schemes={})"


def test_repr_aligns_what_is_longer_than_a_line():
    g = graph(([0], [1]))
    g.ndata["label"], g.ndata["train_mask"] = torch.tensor([0, 1]), torch.tensor([True, False])
    assert repr(g) == (
        "Graph(num_nodes=2, num_edges=1,\n"
        "      ndata_schemes={'label':      Scheme(shape=(), dtype=torch.int64),\n"
        "                     'train_mask': Scheme(shape=(), dtype=torch.bool)}\n"
        "      edata_schemes={})"
    )


def test_repr_gathers_no_feature():
    g = featured()
    part = dglite.node_subgraph(g, [0, 1])
    repr(part), part._repr_html_()
    assert type(part.node_frame()._columns["h"]).__name__ == "LazyColumn"


def test_users_may_hang_attributes_on_a_graph():
    g = featured()
    g.label = 3
    assert g.clone().label == 3


def test_dir_lists_what_users_call_and_not_what_other_packages_read():
    names = dir(dglite.graph(([0], [1])))
    assert {"num_nodes", "ndata", "clone", "update_all", "subgraph"} <= set(names)
    assert not {"node_counts", "node_frame_at", "type_graph", "adjacencies", "etype_id"} & set(names)


# -- names of PyG ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", hints.DATA_NAMES)
def test_a_tensor_that_is_set_as_in_pyg_is_kept_with_a_warning(name):
    g = dglite.graph(([0, 1], [1, 2]))
    with pytest.warns(DGLWarning, match=rf"g\.{name} is an attribute.* in dglite: .*(g\.[ne]data|g\.edges)") as caught:
        setattr(g, name, torch.ones(3))
    assert caught[0].filename == __file__
    assert getattr(g, name).sum() == 3 and name in dir(g) and getattr(pickle.loads(pickle.dumps(g)), name).sum() == 3
    delattr(g, name)
    assert not hasattr(g, name) and name not in dir(g)
    with pytest.raises(AttributeError, match="in dglite"):
        delattr(g, name)


def test_other_attributes_are_kept_silently(recwarn):
    class Molecule(dglite.DGLGraph):
        pass

    g, molecule = dglite.graph(([0, 1], [1, 2])), Molecule()
    g.smiles, g.y, g.distances, molecule.x = "CCO", 1, torch.ones(2), torch.ones(3)
    assert (g.smiles, g.y, len(g.distances), len(molecule.x)) == ("CCO", 1, 2, 3)
    assert not recwarn.list and not hasattr(dglite.DGLGraph, "x")


# -- assignments -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["num_nodes", "ndata", "nodes", "device", "adjacency", "in_subgraph", "number_of_nodes"]
)
def test_methods_and_properties_cannot_be_set_or_deleted(name):
    g = featured()
    with pytest.raises(AttributeError, match=rf"g\.{name} is a (method|property) of graphs and cannot be set; .*g\."):
        setattr(g, name, 5)
    with pytest.raises(AttributeError, match=rf"g\.{name} is a (method|property) of graphs and cannot be deleted"):
        delattr(g, name)
    assert g.num_nodes() == 3 and name not in g.__dict__


def test_a_method_may_be_replaced_by_a_function_and_put_back():
    g = featured()
    g.num_nodes = lambda: 7
    assert g.num_nodes() == 7
    del g.num_nodes
    assert g.num_nodes() == 3


def test_a_class_of_ones_own_sets_its_own_properties():
    class Molecule(dglite.DGLGraph):
        charge = 0

        @property
        def name(self):
            return self._name

        @name.setter
        def name(self, value):
            self._name = value

    molecule = Molecule()
    molecule.name, molecule.charge = "water", 1
    assert (molecule.name, molecule.charge) == ("water", 1)


def test_state_is_restored_by_a_scope_and_kept_by_pickles_as_before():
    g = featured()
    with g.local_scope():
        g.ndata["z"] = torch.ones(3)
        g.add_edges([0], [1])
    assert "z" not in g.ndata and g.num_edges() == featured().num_edges()
    assert pickle.loads(pickle.dumps(g)).num_nodes() == 3
