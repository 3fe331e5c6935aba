"""Classic methods do what they did, and say what to call today."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch

import dglite
import dglite.function as fn
from dglite import DGLError, DGLGraph
from dglite.errors import warn_deprecated

SRC, DST = [0, 1, 2, 0], [1, 2, 0, 1]


def make() -> DGLGraph:
    g = dglite.graph((SRC, DST), num_nodes=4)
    g.ndata["h"], g.edata["w"] = torch.arange(4.0), torch.arange(4.0)
    return g


def lists(result):
    if isinstance(result, tuple):
        return tuple(map(lists, result))
    return result.tolist() if torch.is_tensor(result) else result


@pytest.mark.parametrize(
    ("call", "today", "expected"),
    [
        (lambda g: g.number_of_nodes(), "num_nodes", 4),
        (lambda g: g.number_of_edges(), "num_edges", 4),
        (lambda g: g.number_of_src_nodes("_N"), "num_src_nodes", 4),
        (lambda g: g.number_of_dst_nodes(), "num_dst_nodes", 4),
        (lambda g: g.in_degree(1), "in_degrees", 2),
        (lambda g: g.out_degree([0, 3]), "out_degrees", [2, 0]),
        (lambda g: g.has_node(4), "has_nodes", False),
        (lambda g: g.has_edge_between(2, 0), "has_edges_between", True),
        (lambda g: g.edge_id(0, 1), "edge_ids", [0, 3]),
        (lambda g: g.edge_id(1, 2), "edge_ids", [1]),
        (lambda g: g.subgraph([1, 2]).edge_id(0, 1), "edge_ids", 0),
        (lambda g: g.subgraph([1, 2]).edge_id(0, 1, force_multi=True), "edge_ids", [0]),
        (lambda g: g.edge_ids([0], [1], force_multi=True), "return_uv", ([0, 0], [1, 1], [0, 3])),
        (lambda g: g.adj_sparse("coo"), "adj_tensors", (SRC, DST)),
        (lambda g: g.restrict_format("csc").formats()["created"], "formats", ["csc"]),
        (lambda g: g.get_n_repr([2, 1])["h"], "g.nodes", [2, 1]),
        (lambda g: g.get_e_repr()["w"], "g.edata", [0, 1, 2, 3]),
        (lambda g: g.get_e_repr(([1], [2]))["w"], "g.edges", [1]),
        (lambda g: g.pop_n_repr("h"), "g.ndata.pop", [0, 1, 2, 3]),
        (lambda g: g.pop_e_repr("w"), "g.edata.pop", [0, 1, 2, 3]),
        (lambda g: g.is_readonly, "can be changed", False),
        (lambda g: g.subgraph([2, 1]).parent_nid, "dglite.NID", [2, 1]),
        (lambda g: g.subgraph([2, 1]).parent_eid, "dglite.EID", [1]),
        (lambda g: g.subgraph([2, 1]).map_to_subgraph_nid([1, 2, 1]), "dglite.NID", [1, 0, 1]),
        (lambda g: list(g.batch_num_nodes), r"g.batch_num_nodes\(\)", [4]),
        (lambda g: dglite.batch([g, g]).batch_num_edges[1], r"g.batch_num_edges\(\)", 4),
        (lambda g: g.adjacency_matrix_scipy().data, "adj_external", [0, 3, 1, 2]),
        (lambda g: g.adjacency_matrix_scipy(True, "coo", False).data, "adj_external", [1, 1, 1, 1]),
        (lambda g: g.adj(True).to_dense()[1], "adj_external", [2, 0, 0, 0]),
        (lambda g: g.adj(scipy_fmt="csr").indptr, "adj_external", [0, 2, 3, 4, 4]),
        (lambda g: g.is_homograph(), "is_homogeneous", True),
        (lambda g: g.adjacency_matrix(True).to_dense()[1], "adj_external", [2, 0, 0, 0]),
        (lambda g: g.adjacency_matrix(transpose=False, scipy_fmt="csr").indptr, "adj_external", [0, 2, 3, 4, 4]),
    ],
)
def test_a_classic_call_answers_and_names_its_successor(call, today, expected):
    with pytest.warns(DeprecationWarning, match=today) as caught:
        result = call(make())
    assert lists(torch.as_tensor(result) if isinstance(result, np.ndarray) else result) == expected
    assert {warning.filename for warning in caught} == {__file__}


def test_the_warning_points_at_the_first_line_outside_of_dglite():
    """Functions that torch's compiler leaves to Python are called through others of dglite with older versions."""
    names = {"__name__": "dglite.somewhere", "warn": warn_deprecated}
    exec("def inner(): warn('old', 'use new')\ndef outer(): inner()", names)
    with pytest.warns(DeprecationWarning, match="old is deprecated; use new") as caught:
        names["outer"]()
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_graph_is_filled_by_hand_and_sends_and_receives():
    g = DGLGraph(multigraph=True)
    g.add_nodes(2, {"h": torch.ones(2)})
    g.add_node(1)
    g.add_edge(0, 1)
    g.add_edge(2, 1, {"w": torch.ones(1)})
    assert g.ndata["h"].tolist() == [1, 1, 0] and g.edata["w"].tolist() == [0, 1]
    g.set_n_repr({"h": torch.tensor([5.0])}, [2])
    g.set_e_repr({"w": torch.tensor([3.0, 4.0])})
    g.register_message_func(fn.src_mul_edge("h", "w", "m"))
    g.register_reduce_func(lambda nodes: {"s": nodes.mailbox["m"].sum(1)})
    g.send(g.edges())
    g.recv(1)
    assert g.ndata["s"].tolist() == [0, 23, 0]
    g.clear()
    assert g.num_nodes() == 0 and not g.ndata and g.number_of_edges() == 0
    g.add_nodes(1)
    with pytest.raises(DGLError, match="no message function"):
        g.update_all(reduce_func=fn.sum("m", "s"))


