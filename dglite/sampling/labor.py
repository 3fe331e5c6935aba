"""Layer-neighbour sampling: neighbours that several seeds share are drawn together, so fewer vertices are needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.attached import attach
from ..random import draw_key
from ..structure import Adjacency
from ..structure.ids import integer_array
from .arguments import edge_weights, excluded_edges, fanouts_of, is_inward, seeds_of
from .frontier import NO_EDGES, Chosen, IncidentEdges, check_weights, compiled, frontier

__all__ = ["sample_labors"]

_MOST_ROUNDS = 50
_CONVERGED = 1e-4
"""Relative fall of the expected number of vertices below which importances are taken to have converged."""


def sample_labors(
    g: DGLGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    importance_sampling: int = 0,
    random_seed: Any = None,
    seed2_contribution: float = 0,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    output_device: Any = None,
) -> tuple[DGLGraph, list[Tensor]]:
    """Return the graph of all nodes with about ``fanout`` edges around each seed, and the edges' weights by type.

    Every vertex has one random number, which decides for all seeds whether it is taken (LABOR, Balin and Catalyurek
    2023, https://arxiv.org/abs/2210.13339). A seed has ``fanout`` edges in expectation, or more with importance
    sampling, all of them when it has no more than that.

    Parameters
    ----------
    nodes, fanout, edge_dir, prob, copy_ndata, copy_edata, exclude_edges, output_device
        as for :func:`sample_neighbors`.
    importance_sampling
        rounds of optimising the vertices' importances, so that fewer vertices are taken in all: the paper's LABOR-i.
        Negative: until they converge.
    random_seed
        one or two int64 numbers. Calls with the same numbers give each vertex the same random number.
    seed2_contribution
        in [0, 1): how much of the random numbers comes from the second seed. Raising it in steps from one batch to the
        next changes the vertices that are taken slowly.

    Returns
    -------
    The graph, and for each edge type a float32 tensor of its edges' weights, with a mean of 1 around each seed: a
    weighted mean over the sampled edges estimates the mean over all. Empty where all weights are 1, that is without
    importance sampling and ``prob``.

    Raises
    ------
    DGLError
        As :func:`sample_neighbors`; or ``seed2_contribution`` is not in [0, 1).
    """
    inward = is_inward(edge_dir)
    seeds, fanouts = seeds_of(g, nodes, inward), fanouts_of(g, fanout)
    weights, excluded = edge_weights(g, prob), excluded_edges(g, exclude_edges)
    keys, mixing = _keys(random_seed), _mixing(seed2_contribution)
    chosen, results = [], []
    for i, adjacency in enumerate(g.adjacencies):
        ids = seeds[i]
        if ids is None or fanouts[i] == 0:
            edges, result = NO_EDGES, np.empty(0)
        else:
            rows = IncidentEdges(adjacency, ids, inward, -1)
            what = f"{g._metagraph.etypes[i]!r} edge"
            candidates = _weights_of(rows, weights[i], excluded[i], what)
            edges, result = _sample(rows, adjacency, candidates, fanouts[i], importance_sampling, keys, mixing)
        chosen.append(edges)
        uniform = importance_sampling == 0 and weights[i] is None
        results.append(active.from_numpy(np.empty(0, np.float32) if uniform else result.astype(np.float32)))
    made = frontier(g, chosen, copy_ndata, copy_edata, output_device)
    return made, [active.to_device(x, made.device) for x in results]


def _keys(random_seed: Any) -> tuple[int, int]:
    if random_seed is None:
        return draw_key(), draw_key()
    given = integer_array(random_seed, "random_seed").astype(np.int64).reshape(-1)
    if len(given) not in (1, 2):
        raise DGLError(f"random_seed must be one or two integers, got {len(given)}")
    return int(given[0]), int(given[-1]) ^ (0 if len(given) == 2 else 1 << 61)


def _mixing(contribution: Any) -> np.ndarray:
    """Return what each seed's normal variate counts for; the squares add to 1, so the mixture is normal too."""
    share = float(contribution)
    if not 0 <= share < 1:
        raise DGLError(f"seed2_contribution must be in [0, 1), got {share}")
    return np.array([math.cos(math.pi * share / 2), math.sin(math.pi * share / 2)])


def _weights_of(rows: IncidentEdges, weights: np.ndarray | None, excluded: np.ndarray | None, what: str) -> np.ndarray:
    """Fill ``rows`` with every edge of the seeds and return the edges' weights, 0 for those excluded."""
    rows.run(compiled().sample.uniform_rows, -1, 0, 0, *rows.outputs)
    if weights is None:
        found = np.ones(rows.room)
    else:
        found = weights[rows.edges].astype(np.float64)
        wrong = ~((found >= 0) & (found < np.inf))
        check_weights(rows.edges[wrong] if wrong.any() else np.array([-1]), what)
    if excluded is not None:
        found[np.isin(rows.edges, excluded)] = 0
    return found


def _sample(
    rows: IncidentEdges,
    adjacency: Adjacency,
    weights: np.ndarray,
    fanout: int,
    rounds: int,
    keys: tuple[int, int],
    mixing: np.ndarray,
) -> tuple[Chosen, np.ndarray]:
    kernels, importance = compiled().labor, np.ones(rows.room)
    factors = np.empty(len(rows.seeds))
    if rounds:
        _optimise(rows, adjacency, weights, importance, fanout, rounds, factors)
    run_rows, threads, count = compiled().rows.run_rows, active.num_threads(), len(rows.seeds)
    run_rows(kernels.solve_rows, count, rows.room, threads, rows.offsets, weights, importance, fanout, factors)
    taken, results = np.empty(rows.room, np.uint8), np.zeros(rows.room)
    inputs = rows.offsets, rows.far, weights, importance, factors, *keys, mixing
    run_rows(kernels.take_rows, count, rows.room, threads, *inputs, taken, results)
    keep = taken.nonzero()[0]
    far, near, edges = (x[keep] for x in rows.outputs)
    return rows.ordered(far, near, edges), results[keep]


def _optimise(
    rows: IncidentEdges,
    adjacency: Adjacency,
    weights: np.ndarray,
    importance: np.ndarray,
    fanout: int,
    rounds: int,
    factors: np.ndarray,
) -> None:
    """Raise each vertex's importance by its seeds' largest factor, some rounds or until that changes little."""
    kernels = compiled().labor
    numbering = compiled().hashing.Numbering(max(adjacency.num_src, adjacency.num_dst), rows.room, rows.far.dtype)
    vertices = numbering.add(rows.far)
    by_vertex, before = np.ones(len(numbering.ids)), np.inf
    for _ in range(rounds if rounds > 0 else _MOST_ROUNDS):
        kernels.solve_rows(rows.offsets, weights, importance, fanout, factors, 0, len(factors))
        largest = np.zeros(len(by_vertex))
        kernels.largest_by_vertex(rows.offsets, vertices, factors, largest)
        # A vertex without a positive weight at any seed is never taken; its importance only must not be 0.
        by_vertex *= np.where(largest > 0, largest, 1)
        importance[:] = by_vertex[vertices]
        expected = np.minimum(by_vertex, 1).sum()
        if rounds < 0 and before - expected <= _CONVERGED * expected:
            break
        before = expected


attach(sample_labors=sample_labors)
