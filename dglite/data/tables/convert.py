"""``convert_tables``: tables of any size become a folder with a graph, its features and its ids, with little memory."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ...backend.memory import spelt_bytes
from ...convert import heterograph
from ...errors import DGLError
from ...io.graphs import load_graphs, write_compressed
from ...io.layout import csc_layout
from ...progress import progress
from ...structure.sizes import memory_limit
from ..raw import npy_of
from .columns import TableFeature
from .files import ConversionState, RowFile, file_name, require_place, write_all
from .folder import META, VERSION, GraphFolder
from .ids import NodeIds
from .plan import EdgeTable, NodeTable, distinct_ids, plan_tables
from .sort import SortedRelation, reserve

_NO_SPACE = {
    errno.ENOSPC: "the disk of {} is full",
    errno.EDQUOT: "the quota of the disk of {} is used up",
    errno.EFBIG: "a file in {} would be larger than the system lets files be (ulimit -f, or the file system's limit)",
}
_SHARE = 32
"""A batch takes this part of the memory limit, as several are read, decoded and written at a time."""

Etype = tuple[str, str, str]


def convert_tables(
    nodes: Any = None,
    edges: Any = None,
    path: str | os.PathLike[str] = "graph",
    *,
    memory: int | str | None = None,
    overwrite: bool = False,
    compress: bool = False,
    show_progress: bool = True,
) -> GraphFolder:
    """Convert tables of nodes and edges, of any size, to a folder with a graph that is read from disk.

    The graph is that of :func:`dglite.from_tables`: the same numbers, edge ids, features and errors. Rows are read in
    batches; edges are dealt into ranges of destinations on disk, and each range is sorted in memory by all cores. The
    work is done in a folder beside ``path``, which takes its name when it is complete. After an interruption, or where
    the disk was full, the same call continues where it stopped, unless a file has changed.

    Raises DGLError as :func:`dglite.from_tables`; ``path`` exists; the disk is full; the limit is too small for a row
    group, for the ids or for the counters of the sort.

    Parameters
    ----------
    nodes, edges
        As :func:`dglite.from_tables` takes them.
    path
        The folder to make.
    memory
        Limit in bytes, or text such as ``"4 GB"``, by default half of the memory that is free now. Arrow and the
        compiler of kernels take about 100 MB besides, as measured by ``benchmarks/billion.py``. Ids of nodes are in
        memory: about 20 bytes for each node whose ids are integers, nothing for ids 0, 1, 2, ...; and 16 bytes for
        each destination node while edges are sorted.
    overwrite
        Replace ``path`` if it is there.
    compress
        Pack the ids of neighbours, as :func:`dglite.save_graphs` does: samplers draw the same edges.
    show_progress
        Show a progress bar, on terminals and in notebooks.

    Returns
    -------
    GraphFolder
        The folder, opened.

    Examples
    --------
    ::

        folder = dglite.data.convert_tables("users.parquet", "follows/*.parquet", "follows.graph", memory="4 GB")
        folder.graph  # mapped, not read
    """
    target = Path(path)
    require_place(target)
    if target.exists() and not overwrite:
        raise DGLError(f"{target} is there already; open it by GraphFolder({str(path)!r}), or pass overwrite=True")
    limit = memory_limit(memory)
    node_tables, edge_tables = plan_tables(nodes, edges)
    work = target.parent / f"{target.name}.converting"
    try:
        work.mkdir(parents=True, exist_ok=True)
        _Conversion(work, node_tables, edge_tables, limit, compress, not show_progress).run()
        _put_in_place(work, target)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise DGLError(f"{target} is not made, {error}; what was there before is as it was") from error
        raise DGLError(
            f"{_NO_SPACE[error.errno].format(work)}; {target} is as it was before. Free some space and call again: the "
            f"conversion continues. Or remove {work}"
        ) from error
    return GraphFolder(target)


class _Conversion:
    """A conversion in a folder that may hold what an interrupted one has done."""

    def __init__(
        self,
        work: Path,
        nodes: dict[str, NodeTable],
        edges: dict[Etype, EdgeTable],
        memory: int,
        compress: bool,
        hide: bool,
    ) -> None:
        self.work, self.nodes, self.edges, self.memory = work, nodes, edges, memory
        self.compress, self.hide = compress, hide
        self.ntypes = sorted({*nodes, *(end for etype in edges for end in etype[::2])})
        tables: list[NodeTable | EdgeTable] = [*nodes.values(), *edges.values()]
        fingerprint = [
            VERSION,
            memory,
            compress,
            [[t.label, t.columns, t.source.fingerprint, str(vars(t.table))] for t in tables],
        ]
        in_memory = any(not table.source.files for table in tables)
        self.state = ConversionState(work / "state.json", fingerprint)
        if in_memory or not self.state.is_continued:  # tables in memory have no time stamps
            self.state.steps = {}
            for item in work.iterdir():
                shutil.rmtree(item) if item.is_dir() else item.unlink()
        self.batch_bytes = memory // _SHARE
        self.ids: dict[str, NodeIds] = {}

    def run(self) -> None:
        for ntype in self.ntypes:
            self.ids[ntype] = self._ids(ntype)
        counts = {etype: self._edges(etype, table) for etype, table in self.edges.items()}
        self._sort(counts)
        meta = {
            "version": VERSION,
            "nodes": {ntype: _described(self.nodes.get(ntype)) for ntype in self.ntypes},
            "edges": [[list(etype), _described(table)] for etype, table in self.edges.items()],
        }
        (self.work / META).write_text(json.dumps(meta, indent=1))
        for name in ("state.json", "ends"):
            item = self.work / name
            shutil.rmtree(item) if item.is_dir() else item.unlink(missing_ok=True)

    # -- rows ----------------------------------------------------------------------------------------------------------
    def _ids(self, ntype: str) -> NodeIds:
        """Write the ids and features of a node type, and return the look-up."""
        folder, step, table = self.work / "ids" / file_name(ntype), f"nodes {ntype}", self.nodes.get(ntype)
        if table is not None:
            self._read_nodes(table, folder)
        if self.state.steps.get(f"{step} ids"):
            return NodeIds.load(folder)
        if table is None:
            keys = distinct_ids(ntype, list(self.edges.values()), self.batch_bytes)
            self._check_room(ntype, len(keys[0]) if keys[1] is None else len(keys[1]))
            ids = NodeIds.from_keys(keys, f"nodes of type {ntype!r}")
            ids.save(folder)
        else:
            offsets = folder / "offsets.npy"
            values = npy_of(folder / "ids.npy", mapped=True)
            keys = values, npy_of(offsets, mapped=True) if offsets.exists() else None
            self._check_room(ntype, len(values) if keys[1] is None else len(keys[1]))
            ids = NodeIds.from_keys(keys, f"{table.label}, column {table.id_column!r}")
            ids.save_slots(folder)
        self.state.reached(f"{step} ids", True)
        return ids

    def _check_room(self, ntype: str, count: int) -> None:
        if 24 * count > self.memory:
            raise DGLError(
                f"the ids of {count:,} nodes of type {ntype!r} need about {spelt_bytes(24 * count)} of memory, and the "
                f"limit is {spelt_bytes(self.memory)}; raise the limit, or number the nodes 0, 1, 2, ... in their table"
            )

    def _read_nodes(self, table: NodeTable, folder: Path) -> None:
        step = f"nodes {table.ntype}"
        reached = self.state.steps.get(step)
        if reached and reached.get("done"):
            _restore(table.features, reached)
            return
        writer = _FeatureWriter(self.work / "nodes" / file_name(table.ntype), table.features, reached)
        files: dict[str, RowFile] = {}
        rows, text_end = writer.rows, (reached or {}).get("text", 0)
        for part in self._bar(table, lambda unit: table.read(self.batch_bytes, unit), writer.unit):
            values, offsets = (np.arange(rows, rows + part.batch.num_rows), None) if part.keys is None else part.keys
            if not files:
                files["ids"] = RowFile(folder / "ids.npy", values.dtype, (), rows if offsets is None else text_end)
                if offsets is not None:
                    files["offsets"] = RowFile(folder / "offsets.npy", np.int64, (), rows + 1 if rows else 0)
                    if not rows:
                        files["offsets"].append(np.zeros(1, np.int64))
            files["ids"].append(values)
            if offsets is not None:
                files["offsets"].append(offsets[1:] + text_end)
                text_end += len(values)
            writer.append(part.features, part.batch.num_rows)
            rows += part.batch.num_rows
            self.state.reached(step, writer.reached(part.batch.unit) | {"text": text_end})
        if not files and not rows:
            files["ids"] = RowFile(folder / "ids.npy", np.int64)
        for file in files.values():
            file.finish()
        writer.finish()
        self.state.reached(step, {**self.state.steps.get(step, {}), **writer.described(), "done": True})

    def _edges(self, etype: Etype, table: EdgeTable) -> int:
        """Write the ends and features of an edge type, and return the number of edges."""
        step = f"edges {etype}"
        reached = self.state.steps.get(step)
        if reached and reached.get("done"):
            _restore(table.features, reached)
            return int(reached["rows"])
        dtype = self._end_dtype(etype)
        writer = _FeatureWriter(self.work / "edges" / file_name(etype), table.features, reached)
        ends = [path.open("r+b" if writer.rows else "wb", buffering=0) for path in self._ends(etype)]
        try:
            for file in ends:
                file.truncate(writer.rows * dtype.itemsize)
                file.seek(0, os.SEEK_END)
            for part in self._bar(table, lambda unit: table.read(self.ids, self.batch_bytes, unit), writer.unit):
                for file, numbers in zip(ends, (part.src, part.dst), strict=True):
                    write_all(file, numbers.astype(dtype))
                writer.append(part.features, len(part.src))
                self.state.reached(step, writer.reached(part.batch.unit))
        finally:
            for file in ends:
                file.close()
        writer.finish()
        self.state.reached(step, {**writer.described(), "done": True, "rows": writer.rows})
        return writer.rows

    def _bar(self, table: NodeTable | EdgeTable, read: Callable[[int], Iterator[Any]], unit: int) -> Iterator[Any]:
        """Yield batches, the next of which a thread reads meanwhile, and show how many rows there were."""
        with (
            progress(None, f"reading {table.label}", "rows", table.source.num_rows, self.hide) as bar,
            ThreadPoolExecutor(1, "dglite-tables") as pool,
        ):
            batches = read(unit)
            upcoming = pool.submit(next, batches, None)
            while (part := upcoming.result()) is not None:
                upcoming = pool.submit(next, batches, None)
                yield part
                bar.update(part.batch.num_rows)

    # -- structure -----------------------------------------------------------------------------------------------------
    def _ends(self, etype: Etype) -> tuple[Path, Path]:
        folder = self.work / "ends"
        folder.mkdir(exist_ok=True)
        return folder / f"{file_name(etype)}.src", folder / f"{file_name(etype)}.dst"

    def _end_dtype(self, etype: Etype) -> np.dtype:
        most = max(len(self.ids[end]) for end in etype[::2])
        return np.dtype(np.int32 if most < 2**31 else np.int64)

    def _sort(self, num_edges: dict[Etype, int]) -> None:
        """Write the graph file: space for all of it first, then relation after relation."""
        nothing = np.empty(0, np.int64)
        schema = heterograph(dict.fromkeys(self.edges, (nothing, nothing)), dict.fromkeys(self.ntypes, 0))
        relations = [
            SortedRelation(
                self._ends(etype),
                self._end_dtype(etype),
                len(self.ids[etype[0]]),
                len(self.ids[etype[2]]),
                num_edges[etype],
                self.memory,
            )
            for etype in schema.canonical_etypes
        ]
        nodes = [len(self.ids[ntype]) for ntype in schema.ntypes]
        counts = [relation.num_edges for relation in relations]
        layout = csc_layout(schema, nodes, counts, [relation.index_dtype for relation in relations])
        path = self.work / ("ends" if self.compress else "") / "graph.dgl"
        reserve(path, layout.size)
        with (
            path.open("r+b", buffering=0) as file,
            progress(None, "sorting edges", "edges", 2 * sum(counts), self.hide) as bar,
        ):
            for place, content in layout.pieces:
                file.seek(place)
                file.write(content)
            for etype, relation, places in zip(schema.canonical_etypes, relations, layout.places, strict=True):
                for count in relation.write(file, places, self.state, f"edges {etype}"):
                    bar.update(count)
        if self.compress:
            (g,), _ = load_graphs(path, mmap=True)
            write_compressed(self.work / "graph.dgl", [g], {}, scratch=path.parent)


class _FeatureWriter:
    """The files of the features of a table."""

    def __init__(self, folder: Path, features: list[TableFeature], reached: dict[str, Any] | None) -> None:
        reached = reached or {}
        self.rows, self.unit = int(reached.get("rows", 0)), int(reached.get("unit", -1)) + 1
        self._folder, self._features = folder, features
        self._files: dict[str, RowFile] = {}
        _restore(features, reached)

    def append(self, columns: dict[str, np.ndarray], count: int) -> None:
        """Write the features of ``count`` rows."""
        for feature in self._features:
            if feature.name not in self._files:
                self._open(feature)
            self._files[feature.name].append(columns[feature.name])
        self.rows += count

    def _open(self, feature: TableFeature) -> None:
        path = self._folder / f"{file_name(feature.name)}.npy"
        self._files[feature.name] = RowFile(path, feature.dtype, feature.shape or (), self.rows)

    def finish(self) -> None:
        """Write the headers."""
        for feature in self._features:
            if feature.name not in self._files:
                self._open(feature)
            self._files[feature.name].finish()

    def described(self) -> dict[str, Any]:
        """Return categories and shapes, for a run that continues."""
        shapes = {f.name: None if f.shape is None else list(f.shape) for f in self._features}
        return {"categories": {f.name: f.categories for f in self._features}, "shapes": shapes}

    def reached(self, unit: int) -> dict[str, Any]:
        """Return the state after a batch."""
        return {"rows": self.rows, "unit": unit, **self.described()}


def _restore(features: list[TableFeature], reached: dict[str, Any]) -> None:
    for feature in features:
        feature.restore(reached.get("categories", {}).get(feature.name), reached.get("shapes", {}).get(feature.name))


def _described(table: NodeTable | EdgeTable | None) -> dict[str, Any]:
    return {} if table is None else {feature.name: feature.categories for feature in table.features}


def _put_in_place(work: Path, target: Path) -> None:
    """Rename a complete folder; one that was there before is removed afterwards."""
    if target.exists():
        before = target.parent / f"{target.name}.before"
        shutil.rmtree(before, ignore_errors=True)
        target.rename(before)
        work.rename(target)
        shutil.rmtree(before) if before.is_dir() else before.unlink()
    else:
        work.rename(target)
