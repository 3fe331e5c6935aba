"""Positions for drawing a graph: parts laid out one by one by their distances, then put beside each other.

NetworkX's layouts take minutes for a thousand nodes; the default here takes a second. Components of up to ``EXACT``
nodes are laid out by stress majorization (Gansner, Koren and North, "Graph drawing by stress majorization", 2004),
larger ones by a sparse stress model (Ortmann, Klimenta and Brandes, 2017), both from PivotMDS (Brandes and Pich, 2006).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csgraph, csr_matrix

from ..errors import DGLError

EXACT = 400
"""Nodes up to which the distances between all of them are used."""
PIVOTS = 100
"""Nodes whose distances to all others are used in a larger component."""


def distance_layout(num_nodes: int, src: np.ndarray, dst: np.ndarray, parts: np.ndarray | None, seed: int) -> Any:
    """Return positions (num_nodes, 2). ``parts`` numbers the graphs of a batch; else components are the parts."""
    ones = np.ones(len(src), dtype=np.int8)
    adjacency = csr_matrix(coo_matrix((ones, (src, dst)), shape=(num_nodes, num_nodes)))
    components = csgraph.connected_components(adjacency, directed=False)[1]
    rng = np.random.default_rng(seed)
    positions = np.zeros((num_nodes, 2))
    for nodes in _groups(components):
        positions[nodes] = _component(adjacency[nodes][:, nodes], rng)
    if parts is None:
        return _packed(positions, _groups(components), in_order=False)
    for nodes in _groups(parts):
        positions[nodes] = _packed(positions[nodes], _groups(components[nodes]), in_order=False)
    return _packed(positions, _groups(parts), in_order=True)


def _groups(labels: np.ndarray) -> list[np.ndarray]:
    """Return the positions of each label, in the order of labels."""
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(order, cuts) if len(labels) else []


def _component(adjacency: csr_matrix, rng: np.random.Generator) -> np.ndarray:
    """Return positions of connected nodes, edges being about 1 long."""
    n = adjacency.shape[0]
    if n == 1:
        return np.zeros((1, 2))
    if n <= EXACT:
        distances = csgraph.dijkstra(adjacency, directed=False, unweighted=True)
        return _level(_least_stress(distances, _by_pivots(distances[:, rng.permutation(n)[:PIVOTS]], rng)))
    pivots, distances = _pivots(adjacency, rng)
    return _level(_least_sparse_stress(adjacency, pivots, distances, _by_pivots(distances, rng)))


def _pivots(adjacency: csr_matrix, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes that are far from each other, and the distances (num_nodes, PIVOTS) to them."""
    pivots, columns = [int(rng.integers(adjacency.shape[0]))], list[np.ndarray]()
    nearest = np.full(adjacency.shape[0], math.inf)
    while True:
        columns.append(csgraph.dijkstra(adjacency, directed=False, unweighted=True, indices=pivots[-1]))
        nearest = np.minimum(nearest, columns[-1])
        if len(columns) == PIVOTS:
            return np.array(pivots), np.stack(columns, axis=1)
        pivots.append(int(nearest.argmax()))


