"""Several relations of a graph as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..frame import EID, ETYPE, NID, NTYPE, Frame
from ..structure import Adjacency, Metagraph
from .base import GraphBase


def combine_relations(graph: GraphBase, indices: Sequence[int], joined: GraphBase) -> None:
    """Fill ``joined``, which has no state yet: the graph of one edge type that joins relations ``indices``.

    Its source nodes are those of all source types, type after type, and so are its destination nodes; they are one type
    where these are the same types. Types are called by the names of theirs, sorted and joined by ``+``. Features that
    all of them have follow; NTYPE, NID, ETYPE and EID say which nodes and edges they were.

    Raises
    ------
    DGLError
        A feature has different shapes or dtypes.
    """
    metagraph = graph.type_graph
    sources, destinations = (sorted({metagraph.ends[i][side] for i in indices}) for side in (0, 1))
    one_type = sources == destinations
    sides = [sources] if one_type else [sources, destinations]
    names = [_joined_name([metagraph.ntypes[i] for i in side]) for side in sides]
    relation = (names[0], _joined_name([metagraph.etypes[i] for i in indices]), names[-1])
    joined.type_graph = (
        Metagraph(names[:1], [relation], names[1:]) if metagraph.is_block else Metagraph(names, [relation])
    )
    joined.node_counts = tuple(sum(graph.node_counts[i] for i in side) for side in sides)
    joined.adjacencies = (_adjacency(graph, indices, sources, destinations),)
    joined.numpy_idtype, joined._device = graph.numpy_idtype, graph._device
    joined.batch_node_counts = joined.batch_edge_counts = joined._readonly = None
    joined.node_frames, joined.edge_frames = [None] * len(sides), [None]
    for i, side in enumerate(sides):
        _fill(joined, joined.node_frame_at(i), graph.node_frame_at, side, (NTYPE, NID))
    _fill(joined, joined.edge_frame_at(0), graph.edge_frame_at, indices, (ETYPE, EID))


def _joined_name(names: list[str]) -> str:
    return "+".join(sorted(names))


def _adjacency(graph: GraphBase, indices: Sequence[int], sources: list[int], destinations: list[int]) -> Adjacency:
    first = [_offsets(graph, side) for side in (sources, destinations)]
    src, dst = [], []
    for i in indices:
        (u, v), (src_set, dst_set) = graph.adjacencies[i].endpoints(), graph.type_graph.ends[i]
        src.append(u.astype(np.int64) + first[0][src_set])
        dst.append(v.astype(np.int64) + first[1][dst_set])
    counts = [sum(graph.node_counts[i] for i in side) for side in (sources, destinations)]
    ends = np.concatenate(src), np.concatenate(dst)
    return Adjacency.from_coo(counts[0], counts[1], *ends, graph.numpy_idtype, validate=False)


def _offsets(graph: GraphBase, side: list[int]) -> dict[int, int]:
    ends = np.cumsum([graph.node_counts[i] for i in side]).tolist()
    return dict(zip(side, [0, *ends], strict=False))


def _fill(
    joined: GraphBase, frame: Frame, part: Callable[[int], Frame], ids: Sequence[int], columns: tuple[str, str]
) -> None:
    """Join the columns that all parts have, and write which part each row is of and its row there."""
    parts = [part(i) for i in ids]
    counts = [x.num_rows for x in parts]
    shared = [name for name in parts[0] if all(name in x for x in parts)]
    frame.join(parts, counts, shared)
    frame[columns[0]] = joined.ids_tensor(np.repeat(np.array(ids), counts))
    frame[columns[1]] = joined.ids_tensor(np.concatenate([np.arange(count) for count in counts]))
