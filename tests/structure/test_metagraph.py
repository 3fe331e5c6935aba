"""Types are found by name, canonical name or being the only one; errors list the candidates."""

from __future__ import annotations

import copy
import pickle

import pytest

from dglite.errors import DGLError
from dglite.structure import Metagraph

RELATIONS = [("dev", "follows", "game"), ("user", "follows", "user"), ("user", "plays", "game")]
META = Metagraph(["dev", "game", "user"], RELATIONS)
BLOCK = Metagraph(["a", "b"], [("a", "to", "b"), ("b", "of", "b")], ["b"])
PAIR = Metagraph(["user", "game"], [("user", "plays", "game")])


def test_edge_types():
    assert META.etype_id("plays") == 2
    assert META.etype_id(("user", "follows", "user")) == 1
    assert META.etype_id(["user", "follows", "user"]) == 1
    assert META.ends == ((0, 1), (2, 2), (2, 1))
    assert PAIR.etype_id(None) == 0
    assert META.canonical("plays") == RELATIONS[2]


@pytest.mark.parametrize(
    ("etype", "message"),
    [
        ("follows", "'follows' is ambiguous; give one of"),
        ("likes", "edge type 'likes' does not exist; expected one of"),
        (("user", "plays", "user"), "does not exist"),
        (None, "3 edge types; name one of"),
        (7, "edge type 7 does not exist"),
    ],
)
def test_unknown_edge_types(etype, message):
    with pytest.raises(DGLError, match=message):
        META.etype_id(etype)


def test_types_without_edges_are_source_types():
    meta = Metagraph(["user", "game", "robot"], [("user", "plays", "game")])
    assert meta.is_unibipartite and meta.srctypes == ("user", "robot") and meta.dsttypes == ("game",)
    assert meta.src_set("robot") == meta.node_set("robot") == 2


def test_node_sets():
    assert META.node_set("user") == META.src_set("user") == META.dst_set("user") == 2
    assert PAIR.srctypes == ("user",) and PAIR.dsttypes == ("game",) and PAIR.is_unibipartite
    assert not META.is_unibipartite and META.srctypes == META.ntypes
    for find in (META.node_set, META.src_set, META.dst_set):
        with pytest.raises(DGLError, match="'robot' does not exist"):
            find("robot")
        with pytest.raises(DGLError, match=r"3 .*node types; name one of"):
            find(None)
    with pytest.raises(DGLError, match="source node type 'game' does not exist"):
        PAIR.src_set("game")


def test_a_block_has_two_sets_of_a_type():
    assert BLOCK.ntypes == ("a", "b", "b") and BLOCK.is_block
    assert BLOCK.ends == ((0, 2), (1, 2))
    assert BLOCK.node_set("b") == BLOCK.src_set("b") == BLOCK.node_set("SRC/b") == 1
    assert BLOCK.dst_set("b") == BLOCK.node_set("DST/b") == BLOCK.dst_set(None) == 2
    assert BLOCK.set_names() == ("SRC/a", "SRC/b", "DST/b")


def test_slice_and_reverse():
    part, sets = META.slice([2])
    assert part.ntypes == ("user", "game") and sets == [2, 1]
    part, sets = BLOCK.slice([1])
    assert part.is_block and part.ntypes == ("b", "b") and sets == [1, 2]
    assert META.reversed().canonical_etypes[0] == ("game", "follows", "dev")
    assert BLOCK.reversed().ntypes == ("b", "a", "b")


@pytest.mark.parametrize("meta", [META, BLOCK, PAIR])
def test_pickling(meta):
    other = pickle.loads(pickle.dumps(meta))
    assert repr(other) == repr(meta) and other.ends == meta.ends and other.is_block == meta.is_block
    assert copy.deepcopy(meta) is meta