def test_numbers_of_a_batch_are_a_list_for_code_that_takes_no_other_sequence():
    batched = dglite.batch([dglite.graph((SRC, DST), num_nodes=4), dglite.graph(([0], [1]))])
    assert [len(x) for x in torch.split(torch.ones(6), batched.batch_num_nodes)] == [4, 2]
    assert np.cumsum([0] + batched.batch_num_edges).tolist() == [0, 4, 5]
    assert batched.batch_num_nodes().tolist() == [4, 2]
    assert [0] + make().batch_num_nodes == [0, 4] and [0] + make().batch_num_edges == [0, 4]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_readonly():
    g = DGLGraph([(0, 1)], readonly=True, sort_csr=True)
    assert g.is_readonly
    with pytest.raises(DGLError, match=r"g.readonly\(False\)"):
        g.add_nodes(1)
    g.readonly(False)
    g.add_nodes(1)
    assert g.num_nodes() == 3 and not g.is_readonly
    with pytest.raises(DGLError, match="slice"):
        dglite.heterograph({("a", "x", "b"): ([0], [0]), ("b", "y", "a"): ([0], [0])})["x"].readonly(False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_subgraph_and_its_parent():
    sub = make().subgraph([1, 2])
    sub.copy_from_parent()
    assert sub.ndata["h"].tolist() == [1, 2]
    with pytest.raises(DGLError, match="not in the subgraph"):
        sub.map_to_subgraph_nid([3])
    with pytest.raises(DGLError, match="not in the subgraph"):
        make().subgraph([]).map_to_subgraph_nid(1)
    with pytest.raises(DGLError, match="does not keep its parent"):
        sub.copy_to_parent()


def test_numbers_of_a_batch_are_called_or_read_as_a_list():
    g = dglite.batch([make(), dglite.graph(([0], [0]))], None, None)
    assert g.batch_num_nodes().tolist() == [4, 1] and g.batch_num_nodes("_N").dtype == torch.int64
    with pytest.warns(DeprecationWarning):
        assert g.batch_num_nodes == [4, 1] and len(g.batch_num_edges) == 2
    assert repr(g.batch_num_edges) == "<method batch_num_edges: [4, 1]>"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_graphs_become_those_of_other_libraries():
    g, source = DGLGraph(), networkx.DiGraph()
    source.add_nodes_from([(0, {"x": 1.0}), (1, {"x": 2.0})])
    source.add_edge(1, 0, id=0)
    source.add_edge(0, 1, id=1)
    g.register_message_func(fn.copy_u("x", "m"))
    g.from_networkx(source, node_attrs=["x"])
    assert lists(g.edges()) == ([1, 0], [0, 1]) and g.ndata["x"].tolist() == [1, 2]
    g.update_all(reduce_func=fn.sum("m", "s"))
    assert g.ndata["s"].tolist() == [2, 1]
    g.from_networkx(networkx.path_graph(3))
    assert sorted(zip(*lists(g.edges()), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    g.from_scipy_sparse_matrix(scipy.sparse.coo_matrix(([1.0], ([2], [0])), (3, 3)))
    assert lists(g.edges()) == ([2], [0]) and g.num_nodes() == 3


@pytest.mark.parametrize(
    ("call", "today"),
    [
        (lambda g: g.reverse(share_ndata=False, share_edata=True), "copy_ndata"),
        (lambda g: dglite.reverse(g, share_edata=True, share_ndata=False), "copy_ndata"),
        (lambda g: dglite.batch([g.reverse()], node_attrs=None, edge_attrs=None).reverse(copy_edata=True), "ndata="),
    ],
)
def test_classic_arguments(call, today):
    g = make()
    with pytest.warns(DeprecationWarning, match=today):
        result = call(g)
    assert not result.ndata and list(result.edata) == (["w"] if "copy" in today else [])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_more_classic_arguments():
    g = make()
    assert dglite.batch([g, g], node_attrs="h", edge_attrs=["w"]).batch_num_nodes == [4, 4]
    assert [part.num_nodes() for part in g.subgraphs([[0], [1, 2]])] == [1, 2]
    assert g.edge_subgraph([0], preserve_nodes=True).num_nodes() == 4
    assert g.edge_subgraph([0], preserve_nodes=False).num_nodes() == 2
    g.apply_nodes(lambda nodes: {"h": nodes.data["h"] * 2}, [1], inplace=True)
    g.send_and_recv([1], fn.copy_u("h", "m"), fn.sum("m", "h"), inplace=True)
    assert g.ndata["h"].tolist() == [0, 2, 2, 3]
    g.register_message_func(fn.copy_u("h", "m"))
    g.register_reduce_func(fn.sum("m", "s"))
    tree = dglite.graph(([0, 1], [2, 2]))
    tree.ndata["h"] = torch.ones(3)
    tree.register_message_func(fn.copy_u("h", "m"))
    tree.register_reduce_func(fn.sum("m", "h"))
    dglite.prop_nodes_topo(tree)
    assert tree.ndata["h"].tolist() == [0, 0, 0]
