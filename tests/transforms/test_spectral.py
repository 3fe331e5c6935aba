"""Positional encodings, against the linear algebra that defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from dglite.transforms import spectral
from tests.transforms.graphs import multigraphs


def dense(g: DGLGraph) -> np.ndarray:
    result = np.zeros((g.num_nodes(), g.num_nodes()))
    np.add.at(result, g.adjacency().endpoints(), 1)
    return result


def laplacian(g: DGLGraph) -> np.ndarray:
    a = dense(g)
    scale = np.diag(np.maximum(a.sum(0), 1) ** -0.5)
    return np.eye(len(a)) - scale @ a @ scale


def bidirected(seed: int, n: int = 8) -> DGLGraph:
    rng = np.random.default_rng(seed)
    return dglite.to_bidirected(dglite.graph(tuple(rng.integers(n, size=(2, 2 * n))), num_nodes=n))


@pytest.mark.parametrize("dense_up_to", [0, 1024])
def test_the_largest_eigenvalue_of_each_graph(dense_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "_DENSE", dense_up_to)
    graphs = [bidirected(i) for i in range(3)]
    result = dglite.laplacian_lambda_max(dglite.batch(graphs))
    assert result == pytest.approx([np.linalg.eigvalsh(laplacian(g))[-1] for g in graphs])
    ring = dglite.graph(([0, 1, 2, 3, 4, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 4, 0, 1, 2, 3]))
    assert dglite.laplacian_lambda_max(ring) == pytest.approx([1.809016994374948])


def test_graphs_without_edges_or_nodes_have_an_eigenvalue_too() -> None:
    empty = dglite.batch([dglite.graph(([], []), num_nodes=n) for n in (2, 0)])
    assert dglite.laplacian_lambda_max(empty) == [1, 0]


@settings(max_examples=40, deadline=None)
@given(multigraphs(), st.integers(1, 4), st.booleans())
def test_random_walks_return_with_the_powers_diagonal(g: DGLGraph, k: int, weighted: bool) -> None:
    a = dense(g)
    if weighted:
        g.edata["w"] = torch.rand(g.num_edges(), dtype=torch.float64) + 0.1
        a[:] = 0
        np.add.at(a, g.adjacency().endpoints(), g.edata["w"].numpy())
    total = a.sum(1, keepdims=True)
    step = np.divide(a, total, out=np.zeros_like(a), where=total > 0)
    expected = np.stack([np.diag(np.linalg.matrix_power(step, i + 1)) for i in range(k)], axis=1)
    result = dglite.random_walk_pe(g, k, "w" if weighted else None)
    torch.testing.assert_close(result, torch.from_numpy(expected).float())


def test_the_published_random_walk() -> None:
    g = dglite.graph(([0, 1, 1], [1, 1, 0]))
    assert dglite.random_walk_pe(g, 2).tolist() == [[0, 0.5], [0.5, 0.75]]


@pytest.mark.parametrize("dense_up_to", [0, 1024])
@pytest.mark.parametrize("seed", range(3))
def test_laplacian_encodings_are_eigenvectors(seed: int, dense_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "_DENSE", dense_up_to)
    g = bidirected(seed, 20)
    vectors, values = dglite.lap_pe(g, 3, return_eigval=True)
    assert vectors.shape == (20, 3) and vectors.dtype == values.dtype == torch.float32
    expected = np.linalg.eigvalsh(laplacian(g))[1:4]
    torch.testing.assert_close(values, torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-5)
    moved = laplacian(g) @ vectors.double().numpy()
    np.testing.assert_allclose(moved, vectors.double().numpy() * expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors.numpy(), axis=0), 1, rtol=1e-5)


@pytest.mark.parametrize("copies", [2, 6])
def test_laplacian_encodings_of_components_that_are_alike(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "_DENSE", 8)  # iterations find only one of the eigenvalues that coincide
    g = dglite.batch([bidirected(1, 30)] * copies + [dglite.graph(([], []), num_nodes=3)])
    vectors, values = dglite.lap_pe(g, 4, return_eigval=True)
    torch.testing.assert_close(
        values, torch.from_numpy(np.linalg.eigvalsh(laplacian(g))[1:5]).float(), rtol=1e-4, atol=1e-5
    )
    moved, x = laplacian(g) @ vectors.double().numpy(), vectors.double().numpy()
    np.testing.assert_allclose(moved, x * values.double().numpy(), atol=1e-5)
    np.testing.assert_allclose(x.T @ x, np.eye(4), atol=1e-5)


def test_laplacian_encodings_are_padded() -> None:
    g = dglite.graph(([0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]))
    vectors, values = dglite.laplacian_pe(g, 5, padding=True, return_eigval=True)
    assert not vectors[:, 3:].any() and values[:3].tolist() == pytest.approx([1, 1, 2], abs=1e-6)
    assert values[3:].isnan().all()
    assert dglite.lap_pe(dglite.graph(([], []), num_nodes=1), 2, padding=True).tolist() == [[0, 0]]
    with pytest.raises(DGLError, match="4 nodes have 3 non-trivial eigenvectors; give a smaller k than 4"):
        dglite.lap_pe(g, 4)


@pytest.mark.parametrize("dense_up_to", [0, 1024])
@pytest.mark.parametrize("flip", [True, False])
def test_singular_encodings_rebuild_the_matrix(dense_up_to: int, flip: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "_DENSE", dense_up_to)
    g = bidirected(0, 20)
    left, right = dglite.svd_pe(g, 4, random_flip=flip).double().split(4, dim=1)
    u, s, v = np.linalg.svd(dense(g))
    np.testing.assert_allclose(left @ right.T, (u[:, :4] * s[:4]) @ v[:4], atol=1e-5)
    np.testing.assert_allclose((left**2).sum(0), s[:4], rtol=1e-5)


def test_singular_encodings_are_padded() -> None:
    g = dglite.graph(([0, 1], [1, 0]))
    padded = dglite.svd_pe(g, 3, padding=True)
    assert padded.shape == (2, 6) and not padded[:, 4:].any() and padded[:, :2].any() and padded[:, 2:4].any()
    with pytest.raises(DGLError, match="give k <= 2 or padding"):
        dglite.svd_pe(g, 3)


def test_signs_follow_the_seed() -> None:
    g = bidirected(0)
    results = []
    for _ in range(2):
        dglite.seed(3)
        results.append((dglite.svd_pe(g, 3), dglite.lap_pe(g, 3)))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert len({tuple(dglite.lap_pe(g, 3).sign().flatten().tolist()) for _ in range(30)}) > 1


@pytest.mark.parametrize("encode", [dglite.lap_pe, dglite.svd_pe, dglite.random_walk_pe])
def test_k_and_types_are_checked(encode: Any) -> None:
    with pytest.raises(DGLError, match="k must be an integer >= 1, got 0"):
        encode(dglite.graph(([0], [1])), 0)
    with pytest.raises(DGLError, match="must have one node type"):
        encode(dglite.heterograph({("a", "r", "b"): ([0], [0])}), 1)
