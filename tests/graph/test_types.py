"""Names of types, relation slices, batch sizes."""

from __future__ import annotations

import pytest
import torch

from dglite.convert import create_block, graph, heterograph
from dglite.errors import DGLError

DEV, FOLLOWS, PLAYS = ("dev", "follows", "game"), ("user", "follows", "user"), ("user", "plays", "game")


def typed():
    return heterograph({FOLLOWS: ([0, 1], [1, 2]), PLAYS: ([0, 1], [0, 1]), DEV: ([0], [1])})


def test_a_graph_of_one_type():
    g = graph(([0], [1]))
    assert g.ntypes == g.srctypes == g.dsttypes == ["_N"] and g.canonical_etypes == [("_N", "_E", "_N")]
    assert g.is_homogeneous and not g.is_block and not g.is_unibipartite
    assert g.get_ntype_id("_N") == g.get_etype_id("_E") == g.get_etype_id(None) == 0


def test_several_types_are_sorted():
    g = typed()
    assert g.ntypes == ["dev", "game", "user"] and g.etypes == ["follows", "follows", "plays"]
    assert g.canonical_etypes == [DEV, FOLLOWS, PLAYS] and not g.is_homogeneous
    assert g.to_canonical_etype("plays") == g.to_canonical_etype(PLAYS) == PLAYS and g.get_etype_id(DEV) == 0
    assert g.get_ntype_id_from_src("user") == g.get_ntype_id_from_dst("user") == g.get_ntype_id("user") == 2
    assert g.dst_type_id("plays") == 1 and g.src_type_id("plays") == 2 and g.dst_type_id(2) == 1
    assert g.num_nodes() == 6 and g.num_edges() == 5 and g.num_src_nodes("user") == 3 and g.num_edges(FOLLOWS) == 2
    assert g.num_src_nodes() == g.num_dst_nodes() == 6


def test_metagraph():
    meta = typed().metagraph()
    assert list(meta.edges(keys=True)) == [
        ("dev", "game", "follows"),
        ("user", "user", "follows"),
        ("user", "game", "plays"),
    ]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda g: g.in_degrees(), "3 edge types; name one of"),
        (lambda g: g["x"], "matches no edge type"),
        (lambda g: g[1.5], "matches no edge type"),
        (lambda g: g["user", "plays"], "is not understood"),
        (lambda g: g["user", "x", "game"], "matches no edge type"),
        (lambda g: g.to_canonical_etype("follows"), "ambiguous"),
        (lambda g: g.num_nodes("x"), "node type 'x' does not exist; expected one of"),
        (lambda g: g.num_edges(("a", "b", "c")), "does not exist"),
        (lambda g: g.nodes(), "3 node types; name one of"),
        (lambda g: g.etype_id(3), "edge type id 3 does not exist; there are 3 edge types"),
        (lambda g: g.batch_num_nodes(), "3 node types"),
    ],
)
def test_unknown_types(ask, message):
    with pytest.raises(DGLError, match=message):
        ask(typed())


@pytest.mark.parametrize("key", ["plays", PLAYS, ("user", slice(None), "game")])
def test_slices(key):
    part = typed()[key]
    assert part.ntypes == ["user", "game"] and part.canonical_etypes == [PLAYS] and part.is_unibipartite
    assert part.srctypes == ["user"] and part.dsttypes == ["game"]
    assert part.num_src_nodes() == 3 and part.num_dst_nodes() == 2 and part.num_nodes() == 5
    assert part.edges()[1].tolist() == [0, 1] and part.in_degrees().tolist() == [1, 1]
    assert typed()[FOLLOWS].is_homogeneous


def test_slices_of_blocks_are_blocks():
    b = create_block({PLAYS: ([0], [1]), FOLLOWS: ([2], [0])}, {"user": 3}, {"game": 2, "user": 1})
    part = b["plays"]
    assert part.is_block and part.ntypes == ["user", "game"] and part.num_src_nodes() == 3 and part.num_dst_nodes() == 2
    assert b["follows"].num_dst_nodes() == 1


@pytest.mark.parametrize("make", [lambda: graph(([0, 1], [1, 0])), lambda: create_block(([0, 1], [1, 0]))])
def test_a_single_graph_is_a_batch_of_one(make):
    g = make()
    assert g.batch_size == 1 and g.batch_num_edges().tolist() == [2] and g.batch_num_edges().dtype == torch.int64


def test_batches():
    g = graph(([0, 1, 2], [1, 0, 2]))
    g.set_batch_num_nodes(torch.tensor([2, 1, 0]))
    g.set_batch_num_edges([2, 1, 0])
    assert g.batch_size == 3 and g.batch_num_nodes().tolist() == [2, 1, 0] and g.clone().batch_size == 3
    with pytest.raises(DGLError, match=r"batch numbers \[1, 1\] of type '_N' must sum to its 3 nodes"):
        g.set_batch_num_nodes([1, 1])
    g.add_nodes(1)
    assert g.batch_size == 1
    h = typed()
    h.set_batch_num_nodes({"dev": [1, 0], "game": [1, 1], "user": [3, 0]})
    h.set_batch_num_edges({DEV: [1, 0], FOLLOWS: [2, 0], "plays": [1, 1]})
    assert h.batch_num_nodes("game").tolist() == [1, 1] and h["plays"].batch_num_edges().tolist() == [1, 1]
    assert h["plays"].batch_num_nodes("user").tolist() == [3, 0]
    for wrong, message in (
        ([1], "give a dictionary by type"),
        ({"dev": [1]}, "no batch numbers"),
        ({"dev": [1], "game": [1, 1], "user": [3, 0]}, "one number per graph"),
    ):
        with pytest.raises(DGLError, match=message):
            h.set_batch_num_nodes(wrong)
