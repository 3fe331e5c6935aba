"""Reads the graph files (``.bin``) of DGL 0.5 to 2.x. Layout, from the comments of DGL's public sources:

    uint64 magic, version (2), kind (2), number of graphs; zeros up to byte 4096
    uint64 position of the first graph; labels: list of (string, array)
    each graph: structure; features: for each node type, then each edge type, a list of (string, array);
                names of the node types; names of the edge types
    uint64 size of the rest in bytes; positions of the graphs: list of uint64; uint64 that size again

A list is a uint64 count and its items, a string a uint64 length and its bytes, everything little-endian. Each structure
begins with a magic number of its own. Nothing here allocates what the file says without having seen the bytes.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..frame import Frame
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..structure import Adjacency
from ..structure.restore import restore
from .unpack import metagraph_of

HEADER = 4096
ARRAY, HETEROGRAPH, METAGRAPH, RELATION, COO, CSR = (
    0xDD5E40F096B4A13F,
    0xDD589FBE35224ABF,
    0xDD3C5FFE20046ABF,
    0xDD2E60F0F6B4A127,
    0xDD61FFD305DFF127,
    0xDD6CD31205DFF127,
)
"""Magic numbers that structures begin with."""
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
"""Kinds of numbers, as DLPack counts them."""
FORMATS = {1: "coo", 2: "csr", 4: "csc"}
LATER = 1 << 32
"""Set in the words that name formats by bits; without it, as before DGL 0.6, a word is a number from 0 to 3."""


class DGLFile:
    """A graph file of DGL that is open for reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise DGLError(f"{path} cannot be read: {error}") from error
        head = Cursor(path, self._bytes)
        _magic, version, kind, count = (head.number() for _ in range(4))
        if version not in (1, 2) or kind not in (1, 2):
            raise DGLError(
                f"{path} has version {version} of DGL's format and kind {kind} of graphs; DGL to 2.4 writes versions 1 "
                "and 2 and kinds 1 and 2: it is damaged, or of a newer DGL"
            )
        if version != 2 or kind != 2:
            raise DGLError(
                f"{path} was written by DGL before 0.5 (version {version} of its format), which is not read; load it "
                "with a DGL from 0.5 to 2.4 and write it again with dgl.save_graphs"
            )
        self._labels_at = HEADER + 8
        start = Cursor(path, self._bytes, HEADER).number()
        if start < self._labels_at or count > (len(self._bytes) - start) // 8:
            raise head.damaged(f"it cannot hold {count} graphs from byte {start} on")
        # From the last number to the list of positions, whose entries follow its own count.
        tail = Cursor(path, self._bytes, len(self._bytes) - 8)
        size = tail.number()
        if size != 8 * count + 8:
            raise head.damaged("its list of graphs does not fit their number")
        self._starts = Cursor(path, self._bytes, len(self._bytes) - 8 - size).numbers().tolist()
        if len(self._starts) != count:
            raise head.damaged("its list of graphs does not fit their number")
        self._ends = [*self._starts, len(self._bytes) - 8 - size][1:]
        if any(start < self._labels_at or start >= end for start, end in zip(self._starts, self._ends, strict=True)):
            raise head.damaged("its graphs do not follow each other")
        self.num_graphs = count

    def labels(self) -> dict[str, Tensor]:
        """Return the labels by name."""
        return Cursor(self._path, self._bytes, self._labels_at).tensors()

    def graph(self, i: int) -> DGLGraph:
        """Return graph ``i``."""
        cursor = Cursor(self._path, self._bytes, self._starts[i], self._ends[i])
        try:
            return _graph(cursor)
        except DGLError as error:
            if str(self._path) in str(error):
                raise
            raise cursor.damaged(f"graph {i}: {error}") from error


