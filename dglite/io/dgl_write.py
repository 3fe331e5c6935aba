"""Writes graph files (``.bin``) that DGL 0.6 to 2.x reads; the layout is that of :mod:`.dgl_file`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure import Adjacency
from ..structure.formats import FORMATS
from . import dgl_file as layout
from .atomic import replacing
from .container import DGL_MAGIC

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5}
"""Kinds of numbers, as DLPack counts them."""
_CPU = 1
_BITS = {name: bit for bit, name in layout.FORMATS.items()}
_NO_IDS = np.zeros(0, np.int64)


def write_dgl_file(
    path: Path, graphs: Sequence[DGLGraph], labels: Mapping[str, Tensor], formats: Sequence[str] | None
) -> None:
    """Write graphs, and tensors by name, to a file as DGL 2.1 does; it is replaced when the new one is complete.

    Raises ``DGLError``: a graph is a block, or a feature has a dtype that DGL's files do not hold.
    """
    for i, graph in enumerate(graphs):
        if graph.is_block:
            raise DGLError(f"graph {i} is a block, which DGL's files do not hold; dglite's do: leave format out")
    try:
        with replacing(path, parents=True) as part, open(part, "wb") as file:
            _write(file, graphs, labels, formats)
    except OSError as error:
        raise DGLError(f"{path} cannot be written: {error}") from error


def _write(
    file: BinaryIO, graphs: Sequence[DGLGraph], labels: Mapping[str, Tensor], formats: Sequence[str] | None
) -> None:
    writer = _Writer(file)
    writer.put(DGL_MAGIC, struct.pack("<QQQ", 2, 2, len(graphs)))
    writer.put(bytes(layout.HEADER - file.tell() + 8))
    writer.tensors(labels)
    starts = []
    for graph in graphs:
        starts.append(file.tell())
        _write_graph(writer, graph, formats)
    end = file.tell()
    writer.number(8 * len(starts) + 8)
    writer.numbers(starts)
    writer.number(8 * len(starts) + 8)
    file.seek(layout.HEADER)
    writer.number(starts[0] if starts else end)


class _Writer:
    """Writes numbers, strings, arrays and lists of them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def put(self, *parts: bytes | memoryview) -> None:
        for part in parts:
            self._file.write(part)

    def number(self, value: int) -> None:
        self.put(struct.pack("<Q", value))

    def numbers(self, values: Sequence[int]) -> None:
        self.number(len(values))
        self.put(np.asarray(values, "<i8").tobytes())

    def items(self, values: Sequence[Any], write: Callable[[Any], None]) -> None:
        self.number(len(values))
        for value in values:
            write(value)

    def string(self, text: str) -> None:
        content = text.encode()
        self.number(len(content))
        self.put(content)

    def tensors(self, by_name: Mapping[str, Tensor]) -> None:
        """Write tensors by name."""
        self.number(len(by_name))
        for name, values in by_name.items():
            self.string(name)
            self.tensor(name, values)

    def tensor(self, name: str, values: Tensor) -> None:
        if active.dtype(values) == "bfloat16":  # the upper half of a float32
            wide = active.to_numpy(active.astype(values, "float32"))
            self.array((wide.view(np.uint32) >> 16).astype(np.uint16), code=4)
            return
        array = active.to_numpy(values)
        array = array.astype(np.uint8) if array.dtype.kind == "b" else array  # as DGL does
        if array.dtype.kind not in _CODES:
            raise DGLError(f"{name!r} has dtype {array.dtype}, which DGL's files do not hold; convert it first")
        self.array(array)

    def array(self, array: np.ndarray, code: int | None = None) -> None:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
        kind = _CODES[array.dtype.kind] if code is None else code
        head = (layout.ARRAY, 0, _CPU, 0, array.ndim, kind, 8 * array.itemsize, 1)
        self.put(struct.pack("<QQiiiBBH", *head), struct.pack(f"<{array.ndim}q", *array.shape))
        self.number(array.nbytes)
        self.put(little.reshape(-1).view(np.uint8).data if array.size else b"")

    def rows(self, shape: tuple[int, int], indptr: np.ndarray, indices: np.ndarray, ids: np.ndarray | None) -> None:
        """Write a matrix by rows; without ``ids``, entries are numbered in order."""
        self.number(layout.CSR)
        self.number(shape[1])
        self.number(shape[0])
        ids = np.arange(len(indices), dtype=indices.dtype) if ids is None else ids.astype(indices.dtype, copy=False)
        for array in (indptr.astype(indices.dtype, copy=False), indices, ids):
            self.array(array)
        self.put(b"\0")

    def metagraph(self, num_types: int, ends: Sequence[tuple[int, int]]) -> None:
        """Write a graph of types."""
        self.number(layout.METAGRAPH)
        src, dst = np.asarray(ends, np.int64).reshape(-1, 2).T
        order = np.argsort(src, kind="stable")
        indptr = np.searchsorted(src[order], np.arange(num_types + 1))
        self.rows((num_types, num_types), indptr.astype(np.int64), dst[order], order)


def _write_graph(writer: _Writer, graph: DGLGraph, formats: Sequence[str] | None) -> None:
    metagraph = graph.type_graph
    writer.number(layout.HETEROGRAPH)
    writer.metagraph(len(metagraph.ntypes), metagraph.ends)
    relations = list(zip(metagraph.ends, graph.adjacencies, strict=True))
    writer.items(relations, lambda relation: _write_relation(writer, relation[0], relation[1], formats))
    writer.numbers(graph.node_counts)
    writer.items(range(len(graph.node_counts)), lambda i: writer.tensors(graph.node_frame_at(i)))
    writer.items(range(len(relations)), lambda j: writer.tensors(graph.edge_frame_at(j)))
    writer.items(metagraph.ntypes, writer.string)
    writer.items([name for _, name, _ in metagraph.canonical_etypes], writer.string)


def _write_relation(writer: _Writer, ends: tuple[int, int], relation: Adjacency, formats: Sequence[str] | None) -> None:
    stored = [name for name in FORMATS if name in (formats or relation.formats[:1])]
    writer.number(layout.RELATION)
    for names in (stored, relation.allowed):
        writer.number(layout.LATER | sum(_BITS[name] for name in names))
    num_types, pair = (1, (0, 0)) if ends[0] == ends[1] else (2, (0, 1))
    for name in stored:
        writer.metagraph(num_types, [pair])
        if name == "coo":
            writer.number(layout.COO)
            writer.number(relation.num_dst)
            writer.number(relation.num_src)
            for array in relation.coo():
                writer.array(array.astype(relation.idtype, copy=False))
            writer.array(_NO_IDS)
            writer.put(b"\0\0")
            continue
        rows = relation.csr() if name == "csr" else relation.csc()
        shape = (relation.num_src, relation.num_dst) if name == "csr" else (relation.num_dst, relation.num_src)
        writer.rows(shape, rows.indptr, rows.indices.astype(relation.idtype, copy=False), rows.edge_ids)
