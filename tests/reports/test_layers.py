"""Reports of layers for one edge type: formulas, shapes, graphs without edges, blocks, edge weights."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import nn
from dglite.graph import DGLGraph
from tests.reports.cases import ids, report


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def triangle_with_tail() -> DGLGraph:
    """Return a directed graph whose in-degrees and out-degrees differ at each node."""
    return dglite.graph(([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 3]))


def dense(g: DGLGraph) -> torch.Tensor:
    """Return the adjacency: row v, column u, the number of edges from u to v."""
    src, dst = g.edges()
    counts = torch.zeros(g.num_nodes(), g.num_nodes())
    return counts.index_put_((dst.long(), src.long()), torch.ones(len(src)), accumulate=True)


@report("dmlc/dgl#1504", "SAGEConv crashed on graphs without edges")
@pytest.mark.parametrize("aggregator", ["mean", "gcn", "pool", "lstm"])
def test_sage_without_edges(aggregator: str) -> None:
    layer = nn.SAGEConv(2, 3, aggregator, bias=False)
    x = torch.randn(4, 2)
    result = layer(dglite.graph(([], []), num_nodes=4), x)
    torch.testing.assert_close(result, layer.fc_neigh(x) if aggregator == "gcn" else layer.fc_self(x))


@report("dmlc/dgl#1598", "GATConv crashed on graphs without edges", also="dmlc/dgl#1245 dmlc/dgl#1723")
def test_gat_without_edges() -> None:
    layer = nn.GATConv(2, 3, 2, allow_zero_in_degree=True)
    result = layer(dglite.graph(([], []), num_nodes=4), torch.ones(4, 2))
    assert torch.equal(result, torch.zeros(4, 2, 3) + layer.bias.view(1, 2, 3))


@report("dmlc/dgl#3267", "DotGatConv divided the sum, not the scores, by the root of the size")
def test_dot_product_attention() -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    layer = nn.DotGatConv(3, 5, 1)
    h = layer.fc(x)
    src, dst = g.edges()
    scores = (h[src] * h[dst]).sum(-1) / 5**0.5
    expected = torch.stack([scores[dst == v].softmax(0) @ h[src[dst == v]] for v in range(4)])
    torch.testing.assert_close(layer(g, x)[:, 0], expected)


@report("dmlc/dgl#3050", "norms of GraphConv on directed graphs", also="dmlc/dgl#3114 dmlc/dgl#423")
@pytest.mark.parametrize("norm", ["none", "right", "left", "both"])
@pytest.mark.parametrize("sizes", [(3, 2), (2, 3)])
def test_norms_of_graph_convolutions(norm: str, sizes: tuple[int, int]) -> None:
    g, x = triangle_with_tail(), torch.randn(4, sizes[0])
    a = dense(g)
    into, out = a.sum(1).clamp(min=1), a.sum(0).clamp(min=1)
    scaled = {
        "none": a,
        "right": a / into[:, None],
        "left": a / out[None],
        "both": a / (into[:, None] * out[None]).sqrt(),
    }[norm]
    layer = nn.GraphConv(*sizes, norm=norm)
    torch.testing.assert_close(layer(g, x), scaled @ x @ layer.weight + layer.bias)


@report("dmlc/dgl#2921", "residuals of GATConv had another shape than the result", also="dmlc/dgl#4734 dmlc/dgl#2867")
@pytest.mark.parametrize("out_feats", [3, 4])
def test_residuals_of_attention(out_feats: int) -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    layer = nn.GATConv(3, out_feats, 2, residual=True)
    with torch.no_grad():
        layer.fc.weight.zero_()  # what remains is the residual
    result = layer(g, x)
    assert result.shape == (4, 2, out_feats)
    expected = x if isinstance(layer.res_fc, torch.nn.Identity) else layer.res_fc(x)
    torch.testing.assert_close(result, expected.view(4, -1, out_feats).expand(4, 2, out_feats))


@report("dmlc/dgl#3535", "residuals of GATv2Conv on a block had the rows of the sources")
@pytest.mark.parametrize("kind", [nn.GATConv, nn.GATv2Conv])
def test_residuals_on_a_block(kind: type) -> None:
    block = dglite.to_block(dglite.graph(([2, 3, 3], [0, 0, 1])), ids(0, 1))
    layer = kind(3, 4, 2, residual=True)
    x = torch.randn(block.num_src_nodes(), 3)
    with torch.no_grad():
        (layer.fc if kind is nn.GATConv else layer.fc_src).weight.zero_()
    result = layer(block, (x, x[:2]))
    torch.testing.assert_close(result, layer.res_fc(x[:2]).view(2, 2, 4))


@report("dmlc/dgl#5000", "GATv2Conv used one weight for both sides of a block")
def test_weights_of_both_sides_of_a_block() -> None:
    g = dglite.graph(([2, 3, 3, 0], [0, 0, 1, 1]))
    block = dglite.to_block(g, ids(0, 1))
    layer = nn.GATv2Conv(3, 4, 1, allow_zero_in_degree=True)
    x = torch.randn(4, 3)
    rows = x[block.srcdata[dglite.NID]]
    torch.testing.assert_close(layer(block, (rows, rows[:2])), layer(g, x)[:2])


@report("pyg-team/pytorch_geometric#1642", "both ends of an edge were scored by the same vector")
def test_scores_of_attention() -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    layer = nn.GATConv(3, 2, 1)
    h = layer.fc(x)
    src, dst = g.edges()
    scores = (h @ layer.attn_l[0, 0])[src] + (h @ layer.attn_r[0, 0])[dst]
    scores = torch.nn.functional.leaky_relu(scores, 0.2)
    expected = torch.stack([scores[dst == v].softmax(0) @ h[src[dst == v]] for v in range(4)])
    torch.testing.assert_close(layer(g, x)[:, 0], expected + layer.bias)


@report("dmlc/dgl#1141", "SAGEConv's mean does not depend on whether it multiplies first", also="dmlc/dgl#2747")
@pytest.mark.parametrize("sizes", [(5, 2), (2, 5)])
def test_order_of_mean_and_product(sizes: tuple[int, int]) -> None:
    g, x = triangle_with_tail(), torch.randn(4, sizes[0])
    a = dense(g)
    layer = nn.SAGEConv(*sizes, "mean", bias=False)
    expected = layer.fc_self(x) + layer.fc_neigh(a / a.sum(1, keepdim=True) @ x)
    torch.testing.assert_close(layer(g, x), expected)


@report("dmlc/dgl#2557", "weights of edges in GraphConv, SAGEConv and GINConv", also="dmlc/dgl#1281")
@pytest.mark.parametrize("kind", ["GraphConv", "SAGEConv", "GINConv"])
def test_edge_weights(kind: str) -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0, 0.0, 4.0], requires_grad=True)
    src, dst = g.edges()
    a = torch.zeros(4, 4).index_put((dst, src), weight)
    if kind == "GraphConv":
        layer = nn.GraphConv(3, 2, norm="none")
        result, expected = layer(g, x, edge_weight=weight), a @ x @ layer.weight + layer.bias
    elif kind == "SAGEConv":
        layer = nn.SAGEConv(3, 2, "mean", bias=False)
        result = layer(g, x, edge_weight=weight)
        expected = layer.fc_self(x) + layer.fc_neigh(a / dense(g).sum(1, keepdim=True) @ x)
    else:
        layer = nn.GINConv(None, "sum", init_eps=0.5)
        result, expected = layer(g, x, edge_weight=weight), 1.5 * x + a @ x
    torch.testing.assert_close(result, expected)
    scale = torch.arange(float(result.numel())).view_as(result)
    grads = [torch.autograd.grad((value * scale).sum(), weight)[0] for value in (result, expected)]
    torch.testing.assert_close(*grads)


@report("dmlc/dgl#5503", "weights of edges in GATConv scale the attention", also="dmlc/dgl#5459")
def test_edge_weights_of_attention() -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0, 0.0, 4.0])
    layer = nn.GATConv(3, 2, 1)
    plain, attention = layer(g, x, get_attention=True)
    src, dst = g.edges()
    a = torch.zeros(4, 4).index_put((dst, src), attention.flatten() * weight)
    torch.testing.assert_close(layer(g, x, edge_weight=weight)[:, 0], a @ layer.fc(x) + layer.bias)
    assert not torch.equal(plain, layer(g, x, edge_weight=weight))


@report(
    "pyg-team/pytorch_geometric#1104",
    "TAGConv normalised as if nodes had self-loops",
    also="pyg-team/pytorch_geometric#1886",
)
def test_powers_of_the_adjacency() -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    layer = nn.TAGConv(3, 2, k=2)
    scaled = dense(g).sum(1).clamp(min=1).rsqrt()
    a = scaled[:, None] * dense(g) * scaled
    expected = layer.lin(torch.cat([x, a @ x, a @ a @ x], 1))
    torch.testing.assert_close(layer(g, x), expected)


@report("dmlc/dgl#5512", "GMMConv gave NaN")
def test_mixture_of_gaussians() -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    pseudo = torch.randn(6, 2)
    layer = nn.GMMConv(3, 2, 2, 3, "sum")
    h = layer.fc(x).view(4, 3, 2)
    gauss = (-0.5 * ((pseudo[:, None] - layer.mu) * layer.inv_sigma).square().sum(-1)).exp()
    src, dst = g.edges()
    messages = (h[src] * gauss[:, :, None]).sum(1)
    expected = torch.zeros(4, 2).index_add(0, dst, messages) + layer.bias
    torch.testing.assert_close(layer(g, x, pseudo), expected)
    far = layer(g, 1e3 * x, 1e3 * pseudo)
    assert torch.isfinite(far).all()


@report("dmlc/dgl#5476", "Graphormer with padding masked by -inf gave NaN")
def test_graphormer_with_padding() -> None:
    layer = nn.BiasedMHA(8, 2).eval()
    mask = torch.zeros(2, 4, 4, dtype=torch.bool)
    mask[0, :, 2:] = mask[0, 2:, :] = True  # two of four nodes are padding, as are their rows
    x = torch.randn(2, 4, 8)
    result = layer(x, None, mask)
    assert torch.isfinite(result[0, :2]).all() and torch.isfinite(result[1]).all()
    changed = x.clone()
    changed[0, 2:] = 100
    torch.testing.assert_close(layer(changed, None, mask)[0, :2], result[0, :2])


@report("dmlc/dgl#2110", "blocks of RelGraphConv must divide the sizes")
def test_blocks_that_do_not_divide_are_refused() -> None:
    with pytest.raises((dglite.DGLError, ValueError), match="3"):
        nn.RelGraphConv(4, 4, 2, "bdd", 3)


@report("dmlc/dgl#3242", "RelGraphConv with bases, and types of edges as ids", also="dmlc/dgl#4321")
def test_bases_of_relations() -> None:
    g, x = triangle_with_tail(), torch.randn(4, 3)
    etypes = ids(0, 1, 2, 0, 1, 1)
    layer = nn.RelGraphConv(3, 2, 3, "basis", 2, self_loop=False, bias=False)
    weights = torch.stack([layer.linear_r.get_weight()[kind] for kind in range(3)])
    src, dst = g.edges()
    messages = torch.einsum("ei,eio->eo", x[src], weights[etypes])
    torch.testing.assert_close(layer(g, x, etypes), torch.zeros(4, 2).index_add(0, dst, messages))
    assert nn.RelGraphConv(3, 2, 3, "basis", None)(g, x, etypes).shape == (4, 2)


@report("dmlc/dgl#4116", "GraphConv failed on a block of a graph with one named type")
def test_graph_convolution_on_a_block_of_one_type() -> None:
    g = dglite.heterograph({("n", "r", "n"): ([2, 3, 3], [0, 0, 1])})
    block = dglite.to_block(g, {"n": ids(0, 1)})
    x = torch.randn(block.num_src_nodes(), 3)
    layer = nn.GraphConv(3, 2, norm="none")
    order = block.srcdata[dglite.NID].tolist()
    at = {node: row for row, node in enumerate(order)}
    expected = torch.stack([x[at[2]] + x[at[3]], x[at[3]]]) @ layer.weight + layer.bias
    torch.testing.assert_close(layer(block, x), expected)
