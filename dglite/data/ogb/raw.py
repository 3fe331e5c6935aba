"""Graphs in OGB's layout: all edges and features concatenated, with the counts of each graph."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ... import backend
from ...convert import heterograph
from ...errors import DGLError
from ...graph import DGLGraph
from ...io.npz import read_npz
from ..joined import Joined, starts
from .facts import Facts
from .files import table, words


def read_raw(folder: Path, facts: Facts) -> Joined:
    """Return the graphs in a folder of one node type; if a line means both directions, the reversed edge follows.

    Raises ``DGLError``: a file is missing, damaged, or does not fit the others: which one is said.
    """
    return _from_npz(folder / "data.npz") if facts.binary else _from_tables(folder, facts)


def _from_tables(folder: Path, facts: Facts) -> Joined:
    counts = [_counts(folder / f"num-{kind}-list.csv.gz") for kind in ("node", "edge")]
    if len(counts[0]) != len(counts[1]):
        raise DGLError(f"{folder} has num-node-list.csv.gz of {len(counts[0])} graphs, num-edge-list.csv.gz of "
                       f"{len(counts[1])}")  # fmt: skip
    num_nodes, num_edges = int(counts[0].sum()), int(counts[1].sum())
    edges = _edges(folder / "edge.csv.gz", num_edges)
    _require_ids(folder / "edge.csv.gz", edges, counts[0], counts[1])
    ndata = _columns(folder, "node-feat", facts.node_files, num_nodes)
    edata = _columns(folder, "edge-feat", facts.edge_files, num_edges)
    if facts.inverse:
        edges = np.stack([edges, edges[:, ::-1]], 1).reshape(-1, 2)
        edata = {name: np.repeat(column, 2, 0) for name, column in edata.items()}
        counts[1] = 2 * counts[1]
    return _joined(edges.T, counts, ndata, edata)


def _joined(
    edges: np.ndarray, counts: list[np.ndarray], ndata: dict[str, np.ndarray], edata: dict[str, np.ndarray]
) -> Joined:
    src, dst = (np.ascontiguousarray(end) for end in edges)
    first_node, first_edge = (starts(count) for count in counts)
    return Joined(src, dst, first_node, first_edge, ndata, edata)


def _from_npz(path: Path) -> Joined:
    arrays = read_npz(path)
    try:
        edges, *counts = (arrays.pop(name) for name in ("edge_index", "num_nodes_list", "num_edges_list"))
    except KeyError as error:
        raise DGLError(f"{path} has no array {error}") from None
    if edges.ndim != 2 or edges.shape[0] != 2 or any(x.dtype.kind not in "iu" for x in (edges, *counts)):
        raise DGLError(f"{path} has an edge_index of shape {edges.shape}, or counts, that are not integers, two rows")
    counts = [count.reshape(-1).astype(np.int64) for count in counts]
    totals = [int(count.sum()) for count in counts]
    if len(counts[0]) != len(counts[1]) or totals[1] != edges.shape[1] or any((count < 0).any() for count in counts):
        raise DGLError(f"{path} has num_nodes_list and num_edges_list that do not fit its {edges.shape[1]} edges")
    _require_ids(path, edges.T, *counts)
    frames: dict[str, dict[str, np.ndarray]] = {"node_": {}, "edge_": {}}
    for name, values in arrays.items():
        if name[:5] not in frames or len(values) != totals[name[0] == "e"]:
            raise DGLError(f"{path} has an array {name!r} of shape {values.shape}, which is not one row a node or edge")
        frames[name[:5]][name[5:]] = values
    return _joined(edges.astype(np.int64, copy=False), counts, frames["node_"], frames["edge_"])


def _counts(path: Path) -> np.ndarray:
    rows = table(path)
    if rows.shape[1] != 1 or rows.dtype.kind != "i" or (rows < 0).any():
        raise DGLError(f"{path} is not one count a line")
    return rows[:, 0]


def _edges(path: Path, num_edges: int) -> np.ndarray:
    pairs = table(path, num_edges)
    if not num_edges:
        return np.empty((0, 2), np.int64)
    if pairs.shape[1] != 2 or pairs.dtype.kind != "i":
        raise DGLError(f"{path} is not two node numbers a line")
    return pairs


def _require_ids(path: Path, edges: np.ndarray, num_nodes: np.ndarray, num_edges: np.ndarray) -> None:
    """Raise ``DGLError`` unless edges, (num_edges, 2), are between the nodes of their own graph."""
    most = np.repeat(num_nodes, num_edges)[:, None] if len(num_nodes) != 1 else num_nodes[0]
    outside = np.flatnonzero(((edges < 0) | (edges >= most)).any(1))
    if len(outside):
        raise DGLError(
            f"edge {outside[0]} of {path} is between {edges[outside[0]].tolist()}, nodes that its graph does not have"
        )


def _columns(folder: Path, feature: str, others: Iterable[str], num_rows: int) -> dict[str, np.ndarray]:
    """Return the features in a folder, if there are any, and the other tables, which there must be."""
    path = folder / f"{feature}.csv.gz"
    columns = {"feat": table(path, num_rows)} if path.is_file() else {}
    for name in others:
        path = folder / f"{name}.csv.gz"
        if name == "node_species" and not path.is_file():
            path = folder / "species.csv.gz"  # its first release's name, which is still published
        columns[name[5:]] = table(path, num_rows)
    return columns


def read_heterograph(folder: Path, facts: Facts) -> DGLGraph:
    """Return the graph of several types in a folder; errors are those of :func:`read_raw`."""
    lines = words(folder / "num-node-dict.csv.gz")
    try:
        num_nodes = {name: int(count) for name, count in zip(*lines, strict=True)}
    except (ValueError, TypeError):
        raise DGLError(f"{folder / 'num-node-dict.csv.gz'} is not a line of node types and a line of counts") from None
    relations = sorted(tuple(line) for line in words(folder / "triplet-type-list.csv.gz"))
    for relation in relations:
        named = len(relation) == 3 and all(_is_name(part) for part in relation)
        if not named or not {relation[0], relation[2]} <= set(num_nodes):
            raise DGLError(f"{folder / 'triplet-type-list.csv.gz'} names {relation}, which is not two node types of "
                           "num-node-dict.csv.gz and a relation between")  # fmt: skip
    edges: dict[Any, Any] = {}
    edata = {}
    for relation in relations:
        place = folder / "relations" / "___".join(relation)
        count = _counts(place / "num-edge-list.csv.gz")
        edge_rows = _edges(place / "edge.csv.gz", int(count.sum()))
        outside = (edge_rows < 0) | (edge_rows >= np.array([num_nodes[relation[0]], num_nodes[relation[2]]]))
        if outside.any():
            raise DGLError(
                f"edge {np.argmax(outside.any(1))} of {place / 'edge.csv.gz'} names a node that is not there"
            )
        edges[relation] = tuple(np.ascontiguousarray(end) for end in edge_rows.T)
        edata[relation] = _columns(place, "edge-feat", _present(place, facts.edge_files), len(edge_rows))
    g = heterograph(edges, num_nodes)
    for relation, columns in edata.items():
        for name, column in columns.items():
            g.edges[relation].data[name] = backend.active.from_numpy(column)
    for kind, total in num_nodes.items():
        place = folder / "node-feat" / kind
        for name, column in _columns(place, "node-feat", _present(place, facts.node_files), total).items():
            g.nodes[kind].data[name] = backend.active.from_numpy(column)
    return g


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and not set(part) & set("/\\")


def _present(folder: Path, names: Iterable[str]) -> list[str]:
    return [name for name in names if (folder / f"{name}.csv.gz").is_file()]
