"""The layers are found where DGL's users look for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dglite
import dglite.nn as nn
import dglite.nn.pytorch as dglnn
from dglite import DGLError


def test_the_torch_namespace_has_the_same_layers() -> None:
    layers = [name for name in nn.__all__ if name != "functional"]
    assert all(getattr(dglnn, name) is getattr(nn, name) for name in layers)
    assert dglnn.edge_softmax is nn.functional.edge_softmax


@pytest.mark.parametrize(
    "call",
    [
        lambda g, x: nn.GraphConv(3, 2)(x, g),
        lambda g, x: nn.SAGEConv(3, 2, "mean")(x, g),
        lambda g, x: nn.GATConv(3, 2, 1)(x, g),
        lambda g, x: nn.GATv2Conv(3, 2, 1)(x, g),
        lambda g, x: nn.DotGatConv(3, 2, 1)(x, g),
        lambda g, x: nn.EdgeWeightNorm()(x, g),
        lambda g, x: nn.functional.edge_softmax(x, g),
        lambda g, x: dglite.ops.copy_u_sum(x, g),
        lambda g, x: dglite.ops.gat_attention(x, x, x, g),
        lambda g, x: dglite.readout_nodes(x, g),
        lambda g, x: dglite.broadcast_edges(x, g),
        lambda g, x: dglite.node_subgraph(x, g),
        lambda g, x: dglite.in_subgraph(x, g),
        lambda g, x: dglite.khop_in_subgraph(x, g, 1),
        lambda g, x: dglite.sampling.sample_neighbors(x, g, 1),
        lambda g, x: dglite.sampling.random_walk(x, g, length=1),
        lambda g, x: dglite.bfs_nodes_generator(x, g),
        lambda g, x: dglite.to_block(x, g),
        lambda g, x: dglite.line_graph(x),
    ],
)
def test_swapped_arguments_are_called_so(call: Callable[[dglite.DGLGraph, torch.Tensor], Any]) -> None:
    with pytest.raises(DGLError, match="takes a graph as its first argument"):
        call(dglite.graph(([0, 1], [1, 0])), torch.ones(2, 3))


def test_a_graph_for_a_list_of_graphs_is_called_so() -> None:
    for call in (dglite.batch, dglite.merge):
        with pytest.raises(DGLError, match="expected a list of graphs, got DGLGraph"):
            call(dglite.graph(([0, 1], [1, 0])))
