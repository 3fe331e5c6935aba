"""Arrays to graphs: the inverse of ``pack.py``, for files that may be damaged or malicious."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Tensor
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..structure import Adjacency, Metagraph
from ..structure.formats import FORMATS
from ..structure.ids import largest_unsigned
from ..structure.metagraph import HOMOGENEOUS
from ..structure.packed import PackedIndices
from ..structure.restore import restore
from .container import Container, FileRows


class GraphReader:
    """The graphs in a container. A graph is made when it is asked for; the others stay on the disk."""

    def __init__(self, file: Container, check: bool = True, few: bool = False) -> None:
        """Open a file; without ``check`` entries of structures are not looked at, for ``few`` graphs rows are read."""
        self._file = file
        groups = file.field(file.header, "groups", list)
        group_of = file.array("group")
        self.num_graphs = len(group_of)
        if self.num_graphs and largest_unsigned(group_of) >= len(groups):
            raise file.damaged("a graph belongs to a group that is not there")
        sizes = np.bincount(group_of, minlength=len(groups))
        self._group_of = group_of
        self._place = np.arange(self.num_graphs)
        """Position of each graph in its group."""
        if len(groups) > 1:
            first = np.repeat(np.cumsum(sizes) - sizes, sizes)
            self._place[np.argsort(group_of, kind="stable")] = np.arange(self.num_graphs) - first
        self._groups = [
            _Group(file, f"{k}", header, size, check, few)
            for k, (header, size) in enumerate(zip(groups, sizes.tolist(), strict=True))
        ]

    def graph(self, i: int) -> DGLGraph:
        """Return graph ``i``."""
        try:
            return self._groups[self._group_of[i]].graph(int(self._place[i]))
        except DGLError as error:
            raise self._file.damaged(f"graph {i}: {error}") from error

    def labels(self) -> dict[str, Tensor]:
        """Return the labels by name."""
        names = self._file.names_of(self._file.field(self._file.header, "labels", list))
        return {name: self._file.tensor(f"labels.{i}") for i, name in enumerate(names)}


def metagraph_of(ntypes: list[str], etypes: list[tuple[str, str, str]], dsttypes: list[str] | None = None) -> Metagraph:
    """Return the metagraph of types that come from a file.

    Raises ``DGLError``: a type occurs twice, or a relation joins a type that is not there.
    """
    sides = (ntypes, ntypes if dsttypes is None else dsttypes)
    for names in (*sides, etypes):
        if len(set(names)) != len(names):
            raise DGLError(f"a type occurs twice in {names}")
    for src, name, dst in etypes:
        if src not in sides[0] or dst not in sides[1]:
            raise DGLError(f"relation {name!r} joins {src!r} and {dst!r}, one of which is not a node type")
    plain = dsttypes is None and (tuple(ntypes), tuple(etypes)) == (HOMOGENEOUS.ntypes, HOMOGENEOUS.canonical_etypes)
    return HOMOGENEOUS if plain else Metagraph(ntypes, etypes, dsttypes)


class _Group:
    """Graphs of the same types and features, laid end to end."""

    def __init__(self, file: Container, prefix: str, header: Any, num_graphs: int, check: bool, few: bool) -> None:
        self._file, self._prefix, self._check, self._few = file, prefix, check, few
        self._read_header(header)
        ends = self._metagraph.ends
        num_sets = len(self._metagraph.set_names())
        self._num_nodes = file.counts(f"{prefix}.num_nodes", (num_graphs, num_sets))
        self._num_edges = file.counts(f"{prefix}.num_edges", (num_graphs, len(ends)))
        self._first_node, self._first_edge = _starts(self._num_nodes), _starts(self._num_edges)
        self._formats = [self._relation(j) for j in range(len(ends))]
        self._node_data = self._columns(header, "nodes", self._first_node[-1])
        self._edge_data = self._columns(header, "edges", self._first_edge[-1])
        self._node_batches = self._batches(header, "nodes", self._num_nodes)
        self._edge_batches = self._batches(header, "edges", self._num_edges)

    def _read_header(self, header: Any) -> None:
        file = self._file
        ntypes = file.names_of(file.field(header, "ntypes", list))
        dsttypes = file.field(header, "dsttypes", (list, type(None)))
        etypes = [tuple(file.names_of(etype)) for etype in file.field(header, "etypes", list)]
        if any(len(etype) != 3 for etype in etypes):
            raise file.damaged("an edge type is not made of three names")
        try:
            self._metagraph = metagraph_of(ntypes, etypes, None if dsttypes is None else file.names_of(dsttypes))  # type: ignore[arg-type]
        except DGLError as error:
            raise file.damaged(str(error)) from error
        idtype = file.field(header, "idtype", str)
        if idtype not in ("int32", "int64"):
            raise file.damaged(f"its ids are of dtype {idtype!r}")
        self._idtype = np.dtype(idtype)
        self._allowed, self._stored = (tuple(file.names_of(header.get(name))) for name in ("allowed", "stored"))
        if not self._stored or not set(self._stored) <= set(self._allowed) <= set(FORMATS):
            raise file.damaged(f"its formats {self._stored} of {self._allowed} are not understood")

    def _array(self, name: str, length: int) -> Any:
        array = self._file.array(f"{self._prefix}.{name}", few=self._few)
        if len(array) != length:
            raise self._file.damaged(f"array {self._prefix}.{name} has {len(array)} entries; expected {length}")
        return array

    def _indices_of(self, name: str, length: int, most: int) -> Any:
        """Return the indices of rows, below ``most``; packed where they are, and it is one graph that is not checked.

        Of several graphs they are unpacked, since a graph need not begin with a block.
        """
        file, path = self._file, f"{self._prefix}.{name}"
        if f"{path}.words" not in file.names:
            return self._array(name, length)
        packed = PackedIndices(file.array(f"{path}.words", "u"), file.array(f"{path}.heads"), file.path)
        if not packed.fit(length):
            raise file.damaged(f"arrays {path} have other lengths than {length} compressed entries")
        if len(self._num_nodes) == 1 and not self._check:
            return packed
        return packed.unpacked(length, most, np.int32 if most < 2**31 else np.int64)

    def _relation(self, j: int) -> dict[str, tuple[Any, ...]]:
        """Return the arrays of one relation by format: all graphs' together, of checked lengths."""
        arrays: dict[str, tuple[Any, ...]] = {}
        num_edges, num_graphs = int(self._first_edge[-1, j]), len(self._num_nodes)
        for name in self._stored:
            prefix = f"edges.{j}.{name}"
            if name == "coo":
                arrays[name] = tuple(self._array(f"{prefix}.{end}", num_edges) for end in ("src", "dst"))
                continue
            row_set, col_set = self._metagraph.ends[j][:: 1 if name == "csr" else -1]
            most = int(self._num_nodes[:, col_set].max(initial=0))
            num_pointers = int(self._first_node[-1, row_set]) + num_graphs
            has_ids = f"{self._prefix}.{prefix}.edge_ids" in self._file.names
            arrays[name] = (
                self._array(f"{prefix}.indptr", num_pointers),
                self._indices_of(f"{prefix}.indices", num_edges, most),
                self._array(f"{prefix}.edge_ids", num_edges) if has_ids else None,
            )
        return arrays

    def _columns(self, header: Any, side: str, num_rows: np.ndarray) -> list[dict[str, FileRows]]:
        """Return the features of each node set or edge type: all graphs' together, of checked lengths."""
        file = self._file
        listed = file.field(header, f"{side[:-1]}_data", list)
        if len(listed) != len(num_rows):
            raise file.damaged(f"features are listed for {len(listed)} types of {side}; there are {len(num_rows)}")
        by_name = []
        for i, names in enumerate(listed):
            prefix = f"{self._prefix}.{side}.{i}.data"
            columns = {name: file.rows(f"{prefix}.{c}", self._few) for c, name in enumerate(file.names_of(names))}
            for name, column in columns.items():
                if column.num_rows != num_rows[i]:
                    raise file.damaged(f"feature {name!r} has {column.num_rows} rows for {num_rows[i]} {side}")
            by_name.append(columns)
        return by_name

    def _batches(self, header: Any, side: str, counts: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]] | None:
        """Return the offsets of each graph's batch sizes, and the sizes by type; None if the graphs are not batches."""
        file, num_graphs = self._file, len(counts)
        if not file.field(header, f"batched_{side}", bool):
            return None
        starts = _starts(file.counts(f"{self._prefix}.{side}.batch_size", (num_graphs,)))
        total = (int(starts[-1]),)
        sizes = [file.counts(f"{self._prefix}.{side}.{i}.batch", total) for i in range(counts.shape[1])]
        for i, of_type in enumerate(sizes):
            running = _starts(of_type)
            if (running[starts[1:]] - running[starts[:-1]] != counts[:, i]).any():
                raise file.damaged(f"batch sizes do not sum to the numbers of {side}")
        return starts, sizes

    def graph(self, i: int) -> DGLGraph:
        """Return the ``i``-th graph of the group."""
        adjacencies = tuple(self._adjacency(i, j) for j in range(len(self._formats)))
        g = make_graph(self._metagraph, adjacencies, self._num_nodes[i].tolist())
        g.numpy_idtype = self._idtype
        for s, columns in enumerate(self._node_data):
            if columns:
                rows = slice(self._first_node[i, s], self._first_node[i + 1, s])
                g.node_frame_at(s).update({name: column[rows] for name, column in columns.items()})
        for j, columns in enumerate(self._edge_data):
            if columns:
                rows = slice(self._first_edge[i, j], self._first_edge[i + 1, j])
                g.edge_frame_at(j).update({name: column[rows] for name, column in columns.items()})
        g.batch_node_counts = _cut(self._node_batches, i)
        g.batch_edge_counts = _cut(self._edge_batches, i)
        return g

    def _adjacency(self, i: int, j: int) -> Adjacency:
        src_set, dst_set = self._metagraph.ends[j]
        num_src, num_dst = int(self._num_nodes[i, src_set]), int(self._num_nodes[i, dst_set])
        edges = slice(self._first_edge[i, j], self._first_edge[i + 1, j])
        parts: dict[str, Any] = {}
        for name, arrays in self._formats[j].items():
            if name == "coo":
                parts["endpoints"] = tuple(ends[edges] for ends in arrays if ends is not None)
                continue
            row_set = src_set if name == "csr" else dst_set
            # Each graph has one row pointer more than rows.
            pointers = slice(self._first_node[i, row_set] + i, self._first_node[i + 1, row_set] + i + 1)
            indptr, indices, ids = arrays
            indices = indices if isinstance(indices, PackedIndices) else indices[edges]
            parts[name] = indptr[pointers], indices, None if ids is None else ids[edges]
        counts = num_src, num_dst, int(self._num_edges[i, j])
        return restore(counts, self._idtype, self._allowed, **parts, check=self._check)


def _starts(counts: np.ndarray) -> np.ndarray:
    """Return the running sums of ``counts`` along the first axis, from 0."""
    starts = np.zeros((len(counts) + 1, *counts.shape[1:]), np.int64)
    np.cumsum(counts, axis=0, out=starts[1:])
    return starts


def _cut(batches: tuple[np.ndarray, list[np.ndarray]] | None, i: int) -> tuple[np.ndarray, ...] | None:
    if batches is None:
        return None
    starts, sizes = batches
    return tuple(of_type[starts[i] : starts[i + 1]].copy() for of_type in sizes)
