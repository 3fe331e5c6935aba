"""Features of another width than the layer's are refused by name, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import scipy.sparse
import torch

from dglite.errors import DGLError
from dglite.nn import DotGatConv, GATConv, GATv2Conv, GraphConv, SAGEConv
from tests.nn import dense

LAYERS: dict[str, Callable[[Any], torch.nn.Module]] = {
    "GraphConv": lambda size: GraphConv(size if isinstance(size, int) else size[0], 2),
    "SAGEConv": lambda size: SAGEConv(size, 2, "pool"),
    "GATConv": lambda size: GATConv(size, 2, 2),
    "GATv2Conv": lambda size: GATv2Conv(size, 2, 2),
    "DotGatConv": lambda size: DotGatConv(size, 2, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_and_the_size_are_named(name: str) -> None:
    g = dense.graph()
    text = rf"{name}: feat has shape \(4, 5\); expected \(rows, ..., 4\)"
    with pytest.raises(DGLError, match=text):
        LAYERS[name](4)(g, torch.ones(4, 5))
    if name != "DotGatConv":
        with pytest.raises(DGLError, match=text):
            LAYERS[name](4)(g, scipy.sparse.csr_matrix(torch.ones(4, 5).numpy()))


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "GraphConv"])
def test_both_sides_are_looked_at(name: str) -> None:
    layer, source, destination = LAYERS[name]((4, 3)), torch.ones(5, 4), torch.ones(3, 4)
    with pytest.raises(DGLError, match=rf"{name}: feat has shape \(3, 4\); expected \(rows, ..., 3\)"):
        layer(dense.bipartite(), (source, destination))
    assert layer(dense.bipartite(), (source, destination[:, :3])) is not None


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("given", [[torch.ones(4, 4), torch.ones(4, 4)], {"_N": torch.ones(4, 4)}])
def test_lists_and_dicts_are_refused_by_name(name: str, given: Any) -> None:
    text = rf"{name}: feat is of type {type(given).__name__}; expected a tensor with a row for each of the 4 source"
    with pytest.raises(DGLError, match=text):
        LAYERS[name](4)(dense.graph(), given)
