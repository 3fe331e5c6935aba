"""Rows sorted by tag hold the same edges, and offsets say where each tag starts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from tests.transforms.graphs import multigraphs, pairs


@settings(max_examples=60, deadline=None)
@given(multigraphs(), st.data(), st.sampled_from(["node", "edge"]), st.booleans())
def test_rows_are_sorted_by_tag(g: DGLGraph, data: st.DataObject, kind: str, by_src: bool) -> None:
    size = g.num_nodes() if kind == "node" else g.num_edges()
    tags = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    function, fmt = (dglite.sort_csr_by_tag, "csr") if by_src else (dglite.sort_csc_by_tag, "csc")
    result = function(g, torch.tensor(tags, dtype=torch.int64), "where", kind)
    indptr, indices, edge_ids = (x.tolist() for x in result.adj_tensors(fmt))
    assert pairs(result) == pairs(g) and result.edata["name"] is g.edata["name"] and "where" not in g.ndata
    assert sorted(edge_ids) == list(range(g.num_edges()))
    offsets = result.ndata["where"].tolist()
    ends = pairs(g)
    for node in range(g.num_nodes()):
        row = range(indptr[node], indptr[node + 1])
        assert [ends[edge_ids[i]] for i in row] == [(node, indices[i]) if by_src else (indices[i], node) for i in row]
        results = [tags[indices[i]] if kind == "node" else tags[edge_ids[i]] for i in row]
        assert results == sorted(results)
        expected = [sum(t < tag for t in results) for tag in range(max(tags, default=-1) + 2)]
        assert offsets[node] == expected
    other = "csc" if by_src else "csr"
    assert [x.tolist() for x in result.adj_tensors(other)] == [x.tolist() for x in g.adj_tensors(other)]


def test_the_published_order() -> None:
    g = dglite.graph(([0, 0, 0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 0, 1, 2]))
    result = dglite.sort_csr_by_tag(g, torch.tensor([1, 1, 0, 2, 0]))
    assert result.adj_tensors("csr")[1].tolist() == [2, 4, 0, 1, 3, 2, 0, 1]
    assert result.ndata["_TAG_OFFSET"].tolist()[:2] == [[0, 2, 4, 5], [0, 1, 3, 3]]


def test_bipartite_graphs_keep_offsets_on_the_near_side() -> None:
    g = dglite.heterograph({("user", "plays", "game"): ([0, 0, 1], [2, 0, 1])})
    assert dglite.sort_csr_by_tag(g, [1, 0, 0]).nodes["user"].data["_TAG_OFFSET"].tolist() == [[0, 1, 2], [0, 1, 1]]
    assert dglite.sort_csc_by_tag(g, [1, 0]).nodes["game"].data["_TAG_OFFSET"].shape == (3, 3)


def test_tags_are_checked() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    with pytest.raises(DGLError, match="for each of the 3 neighbours"):
        dglite.sort_csr_by_tag(g, [0, 1])
    with pytest.raises(DGLError, match="for each of the 2 edges"):
        dglite.sort_csr_by_tag(g, [0.5, 1], tag_type="edge")
    with pytest.raises(DGLError, match="tag_type='graph'"):
        dglite.sort_csc_by_tag(g, [0, 1, 2], tag_type="graph")


def test_edges_are_weighted_by_in_degree() -> None:
    assert dglite.norm_by_dst(dglite.graph(([0, 1, 1], [1, 1, 2]))).tolist() == [0.5, 0.5, 1]
    g = dglite.heterograph({("a", "r", "b"): ([0, 1], [0, 0]), ("b", "s", "a"): ([0], [1])})
    assert dglite.norm_by_dst(g, "r").tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("cast", "dtype"),
    [
        (dglite.to_half, torch.float16),
        (dglite.to_float, torch.float32),
        (dglite.to_double, torch.float64),
        (dglite.to_bfloat16, torch.bfloat16),
    ],
)
def test_precision_is_that_of_floating_features(cast: object, dtype: torch.dtype) -> None:
    assert callable(cast)
    g = dglite.heterograph({("a", "r", "b"): ([0], [0])})
    g.nodes["a"].data["h"], g.nodes["b"].data["n"], g.edata["w"] = (
        torch.ones(1),
        torch.tensor([1]),
        torch.ones(1).half(),
    )
    result = cast(g)
    assert result.nodes["a"].data["h"].dtype == result.edata["w"].dtype == dtype
    assert result.nodes["b"].data["n"].dtype == torch.int64 and g.nodes["a"].data["h"].dtype == torch.float32
