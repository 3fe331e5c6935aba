"""What a conversion will take, before it runs: from the tables' sizes and rates measured on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...backend import active
from ...kernels import compiled
from ...structure.sizes import bytes_of, memory_limit
from .files import require_place
from .plan import EdgeTable, NodeTable, plan_tables
from .sort import bytes_to_sort

_SECONDS = 0.5
"""How long a table is read to measure how fast that is."""
_PROBE_EDGES = 1 << 22
_SORTED_COLUMNS = 5
"""Columns that are sorted, one after the other: both ends and the ids by range, sources and ids by destination."""
_PROBE_BYTES = 1 << 25


class ConversionEstimate(NamedTuple):
    """What :func:`estimate_conversion` returns; printed, a few lines.

    Attributes
    ----------
    num_nodes, num_edges
        by type; of a node type without a table None. Of CSV files estimated from their first rows.
    left_out
        columns that become no features, by type.
    memory
        bytes that are needed at least: ids and counters, and a batch.
    disk, temporary
        bytes of the folder, and what is needed beside it until it is complete.
    free
        bytes that the disk has free.
    seconds
        of the conversion.
    """

    num_nodes: dict[str, int | None]
    num_edges: dict[tuple[str, str, str], int]
    left_out: dict[Any, list[str]]
    memory: int
    disk: int
    temporary: int
    free: int
    seconds: float

    def __str__(self) -> str:
        nodes = [
            f"{n}: " + (f"{c:,}" if c is not None else "as many as edges have ids") for n, c in self.num_nodes.items()
        ]
        edges = [f"{'-'.join(etype)}: {count:,}" for etype, count in self.num_edges.items()]
        free = bytes_of(self.free) + (" only" if self.disk + self.temporary > self.free else "")
        lines = [
            "nodes      " + ", ".join(nodes),
            "edges      " + ", ".join(edges),
            *(f"left out   {', '.join(names)} of {key}" for key, names in self.left_out.items() if names),
            f"memory     {bytes_of(self.memory)} at least",
            f"disk       {bytes_of(self.disk)}, {bytes_of(self.temporary)} more meanwhile; {free} free",
            f"time       about {self.seconds:,.0f} s",
        ]
        return "\n".join(lines)


def estimate_conversion(
    nodes: Any = None,
    edges: Any = None,
    path: str | os.PathLike[str] = "graph",
    *,
    memory: int | str | None = None,
    compress: bool = False,
) -> ConversionEstimate:
    """Return the memory, disk space and time that :func:`dglite.data.convert_tables` will take; nothing is converted.

    Each table is read for half a second, a few million random edges are sorted, and some MB are written beside
    ``path`` and removed. Arguments and errors are those of :func:`~dglite.data.convert_tables`; rows that are not read
    are not checked. How well ids pack is not known beforehand: with ``compress`` ``disk`` is the size without, at most.

    Examples
    --------
    ::

        print(dglite.data.estimate_conversion("users.parquet", "follows/*.parquet", "follows.graph"))
    """
    place, limit = require_place(Path(path)), memory_limit(memory)
    node_tables, edge_tables = plan_tables(nodes, edges)
    ntypes = sorted({*node_tables, *(end for etype in edge_tables for end in etype[::2])})
    num_nodes = {n: node_tables[n].source.num_rows if n in node_tables else None for n in ntypes}
    num_edges = {etype: table.source.num_rows for etype, table in edge_tables.items()}
    # Without a table there are at most as many nodes as ends.
    most = {
        n: c if c is not None else sum(num_edges[e] * (e[::2].count(n)) for e in num_edges if n in e)
        for n, c in num_nodes.items()
    }
    total = sum(num_edges.values())
    rows: list[tuple[NodeTable | EdgeTable, int]] = [
        *((table, most[n]) for n, table in node_tables.items()),
        *((table, num_edges[e]) for e, table in edge_tables.items()),
    ]
    features = sum(count * _feature_bytes(table) for table, count in rows)
    disk = features + 8 * total + sum(4 * most[etype[2]] for etype in num_edges) + 24 * sum(most.values())
    reading = sum(count * _seconds_per_row(table, limit) for table, count in rows)
    temporary = (28 if compress else 20) * total  # the plain structure, and the packed ids before they are in place
    seconds = reading + _SORTED_COLUMNS * total * _seconds_to_sort() + (disk + temporary) * _seconds_to_write(place)
    ids = max((24 * count for count in most.values()), default=0)
    counters = max((bytes_to_sort(most[etype[2]]) for etype in num_edges), default=0)
    left_out = {}
    every: dict[Any, NodeTable | EdgeTable] = {**node_tables, **edge_tables}
    for key, table in every.items():
        left_out[key] = [name for name in table.source.names if name not in table.columns]
    memory_needed = max(ids, counters) + (1 << 22)
    return ConversionEstimate(
        num_nodes, num_edges, left_out, memory_needed, disk, temporary, shutil.disk_usage(place).free, seconds
    )


def _feature_bytes(table: NodeTable | EdgeTable) -> int:
    return sum(int(np.prod(f.shape or (), dtype=np.int64)) * f.dtype.itemsize for f in table.features)


def _seconds_per_row(table: NodeTable | EdgeTable, limit: int) -> float:
    """Return how long a row is read, decoded and looked up."""
    count, start = 0, time.perf_counter()
    for batch in table.source.read(table.columns, min(limit // 32, 1 << 22)):
        for feature in table.features:
            feature.values(batch)
        count += batch.num_rows
        if time.perf_counter() - start > _SECONDS:
            break
    return (time.perf_counter() - start) / max(count, 1)


def _seconds_to_sort() -> float:
    sort = compiled("graph.convert").sort_rows
    dst = np.random.default_rng(0).integers(0, _PROBE_EDGES, _PROBE_EDGES, dtype=np.int32)
    sort(dst[:1024], _PROBE_EDGES, dst[:1024], active.num_threads())
    start = time.perf_counter()
    sort(dst, _PROBE_EDGES, dst, active.num_threads())
    return (time.perf_counter() - start) / _PROBE_EDGES


def _seconds_to_write(place: Path) -> float:
    with tempfile.TemporaryFile(dir=place) as file:
        start = time.perf_counter()
        file.write(bytes(_PROBE_BYTES))
        file.flush()
        os.fsync(file.fileno())
        return (time.perf_counter() - start) / _PROBE_BYTES
