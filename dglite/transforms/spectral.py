"""Positional encodings from random walks, eigenvectors and singular vectors of the adjacency matrix."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..progress import progress
from ..random import generator
from ..structure import Adjacency
from ..structure.ids import count_of
from .parts import matrix, require_homogeneous

_DENSE = 1024
"""Up to this many nodes LAPACK on a dense matrix is fast, and finds eigenvalues that coincide."""


@explained
def laplacian_lambda_max(g: DGLGraph) -> list[float]:
    """Return the largest eigenvalue of the Laplacian ``I - D^-1/2 A D^-1/2`` of each graph of a batch.

    A graph without edges has 1, one without nodes 0. Edges must go both ways.

    Raises DGLError: the graph has several types.
    """
    adjacency = require_homogeneous(g, "laplacian_lambda_max")
    laplacian = _laplacian(adjacency)
    nodes = [adjacency.num_src] if g.batch_node_counts is None else g.batch_node_counts[0].tolist()
    largest, start = [], 0
    for count in progress(nodes, "largest eigenvalues", "graph"):
        largest.append(_largest(laplacian[start : start + count, start : start + count]))
        start += count
    return largest


def _largest(laplacian: Any) -> float:
    if laplacian.shape[0] == 0:
        return 0.0
    if laplacian.shape[0] <= _DENSE:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    import scipy.sparse.linalg

    start = _start(laplacian.shape[0])
    return float(scipy.sparse.linalg.eigsh(laplacian, 1, which="LA", v0=start, return_eigenvectors=False)[0])


def _start(size: int) -> np.ndarray:
    """Return the vector that iterations start from, always the same; no symmetry of a graph leaves it as it is."""
    return np.random.default_rng(0).standard_normal(size)


def _laplacian(adjacency: Adjacency) -> Any:
    """Return ``I - D^-1/2 A D^-1/2`` as a CSR matrix; a node without in-edges counts as of degree 1."""
    import scipy.sparse  # 0.2 s, which `import dglite` must not pay

    scale = scipy.sparse.diags(np.maximum(adjacency.in_degrees(), 1) ** -0.5)
    return (scipy.sparse.identity(adjacency.num_src) - scale @ matrix(adjacency) @ scale).tocsr()


@explained
def random_walk_pe(g: DGLGraph, k: int, eweight_name: str | None = None) -> Tensor:
    """Return the probability that a random walk is back where it started after 1, ..., ``k`` steps, (num_nodes, k).

    A walk takes each out-edge with a probability like its weight, 1 by default; at a node without any it ends. Dwivedi
    et al., Graph Neural Networks with Learnable Structural and Positional Representations (2022). float32.

    Raises DGLError: the graph has several types, or ``k`` is not positive.
    """
    adjacency = require_homogeneous(g, "random_walk_pe")
    k = count_of(k, "random_walk_pe: k", least=1, most=2**31 - 1)
    weights = None if eweight_name is None else active.to_numpy(g.edge_frame_at(0)[eweight_name]).reshape(-1)
    step = matrix(adjacency, weights)
    total = np.asarray(step.sum(axis=1)).ravel()
    step = step.multiply(np.divide(1, total, out=np.zeros_like(total), where=total != 0)[:, None]).tocsr()
    landing, back = step, np.empty((adjacency.num_src, k), np.float32)
    for i in progress(range(k), "random walks", "step"):
        landing = landing if i == 0 else landing @ step
        back[:, i] = landing.diagonal()
    return g.as_tensor(back)


@overload
def lap_pe(g: DGLGraph, k: int, padding: bool = False, return_eigval: Literal[False] = False) -> Tensor: ...
@overload
def lap_pe(g: DGLGraph, k: int, padding: bool = False, *, return_eigval: Literal[True]) -> tuple[Tensor, Tensor]: ...
@explained
def lap_pe(g: DGLGraph, k: int, padding: bool = False, return_eigval: bool = False) -> Any:
    """Return the ``k`` eigenvectors of the smallest non-trivial eigenvalues of the Laplacian, (num_nodes, k), float32.

    The Laplacian is ``I - D^-1/2 A D^-1/2``; edges must go both ways. Signs are drawn anew by each call. Dwivedi et
    al., Benchmarking Graph Neural Networks (2020).

    Raises DGLError: the graph has several types, ``k`` is not positive, or there are not more than ``k`` nodes.

    Parameters
    ----------
    padding
        fill up with zeros where the graph has too few nodes; else that is an error.
    return_eigval
        also return the eigenvalues, (k,), filled up with NaN.
    """
    adjacency = require_homogeneous(g, "lap_pe")
    k = count_of(k, "lap_pe: k", least=1, most=2**31 - 1)
    num_nodes = adjacency.num_src
    if num_nodes <= k and not padding:
        raise DGLError(
            f"lap_pe: {num_nodes} nodes have {max(num_nodes - 1, 0)} non-trivial eigenvectors; give a smaller k "
            f"than {k}, or padding=True"
        )
    num_vectors = max(min(k, num_nodes - 1), 0)
    values, vectors = (
        _smallest(_laplacian(adjacency), num_vectors + 1) if num_vectors else (np.zeros(1), np.zeros((num_nodes, 1)))
    )
    signs = 2.0 * (generator().random(num_vectors) > 0.5) - 1
    encoding = np.zeros((num_nodes, k), np.float32)
    encoding[:, :num_vectors] = vectors[:, 1 : num_vectors + 1] * signs
    eigenvalues = np.full(k, np.nan, np.float32)
    eigenvalues[:num_vectors] = values[1 : num_vectors + 1]
    return (g.as_tensor(encoding), g.as_tensor(eigenvalues)) if return_eigval else g.as_tensor(encoding)


def _smallest(laplacian: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return at least ``count`` eigenvalues, ascending from the smallest, and their eigenvectors.

    Those of a large graph are put together from its connected components: iterations would miss values that coincide.
    """
    num_nodes = laplacian.shape[0]
    if num_nodes <= _DENSE:
        return _smallest_connected(laplacian, count)
    from scipy.sparse.csgraph import connected_components

    number, labels = connected_components(laplacian, directed=False)
    if number == 1:
        return _smallest_connected(laplacian, count)
    by_component, sizes = np.argsort(labels, kind="stable"), np.bincount(labels)
    ends = np.cumsum(sizes)
    several = (sizes > 1).nonzero()[0][:count]  # each of them has an eigenvalue 0
    joined = [by_component[ends[i] - sizes[i] : ends[i]] for i in several]
    alone = by_component[(sizes == 1)[labels[by_component]]][:count]
    pairs = [(value, alone[[i]], np.ones(1)) for i, value in enumerate(laplacian.diagonal()[alone])]
    for nodes in progress(joined, "eigenvectors", "component"):
        num_vectors = 1 if len(joined) == count else min(count, len(nodes))
        values, vectors = _smallest_connected(laplacian[nodes][:, nodes], num_vectors)
        pairs += [(values[i], nodes, vectors[:, i]) for i in range(num_vectors)]
    pairs = sorted(pairs, key=lambda pair: pair[0])[:count]
    vectors = np.zeros((num_nodes, count))
    for i, (_, nodes, vector) in enumerate(pairs):
        vectors[nodes, i] = vector
    return np.array([value for value, _, _ in pairs]), vectors


