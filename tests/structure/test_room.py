"""Arrays with a place for every id are refused before they are made, where memory is too small for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dglite
from dglite import config, ops
from dglite.structure import sizes
from tests import forked

N = 1 << 25
OPERATIONS: dict[str, Callable[[dglite.DGLGraph], Any]] = {
    "in_degrees": lambda g: g.in_degrees(),
    "out_degrees": lambda g: g.out_degrees(),
    "nodes": lambda g: g.nodes(),
    "formats": lambda g: g.create_formats_(),
    "csr": lambda g: g.adj_tensors("csr"),
    "copy_e_sum": lambda g: ops.copy_e_sum(g, torch.ones(2, 1)),
    "add_self_loop": dglite.add_self_loop,
    "remove_nodes": lambda g: dglite.remove_nodes(g, [1]),
    "to_homogeneous": lambda g: dglite.to_homogeneous(g, store_type=True),
    "line_graph": dglite.line_graph,
}


def graph() -> dglite.DGLGraph:
    return dglite.graph(([N - 1, 3], [3, 5]), num_nodes=N)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_says_how_much_is_needed_and_leaves_the_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    g = graph()
    monkeypatch.setattr(sizes, "_CHECKED_FROM", 1 << 20)
    monkeypatch.setattr(sizes, "available_memory", lambda: 1 << 21)
    with pytest.raises(dglite.DGLError, match=r"33,554,432 ids, 0\.\d GiB; 0\.0 GiB of memory are free"):
        OPERATIONS[name](g)
    assert [ids.tolist() for ids in g.edges()] == [[N - 1, 3], [3, 5]]


def test_memory_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "available_memory", lambda: None)
    assert graph().in_degrees().sum() == 2
    assert config.available_memory() is None or config.available_memory() > 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are told by Linux")
def test_a_limit_of_the_process_counts() -> None:
    code = """
import resource, dglite
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 30),) * 2)
g = dglite.graph(([2_199_999_999, 3], [3, 5]), num_nodes=2_200_000_000)
for operation in (g.in_degrees, g.nodes, g.create_formats_, lambda: dglite.add_self_loop(g)):
    try:
        operation()
    except dglite.DGLError as error:
        print(str(error)[:60])
"""
    run = forked.run(forked.code, code)
    assert run.stdout == "this needs an array with a place for each of 2,200,000,000 i\n" * 4, run.stderr
