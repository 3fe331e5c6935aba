"""Functions on the layers above the graph are its methods too."""

from __future__ import annotations

import pytest

import dglite
import dglite.io.shared
import dglite.sparse.graphs
from dglite.graph import DGLGraph
from dglite.graph.attached import AttachedMixin, attach

ELSEWHERE = {
    "subgraph": dglite.node_subgraph,
    "adj": dglite.sparse.graphs.adj,
    "shared_memory": dglite.io.shared.shared_memory,
}


@pytest.mark.parametrize("name", sorted(AttachedMixin.__annotations__))
def test_every_declared_method_is_a_public_function(name: str) -> None:
    function = ELSEWHERE.get(name) or getattr(dglite, name, None) or getattr(dglite.sampling, name)
    assert getattr(DGLGraph, name) is function and function.__doc__


def test_an_undeclared_method_is_refused() -> None:
    with pytest.raises(AssertionError, match="declare shrink in AttachedMixin"):
        attach(shrink=len)
    assert not hasattr(DGLGraph, "shrink")
