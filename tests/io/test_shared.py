"""Processes find a graph's structure by name, and features go through torch's queues without being copied."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing

import dglite
from dglite import DGLError, DGLGraph
from tests.io.graphs import KINDS, heterogeneous
from tests.patience import PATIENCE

NAME = f"test {os.getpid()}/ä"
READER = """
import sys, dglite
g = dglite.hetero_from_shared_memory(sys.argv[1])
created = g.formats()["created"]
print(g.num_nodes(), g.num_edges(), *[x for end in g.edges() for x in end.tolist()], len(g.ndata), created)
"""


def small() -> DGLGraph:
    g = dglite.graph(([0, 1, 2], [1, 2, 0]), num_nodes=4)
    g.ndata["x"] = torch.ones(4, 1)
    return g


def test_another_process_finds_a_graph_by_name() -> None:
    shared = small().shared_memory(NAME, "csc")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run([sys.executable, "-c", READER, NAME], env=environment, capture_output=True, text=True)
    assert run.stdout.strip() == "4 3 0 1 2 1 2 0 0 ['csc']", run.stderr
    assert shared.num_edges() == 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_structure_is_the_same_and_has_no_features(kind: str) -> None:
    g = KINDS[kind]()
    shared = g.shared_memory(NAME)
    for actual in (shared, dglite.hetero_from_shared_memory(NAME)):
        assert (actual.ntypes, actual.canonical_etypes, actual.idtype) == (g.ntypes, g.canonical_etypes, g.idtype)
        assert actual.node_counts == g.node_counts and actual.formats()["created"] == ["coo", "csr", "csc"]
        for etype in g.canonical_etypes:
            assert all(torch.equal(a, b) for a, b in zip(actual.edges(etype=etype), g.edges(etype=etype), strict=True))
        assert not any(dict(actual.node_frame_at(i)) for i in range(len(actual.node_counts)))


def test_a_name_lasts_as_long_as_its_graph() -> None:
    first = heterogeneous().shared_memory(NAME)
    second = small().shared_memory(NAME)
    del first
    gc.collect()
    taken = dglite.hetero_from_shared_memory(NAME)  # the second's
    del second
    gc.collect()
    with pytest.raises(DGLError, match="no graph is shared by the name"):
        dglite.hetero_from_shared_memory(NAME)
    assert taken.num_edges() == 3 and taken.in_degrees().tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("name", ["", 3, None])
def test_names_are_texts(name: Any) -> None:
    with pytest.raises(DGLError, match="named by a text"):
        small().shared_memory(name)
    with pytest.raises(DGLError, match="named by a text"):
        dglite.hetero_from_shared_memory(name)


def test_formats_are_checked() -> None:
    for formats in ("dense", []):
        with pytest.raises(DGLError, match="format"):
            small().shared_memory(NAME, formats)


def _work(given: Any, results: Any, done: Any) -> None:
    g = given.get()
    g.ndata["x"][0] = 7
    g.ndata["new"] = g.ndata["x"] * 2
    results.put(g)
    done.wait(PATIENCE)  # the memory of what was put lasts as long as its process


@pytest.mark.skipif(os.name != "posix", reason="processes are forked")
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_queues_share_features(how: str) -> None:
    context = torch.multiprocessing.get_context(how)
    given, results, done = context.Queue(), context.Queue(), context.Event()
    process = context.Process(target=_work, args=(given, results, done))
    process.start()
    g = small()
    g.ndata["x"] = g.ndata["x"].share_memory_()
    given.put(g)
    result = results.get(timeout=PATIENCE)
    assert g.ndata["x"].flatten().tolist() == [7, 1, 1, 1] == result.ndata["x"].flatten().tolist()
    assert result.ndata["new"].is_shared() and result.ndata["new"].flatten().tolist() == [14, 2, 2, 2]
    assert result.edges()[1].tolist() == [1, 2, 0]
    done.set()
    process.join(PATIENCE)
    assert process.exitcode == 0


def test_a_user_without_a_name_shares_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyError("uid not found"), OSError("no username set in the environment")):

        def getuser(error: Exception = error) -> str:
            raise error

        monkeypatch.setattr("getpass.getuser", getuser)
        g = dglite.graph(([0, 1], [1, 2])).shared_memory(NAME)
        assert dglite.hetero_from_shared_memory(NAME).num_edges() == g.num_edges() == 2
        del g
        gc.collect()
