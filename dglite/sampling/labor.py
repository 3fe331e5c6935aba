"""LABOR sampling: seeds share one random number per neighbour, so that fewer distinct nodes are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import require_graph
from ..ops.devices import Gpu, device_on
from ..random import draw_key
from ..structure import Adjacency
from ..structure.distinct import contains
from ..structure.ids import integer_array
from .arguments import edge_weights, excluded_edges, fanouts_of, is_inward, seeds_of
from .frontier import NO_EDGES, Chosen, Drawn, IncidentEdges, check_weights, compiled, frontier
from .on_gpu import Draw, LaborRule, choose_on_gpu, labor_draw_on
from .times import TimeLimits

_MOST_ROUNDS = 50
_MOST_COUNTED = 1000
"""More rounds than this are asked for by mistake; nothing changes any more."""
_CONVERGED = 1e-4
"""Relative fall of the expected number of vertices below which importances are taken to have converged."""


@explained
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

    Raises DGLError as :func:`sample_neighbors`; or ``seed2_contribution`` is not in [0, 1).

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
    """
    require_graph(g)
    inward, fanouts = is_inward(edge_dir), fanouts_of(g, fanout)
    law = Labor(g, fanouts, inward, prob, importance_sampling, random_seed, seed2_contribution, exclude_edges)
    gpu = device_on(g.device)
    draw = law.draw_there(gpu) if isinstance(gpu, Gpu) else None
    if isinstance(gpu, Gpu) and draw is not None:
        picks = choose_on_gpu(g, gpu, nodes, inward, draw)
        result = frontier(g, picks, copy_ndata, copy_edata, output_device)
        columns = [active.empty((0,), "float32", result.device) if x.weights is None else x.weights for x in picks]
        return result, [active.to_device(x, result.device) for x in columns]
    seeds = seeds_of(g, nodes, inward)
    picks, results = [], []
    for i, adjacency in enumerate(g.adjacencies):
        ids, edges, weights = seeds[i], NO_EDGES, None
        sample = None if ids is None else law.draw(i, ids)
        if ids is not None and sample is not None:
            near, weights = np.repeat(ids.astype(adjacency.index_dtype), np.diff(sample.offsets)), sample.weights
            src, dst = (sample.far, near) if inward else (near, sample.far)
            edges = Chosen(src, dst, sample.edges, sample.offsets)
        picks.append(edges)
        results.append(active.from_numpy(np.empty(0, np.float32) if weights is None else weights))
    result = frontier(g, picks, copy_ndata, copy_edata, output_device)
    return result, [active.to_device(x, result.device) for x in results]


class Labor:
    """Draws the edges of one layer. Arguments are those of :func:`sample_labors`.

    ``named(i, far)`` returns, for far ends of relation ``i``, the ids that their random numbers belong to: those of
    another numbering, in which samples are to be the same. By default these are the ids themselves. ``times`` are by
    relation.
    """

    def __init__(
        self,
        g: DGLGraph,
        fanouts: list[int],
        inward: bool = True,
        prob: Any = None,
        importance_sampling: int = 0,
        random_seed: Any = None,
        seed2_contribution: float = 0,
        exclude_edges: Any = None,
        named: Callable[[int, np.ndarray], np.ndarray] | None = None,
        times: Sequence[TimeLimits | None] | None = None,
    ) -> None:
        self._g, self._named, self._fanouts, self._inward = g, named, fanouts, inward
        self._times = [None] * len(fanouts) if times is None else times
        self._prob, self._exclude_edges = prob, exclude_edges
        self._rounds, self._keys = min(importance_sampling, _MOST_COUNTED), _keys(random_seed)
        self._mixing = _mixing(seed2_contribution)

    @cached_property
    def _weights(self) -> list[np.ndarray | None]:
        return edge_weights(self._g, self._prob)

    @cached_property
    def _excluded(self) -> list[np.ndarray | None]:
        return excluded_edges(self._g, self._exclude_edges)

    def draw(self, i: int, seeds: np.ndarray, by_entry: bool = False) -> Drawn | None:
        """Return edges of relation ``i`` around the seeds; None for a fan-out of 0.

        ``by_entry`` allows entries of the matrix instead of edge ids.
        """
        adjacency, fanout, weights = self._g.adjacencies[i], self._fanouts[i], self._weights[i]
        if fanout == 0:
            return None
        alike = self._alike(i)
        by_entry = by_entry and alike
        rows = IncidentEdges(adjacency, seeds, self._inward, -1, by_entry=by_entry)
        if alike:
            return Drawn(*_sample_alike(rows, adjacency, fanout, self._keys[0]), rows.by_entry_of)
        places = rows.places(near=False)
        label = f"{self._g.type_graph.etypes[i]!r} edge"
        candidates = _weights_of(rows, places, weights, self._excluded[i], label)
        if (times := self._times[i]) is not None:
            candidates[_absent_by_time(times, places.edges, np.diff(rows.rows.offsets))] = 0
        vertices = places.far if self._named is None else self._named(i, places.far).astype(places.far.dtype)
        rule = vertices, candidates, fanout, self._rounds, self._keys, self._mixing
        offsets, far, edges, results = _sample(rows, places, adjacency, *rule)
        uniform = self._rounds == 0 and weights is None
        return Drawn(offsets, far, edges, None, None if uniform else results.astype(np.float32))

    def draw_there(self, gpu: Gpu) -> Draw | None:
        """Return what draws the same edges on a GPU; None where random numbers belong to ids of another numbering."""
        if self._named is not None:
            return None
        rounds = self._rounds if self._rounds >= 0 else _MOST_ROUNDS
        share, other = self._mixing.tolist()
        converged = 0 if self._rounds >= 0 else _CONVERGED
        rule = LaborRule(self._keys, (share, other), rounds, converged, self._prob, self._exclude_edges)
        return labor_draw_on(self._g, gpu, self._inward, self._fanouts, rule)

    def _alike(self, i: int) -> bool:
        """Whether all edges of a relation have weight and importance 1, and nodes numbers of one seed."""
        same = self._weights[i] is None and self._excluded[i] is None and self._named is None
        same = same and self._times[i] is None
        return same and self._rounds == 0 and bool(self._mixing[1] == 0)


