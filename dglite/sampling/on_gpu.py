"""Drawing edges on a GPU, the same as the host would for the same key: they stay there, as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backend import active
from ..graph import DGLGraph
from ..ops import core
from ..ops.devices import Gpu
from ..transforms.block import index_dtype_of, kernel_ids
from .arguments import numbers, seed_sets, weight_columns, weight_label
from .frontier import NO_EDGES, Chosen, check_weights
from .sums import ColumnCache


class Sizes:
    """Numbers that kernels write and the host reads once. The first becomes 1 if a seed does not exist."""

    def __init__(self, arrays: Any, room: int) -> None:
        self._next, self._tensor = 1, arrays.full(room + 1, 0)
        self.missing = active.address(self._tensor)

    def next(self) -> int:
        """Return the number of a place that nothing has been written to."""
        self._next += 1
        return self._next - 1

    def address(self, number: int) -> int:
        """Return the address of a place."""
        return self.missing + 8 * number

    def read(self) -> list[int]:
        """Wait for all that was started, and return the numbers."""
        return active.to_numpy(self._tensor[: self._next]).tolist()  # type: ignore[no-any-return]


@dataclass
class DeviceEdges:
    """Edges drawn on a GPU, as its kernel returns them, and which of the sizes say how many, and what went wrong."""

    picks: Any
    size: int
    wrong: int
    index: str
    longest: int | None


Draw = Callable[[int, Any, Sizes, bool], DeviceEdges | None]
"""``draw(relation, seeds, sizes, numbered)`` draws edges around ids as kernels take them, None for none; ``numbered``:
with the seeds' positions in counters of their ids."""


def draw_on(
    g: DGLGraph,
    gpu: Gpu,
    inward: bool,
    fanouts: list[int],
    replaces: bool,
    key: int,
    prob: Any = None,
    excluded: Sequence[Any] = (),
    another: int | None = None,
) -> Draw:
    """Return what draws up to ``fanouts[i]`` edges of relation i.

    Parameters
    ----------
    prob
        weights, as :func:`weight_columns` takes them.
    excluded
        what :func:`excluded_there` returns.
    another
        what makes another key of one, to draw once more where an excluded edge was drawn, as loaders do; None: draw by
        weight.
    """
    weights = None if prob is None else weights_there(g, gpu, prob, inward)

    def draw(i: int, seeds: Any, sizes: Sizes, numbered: bool) -> DeviceEdges | None:
        fanout, kernels = fanouts[i], gpu.kernels("sample.sample")
        if fanout == 0:
            return None
        if not replaces:
            fanout = min(fanout, g.adjacencies[i].num_edges)  # kernels allocate this many entries per seed
        structure, index = structure_there(g, gpu, i, inward)
        values, absent = None if weights is None else weights[i], excluded[i] if excluded else None
        size, wrong = sizes.next(), 0 if values is None else sizes.next()
        counters = kernels.Counters(sizes.missing, sizes.address(size), sizes.address(wrong), numbered)
        options: tuple[Any, ...] = (gpu.queue, structure, seeds, fanout, replaces, key + i, counters)
        if values is None and absent is None:
            picks = kernels.sample_neighbors(*options)
        else:
            addresses = (0, 0) if values is None else (active.address(values[0]), values[1].address)
            ids = (0, 0) if absent is None else (active.address(absent), len(absent))
            again = None if another is None else (key + i) ^ another
            picks = kernels.sample_by_weight(*options, kernels.DeviceWeights(*addresses, *ids), again)
        return DeviceEdges(picks, size, wrong, index, fanout if fanout >= 0 else None)

    return draw


@dataclass(frozen=True)
class LaborRule:
    """What a draw by LABOR depends on beside the graph and the fan-outs: see :func:`sample_labors`.

    Attributes
    ----------
    keys, mixing
        of the two seeds, and the weight of each seed's normal variate.
    rounds
        the most rounds that optimise importances.
    converged
        relative fall of the expected number of vertices at which the rounds end; 0: never.
    prob, exclude_edges
        as they were given.
    """

    keys: tuple[int, int]
    mixing: tuple[float, float]
    rounds: int
    converged: float
    prob: Any
    exclude_edges: Any


def labor_draw_on(g: DGLGraph, gpu: Gpu, inward: bool, fanouts: list[int], rule: LaborRule) -> Draw:
    """Return what draws edges by one random number for each node, as :func:`sample_labors` does."""
    weights = [None] * len(fanouts) if rule.prob is None else weights_there(g, gpu, rule.prob, inward)
    excluded = excluded_there(g, rule.exclude_edges)

    def draw(i: int, seeds: Any, sizes: Sizes, numbered: bool) -> DeviceEdges | None:
        if fanouts[i] == 0:
            return None
        structure, index = structure_there(g, gpu, i, inward)
        kernels, size, values, absent = gpu.kernels("sample.sample"), sizes.next(), weights[i], excluded[i]
        wrong = 0 if values is None else sizes.next()
        counters = kernels.Counters(sizes.missing, sizes.address(size), sizes.address(wrong), numbered)
        options = gpu.queue, structure, seeds, fanouts[i]
        if values is None and absent is None and rule.rounds == 0 and rule.mixing[1] == 0:
            return DeviceEdges(kernels.sample_alike(*options, rule.keys[0], counters), size, 0, index, None)
        labor = gpu.kernels("sample.labor")
        addresses = 0 if values is None else active.address(values[0]), 0
        ids = (0, 0) if absent is None else (active.address(absent), len(absent))
        variates, rounds = labor.Variates(*rule.keys, *rule.mixing), labor.Importances(rule.rounds, rule.converged)
        picks = labor.sample_weighed(*options, variates, rounds, counters, kernels.DeviceWeights(*addresses, *ids))
        if values is None and rule.rounds == 0:
            picks = replace(picks, weights=None)
        return DeviceEdges(picks, size, wrong, index, None)

    return draw


