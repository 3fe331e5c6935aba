"""Normalised weights and diffusions, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dglite
from dglite import DGLError
from dglite import transforms as T
from dglite.graph import DGLGraph
from tests.transforms.graphs import multigraphs


def weighted(g: DGLGraph, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the matrix whose entry (v, u) sums the weights of the edges u -> v."""
    result = np.zeros((g.num_nodes(), g.num_nodes()))
    src, dst = g.adjacency().endpoints()
    np.add.at(result, (dst, src), np.ones(len(src)) if weights is None else weights)
    return result


@settings(max_examples=40, deadline=None)
@given(multigraphs(), st.booleans())
def test_gcn_weights_are_symmetrically_normalised(g: DGLGraph, has_weights: bool) -> None:
    w = torch.rand(g.num_edges(), dtype=torch.float64) + 0.1 if has_weights else None
    if w is not None:
        g.edata["w"] = w
    given_weights = np.ones(g.num_edges()) if w is None else w.numpy()
    degrees = weighted(g, given_weights).sum(1)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    src, dst = g.adjacency().endpoints()
    result = T.GCNNorm()(g).edata["w"]
    torch.testing.assert_close(result.double(), torch.from_numpy(given_weights * scale[src] * scale[dst]))


def test_the_published_gcn_weights() -> None:
    g = dglite.graph(([0, 1, 2], [0, 0, 1]))
    torch.testing.assert_close(T.GCNNorm()(g).edata["w"], torch.tensor([0.5, 0.5**0.5, 0]))
    g.edata["w"] = torch.tensor([0.1, 0.2, 0.3])
    torch.testing.assert_close(T.GCNNorm()(g).edata["w"], torch.tensor([1 / 3, 2 / 3, 0]))


def chain() -> DGLGraph:
    g = dglite.graph(([0, 1, 2, 3, 4], [2, 3, 4, 5, 3]))
    g.edata["w"], g.ndata["h"] = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]), torch.arange(6)
    return g


DIFFUSIONS = {
    "PPR": (lambda **k: T.PPR(0.2, **k), lambda a: 0.2 * np.linalg.inv(np.eye(len(a)) - 0.8 * a)),
    "HeatKernel": (lambda **k: T.HeatKernel(1.5, **k), lambda a: scipy.linalg.expm(-1.5 * (np.eye(len(a)) - a))),
    "GDC": (lambda **k: T.GDC([0.3, 0.2, 0.1], **k), lambda a: 0.3 * np.eye(len(a)) + 0.2 * a + 0.1 * a @ a),
}


@pytest.mark.parametrize("name", DIFFUSIONS)
def test_diffusions_are_their_matrices(name: str) -> None:
    make, formula = DIFFUSIONS[name]
    g = chain()
    expected = formula(weighted(g, g.edata["w"].double().numpy()))
    result = make(eps=0.05)(g)
    np.testing.assert_allclose(
        weighted(result, result.edata["w"].numpy()), np.where(expected >= 0.05, expected, 0), rtol=1e-5
    )
    assert result.ndata["h"] is g.ndata["h"] and result.edata["w"].dtype == torch.float32
    by_degree = make(avg_degree=1)(g)
    assert by_degree.num_edges() >= 6
    assert by_degree.edata["w"].min() == pytest.approx(np.sort(expected.ravel())[-6], rel=1e-5)
    every = make(avg_degree=100)(g)
    assert every.num_edges() == np.count_nonzero(expected)
    del g.edata["w"]
    unweighted = make(eps=0.01)(g)
    expected = formula(weighted(g))
    np.testing.assert_allclose(
        weighted(unweighted, unweighted.edata["w"].numpy()), np.where(expected >= 0.01, expected, 0), rtol=1e-5
    )


def test_the_published_diffusions() -> None:
    result = T.PPR(avg_degree=2)(chain()).edata["w"].tolist()
    assert result == pytest.approx(
        [0.15, 0.15, 0.15, 0.0255, 0.0163, 0.15, 0.0638, 0.0383, 0.15, 0.051, 0.0217, 0.15], abs=6e-5
    )
    result = T.GDC([0.3, 0.2, 0.1], avg_degree=2)(chain()).edata["w"].tolist()
    assert result == pytest.approx([0.3, 0.3, 0.02, 0.3, 0.04, 0.3, 0.1, 0.06, 0.3, 0.08, 0.02, 0.3], abs=1e-6)


def test_weights_must_be_numbers() -> None:
    g = chain()
    g.edata["w"] = torch.ones(5, 1)
    with pytest.raises(DGLError, match="must be one number per edge"):
        T.PPR()(g)


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("op", ["raw", "rw", "gcn", "ppr"])
def test_sign_diffuses_features(op: str, weight: str | None) -> None:
    g = dglite.graph(([0, 1, 2, 2, 3], [1, 2, 0, 1, 0]))
    g.ndata["x"] = torch.rand(4, 2, dtype=torch.float64)
    g.edata["w"] = torch.rand(5, dtype=torch.float64) + 0.1
    a = torch.from_numpy(weighted(g, g.edata["w"].numpy() if weight else None))
    degree = a.sum(1)
    inverse = torch.where(degree > 0, 1 / degree, 0)
    step = {"raw": a, "rw": inverse[:, None] * a}.get(op, inverse.sqrt()[:, None] * a * inverse.sqrt())
    diffusion = T.SIGNDiffusion(3, "x", "out", weight, op, 0.3)(g)
    expected = g.ndata["x"]
    for i in range(3):
        expected = step @ expected
        if op == "ppr":
            expected = 0.7 * expected + 0.3 * g.ndata["x"]
        torch.testing.assert_close(diffusion.ndata[f"out_{i + 1}"], expected)
    assert set(g.ndata) == {"x"}

    def run(x: Tensor, w: Tensor) -> Tensor:
        g.ndata["x"], g.edata["w"] = x, w
        return T.SIGNDiffusion(2, "x", "out", weight, op)(g).ndata["out_2"]

    inputs = g.ndata["x"].clone().requires_grad_(), g.edata["w"].clone().requires_grad_()
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
