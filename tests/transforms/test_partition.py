"""Parts hold their nodes and halos; METIS, where it is installed, cuts where there is little to cut."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from tests.transforms.graphs import multigraphs, pairs


@settings(max_examples=60, deadline=None)
@given(multigraphs(), st.data(), st.integers(0, 3), st.booleans())
def test_parts_have_their_nodes_and_halos(g: DGLGraph, data: st.DataObject, hops: int, reshuffle: bool) -> None:
    n = g.num_nodes()
    parts = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    result, nodes, edges = dglite.partition_graph_with_halo(g, torch.tensor(parts), hops, reshuffle)
    assert set(result) == set(range(max(parts) + 1)) and (nodes is not None) == (edges is not None) == reshuffle
    ends = pairs(g)
    for part, built in result.items():
        ids, eids = built.ndata[dglite.NID].tolist(), built.edata[dglite.EID].tolist()
        if nodes is not None and edges is not None:
            assert built.ndata["orig_id"].tolist() == nodes[ids].tolist()
            assert built.edata["orig_id"].tolist() == edges[eids].tolist()
            inner_ids = [i for i, inner in zip(ids, built.ndata["inner_node"].tolist(), strict=True) if inner]
            assert inner_ids == list(range(min(inner_ids, default=0), min(inner_ids, default=0) + len(inner_ids)))
            ids, eids = nodes[ids].tolist(), edges[eids].tolist()
        assert [(ids[u], ids[v]) for u, v in pairs(built)] == [ends[e] for e in eids]
        assert len(set(ids)) == len(ids) and len(set(eids)) == len(eids)
        inner = {i for i in range(n) if parts[i] == part}
        expected_edges = {e for e, (u, v) in enumerate(ends) if u in inner and v in inner}
        expected_nodes = set(inner)
        if hops:
            expected_edges = {e for e, (u, v) in enumerate(ends) if u in inner or v in inner}
        for _ in range(hops):
            expected_nodes |= {node for e in expected_edges for node in ends[e]}
            if _ < hops - 1:
                halo = expected_nodes - inner
                expected_edges |= {e for e, (u, v) in enumerate(ends) if v in halo}
        expected_nodes |= {node for e in expected_edges for node in ends[e]}
        assert set(ids) == expected_nodes and set(eids) == expected_edges
        assert built.ndata["inner_node"].tolist() == [int(i in inner) for i in ids]
        assert built.ndata["part_id"].tolist() == [parts[i] for i in ids]
        assert built.edata["inner_edge"].tolist() == [int(ends[e][1] in inner) for e in eids]


def cliques() -> DGLGraph:
    """Two cliques of six joined by one edge."""
    ends = [(i, j) for first in (0, 6) for i in range(first, first + 6) for j in range(first, first + 6) if i < j]
    return dglite.graph([*ends, (5, 6), (0, 0), (0, 1)])


def test_metis_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(DGLError, match="needs the package pymetis"):
        dglite.metis_partition(cliques(), 2)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Put a partitioner that halves the nodes in METIS's place, and note what it is asked."""
    calls: list[dict[str, Any]] = []

    def part_graph(k: int, adjacency: Any, **rest: Any) -> tuple[int, list[int]]:
        rest["vweights"] = None if rest["vweights"] is None else rest["vweights"].tolist()
        calls.append({"k": k, "starts": adjacency[0].tolist(), "neighbours": adjacency[1].tolist(), **rest})
        count = len(adjacency[0]) - 1
        return 0, [i * k // count for i in range(count)]

    module = types.ModuleType("pymetis")
    names = {
        "Options": lambda **options: types.SimpleNamespace(**options),
        "ObjType": types.SimpleNamespace(VOL="volume"),
        "CSRAdjacency": lambda starts, neighbours: (starts, neighbours),
        "part_graph": part_graph,
    }
    for name, value in names.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "pymetis", module)
    return calls


def test_metis_gets_each_edge_both_ways_once(stub: list[dict[str, Any]]) -> None:
    g = dglite.graph(([0, 1, 1, 2, 3], [1, 0, 2, 3, 3]))
    assert dglite.metis_partition_assignment(g, 2).tolist() == [0, 0, 1, 1]
    call = stub[0]
    assert call["starts"] == [0, 1, 3, 5, 6] and call["neighbours"] == [1, 0, 2, 1, 3, 2] and call["vweights"] is None
    assert call["recursive"] is False
    dglite.metis_partition_assignment(g, 2, mode="recursive")
    dglite.metis_partition_assignment(g, 2, objtype="vol")
    assert stub[1]["recursive"] is True and stub[2]["options"].objtype == "volume"
    parts = dglite.metis_partition(g, 2, extra_cached_hops=1)
    assert [part.num_nodes() for part in parts.values()] == [3, 3]


def test_what_is_rare_weighs_more(stub: list[dict[str, Any]]) -> None:
    g = dglite.graph(([0, 1, 2], [3, 3, 3]))
    dglite.metis_partition_assignment(g, 2, balance_ntypes=torch.tensor([0, 0, 0, 1]))
    dglite.metis_partition_assignment(g, 2, balance_edges=True)
    assert stub[0]["vweights"] == [1, 1, 1, 2] and stub[1]["vweights"] == [1, 1, 1, 5]


def test_metis_itself_finds_the_cut() -> None:
    pytest.importorskip("pymetis")
    for options in ({}, {"mode": "recursive"}, {"objtype": "vol"}, {"balance_edges": True}):
        parts = dglite.metis_partition_assignment(cliques(), 2, **options).tolist()
        assert parts in ([0] * 6 + [1] * 6, [1] * 6 + [0] * 6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: dglite.metis_partition_assignment(g, 13), "k must be at most 12, the number of nodes"),
        (lambda g: dglite.metis_partition_assignment(g, 2, mode="fast"), "mode='fast'"),
        (lambda g: dglite.metis_partition_assignment(g, 2, mode="recursive", objtype="vol"), "'vol' with 'k-way' only"),
        (lambda g: dglite.metis_partition_assignment(g, 2, torch.zeros(3)), "an integer for each of the 12 nodes"),
        (lambda g: dglite.partition_graph_with_halo(g, [0], 1), "for each of the 12 nodes"),
        (lambda g: dglite.partition_graph_with_halo(g, [0] * 12, -1), "must be an integer >= 0"),
    ],
)
def test_arguments_are_checked(stub: list[dict[str, Any]], call: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        call(cliques())
    assert stub == []