def _smallest_connected(laplacian: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    if laplacian.shape[0] <= _DENSE or 4 * count > laplacian.shape[0]:
        dense = laplacian.toarray()
        if np.allclose(dense, dense.T):
            return np.linalg.eigh(dense)
        values, vectors = np.linalg.eig(dense)  # some edge has no reverse: the real parts, as far as they go
        order = np.argsort(values.real, kind="stable")
        return values.real[order], vectors.real[:, order]
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    # Where eigenvalues lie close, as those of grids and paths do, iterations take too many products with the matrix,
    # but its factors are sparse. Elsewhere, as in random graphs, factors fill up, but few products are enough.
    start = _start(laplacian.shape[0])
    try:
        values, vectors = eigsh(
            laplacian, count, which="SA", v0=start, ncv=max(2 * count + 1, 40), tol=1e-9, maxiter=100
        )
    except ArpackNoConvergence:
        # Around -0.01 the matrix is positive definite, and the smallest eigenvalues are the largest of the inverse.
        values, vectors = eigsh(laplacian.tocsc(), count, sigma=-0.01, which="LM", v0=start)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


@overload
def laplacian_pe(g: DGLGraph, k: int, padding: bool = False, return_eigval: Literal[False] = False) -> Tensor: ...
@overload
def laplacian_pe(
    g: DGLGraph, k: int, padding: bool = False, *, return_eigval: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def laplacian_pe(g: DGLGraph, k: int, padding: bool = False, return_eigval: bool = False) -> Any:
    """Return the Laplacian positional encoding; an older name of :func:`lap_pe`."""
    return lap_pe(g, k, padding, return_eigval)  # type: ignore[call-overload]


@explained
def svd_pe(g: DGLGraph, k: int, padding: bool = False, random_flip: bool = True) -> Tensor:
    """Return the ``k`` largest singular vectors of the adjacency matrix, left and right, times sqrt(singular value).

    ``(num_nodes, 2 k)``, float32. Hussain et al., Global Self-Attention as a Replacement for Graph Convolution (2022).

    Raises DGLError: the graph has several types, ``k`` is not positive, or exceeds the number of nodes.

    Parameters
    ----------
    padding
        where ``k`` exceeds the number of nodes N, fill up with zeros at the end, behind N left and N right vectors;
        else that is an error.
    random_flip
        draw the sign of each pair of vectors anew by each call.
    """
    adjacency = require_homogeneous(g, "svd_pe")
    k = count_of(k, "svd_pe: k", least=1, most=2**31 - 1)
    num_nodes = adjacency.num_src
    if num_nodes < k and not padding:
        raise DGLError(f"svd_pe: {num_nodes} nodes have {num_nodes} singular vectors; give k <= {num_nodes} or padding")
    num_vectors = min(k, num_nodes)
    left, values, right = _singular(matrix(adjacency), num_vectors)
    scale = np.sqrt(values)
    if random_flip:
        scale = scale * (2.0 * (generator().random(num_vectors) > 0.5) - 1)
    encoding = np.zeros((num_nodes, 2 * k), np.float32)
    encoding[:, :num_vectors], encoding[:, num_vectors : 2 * num_vectors] = left * scale, right.T * scale
    return g.as_tensor(encoding)


def _singular(adjacency: Any, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ``count`` largest singular values, from the largest down, with left and right vectors."""
    if adjacency.shape[0] <= _DENSE or 4 * count > adjacency.shape[0]:
        left, values, right = np.linalg.svd(adjacency.toarray())
        return left[:, :count], values[:count], right[:count]
    import scipy.sparse.linalg

    left, values, right = scipy.sparse.linalg.svds(adjacency, count, v0=_start(min(adjacency.shape)))
    order = np.argsort(-values, kind="stable")
    return left[:, order], values[order], right[order]
