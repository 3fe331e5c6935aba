"""Graphs to arrays: graphs of the same types and features are concatenated, so a file has few arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..backend import Tensor, active
from ..frame import Frame
from ..graph import DGLGraph
from ..structure import Adjacency, Compressed
from ..structure.formats import FORMATS
from ..structure.packed import pack_indices

_PREFERRED = ("coo", "csc", "csr")
"""Which of the formats that a graph has is stored when the user names none."""

Arrays = dict[str, Tensor | np.ndarray]


class Compression(NamedTuple):
    """Pack the indices of rows; ``scratch`` is a folder for what is packed, which is in memory where it is None."""

    scratch: Path | None = None


def pack_graphs(
    graphs: Sequence[DGLGraph], formats: tuple[str, ...] | None, compression: Compression | None = None
) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file of graphs, stored in ``formats`` or the best that each has."""
    groups: dict[Any, list[DGLGraph]] = {}
    number: dict[Any, int] = {}
    group_of = np.empty(len(graphs), np.int32)
    for i, graph in enumerate(graphs):
        key = _schema(graph, formats)
        groups.setdefault(key, []).append(graph)
        group_of[i] = number.setdefault(key, len(number))
    arrays: Arrays = {"group": group_of}
    packed = [_pack(f"{k}", members, key[0], arrays, compression) for k, (key, members) in enumerate(groups.items())]
    return {"groups": packed}, arrays


def _schema(graph: DGLGraph, formats: tuple[str, ...] | None) -> tuple[Any, ...]:
    """Return the properties that graphs must share to be stored end to end; the formats to store come first."""
    metagraph = graph.type_graph
    allowed = tuple(name for name in FORMATS if all(name in x.allowed for x in graph.adjacencies))
    if formats is None:
        created = [name for name in _PREFERRED if all(name in x.formats for x in graph.adjacencies)]
        formats = (next(iter([*created, *(name for name in _PREFERRED if name in allowed), "coo"])),)
    types = metagraph.is_block, metagraph.ntypes, metagraph.srctypes, metagraph.canonical_etypes
    columns = tuple(_columns(frame) for frame in _frames(graph))
    batched = graph.batch_node_counts is None, graph.batch_edge_counts is None
    return formats, allowed, types, str(graph.numpy_idtype), columns, batched


def _frames(graph: DGLGraph) -> list[Frame]:
    nodes = [graph.node_frame_at(i) for i in range(len(graph.node_counts))]
    return nodes + [graph.edge_frame_at(i) for i in range(len(graph.adjacencies))]


def _columns(frame: Frame) -> tuple[Any, ...]:
    return tuple(sorted((name, str(dtype), tuple(shape)) for name, (shape, dtype) in frame.schemes.items()))


def _pack(
    prefix: str, graphs: list[DGLGraph], formats: tuple[str, ...], arrays: Arrays, compression: Compression | None
) -> dict[str, Any]:
    """Add the arrays of graphs of one schema, and return what the header says about them."""
    first = graphs[0]
    metagraph, num_sets, num_types = first.type_graph, len(first.node_counts), len(first.adjacencies)
    nodes = np.array([graph.node_counts for graph in graphs], np.int64).reshape(len(graphs), num_sets)
    edges = [[adjacency.num_edges for adjacency in graph.adjacencies] for graph in graphs]
    arrays[f"{prefix}.num_nodes"] = nodes
    arrays[f"{prefix}.num_edges"] = np.array(edges, np.int64).reshape(len(graphs), num_types)
    for j in range(num_types):
        relations = [graph.adjacencies[j] for graph in graphs]
        for name in formats:
            _pack_format(f"{prefix}.edges.{j}.{name}", name, relations, arrays, compression)
    frames = [_frames(graph) for graph in graphs]
    columns = []
    for i in range(num_sets + num_types):
        side, index = ("nodes", i) if i < num_sets else ("edges", i - num_sets)
        names = list(frames[0][i])
        for c, name in enumerate(names):
            parts = [graph_frames[i][name] for graph_frames in frames]
            arrays[f"{prefix}.{side}.{index}.data.{c}"] = parts[0] if len(parts) == 1 else active.concat(parts)
        columns.append(names)
    _pack_batches(f"{prefix}.nodes", [graph.batch_node_counts for graph in graphs], arrays)
    _pack_batches(f"{prefix}.edges", [graph.batch_edge_counts for graph in graphs], arrays)
    return {
        "ntypes": list(metagraph.srctypes if metagraph.is_block else metagraph.ntypes),
        "dsttypes": list(metagraph.dsttypes) if metagraph.is_block else None,
        "etypes": [list(etype) for etype in metagraph.canonical_etypes],
        "idtype": str(first.numpy_idtype),
        "allowed": [name for name in FORMATS if name in formats or all(name in x.allowed for x in first.adjacencies)],
        "stored": list(formats),
        "node_data": columns[:num_sets],
        "edge_data": columns[num_sets:],
        "batched_nodes": first.batch_node_counts is not None,
        "batched_edges": first.batch_edge_counts is not None,
    }


def _pack_format(
    prefix: str, name: str, relations: list[Adjacency], arrays: Arrays, compression: Compression | None
) -> None:
    if name == "coo":
        ends = [relation.endpoints() for relation in relations]
        arrays[f"{prefix}.src"] = _joined([src for src, _ in ends])
        arrays[f"{prefix}.dst"] = _joined([dst for _, dst in ends])
        return
    rows: list[Compressed] = [relation.csr() if name == "csr" else relation.csc() for relation in relations]
    arrays[f"{prefix}.indptr"] = _joined([x.indptr for x in rows])
    indices = _joined([x.indices for x in rows])
    if compression is None:
        arrays[f"{prefix}.indices"] = indices
    else:
        most = max(x.num_dst if name == "csr" else x.num_src for x in relations)
        packed = pack_indices(indices, most, compression.scratch)
        arrays |= {f"{prefix}.indices.words": packed.words, f"{prefix}.indices.heads": packed.heads}
    if any(not x.is_in_edge_order() for x in rows):  # where entry j is edge j everywhere, ids would say nothing
        arrays[f"{prefix}.edge_ids"] = _joined([x.entry_edge_ids() for x in rows])


def _pack_batches(prefix: str, batches: list[tuple[np.ndarray, ...] | None], arrays: Arrays) -> None:
    """Add how many graphs each graph is a batch of, and their sizes by type."""
    known_sizes = [sizes for sizes in batches if sizes is not None]
    if known_sizes:
        arrays[f"{prefix}.batch_size"] = np.array([len(sizes[0]) if sizes else 0 for sizes in known_sizes], np.int64)
        for i in range(len(known_sizes[0])):
            arrays[f"{prefix}.{i}.batch"] = _joined([sizes[i].astype(np.int64) for sizes in known_sizes])


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
