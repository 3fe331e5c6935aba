"""A relational database as a heterogeneous temporal graph, as RelBench defines it (Robinson et al., 2024)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ...errors import DGLError
from .columns import is_feature
from .plan import ROW, Table
from .source import TableSource

_TIME = "time"
"""Feature of rows, and of the edges from their keys, that says when a row came to be."""

Etype = tuple[str, str, str]


def database_tables(tables: Mapping[str, Table]) -> tuple[dict[str, Table], dict[Etype, Table]]:
    """Return the tables of nodes and edges of the graph of a database, for :func:`dglite.from_tables`.

    Each table is a node type, each row a node. A foreign key ``column`` of ``table`` that refers to ``other`` is two
    edge types, ``(table, "f2p_column", other)`` and ``(other, "rev_f2p_column", table)``; rows without a key have no
    edge. Rows and the edges of their keys have the feature ``time``, int64, where the table has times: so
    ``NeighborSampler(fanouts, time="time", edge_time="time")`` draws nothing that came to be after its seed.

    Raises DGLError: a key refers to a table that is not there, or a column does not exist.

    Parameters
    ----------
    tables
        By name, :class:`dglite.data.Table` with ``id``, the primary key, ``links``, the table that each foreign key
        refers to, and ``time``. Without ``id`` rows are numbered.

    Examples
    --------
    >>> import dglite
    >>> shops = Table({"id": [7, 4]}, id="id")  # doctest: +SKIP
    >>> rows = {"shop": [4, None], "sum": [2.5, 1.0], "at": [10, 20]}
    >>> sales = Table(rows, links={"shop": "shops"}, time="at")  # doctest: +SKIP
    >>> g = dglite.from_tables(*database_tables({"shops": shops, "sales": sales}))  # doctest: +SKIP
    >>> g.edges(etype="f2p_shop"), g.nodes["sales"].data["time"]  # doctest: +SKIP
    ((tensor([0]), tensor([1])), tensor([10, 20]))
    """
    nodes, edges = {}, {}
    for name, table in tables.items():
        if not isinstance(table, Table):
            raise DGLError(f"table {name!r} must be a dglite.data.Table, got {type(table).__name__}")
        source = TableSource(table.data, f"table {name!r}")
        time, options = table.options["time"], table.options
        for column in [*table.links, *([time] if time else [])]:
            if column not in source.names:
                raise DGLError(f"table {name!r} has no column {column!r}; there are {source.names}")
        keys = {table.id, time, *table.links}
        columns = options["features"]
        if columns is None:
            usable = [c for c in source.names if c not in keys and is_feature(source.schema.field(c).type, c, options)]
            columns = {column: column for column in usable}
        elif not isinstance(columns, Mapping):
            columns = {column: column for column in columns}
        times = {_TIME: time} if time else {}
        settings = {"fill": options["fill"], "time_unit": options["time_unit"]}
        nodes[name] = Table(
            table.data, id=table.id or ROW, features={**columns, **times}, categories=options["categories"], **settings
        )
        for key, other in table.links.items():
            if other not in tables:
                raise DGLError(f"table {name!r}: the key {key!r} refers to {other!r}; there are {list(tables)}")
            ends = {"features": times, "missing": "drop", **settings}
            edges[name, f"f2p_{key}", other] = Table(table.data, source=ROW, target=key, **ends)
            edges[other, f"rev_f2p_{key}", name] = Table(table.data, source=key, target=ROW, **ends)
    return nodes, edges


def relbench_tables(folder: str | os.PathLike[str]) -> tuple[dict[str, Table], dict[Etype, Table]]:
    """Return the tables of nodes and edges of a database that RelBench has saved, for :func:`dglite.from_tables`.

    Raises DGLError: the folder has no Parquet files, or one without these metadata.

    Parameters
    ----------
    folder
        has a Parquet file for each table, whose metadata say the primary key, the foreign keys and the column of times,
        as ``relbench.base.Database.save`` writes them: ``<cache>/rel-f1/db``, for example.

    Examples
    --------
    ::

        g = dglite.from_tables(*dglite.data.relbench_tables("relbench/rel-f1/db"))
    """
    paths = sorted(Path(folder).glob("*.parquet"))
    if not paths:
        raise DGLError(f"{folder} has no Parquet files; expected one for each table, as RelBench saves a database")
    tables = {}
    for path in paths:
        meta = TableSource(path, path.stem).schema.metadata or {}
        try:
            key, links, time = (
                json.loads(meta[name]) for name in (b"pkey_col", b"fkey_col_to_pkey_table", b"time_col")
            )
        except (KeyError, ValueError) as error:
            raise DGLError(
                f"{path} does not say its keys ({error!r} in the metadata); it was not saved by RelBench. Give its "
                "keys to dglite.data.database_tables"
            ) from error
        tables[path.stem] = Table(path, id=key, links=links, time=time)
    return database_tables(tables)
