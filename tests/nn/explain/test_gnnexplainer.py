"""GNNExplainer ranks first what the model reads."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite.errors import DGLError
from dglite.nn import GNNExplainer, HeteroGNNExplainer
from dglite.nn.explain.masklearner import _MaskOptimizer
from tests import forked
from tests.nn.explain.models import (
    RELATIONS,
    MarkedPairs,
    TypedMarkedPairs,
    in_triangle,
    marks,
    tree_with_triangle,
    typed_marks,
    users_and_games,
)

LEARN = {"lr": 0.1, "num_epochs": 60, "alpha1": 0.05, "alpha2": 0.0, "log": False}
"""Without a weight on the entropy, which keeps edges that say nothing where they were drawn: at 0 or at 1."""


def require_above(mask: torch.Tensor, chosen: torch.Tensor) -> None:
    """Assert that the mask is larger on all that is chosen than on all else, and between 0 and 1."""
    assert ((mask > 0) & (mask < 1)).all()
    assert mask[chosen].min() > mask[~chosen].max()


def test_a_graph() -> None:
    torch.manual_seed(0)
    g = tree_with_triangle()
    explainer = GNNExplainer(MarkedPairs(bias=11.0), num_hops=1, **LEARN)
    feat_mask, edge_mask = explainer.explain_graph(g, marks(g))
    assert feat_mask.shape == (4,) and edge_mask.shape == (g.num_edges(),)
    require_above(feat_mask, torch.arange(4) == 2)
    require_above(edge_mask, in_triangle(g))


def test_a_node() -> None:
    torch.manual_seed(0)
    g = tree_with_triangle().int()
    explainer = GNNExplainer(MarkedPairs(of_nodes=True), num_hops=1, **LEARN)
    new_id, near, feat_mask, edge_mask = explainer.explain_node(8, g, marks(g))
    assert new_id.shape == (1,) and near.ndata[dglite.NID][new_id.long()].tolist() == [8]
    assert near.ndata[dglite.NID].tolist() == [0, 8, 9, 10]
    assert feat_mask.shape == (4,) and edge_mask.shape == (near.num_edges(),)
    require_above(feat_mask, torch.arange(4) == 2)
    to_center = near.edges()[1] == new_id
    require_above(edge_mask, in_triangle(g)[near.edata[dglite.EID].long()] & to_center)


def test_the_models_other_tensors_are_cut_to_the_subgraph() -> None:
    class Recording(MarkedPairs):
        def forward(self, graph, feat, eweight=None, **kwargs):  # type: ignore[no-untyped-def, override]
            self.given = kwargs
            return super().forward(graph, feat, eweight)

    g, model = tree_with_triangle(), Recording(of_nodes=True)
    per_node, per_edge, other = torch.arange(11), torch.arange(22).reshape(22, 1), torch.tensor(3.0)
    explainer = GNNExplainer(model, num_hops=1, num_epochs=1, log=False)
    _, near, _, _ = explainer.explain_node(9, g, marks(g), a=per_node, b=per_edge, c=other, d="text")
    assert torch.equal(model.given["a"], near.ndata[dglite.NID])
    assert torch.equal(model.given["b"][:, 0], near.edata[dglite.EID])
    assert model.given["c"] is other and model.given["d"] == "text"


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_masks_have_the_features_dtype_where_it_is_floating(dtype: torch.dtype) -> None:
    g = tree_with_triangle()
    explainer = GNNExplainer(MarkedPairs(), num_hops=1, num_epochs=1, log=False)
    for mask in explainer.explain_graph(g, marks(g).to(dtype)):
        assert mask.dtype == (dtype if dtype.is_floating_point else torch.float32)


def test_one_feature_has_a_mask_of_one() -> None:
    class Only(MarkedPairs):
        def forward(self, graph, feat, eweight=None):  # type: ignore[no-untyped-def, override]
            return super().forward(graph, feat.expand(-1, 3), eweight)

    g = tree_with_triangle()
    feat_mask, _ = GNNExplainer(Only(), 1, num_epochs=1, log=False).explain_graph(g, marks(g)[:, 2:3])
    assert feat_mask.shape == (1,)


def test_a_node_without_edges() -> None:
    g = dglite.graph(([], []), num_nodes=2)
    explainer = GNNExplainer(MarkedPairs(of_nodes=True), num_hops=2, num_epochs=3, log=False)
    _, near, feat_mask, edge_mask = explainer.explain_node(1, g, torch.ones(2, 4))
    assert near.num_nodes() == 1 and edge_mask.shape == (0,)
    assert feat_mask.isfinite().all()


def test_the_weights_of_the_loss() -> None:
    g, results = tree_with_triangle(), {}
    for name in ("alpha1", "alpha2", "beta1", "beta2"):
        torch.manual_seed(0)
        weights = {**dict.fromkeys(("alpha1", "alpha2", "beta1", "beta2"), 0.0), name: 10.0}
        explainer = GNNExplainer(MarkedPairs(), 1, lr=0.1, num_epochs=50, log=False, **weights)
        results[name] = explainer.explain_graph(g, torch.zeros(11, 4))  # the prediction says nothing
    for name, which in (("alpha", 1), ("beta", 0)):
        assert results[name + "1"][which].max() < 0.1  # small
        decided = results[name + "2"][which]
        assert torch.minimum(decided, 1 - decided).max() < 0.2  # 0 or 1


def test_typed_graph() -> None:
    torch.manual_seed(0)
    g = users_and_games()
    explainer = HeteroGNNExplainer(TypedMarkedPairs(bias=3.0), num_hops=1, **LEARN)
    feat_mask, edge_mask = explainer.explain_graph(g, typed_marks(g))
    for ntype in g.ntypes:
        require_above(feat_mask[ntype], torch.arange(4) == 2)
    assert {etype: mask.shape for etype, mask in edge_mask.items()} == {
        etype: (g.num_edges(etype),) for etype in g.canonical_etypes
    }
    for etype in RELATIONS[:2]:
        src, dst = g.edges(etype=etype)
        require_above(edge_mask[etype], src + dst == 7)  # user 4 and game 3


def test_typed_node_near_which_an_edge_type_has_no_edges() -> None:
    torch.manual_seed(0)
    g = users_and_games()
    explainer = HeteroGNNExplainer(TypedMarkedPairs(of_nodes=True), num_hops=1, **LEARN)
    new_id, near, feat_mask, edge_mask = explainer.explain_node("game", 3, g, typed_marks(g))
    assert near.ndata[dglite.NID]["game"][new_id].tolist() == [3]
    assert near.ndata[dglite.NID]["user"].tolist() == [3, 4]
    assert edge_mask["user", "likes", "user"].shape == (0,)
    require_above(edge_mask["user", "plays", "game"], near.edges(etype="plays")[0] == 1)
    assert feat_mask["user"].argmax() == feat_mask["game"].argmax() == 2


def test_refused() -> None:
    g, typed = tree_with_triangle(), users_and_games()
    of_graph, of_node = (
        GNNExplainer(MarkedPairs(), 1, log=False),
        GNNExplainer(MarkedPairs(of_nodes=True), 1, log=False),
    )
    with pytest.raises(DGLError, match=r"\(11, 2\); expected \(1, num_classes\)"):
        of_node.explain_graph(g, marks(g))
    with pytest.raises(DGLError, match=r"\(1, 2\) for 4 nodes"):
        of_graph.explain_node(8, g, marks(g))
    with pytest.raises(DGLError, match="one node; got 2 ids"):
        of_node.explain_node([8, 9], g, marks(g))
    hetero = HeteroGNNExplainer(TypedMarkedPairs(), 1, log=False)
    with pytest.raises(DGLError, match="a dictionary by node type that has 'user'; got Tensor"):
        hetero.explain_node("user", 0, typed, typed_marks(typed))


def test_masks_are_learned_by_torchs_adam() -> None:
    target = torch.randn(5, dtype=torch.float64)
    values, expected = torch.zeros_like(target), torch.zeros_like(target, requires_grad=True)
    ours, theirs = _MaskOptimizer(values, 0.1), torch.optim.Adam([expected], lr=0.1)
    for _ in range(20):
        values = ours.updated(values, 2 * (values - target))
        theirs.zero_grad()
        ((expected - target) ** 2).sum().backward()
        theirs.step()
    torch.testing.assert_close(values, expected.detach(), rtol=1e-12, atol=0)


def test_an_explanation_does_not_import_torchs_compiler() -> None:
    script = """
import sys, torch, dglite
from dglite.nn import GNNExplainer
from tests.nn.explain.models import MarkedPairs, marks, tree_with_triangle
g, before = tree_with_triangle(), "torch._dynamo" in sys.modules  # torch.distributed of torch 2.4 imports it
GNNExplainer(MarkedPairs(), 1, num_epochs=2, log=False).explain_graph(g, marks(g))
print("torch._dynamo" in sys.modules and not before)
"""
    done = forked.run(forked.code, script)
    assert done.stdout.split() == ["False"], done.stderr
