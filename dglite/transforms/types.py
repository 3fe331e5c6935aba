"""Conversion between heterogeneous graphs, homogeneous graphs, and blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError, warn
from ..frame import EID, ETYPE, NID, NTYPE, Frame
from ..graph import DGLGraph
from ..graph.scope import copies
from ..graph.storage import make_graph, require_graph
from ..structure import Adjacency, Metagraph
from ..structure.distinct import numbered
from ..structure.metagraph import HOMOGENEOUS
from ..structure.sizes import require_room
from .parts import require_homogeneous


@overload
def to_homogeneous(
    G: DGLGraph,
    ndata: Sequence[str] | None = None,
    edata: Sequence[str] | None = None,
    store_type: bool = True,
    return_count: Literal[False] = False,
) -> DGLGraph: ...
@overload
def to_homogeneous(
    G: DGLGraph,
    ndata: Sequence[str] | None = None,
    edata: Sequence[str] | None = None,
    store_type: bool = True,
    *,
    return_count: Literal[True],
) -> tuple[DGLGraph, list[int], list[int]]: ...
@explained
def to_homogeneous(
    G: DGLGraph,
    ndata: Sequence[str] | None = None,
    edata: Sequence[str] | None = None,
    store_type: bool = True,
    return_count: bool = False,
) -> Any:
    """Return the graph as a homogeneous graph, with nodes and edges numbered type after type.

    Raises DGLError: a type lacks a feature that is to be kept, which is a ``KeyError`` as well, or its shape or dtype
    differs.

    Parameters
    ----------
    ndata, edata
        features to keep, which every type must have, of one shape and dtype; none by default.
    store_type
        write the type numbers to ``ndata[dglite.NTYPE]`` and ``edata[dglite.ETYPE]``. The old ids are always written
        to ``ndata[dglite.NID]`` and ``edata[dglite.EID]``.
    return_count
        also return the numbers of nodes and of edges of each type, two lists.

    A block becomes the graph of its source nodes followed by its destination nodes.
    """
    require_graph(G)
    node_counts, edge_counts = list(G.node_counts), [adjacency.num_edges for adjacency in G.adjacencies]
    offsets = np.cumsum([0, *node_counts])
    total = int(offsets[-1])
    require_room(total, 16 + 8 * store_type, sum(edge_counts))
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([np.empty(0, np.int64)], [np.empty(0, np.int64)])
    for adjacency, sets in zip(G.adjacencies, G.type_graph.ends, strict=True):
        for parts, ids, node_set in zip(sides, adjacency.endpoints(), sets, strict=True):
            parts.append(ids + offsets[node_set])
    src, dst = (np.concatenate(parts) for parts in sides)
    result = make_graph(
        HOMOGENEOUS, (Adjacency.from_coo(total, total, src, dst, G.numpy_idtype, validate=False),), [total], like=G
    )
    for frame, frames, counts, names, id_name, type_name in (
        (result.node_frame_at(0), G.node_frames, node_counts, ndata, NID, NTYPE),
        (result.edge_frame_at(0), G.edge_frames, edge_counts, edata, EID, ETYPE),
    ):
        if names:
            frame.join(frames, counts, [names] if isinstance(names, str) else list(names))
        if store_type:
            frame[type_name] = result.as_tensor(np.repeat(np.arange(len(counts)), counts))
        frame[id_name] = result.ids_tensor(np.concatenate([np.arange(count) for count in (0, *counts)]))
    return (result, node_counts, edge_counts) if return_count else result


@explained
def to_heterogeneous(
    G: DGLGraph,
    ntypes: Sequence[str],
    etypes: Sequence[str],
    ntype_field: str = NTYPE,
    etype_field: str = ETYPE,
    metagraph: Any = None,
) -> DGLGraph:
    """Return the graph with nodes and edges distributed over types, which two integer features number.

    Raises DGLError: ``G`` has several types, a field is missing, a number has no name, or a node or an edge is not in
    the metagraph.

    Parameters
    ----------
    ntypes, etypes
        names: a node whose ``ntype_field`` is i is of type ``ntypes[i]``, an edge likewise. Edges of one name between
        different node types are different relations.
    metagraph
        a NetworkX multigraph of the types, keys naming edge types, such as ``g.metagraph()``: all of its types are
        made, also those without edges. By default those that occur; node types all. An edge type without edges is then
        left out, with a warning, since the node types of its ends cannot be known.

    Returns
    -------
    DGLGraph
        Types are ordered by name. Inside a type, nodes and edges keep their order. ``ndata[dglite.NID]`` and
        ``edata[dglite.EID]`` have the ids in ``G``; other features come along, but for the two fields.
    """
    adjacency = require_homogeneous(G, "to_heterogeneous")
    node_types = _numbers(G.node_frame_at(0), ntype_field, ntypes, "node")
    edge_types = _numbers(G.edge_frame_at(0), etype_field, etypes, "edge")
    names = sorted(set(ntypes) if metagraph is None else metagraph.nodes)
    lost = sorted({ntypes[i] for i in np.flatnonzero(np.bincount(node_types)).tolist()} - set(names))
    if lost:
        raise DGLError(f"to_heterogeneous: there are nodes of type {lost[0]!r}, which the metagraph does not have")
    node_ids = {name: _of_type(node_types, _places(ntypes, name)) for name in names}
    src, dst = adjacency.endpoints()
    places = _places_in_types(node_ids, adjacency)
    edge_ids = _edges_by_relation(src, dst, node_types, edge_types, ntypes, etypes)
    relations = sorted(edge_ids)
    if metagraph is not None:
        relations = sorted((u, key, v) for u, v, key in metagraph.edges(keys=True))
        unknown = [relation for relation in edge_ids if relation not in relations]
        if unknown:
            raise DGLError(f"to_heterogeneous: there are edges of type {unknown[0]}, which the metagraph does not have")
    else:
        _warn_left_out(etypes, relations)
    counts = {name: len(ids) for name, ids in node_ids.items()}
    rows = [edge_ids.get(relation, np.empty(0, np.int64)) for relation in relations]
    adjacencies = tuple(
        Adjacency.from_coo(
            counts[u], counts[v], places(u, src[ids]), places(v, dst[ids]), G.numpy_idtype, validate=False
        )
        for (u, _, v), ids in zip(relations, rows, strict=True)
    )
    result = make_graph(_metagraph(names, relations), adjacencies, [counts[name] for name in names], like=G)
    result.node_frames = [_dealt(G.node_frame_at(0), node_ids[name], ntype_field, result, NID) for name in names]
    result.edge_frames = [_dealt(G.edge_frame_at(0), ids, etype_field, result, EID) for ids in rows]
    return result


def _warn_left_out(etypes: Sequence[str], relations: Sequence[tuple[str, str, str]]) -> None:
    left_out = sorted(set(etypes) - {name for _, name, _ in relations})
    if left_out:
        warn(
            f"to_heterogeneous: no edge is of type {', '.join(map(repr, left_out))}, so that the node types of its "
            "ends cannot be known, and it is left out; give metagraph=, such as g.metagraph() of the graph that it was"
        )


def _numbers(frame: Frame, field: str, names: Sequence[str], kind: str) -> np.ndarray:
    if field not in frame:
        raise DGLError(
            f"to_heterogeneous: the {kind}s have no feature {field!r} that says their types; dglite.to_homogeneous "
            f"writes it, or set the number of each {kind}'s type, g.{kind[0]}data[{field!r}] = tensor"
        )
    numbers = active.to_numpy(frame[field])
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DGLError(f"to_heterogeneous: {field!r} must be an integer for each {kind}, got {numbers.dtype} rows")
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(names):
        raise DGLError(
            f"to_heterogeneous: {kind} type numbers run from {numbers.min()} to {numbers.max()}, but there are "
            f"{len(names)} names"
        )
    return numbers.astype(np.int64, copy=False)


def _places_in_types(
    node_ids: Mapping[str, np.ndarray], adjacency: Adjacency
) -> Callable[[str, np.ndarray], np.ndarray]:
    """Return the function from a type and some of its nodes to their places among the type's ``node_ids``."""
    if adjacency.few_edges:
        return lambda name, nodes: np.searchsorted(node_ids[name], nodes)
    local = np.empty(adjacency.num_src, np.int64)
    for ids in node_ids.values():
        local[ids] = np.arange(len(ids))
    return lambda _, nodes: local[nodes]


