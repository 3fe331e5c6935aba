"""Reports of layers for several edge types, and of explainers."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import nn
from dglite.graph import DGLGraph
from tests.reports.cases import ids, report


def sums(*etypes: str) -> nn.HeteroGraphConv:
    """Return a layer that adds up neighbours' features."""
    convolution = nn.GraphConv(2, 2, norm="none", weight=False, bias=False, allow_zero_in_degree=True)
    return nn.HeteroGraphConv(dict.fromkeys(etypes, convolution))


@report("dmlc/dgl#3395", "a block without edges gave no results at all")
def test_block_without_edges() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([], []), ("b", "s", "b"): ([], [])}, num_nodes_dict={"a": 1, "b": 3})
    block = dglite.to_block(g, {"b": ids(0, 1, 2)})
    result = sums("r", "s")(block, {"a": torch.ones(block.num_src_nodes("a"), 2), "b": torch.ones(3, 2)})
    assert {ntype: x.tolist() for ntype, x in result.items()} == {"b": [[0, 0]] * 3}


@report("dmlc/dgl#2703", "features of the destinations are asked for by name", also="dmlc/dgl#7687")
def test_features_of_destinations() -> None:
    g = dglite.heterograph({("u", "e", "v"): ([0, 1], [1, 2])})
    with pytest.raises(KeyError, match="v"):
        sums("e")(g, {"u": torch.zeros(2, 2)})
    result = sums("e")(g, {"u": torch.tensor([[1.0, 2], [3, 4]]), "v": torch.zeros(3, 2)})
    assert result["v"].tolist() == [[0, 0], [1, 2], [3, 4]]


@report("dmlc/dgl#3003", "layers for some of the edge types")
def test_layers_for_some_types() -> None:
    g = dglite.heterograph({("N", "A", "N"): ([1, 1], [0, 2]), ("N", "B", "N"): ([2, 2], [0, 3])})
    x = torch.arange(8.0).view(4, 2)
    with pytest.raises(KeyError, match="B"):
        sums("A")(g, {"N": x})
    part = dglite.edge_type_subgraph(g, ["A"])
    assert sums("A")(part, {"N": x})["N"].tolist() == [[2, 3], [0, 0], [2, 3], [0, 0]]


@report("dmlc/dgl#1385", "a type without edges adds nothing to the sum over types")
def test_types_without_edges_add_nothing() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([0, 1], [0, 0]), ("c", "s", "b"): ([], [])}, {"a": 2, "b": 2, "c": 1})
    inputs = {"a": torch.tensor([[1.0, 2], [3, 4]]), "b": torch.zeros(2, 2), "c": torch.ones(1, 2)}
    assert sums("r", "s")(g, inputs)["b"].tolist() == [[4, 6], [0, 0]]


@report("dmlc/dgl#4482", "HGTConv on blocks", also="dmlc/dgl#6296")
def test_transformer_on_blocks() -> None:
    torch.manual_seed(0)
    g = dglite.heterograph({("A", "AB", "B"): ([0, 1, 2], [0, 0, 1]), ("B", "BA", "A"): ([0, 1], [2, 0])})
    whole = dglite.to_homogeneous(g)
    layer = nn.HGTConv(4, 2, 2, 2, 2, dropout=0.0, use_norm=True)
    x = torch.randn(5, 4)
    expected = layer(whole, x, whole.ndata[dglite.NTYPE], whole.edata[dglite.ETYPE])
    seeds = ids(4, 0, 3)
    block = dglite.to_block(dglite.in_subgraph(whole, seeds), seeds)
    rows = x[block.srcdata[dglite.NID]]
    result = layer(block, rows, block.srcdata[dglite.NTYPE], block.edata[dglite.ETYPE])
    torch.testing.assert_close(result, expected[seeds])


@report("pyg-team/pytorch_geometric#6680", "HGTConv gave None for types without in-edges")
def test_transformer_where_a_type_has_no_edges() -> None:
    g = dglite.graph(([0, 1], [2, 2]), num_nodes=4)
    ntypes, etypes = ids(0, 0, 1, 1), ids(0, 0)
    layer = nn.HGTConv(4, 2, 2, 2, 1)
    result = layer(g, torch.randn(4, 4), ntypes, etypes)
    assert result.shape == (4, 4) and torch.isfinite(result).all()
    again = layer(dglite.graph(([], []), num_nodes=4), torch.randn(4, 4), ntypes, ids(0)[:0])
    assert torch.isfinite(again).all()


class TwoSums(torch.nn.Module):
    """Logits of two classes, from the sum over neighbours of neighbours, weighted along the way."""

    def forward(self, graph: DGLGraph, feat: torch.Tensor, eweight: torch.Tensor | None = None) -> torch.Tensor:
        layer = nn.GraphConv(1, 1, norm="none", weight=False, bias=False, allow_zero_in_degree=True)
        for _ in range(2):
            feat = layer(graph, feat, edge_weight=eweight)
        return torch.cat([feat, -feat], 1)


@report("pyg-team/pytorch_geometric#1320", "explanations left out a layer", also="pyg-team/pytorch_geometric#8401")
def test_explained_edges() -> None:
    torch.manual_seed(0)
    g = dglite.graph(([0, 1, 3, 4], [1, 2, 4, 5]))
    explainer = nn.GNNExplainer(TwoSums(), 2, lr=0.1, num_epochs=60, alpha1=0, alpha2=0, beta1=0, beta2=0, log=False)
    node, part, _, mask = explainer.explain_node(2, g, torch.ones(6, 1))
    assert part.num_edges() == 2 and int(part.ndata[dglite.NID][node]) == 2
    assert mask.min() > 0.9  # both edges carry all of the score


@report("awslabs/dgl-ke#150", "the score of TransR")
def test_score_of_translations() -> None:
    torch.manual_seed(0)
    layer = nn.TransR(2, rfeats=3, nfeats=4)
    head, tail, rels = torch.randn(3, 4), torch.randn(3, 4), ids(0, 1, 0)
    vector, matrix = layer.rel_emb(rels), layer.rel_project(rels).view(3, 4, 3)
    project = lambda x: torch.einsum("ni,nio->no", x, matrix)  # noqa: E731
    expected = -torch.norm(project(head) + vector - project(tail), p=1, dim=-1)
    torch.testing.assert_close(layer(head, tail, rels), expected)
