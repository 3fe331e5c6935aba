"""Reports of softmax over edges: large scores, parts of the edges, several edge types, gradients."""

from __future__ import annotations

import torch

import dglite
import dglite.function as fn
from dglite.ops import edge_softmax
from tests.reports.cases import ids, report


@report("pyg-team/pytorch_geometric#2013", "scores far below those of other nodes gave 0")
def test_scores_of_other_magnitudes() -> None:
    g = dglite.graph((torch.arange(10), ids(0, 0, 0, 0, 0, 1, 1, 1, 1, 1)), num_nodes=10)
    scores = torch.tensor([-26.881, -112.12, -92.386, -100.18, -57.993, -134.39, -122.01, -122.01, -134.39, -122.01])
    expected = torch.cat([scores[:5].softmax(0), scores[5:].softmax(0)])
    torch.testing.assert_close(edge_softmax(g, scores[:, None])[:, 0], expected)


@report("dmlc/dgl#3239", "the shares of each node add up to 1, of its in-edges or its out-edges")
def test_shares_add_up() -> None:
    g = dglite.graph(([0, 0, 1, 2, 2, 2], [1, 2, 2, 0, 1, 1]))
    scores = torch.tensor([80.0, -80, 3, 0, 1, 2])[:, None]
    by_dst, by_src = edge_softmax(g, scores), edge_softmax(g, scores, norm_by="src")
    torch.testing.assert_close(dglite.ops.copy_e_sum(g, by_dst), torch.ones(3, 1))
    torch.testing.assert_close(dglite.ops.copy_e_sum(dglite.reverse(g), by_src), torch.ones(3, 1))
    torch.testing.assert_close(by_src[3:, 0], scores[3:, 0].softmax(0))


@report("dmlc/dgl#2157", "softmax over some of the edges failed")
def test_softmax_of_some_edges() -> None:
    g = dglite.graph(([0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]))
    chosen = ids(0, 1, 2, 3)
    scores = torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None]
    shares = edge_softmax(g, scores, chosen)
    expected = torch.cat([torch.ones(1), torch.zeros(3)])
    expected[[1, 3]] = torch.tensor([2.0, 4.0]).softmax(0)
    expected[2] = 1
    torch.testing.assert_close(shares[:, 0], expected)


@report("dmlc/dgl#4336", "softmax over the in-edges of all types", also="dmlc/dgl#2446 dmlc/dgl#3571")
def test_softmax_over_edge_types() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([1, 2, 3], [0, 0, 1]), ("b", "s", "b"): ([0, 1], [0, 1])})
    r = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    s = torch.tensor([[4.0], [5.0]], requires_grad=True)
    shares = edge_softmax(g, {("a", "r", "b"): r, ("b", "s", "b"): s})
    first = torch.cat([r[:2], s[:1]]).softmax(0)
    second = torch.cat([r[2:], s[1:]]).softmax(0)
    torch.testing.assert_close(shares[("a", "r", "b")], torch.cat([first[:2], second[:1]]))
    torch.testing.assert_close(shares[("b", "s", "b")], torch.cat([first[2:], second[1:]]))
    result = torch.autograd.grad((shares[("a", "r", "b")] ** 2).sum(), [r, s])
    expected = torch.autograd.grad((first[:2] ** 2).sum() + (second[:1] ** 2).sum(), [r, s])
    torch.testing.assert_close(result, expected)


@report("dmlc/dgl#3266", "scores of a graph whose self-loops were put anew")
def test_softmax_after_self_loops() -> None:
    g = dglite.graph(([0] * 6, list(range(6))), num_nodes=6)
    g = dglite.add_self_loop(dglite.remove_self_loop(g))
    g.srcdata["q"], g.dstdata["k"] = torch.eye(6), torch.arange(36.0).view(6, 6)
    g.apply_edges(fn.u_dot_v("q", "k", "score"))
    shares = edge_softmax(g, g.edata["score"])[:, 0]
    keys = torch.arange(36.0).view(6, 6)
    expected = [float(torch.stack([keys[v, 0], keys[v, v]]).softmax(0)[0]) for v in range(1, 6)]
    torch.testing.assert_close(shares[:5], torch.tensor(expected))
    assert float(shares[5]) == 1  # node 0 has its self-loop only


@report("dmlc/dgl#1172", "second derivatives of edge softmax were wrong")
def test_second_derivatives() -> None:
    g = dglite.graph(([0, 1, 2, 0], [0, 0, 0, 1]))
    scores = torch.tensor([[0.5], [1.5], [-1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: edge_softmax(g, x) ** 2, scores)
    (first,) = torch.autograd.grad(edge_softmax(g, scores)[0].sum(), scores, create_graph=True)
    (second,) = torch.autograd.grad(first[1].sum(), scores)
    plain = lambda x: torch.softmax(x[:3, 0], 0)[0]  # noqa: E731
    hessian = torch.autograd.functional.hessian(plain, scores.detach())
    torch.testing.assert_close(second, hessian[1, 0])


@report("pyg-team/pytorch_geometric#7668", "a single in-edge: attention is 1, whatever the score, and has no gradient")
def test_single_in_edges() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    scores = torch.tensor([[5.0], [-7.0]], requires_grad=True)
    shares = edge_softmax(g, scores)
    (shares * torch.tensor([[2.0], [3.0]])).sum().backward()
    assert shares.flatten().tolist() == [1, 1]
    assert scores.grad is not None and scores.grad.flatten().tolist() == [0, 0]


@report("dmlc/dgl#1374", "softmax of bipartite graphs and blocks, whose two sides have other numbers of nodes")
def test_softmax_of_a_block() -> None:
    block = dglite.to_block(dglite.graph(([3, 4, 5], [0, 0, 1])), ids(0, 1))
    scores = torch.tensor([[1.0], [3.0], [7.0]])
    expected = torch.cat([torch.tensor([1.0, 3.0]).softmax(0), torch.ones(1)])
    torch.testing.assert_close(edge_softmax(block, scores)[:, 0], expected)