def structure_there(g: DGLGraph, gpu: Gpu, i: int, inward: bool) -> tuple[Any, str]:
    """Return relation ``i`` by destination, or by source, as kernels take it, and the dtype of its ids."""
    adjacency = g.adjacencies[i]
    return gpu.structure(adjacency if inward else core.reversed_of(adjacency))


_WEIGHTS: ColumnCache[tuple[Any, Any]] = ColumnCache()


def weights_there(g: DGLGraph, gpu: Gpu, prob: Any, inward: bool) -> list[tuple[Any, Any] | None]:
    """Return each edge type's weights, float64, and their running sums, cached for each tensor and its version."""
    results: list[tuple[Any, Any] | None] = []
    for i, column in enumerate(weight_columns(g, prob)):
        if column is None:
            results.append(None)
            continue

        def make(i: int = i, column: Any = column) -> tuple[Any, Any]:
            values = _numbers_there(g.id_arrays, column, g.adjacencies[i].num_edges, weight_label(g, i))
            structure, _ = structure_there(g, gpu, i, inward)
            return values, gpu.kernels("sample.sample").sum_weights(gpu.queue, structure, active.address(values))

        with _WEIGHTS.lock:
            results.append(_WEIGHTS.get(g.adjacencies[i], column, make, inward, gpu))
    return results


def _numbers_there(arrays: Any, column: Any, count: int, label: str) -> Any:
    """Return weights as :func:`numbers` does, as a float64 tensor; those on the device stay there."""
    there = active.is_tensor(column) and active.device(column) == arrays.device
    if there and "complex" not in active.dtype(column) and active.shape(column) in ((count,), (count, 1)):
        return active.contiguous(arrays.floats(column).reshape(-1))
    return active.from_numpy(numbers(column, count, label).astype(np.float64), arrays.device)


def excluded_there(g: DGLGraph, edges: Any) -> list[Any]:
    """Return the ascending ids of the edges to leave out, by edge type, as tensors; None for a type without any."""
    excluded: list[Any] = [None] * len(g.adjacencies)
    if edges is not None:
        for etype, edge_ids in (edges if isinstance(edges, Mapping) else {None: edges}).items():
            index = g.etype_id(etype)
            ids = g.edges_in(g.id_arrays, edge_ids, index)
            excluded[index] = ids[g.id_arrays.argsort(ids)] if len(ids) else None
    return excluded


def seed_tensors(g: DGLGraph, nodes: Any, inward: bool) -> dict[int, Any]:
    """Return the seeds by node set, as tensors on the graph's device; kernels check those that are there already."""
    arrays, dtype = g.id_arrays, index_dtype_of(g)

    def read(ids: Any, node_set: int) -> Any:
        there = active.is_tensor(ids) and active.device(ids) == arrays.device and len(active.shape(ids)) == 1
        if not there or active.dtype(ids) not in ("int32", "int64"):
            ids = g.nodes_in(arrays, ids, node_set)
        return active.contiguous(arrays.astype(ids, dtype))

    return seed_sets(g, nodes, inward, read)


def check_draws(
    g: DGLGraph, sets: dict[int, Any], sizes: list[int], draws: Sequence[Sequence[DeviceEdges | None]]
) -> None:
    """Raise the error for a seed that does not exist, or a weight that cannot be used, if a kernel has met one."""
    if sizes[0]:
        for node_set, ids in sets.items():
            g.nodes_in(g.id_arrays, ids, node_set)
    for by_relation in draws:
        for edges, etype in zip(by_relation, g.type_graph.etypes, strict=True):
            if edges is not None and edges.wrong:
                check_weights(np.array([sizes[edges.wrong] - 1]), f"{etype!r} edge")


def choose_on_gpu(g: DGLGraph, gpu: Gpu, nodes: Any, inward: bool, draw: Draw) -> list[Chosen]:
    """Return the edges that are drawn around seeds, by relation, as tensors."""
    sets, dtype = seed_tensors(g, nodes, inward), str(index_dtype_of(g))
    sizes, seeds = Sizes(g.id_arrays, 2 * len(g.adjacencies)), {i: kernel_ids(g, gpu, ids) for i, ids in sets.items()}
    near_sets = [ends[1 if inward else 0] for ends in g.type_graph.ends]
    draws = [draw(i, seeds[x], sizes, False) if x in seeds else None for i, x in enumerate(near_sets)]
    counts, picks = sizes.read(), []
    check_draws(g, sets, counts, [draws])
    for edges in draws:
        if edges is None:
            picks.append(NO_EDGES)
            continue
        count = counts[edges.size]
        far, near = (gpu.tensor(x, count, dtype) for x in (edges.picks.far, edges.picks.near))
        edge_ids = gpu.tensor(edges.picks.edges, count, edges.index)
        src, dst = (far, near) if inward else (near, far)
        weights = None if edges.picks.weights is None else gpu.tensor(edges.picks.weights, count, "float32")
        picks.append(Chosen(src, dst, edge_ids, weights=weights))
    return picks
