"""Temporal neighbour sampling on a GPU, with the draws of :mod:`.temporal` for the same key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import active
from ..graph import DGLGraph
from ..ops.devices import Gpu
from ..random import draw_key
from .arguments import fanouts_of
from .layers_on_gpu import Versions, blocks_on_gpu
from .on_gpu import DeviceEdges, Draw, Sizes, excluded_there, seed_tensors, structure_there, weights_there
from .sums import ColumnCache
from .times import edge_times, seed_times


@dataclass(frozen=True)
class _Numbers:
    """Numbers on the device, int64 or float64."""

    values: Any
    is_float: bool


_TIMES: ColumnCache[_Numbers] = ColumnCache()
_ORDERS: ColumnCache[Any] = ColumnCache()


@dataclass(frozen=True)
class _Rule:
    """What draws depend on beside the fan-outs and the key: see :func:`~.temporal.sample_blocks_at`."""

    dates: list[_Numbers | None]
    versions: Versions
    is_float: bool
    weights: list[Any]
    excluded: list[Any]
    replaces: bool
    latest: bool
    edge_time: str


def seed_times_there(g: DGLGraph, nodes: Any, time: str) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the seeds and their times by node set, as tensors; errors are those of :func:`seed_times`."""
    sets = {node_set: g.nodes_in(g.id_arrays, ids, node_set) for node_set, ids in seed_tensors(g, nodes, True).items()}
    times = {}
    for node_set, ids in sets.items():
        column = g.node_frame_at(node_set).peek(time)
        numbers = None if column is None else _numbers_of(g, column, g.node_counts[node_set])
        dates = None if numbers is None else numbers.values[ids]
        if dates is None or (numbers is not None and numbers.is_float and g.id_arrays.read((dates != dates).any())[0]):
            dates = active.from_numpy(seed_times(g, node_set, active.to_numpy(ids), time), g.device)
        times[node_set] = dates
    return sets, times


def sample_blocks_at_on_gpu(
    g: DGLGraph,
    gpu: Gpu,
    sets: dict[int, Any],
    seed_dates: dict[int, Any],
    fanouts: Sequence[Any],
    edge_time: str,
    prob: str | None,
    replace: bool,
    latest: bool,
    exclude_edges: Any,
) -> list[DGLGraph]:
    """Return what :func:`~.temporal.sample_blocks_at` does; seeds and their times are tensors on the device."""
    arrays, dates = g.id_arrays, _edge_dates(g, edge_time)
    versions, numbers, is_float = _versions(arrays, list(seed_dates.values()))
    keys = {}
    for node_set, ids in sets.items():
        part, numbers = numbers[: len(ids)], numbers[len(ids) :]
        keys[node_set] = active.contiguous(arrays.astype(ids, "int64") * versions.count + part)
    weights = [None] * len(dates) if prob is None else weights_there(g, gpu, prob, True)
    excluded = excluded_there(g, exclude_edges)
    rule = _Rule(dates, versions, is_float, weights, excluded, replace, latest, edge_time)
    draws = (_draw(g, gpu, fanouts_of(g, fanout), draw_key(), rule) for fanout in reversed(fanouts))
    return blocks_on_gpu(g, gpu, keys, draws, versions)[::-1]


def _draw(g: DGLGraph, gpu: Gpu, fanouts: list[int], key: int, rule: _Rule) -> Draw:
    kernels, by_time, count = gpu.kernels("sample.sample"), gpu.kernels("sample.times"), rule.versions.count
    levels = active.address(rule.versions.levels)

    def draw(i: int, seeds: Any, sizes: Sizes, numbered: bool) -> DeviceEdges | None:
        fanout, dates, weights, absent = fanouts[i], rule.dates[i], rule.weights[i], rule.excluded[i]
        if fanout == 0:
            return None
        if not rule.replaces:
            fanout = min(fanout, g.adjacencies[i].num_edges)  # kernels allocate this many entries per seed
        size, wrong = sizes.next(), 0 if weights is None else sizes.next()
        counters = kernels.Counters(sizes.missing, sizes.address(size), sizes.address(wrong), numbered)
        structure, index = structure_there(g, gpu, i, True)
        nodes, times = by_time.split_nodes(gpu.queue, seeds, count), kernels.NO_TIMES
        if dates is not None:
            kinds = int(dates.is_float) + 2 * int(rule.is_float)
            times = kernels.DeviceTimes(active.address(dates.values), levels, kinds, seeds.address, count)
        addresses = (0, 0) if weights is None else (active.address(weights[0]), weights[1].address)
        ids = (0, 0) if absent is None else (active.address(absent), len(absent))
        values = kernels.DeviceWeights(*addresses, *ids)
        if rule.latest and dates is not None:
            ordered = _ordered(g, gpu, i, rule.edge_time, dates)
            picks = by_time.sample_latest(gpu.queue, ordered, nodes, fanout, counters, values, times)
        elif dates is None and weights is None and absent is None:
            picks = kernels.sample_neighbors(gpu.queue, structure, nodes, fanout, rule.replaces, key + i, counters)
        else:
            options = gpu.queue, structure, nodes, fanout, rule.replaces, key + i, counters, values
            picks = kernels.sample_by_weight(*options, None, times)
        by_time.join_nodes(gpu.queue, picks, sizes.address(size), seeds, count)
        return DeviceEdges(picks, size, wrong, index, fanout if fanout >= 0 else None)

    return draw


