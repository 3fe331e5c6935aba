"""Neighbour sampling: uniform, by weight, by tag, by edge type, or the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments import explained
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import require_graph
from ..ops.devices import Gpu, device_on
from ..random import draw_key
from ..structure import Adjacency
from ..structure.ids import integer_array
from .arguments import edge_weights, excluded_edges, fanouts_of, integers, is_inward, numbers, offsets_of, seeds_of
from .frontier import NO_EDGES, Chosen, IncidentEdges, check_weights, compiled, frontier
from .on_gpu import choose_on_gpu, draw_on, excluded_there
from .sums import cached_sums
from .times import ALL_TIMES, TimeLimits

_NO_WEIGHTS, _NO_SUMS, _NO_GROUPS = np.empty(0, np.float32), np.empty(0), np.empty(0, np.int64)


@explained
def sample_neighbors(
    g: DGLGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    _dist_training: bool = False,
    exclude_edges: Any = None,
    output_device: Any = None,
) -> DGLGraph:
    """Return the graph of all nodes with ``fanout`` edges chosen at random around each of some nodes.

    Without replacement a node with fewer edges than that has all of them. A node that is given twice is sampled twice,
    independently. Edges are ordered by edge type, then by position in ``nodes``.

    Raises DGLError: a node, edge, type or feature does not exist, a fan-out is below -1, or a weight that was looked at
    is negative or not finite.

    Parameters
    ----------
    nodes
        seed ids, or a dictionary of them by node type.
    fanout
        number of edges per seed and edge type; or a dictionary of it by edge type; -1 means all.
    edge_dir
        "in" for edges that enter the seeds, "out" for edges that leave them.
    prob
        edge feature with a weight, or a boolean mask, for each edge: edges are drawn in proportion to it, those of
        weight 0 never. Edge types without the feature are sampled uniformly. A list of tensors by edge type works too.
    replace
        draw with replacement. A graph on a GPU is sampled there, with the same result.
    copy_ndata, copy_edata
        whether the result has the features of its nodes and edges. With ``copy_edata`` it also has ``edata[EID]``, the
        ids that the edges have in ``g``.
    exclude_edges
        edge ids, or a dictionary of them by edge type, that are treated as if they were not there.
    output_device
        device of the result; the graph's by default.

    Examples
    --------
    >>> import dglite
    >>> g = dglite.graph(([0, 0, 1, 1, 2, 2], [1, 2, 0, 1, 2, 0]))
    >>> sample_neighbors(g, [0, 1], 3).edata[dglite.EID]
    tensor([2, 5, 0, 3])
    """
    require_graph(g)
    inward, gpu = is_inward(edge_dir), device_on(g.device)
    if isinstance(gpu, Gpu):
        excluded, fanouts = excluded_there(g, exclude_edges), fanouts_of(g, fanout)
        draw = draw_on(g, gpu, inward, fanouts, replace, draw_key(), prob, excluded)
        picks = choose_on_gpu(g, gpu, nodes, inward, draw)
    else:
        picks = choose(g, seeds_of(g, nodes, inward), fanout, inward, prob, replace, exclude_edges)
    return frontier(g, picks, copy_ndata, copy_edata, output_device)


def choose(
    g: DGLGraph,
    seeds: list[np.ndarray | None],
    fanout: Any,
    inward: bool,
    prob: Any,
    replace: bool,
    exclude_edges: Any,
    times: Sequence[TimeLimits | None] | None = None,
) -> list[Chosen]:
    """Return the edges that :func:`sample_neighbors` chooses around the seeds of each edge type.

    ``times`` has those of each edge type that has some.
    """
    return choose_by_key(g, seeds, fanout, inward, prob, replace, excluded_edges(g, exclude_edges), draw_key(), times)


def choose_by_key(
    g: DGLGraph,
    seeds: list[np.ndarray | None],
    fanout: Any,
    inward: bool,
    prob: Any,
    replace: bool,
    excluded: Sequence[np.ndarray | None],
    key: int,
    times: Sequence[TimeLimits | None] | None = None,
) -> list[Chosen]:
    """Return the picks of :func:`choose` for a key: they depend on it and on the seeds' positions.

    Edges to leave out are ids by edge type; an empty array draws as if there were some.
    """
    fanouts, weights = fanouts_of(g, fanout), (prob, edge_weights(g, prob))
    picks = []
    for i, ids in enumerate(seeds):
        if ids is None:
            picks.append(NO_EDGES)
            continue
        limits = None if times is None else times[i]
        picks.append(choose_of_type(g, i, ids, fanouts[i], inward, weights, replace, excluded[i], key, limits))
    return picks


def choose_of_type(
    g: DGLGraph,
    i: int,
    seeds: np.ndarray,
    fanout: int,
    inward: bool,
    weights: tuple[Any, Sequence[np.ndarray | None]],
    replace: bool,
    excluded: np.ndarray | None,
    key: int,
    times: TimeLimits | None,
) -> Chosen:
    """Return the picks of :func:`choose_by_key` of edge type ``i``; ``weights`` are named and by edge type."""
    prob, values = weights[0], weights[1][i]
    if fanout == 0:
        return NO_EDGES
    if values is None and excluded is None and times is None:
        return _uniform(g.adjacencies[i], seeds, inward, fanout, replace, key + i)
    rows, sums = IncidentEdges(g.adjacencies[i], seeds, inward, fanout, replace), _NO_SUMS
    if values is not None and not replace and fanout > 0:
        sums = cached_sums(g, i, prob, values, inward, rows)
    label = f"{g.type_graph.etypes[i]!r} edge"
    return _weighted(rows, fanout, replace, key + i, label, values, sums, excluded, times)


def _uniform(adjacency: Adjacency, seeds: np.ndarray, inward: bool, fanout: int, replace: bool, key: int) -> Chosen:
    if not replace:
        fanout = min(fanout, adjacency.num_edges)  # kernels allocate this many entries per seed
    rows = IncidentEdges(adjacency, seeds, inward, fanout, replace)
    places = rows.places()
    rows.run(compiled().sample.uniform_rows, fanout, int(replace), key, places, scan=False)
    return rows.packed(places)


def _weighted(
    rows: IncidentEdges,
    fanout: int,
    replace: bool,
    key: int,
    label: str,
    weights: np.ndarray | None,
    sums: np.ndarray = _NO_SUMS,
    excluded: np.ndarray | None = None,
    times: TimeLimits | None = None,
    groups: np.ndarray = _NO_GROUPS,
    num_groups: int = 0,
) -> Chosen:
    """Choose by weights (all 1 if ``weights`` is None); with groups, weights are by group."""
    kernels, places = compiled(), rows.places()
    counts, bad = np.zeros(len(rows.rows.seeds), np.int64), np.full(1, -1, np.int64)
    weighed = kernels.weigh.Weights(_NO_WEIGHTS if weights is None else weights, sums, groups, num_groups)
    excluded_set = kernels.hashing.id_set(_NO_GROUPS if excluded is None else excluded)
    absent = kernels.weigh.ExcludedEdges(excluded_set, *(ALL_TIMES if times is None else times))
    arguments = fanout, int(replace), key, rows.longest, weighed, absent, places, counts, bad
    rows.run(kernels.weigh.weighted_rows, *arguments)
    check_weights(bad, label)
    return rows.packed(places, counts)


@explained
def sample_neighbors_biased(
    g: DGLGraph,
    nodes: Any,
    fanout: int,
    bias: Any,
    edge_dir: str = "in",
    tag_offset_name: str = "_TAG_OFFSET",
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    output_device: Any = None,
) -> DGLGraph:
    """Return the graph of all nodes with ``fanout`` edges around each seed, drawn by the tags of their neighbours.

    The graph, of one edge type, has its edges sorted by tag (``sort_csc_by_tag``, or ``sort_csr_by_tag`` for edges that
    leave the seeds); this is not checked. An edge whose far end has tag t is drawn in proportion to ``bias[t]``.

    Raises DGLError as :func:`sample_neighbors`; or there are several edge types, or the offsets do not fit the degrees
    or ``bias``.

    Parameters
    ----------
    nodes, fanout, edge_dir, replace, copy_ndata, copy_edata, output_device
        as for :func:`sample_neighbors`.
    bias
        weight of each tag.
    tag_offset_name
        node feature (num_nodes, num_tags + 1) that the sorting left on the seeds' nodes: where each tag's edges begin.
    """
    require_graph(g)
    if len(g.adjacencies) != 1:
        raise DGLError(f"sample_neighbors_biased needs one edge type, the graph has {len(g.adjacencies)}: g['name']")
    inward = is_inward(edge_dir)
    seeds, (count,) = _seeds_of_relation(g, nodes, inward), fanouts_of(g, fanout)
    weights = numbers(bias, len(bias), "bias").astype(np.float64)
    column = g.node_frame_at(g.type_graph.ends[0][1 if inward else 0]).peek(tag_offset_name)
    if column is None:
        raise DGLError(
            f"there is no node feature {tag_offset_name!r}; sort the graph first, with "
            + ("sort_csc_by_tag" if inward else "sort_csr_by_tag")
        )
    offsets = np.ascontiguousarray(integer_array(column, tag_offset_name).astype(np.int64))
    adjacency = g.adjacencies[0]
    degrees = adjacency.in_degrees() if inward else adjacency.out_degrees()
    if offsets.ndim != 2 or offsets.shape[1] != len(weights) + 1 or (offsets[:, -1] != degrees).any():
        raise DGLError(
            f"{tag_offset_name!r} has shape {offsets.shape}; expected {len(weights) + 1} ascending offsets for each "
            f"node, one more than there are weights in bias, from 0 to its degree"
        )
    rows, tags = IncidentEdges(adjacency, seeds, inward, count, replace), (offsets.reshape(-1), len(weights))
    picks = _weighted(rows, count, replace, draw_key(), "tag", weights, groups=tags[0], num_groups=tags[1])
    return frontier(g, [picks], copy_ndata, copy_edata, output_device)


def _seeds_of_relation(g: DGLGraph, nodes: Any, inward: bool) -> np.ndarray:
    """Return the seeds of the only relation; its node type need not be named."""
    if not isinstance(nodes, Mapping):
        return g.node_ids_at(nodes, g.type_graph.ends[0][1 if inward else 0])
    (seeds,) = seeds_of(g, nodes, inward)
    return _NO_GROUPS if seeds is None else seeds


@explained
def sample_etype_neighbors(
    g: DGLGraph,
    nodes: Any,
    etype_offset: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    etype_sorted: bool = False,
    _dist_training: bool = False,
    output_device: Any = None,
) -> DGLGraph:
    """Return the graph of all nodes with edges of each type chosen around each seed, in a graph that merges types.

    Edges of type t are those with ids from ``etype_offset[t]`` up to ``etype_offset[t + 1]``.

    Raises DGLError as :func:`sample_neighbors`; or the offsets do not ascend from 0 to the number of edges.

    Parameters
    ----------
    g
        a homogeneous graph, such as ``to_homogeneous`` makes.
    nodes, edge_dir, replace, copy_ndata, copy_edata, output_device
        as for :func:`sample_neighbors`.
    etype_offset
        one more number than types, from 0 to the number of edges.
    fanout
        one number per type, -1 for all.
    prob
        an edge feature's name, or a list of weights by type.
    etype_sorted
        accepted for DGL's sake: rows need not be sorted.
    """
    require_graph(g)
    if not g.is_homogeneous:
        raise DGLError("sample_etype_neighbors needs one node type and one edge type; see to_homogeneous")
    inward, adjacency = is_inward(edge_dir), g.adjacencies[0]
    seeds = _seeds_of_relation(g, nodes, inward)
    bounds = offsets_of(etype_offset, adjacency.num_edges, "etype_offset")
    fanouts = integers(fanout, "fanout")
    if len(fanouts) != len(bounds) - 1:
        raise DGLError(f"{len(fanouts)} fan-outs for {len(bounds) - 1} edge types; expected one for each")
    (weights,) = edge_weights(g, prob) if isinstance(prob, str) or prob is None else [_joined(prob, bounds)]
    total, everything = int(np.maximum(fanouts, 0).sum()), bool((fanouts < 0).any())
    rows = IncidentEdges(adjacency, seeds, inward, -1 if everything else total, replace)
    if everything and replace:
        rows.rows.offsets[:] += total * np.arange(len(seeds) + 1)
    counts, bad = np.zeros(len(seeds), np.int64), np.full(1, -1, np.int64)
    weights, places = _NO_WEIGHTS if weights is None else weights, rows.places()
    arguments = fanouts, int(replace), draw_key(), rows.longest, weights, bounds, places, counts, bad
    rows.run(compiled().sample.etype_rows, *arguments)
    check_weights(bad, "edge")
    return frontier(g, [rows.packed(places, counts)], copy_ndata, copy_edata, output_device)


def _joined(parts: Any, bounds: np.ndarray) -> np.ndarray:
    """Return the weights of all edges from those of each type; None stands for ones."""
    sizes = np.diff(bounds)
    if len(parts) != len(sizes):
        raise DGLError(f"prob has weights for {len(parts)} edge types; expected {len(sizes)}")
    joined = np.ones(int(bounds[-1]))
    for t, part in enumerate(parts):
        if part is not None:
            joined[bounds[t] : bounds[t + 1]] = numbers(part, int(sizes[t]), f"prob of edge type {t}")
    return joined


@explained
def select_topk(
    g: DGLGraph,
    k: Any,
    weight: str,
    nodes: Any = None,
    edge_dir: str = "in",
    ascending: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    output_device: Any = None,
) -> DGLGraph:
    """Return the graph of all nodes with the ``k`` edges of largest weight around each of some nodes.

    Edges of a node are ordered by weight; of equal weights the lower edge id comes first.

    Raises DGLError: a node, type or feature does not exist, ``k`` is below -1, or a weight is NaN.

    Parameters
    ----------
    k
        number of edges per node and edge type, or a dictionary of it by edge type; -1 means all.
    weight
        edge feature with a number for each edge, on every edge type of which edges are asked for.
    nodes
        node ids, or a dictionary of them by node type; all by default.
    ascending
        take the edges of least weight.
    edge_dir, copy_ndata, copy_edata, output_device
        as for :func:`sample_neighbors`.
    """
    require_graph(g)
    inward, counts = is_inward(edge_dir), fanouts_of(g, k, "k")
    if nodes is None:
        seeds: list[np.ndarray | None] = [np.arange(x.num_dst if inward else x.num_src) for x in g.adjacencies]
    else:
        seeds = seeds_of(g, nodes, inward)
    weights = edge_weights(g, weight, "weight")
    picks = []
    for i, adjacency in enumerate(g.adjacencies):
        ids, values = seeds[i], weights[i]
        if ids is None or counts[i] == 0:
            picks.append(NO_EDGES)
            continue
        if values is None:
            raise DGLError(f"edges of type {g.type_graph.canonical_etypes[i]} have no feature {weight!r} to select by")
        rows, bad = IncidentEdges(adjacency, ids, inward, counts[i]), np.full(1, -1, np.int64)
        places = rows.places()
        rows.run(compiled().sample.topk_rows, counts[i], int(ascending), values, places, bad)
        if bad[0] >= 0:
            raise DGLError(f"{weight!r} of {g.type_graph.etypes[i]!r} edge {bad[0]} is NaN, which has no rank")
        picks.append(rows.packed(places))
    return frontier(g, picks, copy_ndata, copy_edata, output_device)


attach(
    sample_neighbors=sample_neighbors,
    sample_neighbors_biased=sample_neighbors_biased,
    sample_etype_neighbors=sample_etype_neighbors,
    select_topk=select_topk,
)
