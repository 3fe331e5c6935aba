"""Formats, reverse, and exports to SciPy and to sparse tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dglite.convert import create_block, graph, heterograph
from dglite.errors import DGLError

SRC, DST = [0, 1, 2, 0, 3], [1, 2, 0, 1, 3]


def dense(num_src=5, num_dst=5):
    matrix = np.zeros((num_src, num_dst))
    np.add.at(matrix, (SRC, DST), 1)
    return matrix


def make():
    return graph((SRC, DST), num_nodes=5)


def test_formats_are_made_on_demand():
    g = make()
    assert g.formats() == {"created": ["coo"], "not created": ["csr", "csc"]}
    g.adjacency().csc()
    assert g.formats()["created"] == ["coo", "csc"]
    g.create_formats_()
    assert g.formats() == {"created": ["coo", "csr", "csc"], "not created": []}


@pytest.mark.parametrize("kept", ["csc", ["csr", "csc"], ("coo",)])
def test_a_graph_may_keep_some_formats_only(kept):
    g = make().formats(kept)
    g.create_formats_()
    names = [kept] if isinstance(kept, str) else list(kept)
    assert g.formats() == {"created": names, "not created": []}
    assert [x.tolist() for x in g.edges()] == [SRC, DST] and g.in_degrees(1) == 2
    g.add_edges(4, 4)
    assert g.edges()[0].tolist() == [*SRC, 4]


@pytest.mark.parametrize("wrong", ["ell", [], ["csr", "x"]])
def test_unknown_formats(wrong):
    with pytest.raises(DGLError, match="formats must be some of"):
        make().formats(wrong)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_graph_made_by_rows_has_that_format_and_the_edge_ids_that_were_given(form):
    rows = [0, 2, 3, 4], [1, 2, 2, 0]
    g = graph((form, (*rows, [])))
    assert g.formats()["created"] == [form]
    for result in (g, g.int(), g.clone()):
        result.edges(), result.create_formats_()
        assert [x.tolist() for x in result.adj_tensors(form)] == [*rows, []]
        assert all(x.dtype == result.idtype for x in result.adj_tensors(form))
    for ids in ([0, 1, 2, 3], [1, 2, 3, 0]):
        g = graph((form, (*rows, ids)))
        assert g.formats()["created"] == [form]
        assert [x.tolist() for x in g.adj_tensors(form)] == [*rows, ids]


def test_the_first_format_of_several_is_made():
    assert make().formats(["csc", "csr"]).formats() == {"created": ["csr"], "not created": ["csc"]}


def test_adj_tensors():
    g = make()
    assert [x.tolist() for x in g.adj_tensors("coo")] == [SRC, DST]
    assert [x.tolist() for x in g.adj_tensors("csr")] == [[0, 2, 3, 4, 5, 5], [1, 1, 2, 0, 3], [0, 3, 1, 2, 4]]
    assert [x.tolist() for x in g.adj_tensors("csc")] == [[0, 1, 3, 4, 5, 5], [2, 0, 0, 1, 3], [2, 0, 3, 1, 4]]
    with pytest.raises(DGLError, match="fmt='x' is not understood"):
        g.adj_tensors("x")


@pytest.mark.parametrize("transpose", [False, True])
def test_adj_external(transpose):
    g = make()
    expected = dense().T if transpose else dense()
    np.testing.assert_array_equal(g.adj_external(transpose).to_dense(), expected)
    np.testing.assert_array_equal(g.adj_external(transpose, scipy_fmt="coo").toarray(), expected)
    csr = g.adj_external(transpose, scipy_fmt="csr")
    np.testing.assert_array_equal(csr.toarray(), expected)
    csr.sum_duplicates()
    csr.indices[:] = 0
    assert g.adj_external(transpose, scipy_fmt="csr").nnz == 5 and g.in_degrees().tolist() == [1, 2, 1, 1, 0]
    with pytest.raises(DGLError, match="scipy_fmt='ell' is not understood"):
        g.adj_external(scipy_fmt="ell")


def test_adj_carries_edge_weights_and_their_gradient():
    g = make()
    np.testing.assert_array_equal(g.adj().to_dense(), dense())
    assert g.adj().val.dtype == torch.float32 and g.adj().row.tolist() == SRC and g.adjacency_matrix().nnz == 5
    weight = torch.arange(5.0, requires_grad=True)
    g.edata["w"] = weight
    matrix = g.adj(eweight_name="w")
    assert matrix.shape == (5, 5) and matrix.to_dense()[0, 1] == 3
    (matrix @ torch.ones(5, 1)).sum().backward()
    assert weight.grad.tolist() == [1] * 5


def test_exports_of_one_relation():
    g = heterograph({("a", "x", "b"): (SRC, DST), ("a", "y", "a"): ([0], [0])}, {"a": 4, "b": 6})
    np.testing.assert_array_equal(g.adj("x").to_dense(), dense(4, 6))
    assert g.adj_external(True, scipy_fmt="coo", etype="x").shape == (6, 4)
    with pytest.raises(DGLError, match="2 edge types"):
        g.adj()


def test_incidence():
    g = make()
    src, dst = np.zeros((5, 5)), np.zeros((5, 5))
    src[SRC, range(5)] = dst[DST, range(5)] = 1
    np.testing.assert_array_equal(g.inc("out").to_dense(), src)
    np.testing.assert_array_equal(g.inc("in").to_dense(), dst)
    np.testing.assert_array_equal(g.inc("both").to_dense(), dst - src)
    with pytest.raises(DGLError, match="typestr='x' is not understood"):
        g.inc("x")


def test_incidence_of_both_ends_needs_one_node_set():
    g = heterograph({("a", "x", "b"): (SRC, DST), ("a", "y", "a"): ([0], [1])}, {"a": 4, "b": 6})
    assert g.inc("both", etype="y").to_dense().tolist() == [[-1], [1], [0], [0]]
    assert g.inc("in", etype="x").shape == (6, 5)
    with pytest.raises(DGLError, match=r"\('a', 'x', 'b'\) joins different node sets.*'in' or 'out'"):
        g.inc("both", etype="x")


def test_reverse():
    g = make()
    g.ndata["h"], g.edata["w"] = torch.ones(5), torch.ones(5)
    r = g.reverse()
    assert [x.tolist() for x in r.edges()] == [DST, SRC] and r.ndata["h"] is g.ndata["h"] and not r.edata
    r = g.reverse(copy_ndata=False, copy_edata=True)
    assert not r.ndata and r.edata["w"] is g.edata["w"] and g.ndata and g.num_edges() == 5
    assert r.adjacency().reverse() is g.adjacency()
    h = heterograph({("a", "x", "b"): (SRC, DST)}).reverse()
    assert h.canonical_etypes == [("b", "x", "a")] and h.num_src_nodes() == 4
    with pytest.raises(DGLError, match="a block cannot be reversed"):
        create_block((SRC, DST)).reverse()


def test_empty_graphs_export():
    g = graph(([], []), num_nodes=2)
    assert g.adj().to_dense().tolist() == [[0, 0], [0, 0]] and g.inc("both").shape == (2, 0)
    assert g.adj_external(scipy_fmt="csr").nnz == 0 and g.reverse().num_nodes() == 2
