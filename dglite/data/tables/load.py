"""``from_tables``: a graph in memory from tables of nodes and of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend import active
from ...convert import graph, heterograph
from ...graph import DGLGraph
from .ids import Keys, NodeIds
from .plan import EdgeTable, NodeTable, distinct_ids, plan_tables

_BATCH = 1 << 27
"""Bytes of a batch; graphs in memory have room for some."""


def from_tables(nodes: Any = None, edges: Any = None, *, idtype: Any = None, device: Any = None) -> DGLGraph:
    """Make a graph of tables of nodes and of edges: of pandas, Polars or Arrow, or Parquet or CSV files.

    Ids may be integers with gaps or texts. Nodes are numbered in the order of their table, or without one in the sorted
    order of their ids in the edge tables; edges keep the order of their rows. ``g.id_maps[ntype]`` looks ids up both
    ways: ``.numbers(["ann"])`` and ``.names([0])``; ``g.node_names`` has all ids, as :func:`dglite.from_pandas` keeps
    them. For a graph larger than memory see :func:`dglite.data.convert_tables`.

    Raises DGLError: a file is missing, damaged or cut short; a column does not exist or has another type in a further
    file; an id is missing or occurs twice; an edge has an id that is no node's; an integer or a time is missing; lists
    differ in length. The message names the file, the row group, the row and the column; ImportError: pyarrow is not
    installed.

    Parameters
    ----------
    nodes
        A dictionary from node type to a table, or a table for a graph of one type. A type may be left out: its nodes
        are then the ids in the edge tables.
    edges
        A dictionary from (source type, edge type, destination type) to a table, or a table for a graph of one type.
        A table is data, a file name, a folder, a pattern with ``*``, a list of file names, or a
        :class:`dglite.data.Table` that says what the columns mean.
    idtype, device
        As :func:`dglite.graph` takes them.

    Returns
    -------
    The graph. Columns of numbers, booleans, times, categories and lists of one length are features: float16 and
    float32 stay, float64 becomes float32, integers int64, times int64 in seconds since 1970. Codes of categories are
    int64, -1 for missing values; ``g.categories[type][feature]`` has their texts.

    Examples
    --------
    >>> import dglite
    >>> follows = {"src": ["ann", "bob", "ann"], "dst": ["bob", "eve", "eve"], "since": [3, 5, 8]}  # doctest: +SKIP
    >>> g = dglite.from_tables({"id": ["eve", "ann", "bob"], "age": [31.0, 25.0, 40.0]}, follows)  # doctest: +SKIP
    >>> g.edges(), g.edata["since"], g.ndata["age"]  # doctest: +SKIP
    ((tensor([1, 2, 1]), tensor([2, 0, 0])), tensor([3, 5, 8]), tensor([31., 25., 40.]))
    >>> g.id_maps["_N"].numbers(["bob"]), g.id_maps["_N"].names([0])  # doctest: +SKIP
    (array([2]), array(['eve'], dtype=object))
    """
    node_tables, edge_tables = plan_tables(nodes, edges)
    ntypes = list(dict.fromkeys([*(end for etype in edge_tables for end in etype[::2]), *node_tables]))
    ids, columns = {}, {}
    for ntype in ntypes:
        if ntype in node_tables:
            ids[ntype], columns[ntype] = _read_nodes(node_tables[ntype])
        else:
            keys = distinct_ids(ntype, list(edge_tables.values()), _BATCH)
            ids[ntype], columns[ntype] = NodeIds.from_keys(keys, f"nodes of type {ntype!r}"), {}
    data, edge_columns = {}, {}
    for etype, table in edge_tables.items():
        data[etype], edge_columns[etype] = _read_edges(table, ids)
    counts = {ntype: len(ids[ntype]) for ntype in ntypes}
    if list(edge_tables) == [("_N", "_E", "_N")] and ntypes == ["_N"]:
        g = graph(data["_N", "_E", "_N"], num_nodes=counts["_N"], idtype=idtype, device=device)
    else:
        g = heterograph(data, counts, idtype=idtype, device=device)
    for ntype in ntypes:
        g.nodes[ntype].data.update(_tensors(columns[ntype], device))
    for etype in edge_tables:
        g.edges[etype].data.update(_tensors(edge_columns[etype], device))
    names = {ntype: lookup.names(np.arange(len(lookup))) for ntype, lookup in ids.items()}
    tables: dict[Any, NodeTable | EdgeTable] = {**node_tables, **edge_tables}
    codes = {key: {f.name: f.categories for f in table.features if f.categories} for key, table in tables.items()}
    g.__dict__["node_names"] = names["_N"] if list(names) == ["_N"] else names
    g.__dict__["id_maps"] = ids
    g.__dict__["categories"] = {key: texts for key, texts in codes.items() if texts}
    return g


def _read_nodes(table: NodeTable) -> tuple[NodeIds, dict[str, np.ndarray]]:
    keys: list[Keys] = []
    parts: list[dict[str, np.ndarray]] = []
    count = 0
    for rows in table.read(_BATCH):
        parts.append(rows.features)
        keys.append((np.arange(count, count + rows.batch.num_rows), None) if rows.keys is None else rows.keys)
        count += rows.batch.num_rows
    return NodeIds.from_keys(joined_keys(keys), f"{table.label}, column {table.id_column!r}"), _joined(table, parts)


def _read_edges(
    table: EdgeTable, ids: dict[str, NodeIds]
) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, np.ndarray]]:
    src, dst, parts = [np.empty(0, np.int64)], [np.empty(0, np.int64)], []
    for rows in table.read(ids, _BATCH):
        src.append(rows.src)
        dst.append(rows.dst)
        parts.append(rows.features)
    return (np.concatenate(src), np.concatenate(dst)), _joined(table, parts)


def joined_keys(keys: list[Keys]) -> Keys:
    """Return the ids of several batches as those of one."""
    if not keys:
        return np.empty(0, np.int64), None
    if keys[0][1] is None:
        return np.concatenate([values for values, _ in keys]), None
    ends = np.cumsum([0, *(len(values) for values, _ in keys)])
    offsets = [offsets[:-1] + start for (_, offsets), start in zip(keys, ends, strict=False) if offsets is not None]
    return np.concatenate([values for values, _ in keys]), np.concatenate([*offsets, ends[-1:]])


def _joined(table: NodeTable | EdgeTable, parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {
        feature.name: np.concatenate(
            [np.empty((0, *(feature.shape or ())), feature.dtype), *(part[feature.name] for part in parts)]
        )
        for feature in table.features
    }


def _tensors(columns: dict[str, np.ndarray], device: Any) -> dict[str, Any]:
    tensors = {name: active.from_numpy(array) for name, array in columns.items()}
    return tensors if device is None else {name: active.to_device(x, device) for name, x in tensors.items()}
