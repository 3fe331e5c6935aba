"""Arguments of samplers (seeds, fan-outs, weights, excluded edges), checked and turned into arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..backend import active, native
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import require_graph
from ..structure.distinct import distinct
from ..structure.ids import as_ids, count_of, integer_array, number_of


def is_inward(edge_dir: str) -> bool:
    """Return whether ``edge_dir``, "in" or "out", means the edges that enter the seeds."""
    if not isinstance(edge_dir, str) or edge_dir not in ("in", "out"):  # an array is compared element by element
        raise DGLError(f"edge_dir={edge_dir!r} is not understood; expected 'in' or 'out'")
    return edge_dir == "in"


def seeds_of(g: DGLGraph, nodes: Any, inward: bool) -> list[np.ndarray | None]:
    """Return the int64 seeds by edge type; None for the types whose end on the seeds' side is not among them."""
    sets, side = seed_sets(g, nodes, inward), 1 if inward else 0
    return [sets.get(ends[side]) for ends in g.type_graph.ends]


def seed_sets(g: DGLGraph, nodes: Any, inward: bool, read: Callable[[Any, int], Any] | None = None) -> dict[int, Any]:
    """Return the int64 seeds of those node sets that have some, as ``read(ids, node_set)`` does; by default checked."""
    require_graph(g)
    read = g.node_ids_at if read is None else read
    metagraph = g.type_graph
    if isinstance(nodes, Mapping):
        find = (metagraph.dst_set if inward else metagraph.src_set) if metagraph.is_block else metagraph.node_set
        by_set = {find(ntype): ids for ntype, ids in nodes.items()}
    elif len(metagraph.ntypes) == 1:
        by_set = {0: nodes}
    else:
        raise DGLError(
            f"seeds are given without a type, but the graph has the node types {list(metagraph.ntypes)}; "
            "give a dictionary by node type"
        )
    return {node_set: read(ids, node_set) for node_set, ids in by_set.items()}


def fanouts_of(g: DGLGraph, fanout: Any, argument: str = "fanout") -> list[int]:
    """Return one number per edge type, -1 for all, from one for every type or a dictionary that has each of them.

    Raises ``DGLError``: a number is not an integer or below -1, a type is unknown, or a type is missing.
    """
    etypes = g.type_graph.canonical_etypes
    if not isinstance(fanout, Mapping):
        return [_count(fanout, argument)] * len(etypes)
    by_relation = {g.etype_id(etype): _count(value, argument) for etype, value in fanout.items()}
    missing = [etype for i, etype in enumerate(etypes) if i not in by_relation]
    if missing:
        raise DGLError(
            f"{argument} has no number for the edge types {missing}; give one for each, 0 to leave a type out"
        )
    return [by_relation[i] for i in range(len(etypes))]


def _count(value: Any, argument: str) -> int:
    return count_of(value, argument, -1, remark=" (-1 for all neighbours), or a dictionary of them by edge type")


def edge_weights(g: DGLGraph, prob: Any, argument: str = "prob") -> list[np.ndarray | None]:
    """Return the weights of each edge type's edges, or None where they are all alike; see :func:`weight_columns`."""
    columns = weight_columns(g, prob, argument)
    return [
        None if x is None else numbers(x, g.adjacencies[i].num_edges, weight_label(g, i, argument))
        for i, x in enumerate(columns)
    ]


def weight_label(g: DGLGraph, index: int, argument: str = "prob") -> str:
    """Return the name of an edge type's weights, for errors."""
    return f"{argument} of edge type {g.type_graph.etypes[index]!r}"


def weight_columns(g: DGLGraph, prob: Any, argument: str = "prob") -> list[Any]:
    """Return the tensor or array of each edge type's weights, or None, as it was given.

    ``prob`` is the name of an edge feature, which at least one type must have; a tensor for the only type; or a list
    with a tensor or None for each type.

    Raises ``DGLError``: no type has the feature, or there are weights for another number of types.
    """
    relations = range(len(g.adjacencies))
    if prob is None:
        return [None] * len(relations)
    if isinstance(prob, str):
        columns: list[Any] = [g.edge_frame_at(i).peek(prob) for i in relations]
        if len(relations) and all(column is None for column in columns):
            names = sorted({name for i in relations for name in g.edge_frame_at(i)})
            raise DGLError(f"{argument}={prob!r} is not an edge feature; there are {names or 'none'}")
    elif isinstance(prob, list | tuple):
        columns = list(prob)
    else:
        columns = [prob]
    if len(columns) != len(relations):
        raise DGLError(f"{argument} has weights for {len(columns)} edge types; the graph has {len(relations)}")
    return columns


def numbers(values: Any, count: int, label: str) -> np.ndarray:
    """Return ``count`` weights, of shape (count,) or (count, 1), as a contiguous float32, float64 or uint8 array.

    Booleans become uint8, other integers float64.
    """
    array = active.to_numpy(values) if active.is_tensor(values) else native(np.asarray(values))
    if array.dtype.kind not in "biuf":
        raise DGLError(f"{label} must be numbers or booleans, got {array.dtype}")
    if array.size != count or array.shape[:1] != (count,):
        raise DGLError(f"{label} has shape {array.shape}; expected one number for each of {count}")
    array = np.ascontiguousarray(array.reshape(-1))
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype.kind != "f":
        return array.astype(np.float64)
    return array if array.dtype.itemsize in (4, 8) else array.astype(np.float32)


def excluded_edges(g: DGLGraph, edges: Any) -> list[np.ndarray | None]:
    """Return the distinct ids of the edges to leave out, by edge type; None for a type without any.

    Raises ``DGLError``: an edge does not exist, or ids are given without a type and there are several.
    """
    excluded: list[np.ndarray | None] = [None] * len(g.adjacencies)
    if edges is None:
        return excluded
    by_type = edges if isinstance(edges, Mapping) else {None: edges}
    for etype, edge_ids in by_type.items():
        index = g.etype_id(etype)
        ids = distinct(as_ids(edge_ids, g.adjacencies[index].num_edges, "excluded edge")).astype(np.int64, copy=False)
        excluded[index] = ids if len(ids) else None
    return excluded


def probability(value: Any, argument: str) -> float:
    """Return a number in [0, 1]."""
    return number_of(value, f"{argument}, a probability,", 0, 1)


def offsets_of(values: Any, count: int, argument: str) -> np.ndarray:
    """Return ascending int64 offsets that begin at 0 and end at ``count``."""
    offsets = integer_array(values, argument).astype(np.int64)
    if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != count or (np.diff(offsets) < 0).any():
        raise DGLError(f"{argument} must ascend from 0 to {count}, got {offsets.tolist()}")
    return offsets


def integers(values: Sequence[int] | Any, argument: str) -> np.ndarray:
    """Return numbers of at least -1 as a one-dimensional int64 array."""
    array = integer_array(values, argument).astype(np.int64).reshape(-1)
    if len(array) and array.min() < -1:
        raise DGLError(f"{argument} must be at least 0, or -1 for all neighbours; got {array.min()}")
    return array
