"""Graphs from everything that describes edges, and what is refused."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dglite import convert
from dglite.convert import graph, heterograph
from dglite.errors import DGLError

SRC, DST = [0, 1, 2, 0], [1, 2, 0, 1]
MATRIX = scipy.sparse.coo_matrix(([1.0, 2.0, 3.0, 4.0], (SRC, DST)), shape=(3, 3))
INT32, INT64 = torch.int32, torch.int64


def ends(g, etype=None):
    return [x.tolist() for x in g.edges(etype=etype)]


@pytest.mark.parametrize(
    ("data", "idtype"),
    [
        ((torch.tensor(SRC), torch.tensor(DST)), INT64),
        ((torch.tensor(SRC, dtype=INT32), torch.tensor(DST, dtype=INT32)), INT32),
        ((SRC, DST), INT64),
        ((SRC, torch.tensor(DST, dtype=INT32)), INT32),
        ((np.array(SRC), np.array(DST)), INT64),
        ((np.array(SRC, np.int32), np.array(DST, np.int32)), INT64),
        ((np.array(SRC, np.uint8), np.array(DST, np.uint8)), INT64),
        ((range(3), (1, 2, 0)), INT64),
        (("coo", (SRC, DST)), INT64),
        (("coo", (torch.tensor(SRC, dtype=INT32), torch.tensor(DST, dtype=INT32))), INT32),
        (("csr", ([0, 2, 3, 4], [1, 1, 2, 0], [0, 3, 1, 2])), INT64),
        (("csc", ([0, 1, 3, 4], [2, 0, 0, 1], [2, 0, 3, 1])), INT64),
        (list(zip(SRC, DST, strict=True)), INT64),
        (zip(SRC, DST, strict=True), INT64),
        ([torch.tensor(SRC), torch.tensor(DST)], INT64),
        (MATRIX, INT64),
        (networkx.MultiDiGraph(zip(SRC, DST, strict=True)), INT64),
    ],
)
def test_edges_come_in_many_forms(data, idtype):
    g = graph(data)
    assert g.num_nodes() == 3 and g.idtype == idtype
    result, expected = list(zip(*ends(g), strict=True)), list(zip(SRC, DST, strict=True))[: g.num_edges()]
    assert (sorted(result) == sorted(expected)) if isinstance(data, networkx.Graph) else (result == expected)
    assert g.num_edges() == (3 if isinstance(data, tuple) and isinstance(data[0], range) else 4)


@pytest.mark.parametrize("idtype", [INT32, torch.int64, np.int32, "int32", np.dtype(np.int64)])
def test_idtype(idtype):
    g = graph((torch.tensor(SRC), torch.tensor(DST)), idtype=idtype)
    assert str(g.idtype).endswith("32") == ("32" in str(idtype))
    assert ends(g) == [SRC, DST]


@pytest.mark.parametrize("idtype", [INT32, INT64])
def test_idtype_settles_ends_of_two_dtypes(idtype):
    g = graph((torch.tensor([0, 1]), torch.tensor([2, 0], dtype=INT32)), idtype=idtype)
    assert g.idtype == idtype and [end.tolist() for end in g.edges()] == [[0, 1], [2, 0]]


def test_compressed_rows_without_edge_ids_number_entries_in_order():
    for empty in ((), ([],), (torch.tensor([], dtype=INT64),)):
        assert ends(graph(("csr", ([0, 2, 3], [2, 1, 0], *empty)))) == [[0, 0, 1], [2, 1, 0]]
        assert ends(graph(("csc", ([0, 2, 3], [2, 1, 0], *empty)))) == [[2, 1, 0], [0, 0, 1]]
    assert graph(("csr", ([0, 1], [0])), num_nodes=4).num_nodes() == 4
    assert graph(("csr", (torch.tensor([0, 1], dtype=INT32), torch.tensor([0], dtype=INT32)))).idtype == INT32


def test_graphs_without_edges():
    assert graph(([], [])).num_nodes() == graph([]).num_nodes() == 0
    for data in (([], []), [], (torch.tensor([]), torch.tensor([])), ("csr", ([0], [])), networkx.DiGraph()):
        assert graph(data, num_nodes=3).num_nodes() == 3
    assert graph((torch.tensor([], dtype=INT32),) * 2).idtype == INT32


def test_a_graph_does_not_follow_the_tensors_it_came_from():
    u, v = torch.tensor(SRC), torch.tensor(DST)
    g = graph((u, v))
    u.fill_(9)
    assert ends(g) == [SRC, DST]


@pytest.mark.parametrize("size", [4, 100])
def test_non_contiguous_tensors(size):
    both = torch.arange(2 * size).reshape(size, 2) // 2
    assert ends(graph((both[:, 0], both[:, 1]))) == [list(range(size))] * 2


BAD = [
    (([0, 1], [1]), {}, "2 source nodes but 1 destination nodes"),
    (([0, -3], [1, 1]), {}, "source node id -3 is negative"),
    (([0] * 99 + [-3], [0] * 100), {}, "source node id -3 is negative"),
    (([0], [5]), {"num_nodes": 3}, "destination node id 5 does not exist among 3 nodes; give num_nodes of at least 6"),
    (([], []), {"num_nodes": -1}, "must be an integer >= 0"),
    (([0.5], [1]), {}, "source nodes must be integers, got dtype float64"),
    ((torch.tensor([0.5]), torch.tensor([1])), {}, "must be integers, got dtype float32"),
    ((torch.tensor([True]), torch.tensor([True])), {}, "must be integers, got booleans"),
    ((torch.tensor([0], dtype=INT32), torch.tensor([1])), {}, "source nodes are int32 but destination nodes are int64"),
    ((torch.zeros(1, 1, dtype=INT64), torch.tensor([1])), {}, r"shapes \(1, 1\) and \(1,\)"),
    ((torch.tensor([2**40]), torch.tensor([0])), {"idtype": INT32}, "do not fit int32"),
    (([2**31], torch.tensor([0], dtype=INT32)), {}, "does not fit idtype int32"),
    (([0], [1]), {"idtype": torch.float32}, "idtype must be int32 or int64"),
    (("csr", ([0, 1], [0], [0], [0])), {}, "is not understood; expected"),
    (("ell", ([0, 1], [0])), {}, "'ell', 2 arrays"),
    (("csr", ([0, 2], [0])), {}, "indptr runs from 0 to 2"),
    ([(0, 1, 2)], {}, r"edges must be pairs \(u, v\) of node ids, got \(0, 1, 2\)"),
    ([0, 1], {}, "edges must be pairs"),
    ("abc", {}, "edges cannot be read from str"),
    (3, {}, "edges cannot be read from int"),
    (scipy.sparse.coo_matrix((2, 3)), {}, r"shape \(2, 3\) is not square"),
    (
        (torch.tensor([0]), torch.zeros(1, dtype=INT64, device="meta")),
        {},
        "edges are given on cpu and on meta; move the tensors to one device",
    ),
]


@pytest.mark.parametrize(("data", "options", "message"), BAD)
def test_bad_edges(data, options, message):
    with pytest.raises(DGLError, match=message):
        graph(data, **options)


def test_a_graph_is_not_edges():
    with pytest.raises(DGLError, match="a DGLGraph already"):
        graph(graph(([0], [1])))


# -- several types -----------------------------------------------------------------------------------------------
def test_heterograph_counts_nodes_over_relations():
    g = heterograph({("a", "x", "b"): ([0, 4], [1, 0]), ("b", "y", "b"): ([0], [6])}, {"c": 2})
    assert (g.num_nodes("a"), g.num_nodes("b"), g.num_nodes("c")) == (5, 7, 2)
    assert ends(g, "x") == [[0, 4], [1, 0]] and g.in_degrees(etype="x").shape == (7,)
    assert heterograph({("_N", "_E", "_N"): ([0], [1])}).is_homogeneous
    assert heterograph({}, {"a": 3}).num_nodes("a") == 3
    assert heterograph({("a", "x", "a"): ([0], [1])}, idtype=INT32, device="cpu").idtype == INT32


@pytest.mark.parametrize(
    ("data", "counts", "message"),
    [
        ({"x": ([0], [1])}, None, "an edge type is three strings"),
        ({("a", 1, "b"): ([0], [1])}, None, "an edge type is three strings"),
        (([0], [1]), None, "expected a dictionary"),
        ({("a", "x", "b"): ([0], [5])}, {"b": 2}, "'x', 'b'.: destination node id 5 does not exist among 2 nodes"),
        ({("a", "x", "b"): ([0], [1]), ("a", "y", "b"): ([0], [1, 2])}, None, "'y', 'b'.: 1 source nodes but 2"),
        (
            {("a", "x", "b"): (torch.tensor([0]),) * 2, ("a", "y", "b"): (torch.tensor([0], dtype=INT32),) * 2},
            None,
            "ids of int32 and of int64",
        ),
    ],
)
def test_bad_heterographs(data, counts, message):
    with pytest.raises(DGLError, match=message):
        heterograph(data, counts)


@pytest.mark.parametrize(
    ("u", "v"),
    [
        (torch.tensor([1]), torch.tensor([2])),
        (torch.tensor(1), torch.tensor(2)),
        (torch.tensor(1), torch.tensor([2])),
        (torch.tensor([1]), 2),
        (np.int64(1), [2]),
        (1, 2),
    ],
)
def test_one_edge_may_be_given_without_an_axis(u, v):
    assert ends(graph((u, v))) == [[1], [2]]
    assert ends(heterograph({("a", "x", "b"): (u, v)})) == [[1], [2]]
    assert ends(convert.create_block((u, v))) == [[1], [2]]


def test_one_node_does_not_stand_for_several():
    with pytest.raises(DGLError, match=r"shapes \(2,\) and \(\)"):
        graph(([1, 2], 1))


def test_blocks():
    b = convert.create_block((SRC, DST), num_src_nodes=4, num_dst_nodes=3)
    assert b.is_block and b.num_src_nodes() == 4 and b.num_dst_nodes() == 3 and ends(b) == [SRC, DST]
    assert convert.create_block(("csc", ([0, 2], [3, 1], []))).num_src_nodes() == 4
    b = convert.create_block({("a", "x", "b"): ([0], [1]), ("b", "y", "b"): ([2], [0])}, {"a": 1, "b": 3}, {"b": 2})
    assert b.num_src_nodes("b") == 3 and b.num_dst_nodes("b") == 2 and b.dsttypes == ["b"]
    assert convert.create_block(([0, 1, 2], [1, 2, 3]), 3, 4).num_dst_nodes() == 4
    with pytest.raises(DGLError, match="2 source nodes of type '_N' are fewer than its 3 destination nodes"):
        convert.create_block(([], []), 2, 3, node_count_check=True)


# -- SciPy -------------------------------------------------------------------------------------------------------
def test_scipy():
    g = convert.from_scipy(MATRIX, eweight_name="w", idtype=INT32)
    assert ends(g) == [SRC, DST] and g.edata["w"].tolist() == [1, 2, 3, 4] and g.idtype == INT32
    wide = scipy.sparse.random(3, 7, 0.4, format="csr", random_state=0)
    h = convert.bipartite_from_scipy(wide, "user", "buys", "item", eweight_name="w")
    assert h.num_nodes("user") == 3 and h.num_nodes("item") == 7
    np.testing.assert_allclose(h.adj(eweight_name="w").to_dense(), wide.toarray())
    for make in (convert.from_scipy, lambda x: convert.bipartite_from_scipy(x, "a", "x", "b")):
        with pytest.raises(DGLError, match="expected a SciPy sparse matrix, got ndarray"):
            make(np.eye(2))
    with pytest.raises(DGLError, match="both of type 'a'"):
        convert.bipartite_from_scipy(wide, "a", "x", "a")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15, unique=True))
def test_scipy_and_back(pairs):
    matrix = scipy.sparse.coo_matrix((np.ones(len(pairs)), ([u for u, _ in pairs], [v for _, v in pairs])), (6, 6))
    np.testing.assert_array_equal(convert.from_scipy(matrix).adj_external(scipy_fmt="coo").toarray(), matrix.toarray())


# -- NetworkX ----------------------------------------------------------------------------------------------------
def test_an_undirected_networkx_graph_lists_neighbours_as_they_are_met() -> None:
    u, v = convert.from_networkx(networkx.cycle_graph(4)).edges()
    assert list(zip(u.tolist(), v.tolist(), strict=True)) == [
        *[(0, 1), (0, 3), (1, 0), (1, 2)],
        *[(2, 1), (2, 3), (3, 0), (3, 2)],  # of 3, the neighbour 0 was met first, though 2 is in the graph before it
    ]


def test_an_undirected_networkx_graph_goes_both_ways():
    g = convert.from_networkx(networkx.path_graph(3))
    assert sorted(zip(*ends(g), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert convert.from_networkx(networkx.Graph([("b", "a")])).num_nodes() == 2
    assert convert.from_networkx(networkx.Graph([("b", 1)])).num_nodes() == 2


def test_networkx_attributes():
    source = networkx.DiGraph()
    source.add_node(2, h=torch.tensor([2.0, 0]))
    source.add_node(0, h=torch.tensor([0.0, 1]))
    source.add_node(1, h=torch.tensor([1.0, 1]))
    source.add_edge(2, 0, w=0.5, number=1)
    source.add_edge(0, 1, w=1.5, number=0)
    g = convert.from_networkx(source, ["h"], ["w"], edge_id_attr_name="number", idtype=INT32)
    assert g.ndata["h"][:, 0].tolist() == [0, 1, 2] and g.edata["w"].tolist() == [1.5, 0.5]
    assert ends(g) == [[0, 2], [1, 0]] and g.idtype == INT32 and g.edata["w"].dtype == torch.float32
    for options, message in (
        ({"node_attrs": ["x"]}, "3 of 3 nodes have no attribute 'x'"),
        ({"edge_attrs": ["x"]}, "2 of 2 edges have no attribute 'x'"),
        ({"edge_id_attr_name": "x"}, "has no attribute 'x' to give its id"),
        ({"edge_id_attr_name": "w"}, r"must be 0 \.\. 1, each once"),
    ):
        with pytest.raises(DGLError, match=message):
            convert.from_networkx(source, **options)
    with pytest.raises(DGLError, match="expected a NetworkX graph, got list"):
        convert.from_networkx([])


def test_networkx_attributes_that_are_lists_of_numbers_are_float32() -> None:
    source = networkx.DiGraph([(0, 1), (1, 2)])
    networkx.set_edge_attributes(source, {(0, 1): [1.0, 2.0], (1, 2): [3.0, 4.0]}, "list")
    networkx.set_edge_attributes(source, {(0, 1): np.ones(2), (1, 2): np.ones(2)}, "array")
    edges = convert.from_networkx(source, edge_attrs=["list", "array"]).edata
    assert edges["list"].tolist() == [[1, 2], [3, 4]]
    assert (edges["list"].dtype, edges["array"].dtype) == (torch.float32, torch.float64)


def test_networkx_and_back():
    g = graph((SRC, DST))
    g.ndata["h"], g.edata["w"] = torch.eye(3), torch.arange(4.0)
    oracle = convert.to_networkx(g, ["h"], ["w"])
    assert [
        (u, v, d["id"], float(d["w"])) for u, v, d in sorted(oracle.edges(data=True), key=lambda e: e[2]["id"])
    ] == [
        (0, 1, 0, 0.0),
        (1, 2, 1, 1.0),
        (2, 0, 2, 2.0),
        (0, 1, 3, 3.0),
    ]
    again = convert.from_networkx(oracle, ["h"], ["w"], edge_id_attr_name="id")
    assert ends(again) == [SRC, DST] and again.ndata["h"].equal(g.ndata["h"]) and again.edata["w"].equal(g.edata["w"])
    with pytest.raises(KeyError, match="no feature 'x'"):
        convert.to_networkx(g, ["x"])


def test_typed_graphs_to_networkx():
    g = heterograph({("user", "plays", "game"): ([0, 1], [0, 0])})
    g.nodes["game"].data["p"] = torch.ones(1)
    oracle = convert.to_networkx(g, node_attrs=["p"])
    assert [d["ntype"] for _, d in oracle.nodes(data=True)] == ["game", "user", "user"] and "p" in oracle.nodes[0]
    assert [d["id"] for _, _, d in oracle.edges(data=True)] == [0, 1]
    assert list(oracle.edges()) == [(1, 0), (2, 0)] and oracle.edges[1, 0, 0]["etype"] == ("user", "plays", "game")
    g = heterograph({("a", "x", "a"): ([0, 1], [1, 0]), ("a", "y", "a"): ([1], [1])})
    assert sorted(d["id"] for _, _, d in convert.to_networkx(g).edges(data=True)) == [0, 1, 2]
    block = convert.to_networkx(convert.create_block(([0, 1], [0, 0]), 2, 1))
    assert block.number_of_nodes() == 3 and list(block.edges()) == [(0, 2), (1, 2)]


def test_bipartite_networkx():
    source = networkx.DiGraph()
    source.add_nodes_from([1, 3], bipartite=0, a=1.0)
    source.add_nodes_from([0, 2], bipartite=1, b=2.0)
    source.add_edges_from([(1, 2, {"w": 5}), (3, 0, {"w": 6})])
    g = convert.bipartite_from_networkx(source, "u", "to", "v", ["a"], ["w"], ["b"])
    assert sorted(zip(*ends(g), g.edata["w"].tolist(), strict=True)) == [(0, 1, 5), (1, 0, 6)]
    assert g.nodes["u"].data["a"].tolist() == [1, 1] and g.nodes["v"].data["b"].tolist() == [2, 2]
    source.add_edge(0, 1)
    with pytest.raises(DGLError, match="edge 0 -> 1 does not go from"):
        convert.bipartite_from_networkx(source, "u", "to", "v")
    source.add_node(9)
    with pytest.raises(DGLError, match="node 9 has bipartite=None"):
        convert.bipartite_from_networkx(source, "u", "to", "v")
    with pytest.raises(DGLError, match="expected a directed NetworkX graph"):
        convert.bipartite_from_networkx(networkx.Graph(), "u", "to", "v")