def _versions(arrays: Any, dates: list[Any]) -> tuple[Versions, Any, bool]:
    """Return the distinct times, the number of each seed's among them, and whether they are floating-point numbers."""
    is_float = any("float" in active.dtype(x) for x in dates)
    parts = [arrays.floats(x) if is_float else arrays.astype(x, "int64") for x in dates if len(x)]
    if not parts:
        return Versions(arrays.full(1, 0), 1), arrays.full(0, 0), False
    values = arrays.concatenate(parts)
    order = arrays.argsort(values)
    ascending = values[order]
    is_first = arrays.concatenate([arrays.full(1, True, "bool"), ascending[1:] != ascending[:-1]])
    levels, numbers = ascending[arrays.nonzero(is_first)], arrays.full(len(values), 0)
    numbers[order] = arrays.cumsum(arrays.astype(is_first, "int64")) - 1
    return Versions(active.contiguous(levels), len(levels)), numbers, is_float


def _edge_dates(g: DGLGraph, name: str) -> list[_Numbers | None]:
    """Return the times of each edge type's edges, cached; errors are those of :func:`edge_times`."""
    columns = [g.edge_frame_at(i).peek(name) for i in range(len(g.adjacencies))]
    if all(column is None for column in columns):
        edge_times(g, name)
    results: list[_Numbers | None] = []
    for i, column in enumerate(columns):

        def make(i: int = i, column: Any = column) -> _Numbers:
            numbers = _numbers_of(g, column, g.adjacencies[i].num_edges)
            if numbers is not None:
                return numbers
            values = edge_times(g, name)[i]
            assert values is not None
            is_float = values.dtype.kind == "f"
            values = values.astype(np.float64 if is_float else np.int64)
            return _Numbers(active.from_numpy(values, g.device), is_float)

        with _TIMES.lock:
            results.append(None if column is None else _TIMES.get(g.adjacencies[i], column, make, g.device))
    return results


def _numbers_of(g: DGLGraph, column: Any, count: int) -> _Numbers | None:
    """Return a column of one number for each row as int64 or float64; None where the host must look at it."""
    arrays, dtype = g.id_arrays, active.dtype(column)
    there = active.device(column) == arrays.device and active.shape(column) in ((count,), (count, 1))
    if not there or dtype not in ("int32", "int64", "float32", "float64"):
        return None
    is_float = "float" in dtype
    values = arrays.floats(column) if is_float else arrays.astype(column, "int64")
    return _Numbers(active.contiguous(values.reshape(-1)), is_float)


def _ordered(g: DGLGraph, gpu: Gpu, relation: int, name: str, dates: _Numbers) -> Any:
    """Return a relation by destination, each row by time (NaN last) and then by edge id; cached for the column."""
    adjacency, column = g.adjacencies[relation], g.edge_frame_at(relation).peek(name)

    def make() -> Any:
        arrays, index = g.id_arrays, str(adjacency.index_dtype)
        src, dst = g.edges(etype=g.type_graph.canonical_etypes[relation])
        order = arrays.argsort(dates.values)
        order = order[arrays.argsort(dst[order])]
        degrees = arrays.bincount(dst, adjacency.num_dst)
        indptr = arrays.concatenate([arrays.full(1, 0), arrays.cumsum(degrees)])
        memory = [gpu.memory(arrays.astype(x, index)) for x in (indptr, src[order], order)]
        sizes = adjacency.num_dst, adjacency.num_edges
        structure = gpu.kernels("graph.structure").Structure
        return structure.of_rows(gpu.queue, index, *sizes, memory[0], memory[1], 0, memory[2])

    with _ORDERS.lock:
        return _ORDERS.get(adjacency, column, make, gpu)
