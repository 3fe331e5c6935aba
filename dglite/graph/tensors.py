"""A graph as a nested dictionary of tensors, and back: what torch's programs take where a graph is an input.

::

    {"src": ..., "dst": ..., "nodes": ..., "ndata": {"x": ...}, "edata": {"w": ...}, "batch_num_nodes": ...}

``src`` and ``dst`` are the ends of every edge. ``nodes`` has a row for each node and no columns, since a number that
changes is to a program the length of an input. In a block ``srcnodes`` and ``dstnodes``, ``srcdata`` and ``dstdata``
take the place of ``nodes`` and ``ndata``. With several types of nodes or edges each of these is a dictionary by type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..structure import Metagraph
from ..structure.traced import TracedAdjacency, in_program, relation_of
from .storage import DGLGraph, make_graph, require_graph

Schema = tuple[tuple[str, ...], tuple[tuple[str, str, str], ...], tuple[str, ...] | None, str]
"""Node types, edge types, destination types of a block, id dtype."""
_IDTYPE_NAMES = {np.dtype(name): name for name in ("int32", "int64")}  # NumPy takes ten microseconds for a name
_AS_THEY_ARE = "_tensors"
_COUNT_TENSORS = "_count_tensors"
_STRUCTURE = "_structure_tensors"


def schema_of(g: DGLGraph) -> Schema:
    """Return what two graphs share that are inputs of one program."""
    metagraph = g.type_graph
    types = metagraph.srctypes if metagraph.is_block else metagraph.ntypes
    dsttypes = metagraph.dsttypes if metagraph.is_block else None
    return types, metagraph.canonical_etypes, dsttypes, _IDTYPE_NAMES[g.numpy_idtype]


def to_tensors(g: DGLGraph) -> dict[str, Any]:
    """Return the graph as a nested dictionary of tensors: its edges, numbers of nodes, features and batch sizes.

    This is what a portable program (see :func:`dglite.export`) takes in the place of a graph. Features that are
    gathered when they are first read are gathered. The ends of edges share memory with the graph: do not write to
    them.

    Raises DGLError: ``g`` is not a graph.

    Returns
    -------
    dict
        ``src`` and ``dst`` (num_edges,), int32 or int64; ``nodes`` (num_nodes, 0), or ``srcnodes`` and ``dstnodes`` of
        a block; ``ndata``, or ``srcdata`` and ``dstdata``, and ``edata``, dictionaries by name, where there are
        features; ``batch_num_nodes`` and ``batch_num_edges`` (batch_size,) of a batch. With several types each is a
        dictionary by type.

    Examples
    --------
    >>> import dglite
    >>> {name: tuple(x.shape) for name, x in to_tensors(dglite.graph(([0, 1], [1, 2]))).items()}
    {'src': (2,), 'dst': (2,), 'nodes': (3, 0)}
    """
    require_graph(g)
    if _AS_THEY_ARE in g.__dict__:
        return g.__dict__[_AS_THEY_ARE][1]  # type: ignore[no-any-return]
    values, description = _flatten(g)
    return dict(zip(description[-1], values, strict=True))


def _features(g: DGLGraph) -> dict[str, Any]:
    """Return the part of the dictionary that holds features."""
    data = {
        data: _by_type(types, [dict(g.node_frames[i] or {}) for i in sets])
        for _, data, types, sets in _sides(g.type_graph)
    }
    data["edata"] = _by_type(_edge_types(g.type_graph), [dict(frame or {}) for frame in g.edge_frames])
    return {name: value for name, value in data.items() if value}


def from_tensors(tensors: dict[str, Any], schema: Schema) -> DGLGraph:
    """Return the graph of which these are the tensors.

    Tensors whose values a program will know later make a graph with traced relations. Anything else than tensors, as
    torch maps over a graph to describe it, is kept as it is.

    Raises ``DGLError``: an endpoint is not a node.
    """
    ntypes, canonical_etypes, dsttypes, idtype = schema
    metagraph = Metagraph(ntypes, canonical_etypes, dsttypes)
    etypes, sides = _edge_types(metagraph), _sides(metagraph)
    rows = [row for nodes, _, types, _ in sides for row in _listed(types, tensors[nodes])]
    ends = list(zip(_listed(etypes, tensors["src"]), _listed(etypes, tensors["dst"]), strict=True))
    if not all(active.is_tensor(x) for x in (*rows, *(x for pair in ends for x in pair))):
        graph = object.__new__(DGLGraph)
        graph.__dict__[_AS_THEY_ARE] = schema, tensors
        return graph
    ends = [(active.ids_of(src), active.ids_of(dst)) for src, dst in ends]
    num_nodes = [active.shape(row)[0] for row in rows]
    make: Callable[..., Any] = relation_of if active.are_read([x for pair in ends for x in pair]) else TracedAdjacency
    adjacencies = tuple(
        [
            make(src, dst, num_nodes[u], num_nodes[v]).as_idtype(idtype)
            for (src, dst), (u, v) in zip(ends, metagraph.ends, strict=True)
        ]
    )
    graph = make_graph(metagraph, adjacencies, num_nodes, active.device(rows[0]) if rows else None)
    graph.numpy_idtype = np.dtype(idtype)
    # Not by what makes frames when they are read: compilers do not know its lock.
    for _, data, types, sets in sides:
        for i, columns in zip(sets, _listed(types, tensors.get(data, {})), strict=True):
            graph.node_frames[i] = frame = graph._new_node_frame(i)
            frame.put(columns or {})
    for i, columns in enumerate(_listed(etypes, tensors.get("edata", {}))):
        graph.edge_frames[i] = frame = graph._new_edge_frame(i)
        frame.put(columns or {})
    counts = [tensors.get(f"batch_num_{nodes}") for nodes, *_ in sides]
    if counts and counts[0] is not None:
        node_counts = [x for (_, _, types, _), by in zip(sides, counts, strict=True) for x in _listed(types, by)]
        graph.batch_node_counts = tuple([_numbers(x) for x in node_counts])
    else:
        node_counts = None
    edge_counts = None
    if "batch_num_edges" in tensors:
        edge_counts = _listed(etypes, tensors["batch_num_edges"])
        graph.batch_edge_counts = tuple([_numbers(x) for x in edge_counts])
    graph.__dict__[_COUNT_TENSORS] = _counted(graph), (rows, node_counts, edge_counts)
    return graph


def _sides(metagraph: Metagraph) -> list[tuple[str, str, tuple[str, ...], range]]:
    """Return (name of node counts, name of features, types, node sets) of all nodes, or of each side of a block."""
    if not metagraph.is_block:
        return [("nodes", "ndata", metagraph.ntypes, range(len(metagraph.ntypes)))]
    first = len(metagraph.srctypes)
    return [
        ("srcnodes", "srcdata", metagraph.srctypes, range(first)),
        ("dstnodes", "dstdata", metagraph.dsttypes, range(first, len(metagraph.ntypes))),
    ]


def _edge_types(metagraph: Metagraph) -> tuple[str, ...]:
    """Return a name for each edge type: its own where no other has it."""
    names = metagraph.etypes
    return tuple(
        name if names.count(name) == 1 else ":".join(etype)
        for name, etype in zip(names, metagraph.canonical_etypes, strict=True)
    )


def _by_type(types: Sequence[str], values: Sequence[Any]) -> Any:
    if len(types) == 1:
        return values[0]
    return {name: value for name, value in zip(types, values, strict=True) if not isinstance(value, dict) or value}


def _listed(types: Sequence[str], values: Any) -> list[Any]:
    return [values] if len(types) == 1 else [values.get(name) for name in types]


def _counted(g: DGLGraph) -> tuple[Any, ...]:
    return g.node_counts, g.batch_node_counts, g.batch_edge_counts, g._device


def _count_tensors(g: DGLGraph) -> tuple[list[Tensor], list[Tensor] | None, list[Tensor] | None]:
    """Return a tensor with a row for each node by node set, and the batch's numbers of nodes and edges.

    Torch marks dynamic dimensions on the tensors that it finds in an input, so they are the same each time.
    """
    counted = _counted(g)
    cached: Any = g.__dict__.get(_COUNT_TENSORS)
    if cached is None or any(x is not y for x, y in zip(cached[0], counted, strict=True)):
        with nullcontext() if any(map(in_program, g.adjacencies)) else active.lasting():
            rows = [active.full((count, 0), 0, "bool", g._device) for count in g.node_counts]
            batches = [None if x is None else [_counts(count) for count in x] for x in counted[1:3]]
        cached = g.__dict__[_COUNT_TENSORS] = counted, (rows, *batches)
    return cached[1]  # type: ignore[no-any-return]


def _counts(counts: Any) -> Tensor:
    return active.from_numpy(counts) if isinstance(counts, np.ndarray) else counts


def _numbers(counts: Any) -> Any:
    counts = active.ids_of(counts)
    return active.to_numpy(counts) if active.are_read((counts,)) else counts


def _flatten(g: DGLGraph) -> tuple[list[Any], tuple[Any, ...]]:
    state = g.__dict__
    if _AS_THEY_ARE in state:
        schema, tensors = state[_AS_THEY_ARE]
        return list(tensors.values()), (*schema, tuple(tensors))
    cached = state.get(_STRUCTURE)
    ends, batch, description, values = cached[1] if cached is not None and _is_state(g, cached[0]) else _structure(g)
    if any(g.node_frames) or any(g.edge_frames):
        tensors = {**dict(ends), **_features(g), **dict(batch)}
        return list(tensors.values()), (*description[:-1], tuple(tensors))
    return values, description


def _structure(g: DGLGraph) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]], tuple[Any, ...], list[Any]]:
    """Return a graph's pairs of name and tensors before its features, those behind, its description without any, and
    the tensors of all these pairs.

    They are made once: a program that is called with the graph asks each time.
    """
    state = g.adjacencies, g.type_graph, g.numpy_idtype, *_counted(g)
    etypes, sides = _edge_types(g.type_graph), _sides(g.type_graph)
    sources, destinations = zip(*[x.tensors for x in g.adjacencies], strict=True) if g.adjacencies else ((), ())
    rows, node_counts, edge_counts = _count_tensors(g)
    ends = [("src", _by_type(etypes, sources)), ("dst", _by_type(etypes, destinations))]
    ends += [(nodes, _by_type(types, [rows[i] for i in sets])) for nodes, _, types, sets in sides]
    batch = list[tuple[str, Any]]()
    if node_counts is not None:
        for nodes, _, types, sets in sides:
            batch.append((f"batch_num_{nodes}", _by_type(types, [node_counts[i] for i in sets])))
    if edge_counts is not None:
        batch.append(("batch_num_edges", _by_type(etypes, edge_counts)))
    ends = [(name, value) for name, value in ends if not isinstance(value, dict) or value]
    description = *schema_of(g), tuple([name for name, _ in (*ends, *batch)])
    structure = ends, batch, description, [value for _, value in (*ends, *batch)]
    g.__dict__[_STRUCTURE] = state, structure
    return structure


def _is_state(g: DGLGraph, state: tuple[Any, ...]) -> bool:
    """Whether a graph has the structure that it had: a loop over both would be half of a flattening."""
    return (
        state[0] is g.adjacencies
        and state[1] is g.type_graph
        and state[2] is g.numpy_idtype
        and state[3] is g.node_counts
        and state[4] is g.batch_node_counts
        and state[5] is g.batch_edge_counts
        and state[6] is g._device
    )


def _unflatten(children: Iterable[Any], description: tuple[Any, ...]) -> DGLGraph:
    *schema, names = description
    return from_tensors(dict(zip(names, children, strict=True)), tuple(schema))  # type: ignore[arg-type]


def _from_json(description: Any) -> tuple[Any, ...]:
    ntypes, etypes, dsttypes, idtype, names = description
    types = None if dsttypes is None else tuple(dsttypes)
    return tuple(ntypes), tuple([tuple(etype) for etype in etypes]), types, idtype, tuple(names)


active.register_container(DGLGraph, _flatten, _unflatten, _from_json)
