"""Reports of graphs of points, of spectra, and of walks' statistics: neighbours, radii, positional encodings."""

from __future__ import annotations

import pytest
import torch

import dglite
from tests.reports.cases import pairs, report

SQUARE = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])


def linked(*edges: tuple[int, int]) -> dglite.DGLGraph:
    """Return an undirected graph."""
    return dglite.graph([*edges, *((v, u) for u, v in edges)])


@report("dmlc/dgl#5065", "radius_graph had self-loops that were not asked for", also="dmlc/dgl#5159")
@pytest.mark.parametrize("loops", [False, True])
def test_self_loops_of_a_radius_graph(loops: bool) -> None:
    torch.manual_seed(0)
    points = 3000 * torch.rand(27, 2)
    g = dglite.radius_graph(points, 2000, self_loop=loops)
    near = torch.cdist(points.double(), points.double()) <= 2000
    if not loops:
        near.fill_diagonal_(False)
    assert sorted(pairs(g)) == sorted(map(tuple, near.nonzero().tolist()))


@report("pyg-team/pytorch_geometric#1867", "edges of a radius graph have their reverses, of 34 points, too")
def test_radius_graphs_are_symmetric() -> None:
    torch.manual_seed(0)
    g = dglite.radius_graph(torch.randn(40, 3), 10.0)
    assert g.num_edges() == 40 * 39 and set(pairs(g)) == {(v, u) for u, v in pairs(g)}


@report("rusty1s/pytorch_cluster#40", "equal points had one neighbour too many or too few")
@pytest.mark.parametrize("algorithm", ["bruteforce-blas", "bruteforce", "kd-tree"])
def test_neighbours_of_equal_points(algorithm: str) -> None:
    g = dglite.knn_graph(torch.zeros(7, 3), 3, algorithm=algorithm, exclude_self=True)
    assert g.in_degrees().tolist() == [3] * 7 and all(u != v for u, v in pairs(g))


@report(
    "rusty1s/pytorch_cluster#219",
    "without oneself, each point has exactly k neighbours",
    also="rusty1s/pytorch_cluster#128",
)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_numbers_of_neighbours(k: int) -> None:
    g = dglite.knn_graph(SQUARE, k, exclude_self=True)
    assert g.in_degrees().tolist() == [k] * 4
    if k == 2:  # the two along the sides, not the one across
        assert sorted(pairs(g)) == [(0, 1), (0, 2), (1, 0), (1, 3), (2, 0), (2, 3), (3, 1), (3, 2)]


@report("pyg-team/pytorch_geometric#1548", "with cosine distance, points had more than k neighbours")
def test_neighbours_by_cosine() -> None:
    torch.manual_seed(1)
    points = torch.randn(30, 4) * torch.rand(30, 1).add(0.01)
    g = dglite.knn_graph(points, 5, dist="cosine", exclude_self=True)
    unit = torch.nn.functional.normalize(points.double())
    likeness = (unit @ unit.T).fill_diagonal_(-2)
    expected = {(int(u), v) for v in range(30) for u in likeness[v].topk(5).indices}
    assert set(pairs(g)) == expected and g.num_edges() == 150


@report("dmlc/dgl#1667", "a graph of neighbours lacked the last points where none of them is a neighbour")
def test_points_that_are_nobodys_neighbour() -> None:
    points = torch.tensor([[0.0], [0.1], [0.2], [100.0]])
    g = dglite.knn_graph(points, 2, exclude_self=True)
    assert g.num_nodes() == 4 and g.in_degrees().tolist() == [2] * 4 and g.out_degrees()[3] == 0
    g.ndata["x"] = points


@report("dmlc/dgl#4628", "Laplacian encodings: eigenvectors of the smallest eigenvalues, padded", also="dmlc/dgl#4624")
def test_laplacian_encodings() -> None:
    g = linked((0, 1), (1, 2), (2, 3), (1, 3))
    a = torch.zeros(4, 4, dtype=torch.float64)
    a[g.edges()] = 1
    scale = a.sum(1).rsqrt()
    laplacian = torch.eye(4, dtype=torch.float64) - scale[:, None] * a * scale
    vectors, values = dglite.lap_pe(g, 5, padding=True, return_eigval=True)
    expected = torch.linalg.eigvalsh(laplacian)[1:]
    torch.testing.assert_close(values[:3].double(), expected, atol=1e-5, rtol=1e-5)
    kept = vectors[:, :3].double()
    torch.testing.assert_close(laplacian @ kept, kept * expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(kept.T @ kept, torch.eye(3, dtype=torch.float64), atol=1e-5, rtol=1e-5)
    assert vectors.shape == (4, 5) and not vectors[:, 3:].any()
    with pytest.raises(dglite.DGLError, match="padding"):
        dglite.lap_pe(g, 5)


@report("dmlc/dgl#3869", "random-walk encodings: chances to be back after 1, 2, 3 steps")
def test_random_walk_encodings() -> None:
    g = linked((0, 1), (1, 2), (2, 0), (2, 3))
    a = torch.zeros(4, 4)
    a[g.edges()] = 1
    step = a / a.sum(1, keepdim=True)
    expected = torch.stack([step.diagonal(), (step @ step).diagonal(), (step @ step @ step).diagonal()], 1)
    torch.testing.assert_close(dglite.random_walk_pe(g, 3), expected)


@report("pyg-team/pytorch_geometric#6241", "diffusion with isolated nodes gave infinities")
def test_diffusion_with_isolated_nodes() -> None:
    g = dglite.graph(([0, 1], [1, 0]), num_nodes=3)
    for transform in (
        dglite.PPR(alpha=0.2, eps=1e-4),
        dglite.HeatKernel(t=2.0, eps=1e-4),
        dglite.GDC([0.5, 0.5], eps=1e-4),
    ):
        diffused = transform(g)
        assert torch.isfinite(diffused.edata["w"]).all() and {(0, 1), (1, 0)} <= set(pairs(diffused))


@report("pyg-team/pytorch_geometric#10014", "line graphs where an edge is a self-loop")
def test_line_graph_with_a_self_loop() -> None:
    g = dglite.graph(([0, 0, 1], [0, 1, 0]))
    assert sorted(pairs(dglite.line_graph(g))) == [(0, 1), (1, 2), (2, 0), (2, 1)]  # no edge follows itself
    assert sorted(pairs(dglite.line_graph(g, backtracking=False))) == [(0, 1), (2, 0)]
