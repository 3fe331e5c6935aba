"""SubgraphX finds the part that the model reads, and its values are Shapley values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

import dglite
from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import HeteroSubgraphX, SubgraphX
from dglite.nn.explain.search import Search, SearchNode
from dglite.nn.explain.setvalues import SetValues
from tests.nn.explain.models import (
    TRIANGLE,
    MarkedPairs,
    TypedMarkedPairs,
    marks,
    tree_with_triangle,
    typed_marks,
    users_and_games,
)


@pytest.mark.parametrize("num_hops", [2, 3])
@pytest.mark.parametrize("high2low", [True, False])
def test_finds_the_triangle(num_hops: int, high2low: bool) -> None:
    torch.manual_seed(0)
    g = tree_with_triangle().int()
    explainer = SubgraphX(MarkedPairs(), num_hops, high2low=high2low, shapley_steps=20)
    result = explainer.explain_graph(g, marks(g), target_class=1)
    assert result.tolist() == TRIANGLE and result.dtype == torch.int32


def test_finds_a_part_of_several_types() -> None:
    torch.manual_seed(0)
    g = users_and_games()
    explainer = HeteroSubgraphX(TypedMarkedPairs(), num_hops=2, node_min=2, shapley_steps=20)
    result = explainer.explain_graph(g, typed_marks(g), target_class=1)
    assert {ntype: ids.tolist() for ntype, ids in result.items()} == {"user": [4], "game": [3]}


def test_equal_sets_and_sets_of_many_steps_share_runs_of_the_model() -> None:
    torch.manual_seed(0)
    g, model = tree_with_triangle(), MarkedPairs()
    SubgraphX(model, num_hops=2, num_rollouts=3, shapley_steps=50).explain_graph(g, marks(g), target_class=1)
    assert model.calls < 60  # one after the other there are more than 2000


def path_search(steps: int, num_hops: int, value: object) -> Search:
    links = scipy.sparse.csr_array(np.diag(np.ones(4, int), 1) + np.diag(np.ones(4, int), -1))
    settings = SubgraphX(MarkedPairs(), num_hops, shapley_steps=steps)
    return Search(settings, links, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("needed", "expected"), [([2], 1), ([1, 2], 1 / 2), ([1, 2, 3], 1 / 3), ([0, 2], 1), ([1], 0)])
def test_shapley_values(needed: list[int], expected: float) -> None:
    """Of a game won by those who have all needed nodes, with nodes 1 and 3 near node 2 and the others in any set."""
    torch.manual_seed(0)
    part = SearchNode(np.array([2]))
    search = path_search(4000, 2, lambda sets: sets[:, needed].all(1).astype(float))
    search.estimate([part])
    assert part.shapley == pytest.approx(expected, abs=0.03)


def test_parts_stay_connected_and_small_enough() -> None:
    torch.manual_seed(0)
    search = path_search(5, 1, lambda sets: sets.sum(1) / 5.0)
    result = search.best()
    assert result.tolist() in ([0, 1, 2], [1, 2, 3], [2, 3, 4])
    for part in search.parts.values():
        assert (np.diff(part.nodes) == 1).all()


class OverTheBatch(torch.nn.Module):
    """Reads all rows as one graph's."""

    def forward(self, graph: DGLGraph, feat: torch.Tensor) -> torch.Tensor:
        return feat.mean(0, keepdim=True)[:, :2]


class OfOneSize(torch.nn.Module):
    def forward(self, graph: DGLGraph, feat: torch.Tensor) -> torch.Tensor:
        return feat.reshape(1, 44)[:, 20:22]


class Leaking(torch.nn.Module):
    """Has a row for each graph that depends on the others."""

    def forward(self, graph: DGLGraph, feat: torch.Tensor) -> torch.Tensor:
        with graph.local_scope():
            graph.ndata["h"] = feat - feat.mean(0)
            return dglite.readout_nodes(graph, "h")[:, 1:3]


class PerNode(torch.nn.Module):
    def forward(self, graph: DGLGraph, feat: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        return feat[:, 1:3] * (1.0 if scale is None else scale[:, None])


@pytest.mark.parametrize("model", [MarkedPairs(), OverTheBatch(), OfOneSize(), Leaking(), PerNode()])
@pytest.mark.parametrize("num_sets", [1, 5, 40])
def test_values_of_sets_are_those_of_each_alone(model: torch.nn.Module, num_sets: int) -> None:
    torch.manual_seed(0)
    g = tree_with_triangle()
    x = torch.randn(11, 4)
    sets = np.random.default_rng(0).integers(0, 2, (num_sets, 11)).astype(bool)
    sets[-1] = sets[0]
    values = SetValues(model, g, {"_N": x}, lambda by_type: by_type["_N"], 1, {})
    alone = [model(g, x * torch.from_numpy(row)[:, None]).softmax(-1)[:, 1].mean().item() for row in sets]
    np.testing.assert_allclose(values(sets), alone, rtol=1e-5)


def test_the_models_other_tensors_are_repeated() -> None:
    torch.manual_seed(0)
    g, model, x, scale = tree_with_triangle(), PerNode(), torch.randn(11, 4), torch.rand(11)
    values = SetValues(model, g, {"_N": x}, lambda by_type: by_type["_N"], 0, {"scale": scale})
    assert values.copies > 1
    sets = np.eye(11, dtype=bool)
    alone = [model(g, x * torch.from_numpy(row)[:, None], scale).softmax(-1)[:, 0].mean().item() for row in sets]
    np.testing.assert_allclose(values(sets), alone, rtol=1e-5)


def test_refused() -> None:
    g = tree_with_triangle()
    with pytest.raises(DGLError, match="11 nodes, not more than node_min=11"):
        SubgraphX(MarkedPairs(), 1, node_min=11).explain_graph(g, marks(g), 1)
    with pytest.raises(DGLError, match="num_rollouts=0; expected at least 1"):
        SubgraphX(MarkedPairs(), 1, num_rollouts=0)
    with pytest.raises(IndexError):
        SubgraphX(MarkedPairs(), 1).explain_graph(g, marks(g), 2)
