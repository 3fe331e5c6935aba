"""Which tables make which node and edge types, and their rows as ids, node numbers and features."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...convert.columns import ID, column_of_ids, usual_ends
from ...errors import DGLError
from ...structure.distinct import distinct
from .columns import TIME_UNITS, TableFeature, features_of
from .ids import Keys, NodeIds, id_values, key_arrays
from .source import Batch, TableSource, arrow

ROW = "__ROW__"
"""In place of a column of ids: the number of the row in its table."""


class Table:
    """A table of nodes or of edges, with what its columns mean. What is not said is taken from the columns' names.

    Parameters
    ----------
    data
        a pandas, Polars or Arrow table, a dictionary of columns; or a Parquet or CSV file, a folder, a pattern with
        ``*`` or a list of such files.
    id
        of nodes: the column of ids, by default ``id``, ``node_id``, ``node``, ``name`` or ``index``, else the first;
        ``dglite.data.ROW`` numbers the rows.
    source, target
        of edges: the columns of ids, by default ``src`` and ``dst``, ``source`` and ``target``, ``src_id`` and
        ``dst_id``, ``u`` and ``v``, ``from`` and ``to``, ``head`` and ``tail``, else the first two.
    features
        names of columns, or a dictionary from a feature's name to a column or to columns put side by side. By default
        all columns of numbers, booleans, times, categories and lists of numbers; texts are left out.
    categories
        columns of texts or numbers that become codes, in order of appearance.
    fill
        what stands for a missing value, by column. Floats are NaN by default; missing categories are -1.
    time
        the column of times. None of its values may be missing.
    time_unit
        what times are converted to: ``"s"`` since 1970, ``"ms"``, ``"us"`` or ``"ns"``.
    missing
        of edges: ``"error"``, or ``"drop"`` for rows that lack an id, as a foreign key may.
    links
        of a table of a database: the table that each foreign key refers to, by column; see
        :func:`dglite.data.database_tables`.
    """

    def __init__(
        self,
        data: Any,
        *,
        id: str | None = None,
        source: str | None = None,
        target: str | None = None,
        features: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        categories: Sequence[str] = (),
        fill: Mapping[str, Any] | None = None,
        time: str | None = None,
        time_unit: str = "s",
        missing: str = "error",
        links: Mapping[str, str] | None = None,
    ) -> None:
        if time_unit not in TIME_UNITS:
            raise DGLError(f"time_unit must be one of {list(TIME_UNITS)}, got {time_unit!r}")
        if missing not in ("error", "drop"):
            raise DGLError(f'missing must be "error" or "drop", got {missing!r}')
        self.data, self.id, self.source, self.target, self.missing = data, id, source, target, missing
        self.links = dict(links or {})
        self.options: dict[str, Any] = {
            "features": features,
            "categories": [categories] if isinstance(categories, str) else list(categories),
            "fill": dict(fill or {}),
            "time": time,
            "time_unit": time_unit,
        }


class NodeRows(NamedTuple):
    """A batch of nodes: where it is from, ids, None for row numbers, and features by name."""

    batch: Batch
    keys: Keys | None
    features: dict[str, np.ndarray]


class EdgeRows(NamedTuple):
    """A batch of edges: where it is from, the numbers of their ends, and features by name."""

    batch: Batch
    src: np.ndarray
    dst: np.ndarray
    features: dict[str, np.ndarray]


class NodeTable:
    """The table of a node type."""

    def __init__(self, ntype: str, table: Table) -> None:
        self.ntype, self.table, self.label = ntype, table, f"nodes of type {ntype!r}"
        self.source = TableSource(table.data, self.label)
        self.id_column = (
            None if table.id == ROW else column_of_ids(self.label, self.source.names, table.id, ID, "id", 0)
        )
        ids = [] if self.id_column is None else [self.id_column]
        self.features = features_of(self.source.schema, ids, table.options, self.label)
        self.columns = list(dict.fromkeys([*ids, *(c for feature in self.features for c in feature.columns)]))

    def read(self, batch_bytes: int, first_unit: int = 0) -> Iterator[NodeRows]:
        """Yield the rows in order."""
        for batch in self.source.read(self.columns, batch_bytes, first_unit):
            keys = None if self.id_column is None else id_values(batch, self.id_column)
            yield NodeRows(batch, keys, _features(self.features, batch, self.table))


class EdgeTable:
    """The table of an edge type."""

    def __init__(self, etype: tuple[str, str, str], table: Table) -> None:
        self.etype, self.table, self.label = etype, table, f"edges {etype}"
        self.source = TableSource(table.data, self.label)
        names = self.source.names
        usual = usual_ends(names)
        columns = [
            None if name == ROW else column_of_ids(self.label, names, name, usual[i : i + 1], argument, i)
            for i, (name, argument) in enumerate(((table.source, "source"), (table.target, "target")))
        ]
        if columns[0] == columns[1]:
            raise DGLError(f"{self.label}: source and target are both {columns[0]!r}; there are {names}")
        self.ends = columns
        self.id_columns = [column for column in columns if column is not None]
        self.features = features_of(self.source.schema, self.id_columns, table.options, self.label)
        of_features = (column for feature in self.features for column in feature.columns)
        self.columns = list(dict.fromkeys([*self.id_columns, *of_features]))

    def read(self, ids: Mapping[str, NodeIds], batch_bytes: int, first_unit: int = 0) -> Iterator[EdgeRows]:
        """Yield the edges in the order of the rows; an end that is no node raises ``DGLError`` with its place."""
        for batch in self.source.read(self.columns, batch_bytes, first_unit):
            batch = self._with_ids(batch)
            src, dst = (self._numbers(batch, end, ids[self.etype[2 * end]]) for end in (0, 1))
            yield EdgeRows(batch, src, dst, _features(self.features, batch, self.table))

    def end_ids(self, ntype: str, batch_bytes: int) -> Iterator[Keys]:
        """Yield the ids of a node type in the columns of ends."""
        columns = [c for c, end in zip(self.ends, self.etype[::2], strict=True) if end == ntype and c is not None]
        for batch in self.source.read(self.id_columns, batch_bytes) if columns else ():
            for column in columns:
                yield id_values(self._with_ids(batch), column)

    def _with_ids(self, batch: Batch) -> Batch:
        """Return a batch without the rows that lack an id, where the user lets them be dropped."""
        if self.table.missing == "error":
            return batch
        valid = np.ones(batch.num_rows, bool)
        for column in self.id_columns:
            valid &= np.asarray(batch.columns.column(column).is_valid())
            values = batch.columns.column(column)
            if arrow().types.is_floating(values.type):
                valid &= ~np.isnan(values.to_numpy(zero_copy_only=False))
        if valid.all():
            return batch
        return batch._replace(columns=batch.columns.filter(arrow().array(valid)), rows=np.flatnonzero(valid))

    def _numbers(self, batch: Batch, end: int, ids: NodeIds) -> np.ndarray:
        column = self.ends[end]
        if column is None:
            rows = np.arange(batch.num_rows) if batch.rows is None else batch.rows
            return rows + batch.start
        try:
            numbers = ids.find(id_values(batch, column))
        except DGLError as error:
            raise error if batch.origin in str(error) else DGLError(f"{batch.place(column, 0)}: {error}") from error
        if len(numbers) and numbers.min() < 0:
            row = int((numbers < 0).argmax())
            value = batch.columns.column(column)[row].as_py()
            raise DGLError(
                f"{batch.place(column, row)}: no node of type {self.etype[2 * end]!r} has the id {value!r}; add it to "
                "the table of nodes, or remove the edge"
            )
        return numbers


def plan_tables(nodes: Any, edges: Any) -> tuple[dict[str, NodeTable], dict[tuple[str, str, str], EdgeTable]]:
    """Return the tables of all types, from what :func:`dglite.from_tables` takes; errors are its own."""
    if not isinstance(edges, Mapping) or not edges or not all(isinstance(key, tuple) for key in edges):
        if isinstance(edges, Mapping) and edges and not all(isinstance(key, str) for key in edges):
            raise DGLError(f"edges has the keys {list(edges)}; expected (source type, edge type, destination type)")
        if isinstance(nodes, Mapping) and nodes and all(isinstance(table, Mapping | Table) for table in nodes.values()):
            raise DGLError(
                "nodes is a dictionary by node type, so edges must be a dictionary, too: {(source type, edge type, "
                "destination type): table}"
            )
        edges = {("_N", "_E", "_N"): edges}
        nodes = {} if nodes is None else {"_N": nodes}
    for etype in edges:
        if len(etype) != 3 or not all(isinstance(name, str) for name in etype):
            raise DGLError(f"edges has the key {etype!r}; expected (source type, edge type, destination type)")
    nodes = {} if nodes is None else nodes
    if not isinstance(nodes, Mapping):
        raise DGLError(f"nodes must be a dictionary by node type, as edges are; got {type(nodes).__name__}")
    node_tables = {ntype: NodeTable(ntype, _as_table(table)) for ntype, table in nodes.items()}
    edge_tables = {etype: EdgeTable(etype, _as_table(table)) for etype, table in edges.items()}
    for etype, table in edge_tables.items():
        for end, column in zip(etype[::2], table.ends, strict=True):
            if column is None and end not in node_tables:
                raise DGLError(f"edges {etype}: rows are nodes of type {end!r}, which needs a table in nodes")
    return node_tables, edge_tables


def distinct_ids(ntype: str, tables: Sequence[EdgeTable], batch_bytes: int) -> Keys:
    """Return the ids of a type without a table, which are those in the edge tables, sorted; texts by their bytes."""
    pyarrow = arrow()
    numbers, texts = np.empty(0, np.int64), None
    for values, offsets in itertools.chain.from_iterable(table.end_ids(ntype, batch_bytes) for table in tables):
        if offsets is None:
            numbers = distinct(np.concatenate((numbers, values)))
            continue
        buffers = [None, pyarrow.py_buffer(np.ascontiguousarray(offsets)), pyarrow.py_buffer(values.tobytes())]
        array = pyarrow.Array.from_buffers(pyarrow.large_binary(), len(offsets) - 1, buffers)
        texts = pyarrow.compute.unique(array if texts is None else pyarrow.chunked_array([texts, array]))
    if texts is None:
        return numbers, None
    if len(numbers):
        raise DGLError(f"ids of type {ntype!r} are integers in one column and texts in another; write both as one type")
    return key_arrays(texts.take(pyarrow.compute.array_sort_indices(texts)), str)


def _as_table(table: Any) -> Table:
    return table if isinstance(table, Table) else Table(table)


def _features(features: Sequence[TableFeature], batch: Batch, table: Table) -> dict[str, np.ndarray]:
    arrays = {feature.name: feature.values(batch) for feature in features}
    time = table.options["time"]
    if time is not None and arrays[time].dtype.kind == "f" and np.isnan(arrays[time]).any():
        row = int(np.isnan(arrays[time]).argmax())
        raise DGLError(f"{batch.place(time, row)}: the time is NaN; drop such rows")
    return arrays