def _by_pivots(distances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return classical scaling of distances (num_nodes, num_pivots) in the plane."""
    squared = distances**2
    centred = -0.5 * (squared - squared.mean(0) - squared.mean(1, keepdims=True) + squared.mean())
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2]
    positions = centred @ axes if axes.shape[1] == 2 else np.c_[centred, np.zeros(len(centred))]
    scale = np.sqrt((positions**2).mean()) or 1.0
    positions = positions * (np.sqrt(squared.mean()) / 2 / scale)
    return positions + rng.normal(scale=0.1, size=positions.shape)  # leaves of one node would share a place


def _least_stress(distances: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Move nodes until distances in the plane are as near to those in the graph as a local minimum allows."""
    n = len(positions)
    weights = 1 / np.maximum(distances, 1) ** 2
    np.fill_diagonal(weights, 0)
    laplacian = np.diag(weights.sum(1)) - weights
    inverse = np.linalg.inv(laplacian + 1 / n) - 1 / n
    pull = weights * distances
    last = math.inf
    for _ in range(120):
        apart = _apart(positions, positions)
        stress = float((weights * (apart - distances) ** 2).sum())
        if stress > last * 0.9995:
            break
        last = stress
        ratio = pull / np.maximum(apart, 1e-9)
        positions = inverse @ (ratio.sum(1, keepdims=True) * positions - ratio @ positions)
    return positions


def _least_sparse_stress(
    adjacency: csr_matrix, pivots: np.ndarray, distances: np.ndarray, positions: np.ndarray
) -> np.ndarray:
    """Reduce the stress between neighbours, and between each node and the pivots, which stand for those around them."""
    n, region = len(positions), distances.argmin(1)
    weights = np.zeros_like(distances)
    for p in range(len(pivots)):
        near = np.sort(distances[region == p, p])
        weights[:, p] = np.searchsorted(near, distances[:, p] / 2, side="right")
    weights = np.where(distances > 1, weights / np.maximum(distances, 1) ** 2, 0.0)
    coo = adjacency.tocoo()
    ends = coo.row != coo.col
    src, dst = np.r_[coo.row[ends], coo.col[ends]], np.r_[coo.col[ends], coo.row[ends]]
    total = (weights.sum(1) + np.bincount(dst, minlength=n))[:, None]
    pull = weights * distances
    for _ in range(60):
        ratio = pull / np.maximum(_apart(positions, positions[pivots]), 1e-9)
        target = ratio.sum(1, keepdims=True) * positions + (weights - ratio) @ positions[pivots]
        along = positions[dst] - positions[src]
        along = positions[src] + along / np.maximum(np.sqrt((along**2).sum(1, keepdims=True)), 1e-9)
        target += np.stack([np.bincount(dst, along[:, axis], n) for axis in range(2)], axis=1)
        positions = (positions + target / total) / 2  # half-way: neighbours that move at once would overshoot
    return positions


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.sqrt(np.maximum(squared, 0))


def _level(positions: np.ndarray) -> np.ndarray:
    """Turn positions so that they are wider than high."""
    centred = positions - positions.mean(0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    return centred @ axes.T if axes.shape == (2, 2) else centred


def _packed(positions: np.ndarray, groups: list[np.ndarray], in_order: bool) -> np.ndarray:
    """Put groups of nodes beside each other in rows, the largest first unless they have an order."""
    if len(groups) <= 1:
        return positions
    gap = 2.0 if in_order else 1.0
    corners = [(positions[nodes].min(0), np.ptp(positions[nodes], axis=0) + gap) for nodes in groups]
    sizes = np.array([size for _, size in corners])
    order = range(len(groups)) if in_order else np.argsort(-sizes[:, 1], kind="stable")
    width = max(sizes[:, 0].max(), 1.3 * math.sqrt(float(sizes.prod(1).sum())))
    placed, x, y, height = positions.copy(), 0.0, 0.0, 0.0
    for i in order:
        low, size = corners[i]
        if x and x + size[0] > width + 1e-9:
            x, y, height = 0.0, y - height, 0.0
        placed[groups[i]] += np.array([x, y - size[1]]) - low
        x, height = x + size[0], max(height, size[1])
    return placed


def layered_layout(counts: list[int], layers: list[int]) -> np.ndarray:
    """Return positions of node sets in columns, ``layers`` being the column of each set."""
    positions = []
    totals = {layer: sum(n for n, other in zip(counts, layers, strict=True) if other == layer) for layer in layers}
    height = max([*totals.values(), 1])
    below = dict.fromkeys(layers, 0)
    for count, layer in zip(counts, layers, strict=True):
        places = (below[layer] + np.arange(count) + 0.5) / max(totals[layer], 1)
        positions.append(np.stack([np.full(count, layer * 0.6 * height), -places * height], axis=1))
        below[layer] += count
    return np.concatenate(positions) if positions else np.zeros((0, 2))


def networkx_layout(name: str, num_nodes: int, src: np.ndarray, dst: np.ndarray, seed: int) -> np.ndarray:
    """Return positions by NetworkX's ``name_layout``.

    Raises ``DGLError``: networkX has no such layout, or it does not fit the graph, which is not planar, for instance.
    """
    import networkx  # takes a tenth of a second

    names = sorted(n.removesuffix("_layout") for n in networkx.drawing.layout.__all__ if n.endswith("_layout"))
    if name not in names:
        raise DGLError(f"there is no layout {name!r}; expected 'auto', 'bipartite' or NetworkX's {', '.join(names)}")
    graph = networkx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(zip(src.tolist(), dst.tolist(), strict=True))
    function = getattr(networkx, f"{name}_layout")
    seeded = "seed" in function.__wrapped__.__code__.co_varnames if hasattr(function, "__wrapped__") else False
    try:
        positions = function(graph, **({"seed": seed} if seeded or name in ("spring", "random") else {}))
    except (networkx.NetworkXException, TypeError) as error:
        raise DGLError(f"layout {name!r} does not fit this graph: {error}; take 'auto', or pass positions") from error
    return np.array([positions[node] for node in range(num_nodes)]).reshape(num_nodes, 2)