def _keys(random_seed: Any) -> tuple[int, int]:
    if random_seed is None:
        return draw_key(), draw_key()
    seeds = integer_array(random_seed, "random_seed").astype(np.int64).reshape(-1)
    if len(seeds) not in (1, 2):
        raise DGLError(f"random_seed must be one or two integers, got {len(seeds)}")
    return int(seeds[0]), int(seeds[-1]) ^ (0 if len(seeds) == 2 else 1 << 61)


def _mixing(contribution: Any) -> np.ndarray:
    """Return the weight of each seed's normal variate; the squares add to 1, so the mixture is normal too."""
    share = float(contribution)
    if not 0 <= share < 1:
        raise DGLError(f"seed2_contribution must be in [0, 1), got {share}")
    return np.array([math.cos(math.pi * share / 2), math.sin(math.pi * share / 2)])


def _sample_alike(
    rows: IncidentEdges, adjacency: Adjacency, fanout: int, key: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each seed's offsets, the far ends and the edge ids, if all weights and importances are 1."""
    kernels, count = compiled().labor, len(rows.rows.seeds)
    marks, offsets = np.empty(rows.room // 64 + count + 1, np.int64), np.zeros(count + 1, np.int64)
    rows.run(kernels.mark_rows, fanout, key, marks, offsets[1:])
    np.cumsum(offsets, out=offsets)
    far, edges = np.empty(offsets[-1], adjacency.index_dtype), np.empty(offsets[-1], adjacency.idtype)
    rows.run(kernels.list_marked, marks, offsets, far, edges)
    return offsets, far, edges


def _weights_of(
    rows: IncidentEdges, places: Any, weights: np.ndarray | None, excluded: np.ndarray | None, label: str
) -> np.ndarray:
    """Fill ``places`` with every edge of the seeds and return the edges' weights, 0 for those excluded."""
    rows.run(compiled().sample.uniform_rows, -1, 0, 0, places)
    if weights is None:
        values = np.ones(rows.room)
    else:
        values = weights[places.edges].astype(np.float64)
        wrong = ~((values >= 0) & (values < np.inf))
        check_weights(places.edges[wrong] if wrong.any() else np.array([-1]), label)
    if excluded is not None:
        values[contains(excluded, places.edges)] = 0
    return values


def _absent_by_time(times: TimeLimits, edges: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return which candidates are later than their seeds, or too early; ``degrees`` are candidates of each seed."""
    absent = ~(times.edges[edges] <= np.repeat(times.seeds, degrees))
    if len(times.seeds_since):
        absent |= ~(times.edges_since[edges] >= np.repeat(times.seeds_since, degrees))
    return absent


def _sample(
    rows: IncidentEdges,
    places: Any,
    adjacency: Adjacency,
    vertices: np.ndarray,
    weights: np.ndarray,
    fanout: int,
    rounds: int,
    keys: tuple[int, int],
    mixing: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each seed's offsets, and the edges' far ends, ids and weights."""
    kernels, importance, offsets = compiled().labor, np.ones(rows.room), rows.rows.offsets
    factors = np.empty(len(rows.rows.seeds))
    if rounds:
        _optimise(rows, places.far, adjacency, weights, importance, fanout, rounds, factors)
    run_rows, threads, count = compiled().rows.run_rows, active.num_threads(), len(factors)
    run_rows(kernels.solve_rows, count, rows.room, threads, offsets, weights, importance, fanout, factors)
    marks, results = np.empty(rows.room, np.uint8), np.zeros(rows.room)
    inputs = offsets, vertices, weights, importance, factors, *keys, mixing
    run_rows(kernels.take_rows, count, rows.room, threads, *inputs, marks, results)
    keep = marks.nonzero()[0]
    return np.searchsorted(keep, offsets), places.far[keep], places.edges[keep], results[keep]


def _optimise(
    rows: IncidentEdges,
    far: np.ndarray,
    adjacency: Adjacency,
    weights: np.ndarray,
    importance: np.ndarray,
    fanout: int,
    rounds: int,
    factors: np.ndarray,
) -> None:
    """Raise each vertex's importance by its seeds' largest factor, some rounds or until that changes little."""
    kernels = compiled().labor
    numbering = compiled().hashing.Numbering(max(adjacency.num_src, adjacency.num_dst), rows.room, far.dtype)
    vertices, offsets = numbering.add(far), rows.rows.offsets
    by_vertex, before = np.ones(len(numbering.ids)), np.inf
    for _ in range(rounds if rounds > 0 else _MOST_ROUNDS):
        kernels.solve_rows(offsets, weights, importance, fanout, factors, 0, len(factors))
        largest = np.zeros(len(by_vertex))
        kernels.largest_by_vertex(offsets, vertices, factors, largest)
        # A vertex without a positive weight at any seed is never taken; its importance only must not be 0.
        by_vertex *= np.where(largest > 0, largest, 1)
        importance[:] = by_vertex[vertices]
        expected = np.minimum(by_vertex, 1).sum()
        if rounds < 0 and before - expected <= _CONVERGED * expected:
            break
        before = expected


attach(sample_labors=sample_labors)