class Cursor:
    """Reads on from a place in the file up to ``end``; reading past it is an error, whatever was asked for."""

    def __init__(self, path: Path, content: Any, place: int = 0, end: int | None = None) -> None:
        self._path, self._content, self._place = path, content, place
        self._end = len(content) if end is None else end

    @property
    def left(self) -> int:
        """Bytes up to the end."""
        return self._end - self._place

    def damaged(self, why: str) -> DGLError:
        return DGLError(f"{self._path} is not read, it is damaged or not a graph file of DGL: {why}")

    def take(self, count: int) -> int:
        """Return the place, and go on by ``count`` bytes, which must be there."""
        place = self._place
        if not 0 <= place <= place + count <= self._end:
            raise self.damaged(f"it ends at byte {self._end}, before {count} bytes from byte {place} on")
        self._place = place + count
        return place

    def unpacked(self, layout: str) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack_from(layout, self._content, self.take(struct.calcsize(layout)))
        return values

    def number(self) -> int:
        return self.unpacked("<Q")[0]

    def expect(self, magic: int, label: str) -> None:
        if self.number() != magic:
            raise self.damaged(f"there is no {label} at byte {self._place - 8}")

    def numbers(self) -> np.ndarray:
        """Read a list of 64-bit numbers."""
        count = self.number()
        return np.frombuffer(self._content, "<i8", count, self.take(8 * count))

    def items(self, read: Callable[[], Any]) -> list[Any]:
        """Read a list; every item has at least 8 bytes, so a count that the file cannot hold ends in an error."""
        return [read() for _ in range(self.number())]

    def string(self) -> str:
        count = self.number()
        place = self.take(count)
        try:
            return str(self._content[place : place + count], "utf-8")
        except UnicodeDecodeError as error:
            raise self.damaged(f"a name at byte {place} is not text ({error})") from error

    def array(self) -> tuple[str, np.ndarray]:
        """Read an array; return the kind of its numbers, and bytes viewed as integers where NumPy lacks the kind."""
        self.expect(ARRAY, "array")
        _reserved, _device, _device_id, ndim, code, bits, lanes = self.unpacked("<QiiiBBH")
        if not 0 <= ndim <= 64:
            raise self.damaged(f"an array has {ndim} axes")
        shape = self.unpacked(f"<{ndim}q")
        size = self.number()
        kind = _KINDS.get(code, "")
        name = {"bool": "bool", "bfloat": "uint16"}.get(kind, f"{kind}{bits}")
        try:
            dtype = np.dtype(name).newbyteorder("<")
        except TypeError:
            raise self.damaged(f"numbers of kind {code} with {bits} bits are not known") from None
        expected = dtype.itemsize
        for length in shape:
            expected *= length
        if lanes != 1 or dtype.itemsize * 8 != bits or min(shape, default=0) < 0 or expected != size:
            raise self.damaged(f"an array of shape {shape} and {bits}-bit numbers is said to have {size} bytes")
        place = self.take(size)
        values = np.frombuffer(self._content, dtype, size // dtype.itemsize, place)
        try:
            return kind, values.reshape(shape)
        except ValueError as error:  # of no numbers, with axes whose product exceeds 64 bits
            raise self.damaged(f"an array has shape {shape} ({error})") from error

    def ids(self) -> np.ndarray:
        """Read an array of ids, or of none."""
        kind, values = self.array()
        if kind != "int" or values.ndim != 1 or values.dtype.itemsize not in (4, 8):
            raise self.damaged(f"ids are {kind} of shape {values.shape}")
        return values.astype(values.dtype.newbyteorder("="))  # a copy: the file is not aligned

    def tensors(self) -> dict[str, Tensor]:
        """Read tensors by name."""
        return dict(self.items(lambda: (self.string(), self._tensor())))

    def _tensor(self) -> Tensor:
        kind, values = self.array()
        values = values.astype(values.dtype.newbyteorder("="))
        if kind != "bfloat":
            return active.from_numpy(values)
        # A bfloat16 is the upper half of a float32.
        wide = (values.astype(np.uint32) << 16).view(np.float32)
        return active.astype(active.from_numpy(wide), "bfloat16")

    def rows(self) -> tuple[int, int, np.ndarray, np.ndarray, np.ndarray | None]:
        """Read a matrix by rows: numbers of rows and columns, indptr, indices, edge ids (None: in order)."""
        self.expect(CSR, "matrix by rows")
        num_cols, num_rows = self.number(), self.number()
        indptr, indices, ids = self.ids(), self.ids(), self.ids()
        self.take(1)  # whether rows are sorted
        return num_rows, num_cols, indptr, indices, ids if len(ids) else None

    def edges(self) -> tuple[int, int, np.ndarray, np.ndarray]:
        """Read a list of edges: numbers of sources and destinations, source and destination of each, by edge id."""
        self.expect(COO, "list of edges")
        num_cols, num_rows = self.number(), self.number()
        src, dst, ids = self.ids(), self.ids(), self.ids()
        self.take(2)  # whether it is sorted
        if len(ids):
            if not len(src) == len(dst) == len(ids) or not np.array_equal(np.sort(ids), np.arange(len(ids))):
                raise self.damaged("edge ids are not one for each edge")
            order = np.argsort(ids)
            src, dst = src[order], dst[order]
        return num_rows, num_cols, src, dst


def _graph(cursor: Cursor) -> DGLGraph:
    cursor.expect(HETEROGRAPH, "graph")
    _, ends = read_metagraph(cursor)
    relations = cursor.items(lambda: _relation(cursor))
    counts = cursor.numbers().tolist()
    node_data = cursor.items(cursor.tensors)
    edge_data = cursor.items(cursor.tensors)
    ntypes, etypes = cursor.items(cursor.string), cursor.items(cursor.string)
    _check_types(cursor, ends, relations, counts, node_data, edge_data, ntypes, etypes)
    canonical = [(ntypes[src], name, ntypes[dst]) for (src, dst), name in zip(ends, etypes, strict=True)]
    metagraph = metagraph_of(ntypes, canonical)
    for relation, (src, dst) in zip(relations, ends, strict=True):
        if (relation.num_src, relation.num_dst) != (counts[src], counts[dst]):
            raise cursor.damaged("a relation joins other numbers of nodes than there are")
    g = make_graph(metagraph, tuple(relations), counts)
    for i, columns in enumerate(node_data):
        _fill(g.node_frame_at(i), columns)
    for j, columns in enumerate(edge_data):
        _fill(g.edge_frame_at(j), columns)
    return g


def _check_types(cursor: Cursor, ends: Any, relations: Any, counts: Any, nodes: Any, edges: Any, *names: Any) -> None:
    ntypes, etypes = names
    if not len(ends) == len(relations) == len(edges) == len(etypes):
        raise cursor.damaged("its relations, their names and their features are not equally many")
    if not len(counts) == len(nodes) == len(ntypes) or any(max(pair) >= len(ntypes) for pair in ends):
        raise cursor.damaged("its node types, their numbers of nodes and their features are not equally many")
    if any(count < 0 for count in counts) or len({relation.idtype for relation in relations}) > 1:
        raise cursor.damaged("a number of nodes is negative, or relations have ids of different dtypes")


def _fill(frame: Frame, columns: dict[str, Tensor]) -> None:
    frame.update(columns)


def read_metagraph(cursor: Cursor) -> tuple[int, list[tuple[int, int]]]:
    """Read the graph of types; return their number and the ends of each relation, by its id."""
    cursor.expect(METAGRAPH, "graph of types")
    num_rows, num_cols, indptr, indices, ids = cursor.rows()
    adjacency = restore(
        (num_rows, num_cols, len(indices)), np.dtype(np.int64), ("coo", "csr", "csc"), csr=(indptr, indices, ids)
    )
    src, dst = adjacency.endpoints()
    return num_rows, list(zip(src.tolist(), dst.tolist(), strict=True))


def _relation(cursor: Cursor) -> Adjacency:
    """Read a relation in the formats that it was saved in."""
    cursor.expect(RELATION, "relation")
    stored = _named_formats(cursor, cursor.number(), ("coo", "csr", "csc"))
    allowed = _named_formats(cursor, cursor.number(), ("coo", "csr", "csc"))
    parts: dict[str, Any] = {}
    counts: set[tuple[int, int, int]] = set()
    dtypes: set[np.dtype] = set()
    for name in stored:
        read_metagraph(cursor)  # one or two types, which the whole graph's says again
        if name == "coo":
            num_src, num_dst, src, dst = cursor.edges()
            parts["endpoints"] = src, dst
            arrays = [src, dst]
        else:
            num_rows, num_cols, indptr, indices, ids = cursor.rows()
            num_src, num_dst = (num_rows, num_cols) if name == "csr" else (num_cols, num_rows)
            parts[name] = indptr, indices, ids
            arrays = [indptr, indices]
        counts.add((num_src, num_dst, len(arrays[1])))
        dtypes |= {array.dtype for array in arrays}
    if len(counts) != 1 or len(dtypes) != 1:
        _fail(cursor, "the formats of a relation have different sizes or dtypes")
    return restore(counts.pop(), dtypes.pop(), tuple({*stored, *allowed}), **parts)


def _named_formats(cursor: Cursor, word: int, default: tuple[str, ...]) -> tuple[str, ...]:
    if word & LATER:
        return tuple(name for bit, name in FORMATS.items() if word & bit)
    if word == 0:
        return default
    if not 1 <= word <= 3:
        _fail(cursor, f"sparse format {word} is not known")
    return (list(FORMATS.values())[word - 1],)


def _fail(cursor: Cursor, why: str) -> NoReturn:
    raise cursor.damaged(why)
