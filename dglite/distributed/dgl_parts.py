"""Partitions that DGL wrote: read into one graph, and written again in dglite's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..backend import Tensor, active
from ..convert import heterograph
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..io import load_graphs, load_tensors
from ..io.container import local_path
from ..io.graphbolt_file import load_fused_graph
from ..structure.ids import integer_array
from .book import PartitionBook
from .config import PartConfig
from .feature_files import with_replaced_features
from .partition import partition_graph

_FOLDER = "dglite"
"""Inside the folder of a partition of DGL: the same partition in dglite's layout."""


def read_config(part_config: Any) -> PartConfig:
    """Return the configuration of a partition; one of DGL is first written again, once, in a folder inside its own.

    Nodes keep their new ids. Edges are numbered anew inside each part, by destination. Features of a partition of
    dglite are taken from ``node_feat.dgl`` and ``edge_feat.dgl`` of its parts, if a program wrote those since.

    Raises ``DGLError``: a file is missing or damaged, or the folder cannot be written to.
    """
    path = local_path(part_config)
    fields = _dgl_fields(path)
    if fields is None:
        return with_replaced_features(PartConfig.read(path))
    folder = path.parent / _FOLDER
    config = folder / f"{fields['graph_name']}.json"
    if not config.exists():
        graph, assignment = read_dgl_partition(path)
        partition_graph(graph, fields["graph_name"], int(fields["num_parts"]), folder, part_method=assignment)
    return PartConfig.read(config)


def _dgl_fields(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file of DGL, None of another."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # PartConfig.read says what is damaged
        return None
    return fields if isinstance(fields, dict) and "node_map" in fields and "version" not in fields else None


def _book(path: Path, fields: dict[str, Any]) -> PartitionBook:
    """Return the partition book of DGL's ranges, which count nodes of all types in one numbering."""

    def bounds(ranges: Any) -> list[int]:
        return [0, *np.cumsum([last - first for first, last in ranges]).tolist()]

    maps = [fields[f"{kind}_map"] for kind in ("node", "edge")]
    node_map, edge_map = ({"_N" if i == 0 else "_N:_E:_N": m} if isinstance(m, list) else m for i, m in enumerate(maps))
    ntypes = sorted(node_map, key=fields.get("ntypes", {}).get)
    etypes = sorted(edge_map, key=fields.get("etypes", {}).get)
    if any(etype.count(":") != 2 for etype in etypes) or not all(isinstance(m, list) for m in node_map.values()):
        raise DGLError(
            f"{path}: edge types {etypes} are not of the form source:name:destination, or nodes have no ranges; "
            "partition the graph again with DGL 1.0 or later, or with dglite"
        )
    nodes = {ntype: bounds(node_map[ntype]) for ntype in ntypes}
    return PartitionBook(0, nodes, {tuple(etype.split(":")): bounds(edge_map[etype]) for etype in etypes})


def read_dgl_partition(part_config: Any) -> tuple[DGLGraph, dict[str, Tensor]]:
    """Return the graph of all parts that DGL wrote, with its features and DGL's new ids, and the part of each node.

    Raises ``DGLError``: a file is missing or damaged, or was written for GraphBolt alone and without ids of edges.
    """
    path = local_path(part_config)
    fields = _dgl_fields(path)
    if fields is None:
        raise DGLError(f"{path} is not the JSON file of a partition that DGL wrote")
    try:
        book = _book(path, fields)
        parts = [fields[f"part-{part}"] for part in range(int(fields["num_parts"]))]
        edges = [_inner_edges(path.parent, files, part, book) for part, files in enumerate(parts)]
        graph = _whole_graph(edges, book)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DGLError(f"{path} is damaged: {error!r}") from error
    for kind, views in (("node", graph.nodes), ("edge", graph.edges)):
        rows: dict[tuple[Any, str], list[Tensor]] = {}
        for files in parts:
            for name, values in load_tensors(path.parent / files[f"{kind}_feats"]).items():
                type_, _, column = name.rpartition("/")
                key = tuple(type_.split(":")) if kind == "edge" else type_
                rows.setdefault((book.type_of(kind, key or None), column), []).append(values)
        for (type_, column), pieces in rows.items():
            views[type_].data[column] = torch.cat(pieces)
    owners = {ntype: active.from_numpy(r.owners(np.arange(r.count))) for ntype, r in book.nodes.items()}
    return graph, owners


def _inner_edges(folder: Path, files: dict[str, str], part: int, book: PartitionBook) -> tuple[np.ndarray, ...]:
    """Return source, destination and id of each edge of a part, in DGL's numbering of all types; not its halo's."""
    if "part_graph" in files:
        graph = load_graphs(folder / files["part_graph"])[0][0]
        inner = np.flatnonzero(integer_array(graph.edata["inner_edge"]))
        nodes, edges = (integer_array(x) for x in (graph.ndata[NID], graph.edata[EID]))
        src, dst = (integer_array(x) for x in graph.edges(order="eid"))
        return nodes[src[inner]], nodes[dst[inner]], edges[inner]
    path = folder / files["part_graph_graphbolt"]
    fields = load_fused_graph(path)
    ids = (fields["edge_attributes"] or {}).get(EID)
    if ids is None or NID not in (fields["node_attributes"] or {}):
        raise DGLError(
            f"{path} was written for GraphBolt, without ids of edges; convert the partition again with "
            "dgl_partition_to_graphbolt(part_config, store_eids=True)"
        )
    nodes, edges = integer_array(fields["node_attributes"][NID]), integer_array(ids)
    dst = np.repeat(np.arange(len(nodes)), np.diff(integer_array(fields["csc_indptr"])))
    numbers, places = (integer_array(x) for x in book.map_to_per_etype(edges))
    inner = np.zeros(len(edges), np.bool_)
    for number, ranges in enumerate(book.edges.values()):
        of_type = np.flatnonzero(numbers == number)
        inner[of_type] = ~ranges.outside(places[of_type], part)
    src = integer_array(fields["indices"])
    return nodes[src[inner]], nodes[dst[inner]], edges[inner]


def _whole_graph(parts: list[tuple[np.ndarray, ...]], book: PartitionBook) -> DGLGraph:
    """Return the edges of all parts as one graph, in the order of DGL's new ids."""
    ends = {etype: np.empty((2, ranges.count), np.int64) for etype, ranges in book.edges.items()}
    for part_src, part_dst, part_edges in parts:
        numbers, ids = (integer_array(x) for x in book.map_to_per_etype(part_edges))
        src, dst = (integer_array(book.map_to_per_ntype(x)[1]) for x in (part_src, part_dst))
        for number, etype in enumerate(book.edges):
            of_type = numbers == number
            ends[etype][:, ids[of_type]] = src[of_type], dst[of_type]
    data = {etype: (active.from_numpy(src), active.from_numpy(dst)) for etype, (src, dst) in ends.items()}
    return heterograph(data, {ntype: ranges.count for ntype, ranges in book.nodes.items()})
