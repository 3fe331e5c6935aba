"""Random walks: along metapaths, with restarts, by weight, and node2vec walks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import require_graph
from ..ops import core
from ..ops.devices import Gpu, device_on
from ..random import draw_key
from ..structure import Adjacency
from ..structure.ids import count_of, integer_array, number_of
from .arguments import edge_weights, numbers, probability
from .frontier import check_weights, compiled
from .on_gpu import weights_there

_MOST_STEPS = 1 << 28
"""The trace of one such walk has 2 GB."""
_NO_WEIGHTS = np.empty(0, np.float32)


@explained
def random_walk(
    g: DGLGraph,
    nodes: Any,
    *,
    metapath: Sequence[Any] | None = None,
    length: int | None = None,
    prob: str | None = None,
    restart_prob: Any = None,
    return_eids: bool = False,
) -> tuple[Tensor, ...]:
    """Draw random walks along out-edges, one from each of the given nodes.

    Raises DGLError: neither ``metapath`` nor ``length`` is given, edge types do not follow on each other, a node does
    not exist, no edge type has the feature, a probability is not in [0, 1], or a weight met is negative or not finite.

    Parameters
    ----------
    nodes
        where walks start, of the type that the first edge type of the metapath starts from.
    metapath
        edge type of each step; each must start from the node type at which the one before arrives.
    length
        number of steps, in a graph of one edge type; not read where there is a metapath.
    prob
        edge feature with a weight for each edge; steps are uniform by default, and along edge types without
        the feature. Edges of weight 0 are never taken.
    restart_prob
        probability to end before each step: a number, or one number per step.
    return_eids
        also return the ids of the edges followed.

    Returns
    -------
    Node ids (num_walks, length + 1), -1 after a walk has ended, which it also does at a node without out-edges (or with
    none of positive weight); with ``return_eids`` edge ids (num_walks, length); and the number of the node type of each
    column.
    """
    relations, gpu = _relations(g, metapath, length), device_on(g.device)
    options = nodes, relations, prob, restart_prob, return_eids
    traces, edges, types = _walk_on_gpu(g, gpu, *options) if isinstance(gpu, Gpu) else walk(g, *options)
    result = g.ids_tensor(traces), g.ids_tensor(np.array(types))
    return (result[0], g.ids_tensor(edges), result[1]) if return_eids else result


def _relations(g: DGLGraph, metapath: Sequence[Any] | None, length: int | None) -> list[int]:
    """Return the number of each step's edge type."""
    require_graph(g)
    if metapath is None and length is None:
        raise DGLError("give either a metapath, a list of edge types, or the length of the walks")
    if metapath is not None:
        return [g.etype_id(etype) for etype in metapath]
    if len(g.adjacencies) != 1 or len(g.type_graph.ntypes) != 1:
        raise DGLError(f"walks of a length need one node and one edge type; give a metapath of {g.canonical_etypes}")
    return repeated([0], count_of(length, "length"))


def repeated(relations: list[int], times: int) -> list[int]:
    """Return the edge types of the steps of a walk that repeats ``relations`` this many times."""
    steps = len(relations) * times
    if steps > _MOST_STEPS:
        raise DGLError(f"walks of {steps} steps are too long to be kept; at most {_MOST_STEPS} are possible")
    return relations * times


