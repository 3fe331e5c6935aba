"""What functions do to the columns of their batches: a batch of all edges or nodes stands for the graph's features."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dglite
import dglite.function as fn
from dglite.errors import DGLError


@pytest.fixture
def g() -> dglite.DGLGraph:
    g = dglite.graph(([0, 1, 2, 0], [1, 2, 0, 2]))
    g.ndata["h"], g.edata["e"] = torch.tensor([1.0, 2.0, 4.0]), torch.ones(4)
    return g


def gate(edges: Any) -> dict[str, torch.Tensor]:
    """Leave the gate on the edges, as gated graph convolutions do."""
    edges.data["e"] = edges.data["e"] + edges.src["h"] * edges.dst["h"]
    return {"m": torch.sigmoid(edges.data["e"])}


def test_a_message_function_leaves_a_column_on_all_edges(g: dglite.DGLGraph) -> None:
    expected = 1 + g.ndata["h"][g.edges()[0]] * g.ndata["h"][g.edges()[1]]
    g.update_all(gate, fn.sum("m", "out"))
    assert torch.equal(g.edata["e"], expected)
    assert torch.allclose(g.ndata["out"], torch.zeros(3).index_add(0, g.edges()[1], torch.sigmoid(expected)))
    g.update_all(gate, lambda nodes: {"out": nodes.mailbox["m"].sum(1)})
    assert torch.equal(g.edata["e"], 2 * expected - 1)


def test_gradients_pass_through_what_is_left(g: dglite.DGLGraph) -> None:
    h = g.ndata["h"].clone().requires_grad_()
    with g.local_scope():
        g.ndata["h"] = h
        g.update_all(gate, fn.sum("m", "out"))
        g.edata["e"].sum().backward()
    assert h.grad is not None and h.grad.tolist() == [10, 5, 4] and g.edata["e"].tolist() == [1, 1, 1, 1]


def test_a_column_is_removed(g: dglite.DGLGraph) -> None:
    g.apply_edges(lambda edges: {"f": 2 * edges.data.pop("e")})
    assert g.edata["f"].tolist() == [2, 2, 2, 2] and "e" not in g.edata
    g.apply_edges(lambda edges: {"f": edges.data.pop("f") + 1})
    assert g.edata["f"].tolist() == [3, 3, 3, 3]


def test_some_edges_are_a_copy(g: dglite.DGLGraph) -> None:
    g.apply_edges(lambda edges: {"f": 2 * edges.data.pop("e")}, [1, 2])
    g.send_and_recv([0], gate, fn.sum("m", "out"))
    assert g.edata["e"].tolist() == [1, 1, 1, 1] and g.edata["f"].tolist() == [0, 2, 2, 0]


def test_nodes(g: dglite.DGLGraph) -> None:
    def doubled(nodes: Any) -> Any:
        nodes.data["h"] = 2 * nodes.data["h"]
        nodes.data["k"] = nodes.data["h"] + 1
        return nodes.data

    g.apply_nodes(doubled, [0])
    assert g.ndata["h"].tolist() == [2, 2, 4] and g.ndata["k"].tolist() == [3, 0, 0]
    g.apply_nodes(lambda nodes: {"k": nodes.data.pop("h")})
    assert g.ndata["k"].tolist() == [2, 2, 4] and "h" not in g.ndata


def test_reduce_and_apply_functions_change_a_copy(g: dglite.DGLGraph) -> None:
    def reduced(nodes: Any) -> dict[str, torch.Tensor]:
        nodes.data["h"] = nodes.data["h"] + nodes.mailbox["m"].sum(1)
        return {"out": nodes.data["h"]}

    def applied(nodes: Any) -> dict[str, torch.Tensor]:
        nodes.data["out"] = nodes.data["out"] * 2
        return {"out": nodes.data["out"] + 1}

    g.update_all(fn.copy_u("h", "m"), reduced)
    assert g.ndata["out"].tolist() == [5, 3, 7] and g.ndata["h"].tolist() == [1, 2, 4]
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"), applied)
    assert g.ndata["out"].tolist() == [9, 3, 7] and g.ndata["h"].tolist() == [1, 2, 4]


def test_a_failure_leaves_the_graph_as_it_was(g: dglite.DGLGraph) -> None:
    def fails(nodes: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        g.update_all(gate, fails)
    with pytest.raises(DGLError, match="3"):
        g.apply_edges(lambda edges: edges.data.update(e=torch.ones(3)) or {"f": edges.dst["h"]})
    assert g.edata["e"].tolist() == [1, 1, 1, 1] and list(g.edata) == ["e"]