def _of_type(types: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
    """Return the nodes whose type is one of ``numbers``, ascending."""
    mask = types == numbers[0] if numbers else np.zeros(len(types), np.bool_)
    for number in numbers[1:]:
        mask |= types == number
    return mask.nonzero()[0]


def _places(names: Sequence[str], name: str) -> list[int]:
    return [i for i, other in enumerate(names) if other == name]


def _edges_by_relation(
    src: np.ndarray,
    dst: np.ndarray,
    node_types: np.ndarray,
    edge_types: np.ndarray,
    ntypes: Sequence[str],
    etypes: Sequence[str],
) -> dict[tuple[str, str, str], np.ndarray]:
    """Return the edges of each canonical edge type that occurs, ascending."""
    width = max(len(ntypes), 1)
    triples = (node_types[src] * max(len(etypes), 1) + edge_types) * width + node_types[dst]
    distinct_triples, inverse = numbered(triples)
    order = np.argsort(inverse, kind="stable")
    runs = (
        np.split(order, np.cumsum(np.bincount(inverse, minlength=len(distinct_triples)))[:-1])
        if len(distinct_triples)
        else []
    )
    result: dict[tuple[str, str, str], np.ndarray] = {}
    for triple, ids in zip(distinct_triples.tolist(), runs, strict=True):
        rest, v = divmod(triple, width)
        u, e = divmod(rest, max(len(etypes), 1))
        relation = ntypes[u], etypes[e], ntypes[v]
        result[relation] = np.sort(np.concatenate([result[relation], ids])) if relation in result else ids
    return result


def _metagraph(names: list[str], relations: list[tuple[str, str, str]]) -> Metagraph:
    alike = names == list(HOMOGENEOUS.ntypes) and relations == list(HOMOGENEOUS.canonical_etypes)
    return HOMOGENEOUS if alike else Metagraph(names, relations)


def _dealt(frame: Frame, rows: np.ndarray, field: str, result: DGLGraph, id_name: str) -> Frame:
    dealt = frame.take(rows)
    for name in (field, id_name):
        if name in dealt:
            del dealt[name]
    ids: Tensor = result.ids_tensor(rows)
    dealt[id_name] = ids
    return dealt


@explained
def block_to_graph(block: DGLGraph) -> DGLGraph:
    """Return a block as a graph whose node types are its source types, ``x_src``, and its destination types, ``x_dst``.

    Features come along.

    Raises DGLError: the graph is not a block.
    """
    if not block.is_block:
        raise DGLError("block_to_graph: the graph is not a block; it can be used as it is")
    metagraph = block.type_graph
    names = [f"{name}_src" for name in metagraph.srctypes] + [f"{name}_dst" for name in metagraph.dsttypes]
    relations = [(f"{src}_src", etype, f"{dst}_dst") for src, etype, dst in metagraph.canonical_etypes]
    result = make_graph(Metagraph(names, relations), block.adjacencies, block.node_counts, like=block)
    result.node_frames, result.edge_frames = copies(block.node_frames), copies(block.edge_frames)
    return result