def walk(
    g: DGLGraph, nodes: Any, relations: list[int], prob: str | None, restart_prob: Any, return_eids: bool
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the traces (num_walks, length + 1), the edges (num_walks, length) if wanted, and the node sets."""
    types = _node_sets(g, relations)
    starts = g.node_ids_at(nodes, types[0])
    stops = _stops(restart_prob, len(relations))
    weights = _weights(g, prob, relations)
    traces, edges = _room(starts, len(relations), return_eids, g.numpy_idtype)
    key, begin, bad = draw_key(), 0, np.full(1, -1, np.int64)
    for index, steps in itertools.groupby(relations):
        end = begin + len(list(steps))
        csr = g.adjacencies[index].csr()
        # Only asked for where they are used: large graphs make them when they are first asked for.
        edge_ids = csr.edge_ids if return_eids or len(weights[index]) else None
        edge_ids = csr.indices[:0] if edge_ids is None else edge_ids
        matrix, outputs = (csr.indptr, csr.indices, edge_ids), (traces.reshape(-1), edges.reshape(-1), bad)
        for some, work in _calls(begin, end, len(starts), g.adjacencies[index], weights[index]):
            arguments = *matrix, weights[index], stops, *some, len(relations), key, *outputs
            _run(compiled().walk.walk, len(starts), work, arguments)
        check_weights(bad, f"{g.type_graph.etypes[index]!r} edge")
        begin = end
    return traces, edges, types


def _walk_on_gpu(
    g: DGLGraph, gpu: Gpu, nodes: Any, relations: list[int], prob: str | None, restart_prob: Any, return_eids: bool
) -> tuple[Tensor, Tensor, list[int]]:
    """Return what :func:`walk` does, as tensors; the host waits for whether nodes exist, and weights can be used."""
    arrays, length, dtype, types = g.id_arrays, len(relations), str(g.numpy_idtype), _node_sets(g, relations)
    starts = g.nodes_in(arrays, nodes, types[0])
    weights = None if prob is None else weights_there(g, gpu, prob, False)
    stops = None if restart_prob is None else active.from_numpy(_stops(restart_prob, length), g.device)
    count, key, wrong = len(starts), draw_key(), arrays.full(1, 0)
    traces = arrays.full(count * (length + 1), -1, dtype).reshape(count, length + 1)
    edges = arrays.full(count * length if return_eids else 0, -1, dtype).reshape(count, length if return_eids else 0)
    traces[:, 0] = arrays.astype(starts, dtype)
    addresses = [active.address(traces), active.address(edges) if return_eids else 0]
    addresses += [0 if stops is None else active.address(stops), active.address(wrong)]
    kernels, begin = gpu.kernels("sample.walk"), 0
    walks = kernels.Walks(count, length, key, dtype, *addresses)
    for index, steps in itertools.groupby(relations):
        end, structure = begin + len(list(steps)), gpu.structure(core.reversed_of(g.adjacencies[index]))[0]
        values = None if weights is None else weights[index]
        kernels.walk(gpu.queue, structure, walks, begin, end, 0 if values is None else active.address(values[0]))
        if values is not None:
            check_weights(np.array(arrays.read(wrong)) - 1, f"{g.type_graph.etypes[index]!r} edge")
        begin = end
    return traces, edges, types


def _room(starts: np.ndarray, length: int, return_eids: bool, idtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return arrays for traces (num_walks, length + 1), begun at ``starts``, and edges (num_walks, length or 0)."""
    try:
        traces = np.empty((len(starts), length + 1), idtype)
        edges = np.empty((len(starts), length if return_eids else 0), idtype)
    except (MemoryError, ValueError) as error:  # the latter beyond what an array can have
        size = len(starts) * (length + 1) * (1 + return_eids) * idtype.itemsize
        raise DGLError(
            f"{len(starts)} walks of {length} steps take {size / 2**30:.3g} GiB, which there are not; walk from fewer "
            "nodes at a time, or make the walks shorter"
        ) from error
    traces[:, 0] = starts
    return traces, edges


_STEPS_PER_CALL = 1 << 22
"""Steps of all walkers between two returns to Python, for signals: a tenth of a second or so."""


def _calls(
    begin: int, end: int, num_walks: int, adjacency: Adjacency, weights: np.ndarray
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the steps (first, end) of each call, and how much work they are. Walks that are many are cut by walks.

    A step by weight looks at all out-edges of a node.
    """
    cost = 1 + (adjacency.num_edges // max(adjacency.num_src, 1) if len(weights) else 0)
    length = max(_STEPS_PER_CALL // max(num_walks * cost, 1), 64)
    for first in range(begin, end, length):
        last = min(first + length, end)
        yield (first, last), num_walks * (last - first) * cost


def _run(kernel: Any, num_walks: int, work: int, arguments: tuple[Any, ...]) -> None:
    compiled().rows.run_rows(kernel, num_walks, work, active.num_threads(), *arguments)


def _node_sets(g: DGLGraph, relations: list[int]) -> list[int]:
    ends, etypes = g.type_graph.ends, g.type_graph.canonical_etypes
    if not relations:
        if len(g.type_graph.ntypes) != 1:
            raise DGLError("the metapath is empty: which node type do the walks start from?")
        return [0]
    for before, after in itertools.pairwise(relations):
        if ends[before][1] != ends[after][0]:
            raise DGLError(
                f"edge type {etypes[after]} cannot follow {etypes[before]}: it starts from another node type"
            )
    return [ends[relations[0]][0], *(ends[index][1] for index in relations)]


def _stops(restart_prob: Any, length: int) -> np.ndarray:
    if restart_prob is None:
        return np.zeros(length)
    probabilities = active.to_numpy(restart_prob) if active.is_tensor(restart_prob) else np.asarray(restart_prob)
    if probabilities.ndim == 0:
        return np.full(length, probability(probabilities, "restart_prob"))
    stops = numbers(probabilities, length, "restart_prob").astype(np.float64)
    for extreme in (stops.min(), stops.max()) if length else ():
        probability(extreme, "restart_prob")
    return np.ascontiguousarray(stops)


def _weights(g: DGLGraph, prob: str | None, relations: list[int]) -> dict[int, np.ndarray]:
    """Return the weights of each relation, an empty array where they are uniform."""
    by_relation = edge_weights(g, prob)
    return {index: _NO_WEIGHTS if (x := by_relation[index]) is None else x for index in relations}


@explained
def pack_traces(traces: Tensor, types: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the nodes of all walks one after the other, their types, and each walk's length and offset.

    Raises DGLError: shapes do not fit.

    Parameters
    ----------
    traces
        node ids (num_walks, length + 1), -1 after a walk has ended: see :func:`random_walk`.
    types
        node type numbers (length + 1,).
    """
    nodes, kinds = integer_array(traces, "traces"), integer_array(types, "types")
    if nodes.ndim != 2 or kinds.shape != nodes.shape[1:]:
        raise DGLError(f"traces (num_walks, n) need types (n,), got shapes {nodes.shape} and {kinds.shape}")
    is_node = nodes >= 0
    lengths = is_node.sum(1, dtype=np.int64)
    offsets = np.cumsum(lengths) - lengths
    packed = nodes[is_node], np.broadcast_to(kinds, nodes.shape)[is_node], lengths, offsets
    first, second, third, fourth = (active.from_numpy(x) for x in packed)
    return first, second, third, fourth


@overload
def node2vec_random_walk(
    g: DGLGraph,
    nodes: Any,
    p: float,
    q: float,
    walk_length: int,
    prob: str | None = None,
    return_eids: Literal[False] = False,
) -> Tensor: ...
@overload
def node2vec_random_walk(
    g: DGLGraph,
    nodes: Any,
    p: float,
    q: float,
    walk_length: int,
    prob: str | None = None,
    *,
    return_eids: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@explained
def node2vec_random_walk(
    g: DGLGraph, nodes: Any, p: float, q: float, walk_length: int, prob: str | None = None, return_eids: bool = False
) -> Any:
    """Walk from each of some nodes in a homogeneous graph, by node2vec's rule (Grover and Leskovec 2016).

    From v, reached from t, a walk goes on to x in proportion to the weight of the edge v -> x times 1/p when x is t, 1
    when there is an edge t -> x, and 1/q otherwise. The first step goes by the weights alone.

    Raises DGLError: the graph is not homogeneous, p or q is not above 0, or as :func:`random_walk`.

    Parameters
    ----------
    nodes, prob, return_eids
        as for :func:`random_walk`.
    p, q
        return and in-out parameters, above 0.
    walk_length
        number of steps.

    Returns
    -------
    Node ids (num_walks, walk_length + 1), -1 after a walk has ended; with ``return_eids`` a pair of them and edge ids.
    """
    require_graph(g)
    if not g.is_homogeneous:
        raise DGLError("node2vec_random_walk needs one node type and one edge type")
    p, q = number_of(p, "p"), number_of(q, "q")
    if not (0 < p < np.inf and 0 < q < np.inf):
        raise DGLError(f"p and q must be above 0 and finite, got p={p} and q={q}")
    length = len(_relations(g, None, walk_length))
    starts, adjacency = g.node_ids_at(nodes, 0), g.adjacencies[0]
    (weights,) = edge_weights(g, prob)
    traces, edges = _room(starts, length, return_eids, g.numpy_idtype)
    by_src, bad = adjacency.sorted_csr(), np.full(1, -1, np.int64)
    edge_ids = by_src.indices[:0] if by_src.edge_ids is None else by_src.edge_ids
    inputs = by_src.indptr, by_src.indices, edge_ids, _NO_WEIGHTS if weights is None else weights
    biases, key, outputs = np.array([1 / p, 1, 1 / q]), draw_key(), (traces.reshape(-1), edges.reshape(-1), bad)
    for some, work in _calls(0, length, len(starts), adjacency, inputs[3]):
        _run(compiled().walk.node2vec, len(starts), work, (*inputs, biases, *some, length, key, *outputs))
    check_weights(bad, "edge")
    return (g.ids_tensor(traces), g.ids_tensor(edges)) if return_eids else g.ids_tensor(traces)
