"""``Adjacency``: one relation as an immutable sparse matrix; COO, CSR and CSC are made on demand and cached.

Users see ids of the index dtype that they chose; inside, arrays are int32 whenever the counts fit, which halves the
index traffic of every kernel.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..locks import new_lock
from .arrays import HOST
from .compressed import Compressed, check_indptr, check_permutation, compress, copy_as, count_ids, scattered
from .derived import DerivedCache
from .distinct import numbered
from .ids import check_range
from .on_device import EdgesOnDevice

FORMATS = ("coo", "csr", "csc")
"""Every sparse format."""

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_INT32_MAX = 2**31 - 1

_NUMBERS = itertools.count()
_LOCKS = tuple(new_lock() for _ in range(64))
"""Shared out over all structures: a lock for each would be felt where graphs are small and many. Nobody waits for a
second one of them."""


def index_dtype_for(num_src: int, num_dst: int, num_edges: int) -> np.dtype:
    """Return int32 where all counts fit it, else int64."""
    return _INT32 if num_src <= _INT32_MAX and num_dst <= _INT32_MAX and num_edges <= _INT32_MAX else _INT64


class _Tensors(dict):
    """Answers, of an adjacency, with its :attr:`~Adjacency.tensors`.

    A property that reads itself by a built-in method is read by a compiler of torch, not traced into: so the tensors
    can be made while a program is compiled, and where the next graph is passed to it.
    """

    def __missing__(self, adj: Adjacency) -> tuple[Tensor, Tensor]:
        return adj._make_tensors()


class Adjacency(EdgesOnDevice):
    """One canonical edge type: ``num_edges`` edges from ``num_src`` source nodes to ``num_dst`` destination nodes.

    Edge ids are positions in the order of insertion. Parallel edges and self-loops are allowed. Arrays that it returns
    may be shared: do not write to them.

    Attributes
    ----------
    idtype
        int32 or int64, what users see.
    index_dtype
        dtype of the stored arrays: int32 when all counts fit, else int64.
    number
        names the structure in keys of caches of this process.
    tensors
        ``(src, dst)``, the ends of every edge as tensors in ``index_dtype``: what programs of torch hold of it. They
        are made when first asked for; do not write to them.
    cache
        values derived from the structure alone, by the keys that :mod:`.derived` declares; it dies with the structure.
        What another thread may use by its address or its identity is entered once: under ``lock``, or by
        ``setdefault``.
    lock
        held while a format is made, so that threads make it once; shared with the reverse.
    """

    __slots__ = (
        "__weakref__",
        "_coo",
        "_csc",
        "_csr",
        "_device_ends",
        "_endpoints",
        "_in_degrees",
        "_out_degrees",
        "_reverse",
        "_tensors",
        "allowed",
        "cache",
        "idtype",
        "index_dtype",
        "lock",
        "num_dst",
        "num_edges",
        "num_src",
        "number",
    )

    def __init__(self, num_src: int, num_dst: int, num_edges: int, idtype: Any = _INT64) -> None:
        """Make a relation with no format yet; use :meth:`from_coo`, :meth:`from_csr` or :meth:`from_csc`."""
        self.num_src, self.num_dst, self.num_edges, self.idtype = num_src, num_dst, num_edges, idtype
        self.index_dtype = index_dtype_for(num_src, num_dst, num_edges)
        if self.index_dtype is _INT64 and idtype == _INT32:
            raise DGLError(f"{num_src} x {num_dst} nodes and {num_edges} edges do not fit int32 ids; use idtype int64")
        self.allowed: tuple[str, ...] = FORMATS
        self.cache = DerivedCache()
        self._endpoints: tuple[np.ndarray, np.ndarray] | None = None
        self._device_ends: tuple[Tensor, Tensor] | None = None
        self._coo: tuple[np.ndarray, np.ndarray] | None = None
        self._csr: Compressed | None = None
        self._csc: Compressed | None = None
        self._in_degrees: np.ndarray | None = None
        self._out_degrees: np.ndarray | None = None
        self._reverse: Any = None
        self._tensors: tuple[Tensor, Tensor] | None = None
        self.number = number = next(_NUMBERS)
        self.lock = _LOCKS[number & 63]

    tensors = property(_Tensors().__getitem__)

    def _make_tensors(self) -> tuple[Tensor, Tensor]:
        tensors = self._tensors
        if tensors is None:
            other = self._known_reverse()
            if other is not None and other._tensors is not None:
                tensors = other._tensors[::-1]
            else:
                src, dst = self.endpoints() if self._device_ends is None else self._device_ends
                tensors = active.structure_tensors(src, dst, self, self.num_src, self.num_dst)
            self._tensors = tensors
        return tensors

    # -- construction -------------------------------------------------------------------------------------------
    @classmethod
    def from_coo(
        cls,
        num_src: int,
        num_dst: int,
        src: np.ndarray,
        dst: np.ndarray,
        idtype: Any = None,
        validate: bool = True,
        copy: bool = True,
    ) -> Adjacency:
        """Make a relation of edges ``src[i] -> dst[i]``; edge i has id i.

        The arrays are copied; without ``copy`` they are kept where their dtype allows it, and must never change.

        Raises ``DGLError``: lengths differ, or an endpoint is not a node; not looked at without ``validate``.
        """
        if validate:
            if len(src) != len(dst):
                raise DGLError(
                    f"{len(src)} source nodes but {len(dst)} destination nodes; expected one of each per edge"
                )
            check_range(src, num_src, "source node")
            check_range(dst, num_dst, "destination node")
        self = cls(num_src, num_dst, len(src), src.dtype if idtype is None else idtype)
        if copy:
            self._endpoints = copy_as(src, self.index_dtype), copy_as(dst, self.index_dtype)
        else:
            dtype = self.index_dtype
            same = src.dtype is dtype and dst.dtype is dtype  # spares small graphs, of which batches are cut, a call
            self._endpoints = (src, dst) if same else (src.astype(dtype, copy=False), dst.astype(dtype, copy=False))
        return self

    @classmethod
    def from_ends(
        cls, num_src: int, num_dst: int, src: Any, dst: Any, idtype: Any, arrays: Any, validate: bool = False
    ) -> Adjacency:
        """Make a relation of edges whose ends are arrays of ``arrays``, and from now on its own.

        On a device they stay there. The host gets a copy when something asks it for one, and waits then; with
        ``validate``, which raises the errors of :meth:`from_coo`, it waits for one number.
        """
        if arrays is HOST:
            return cls.from_coo(num_src, num_dst, src, dst, idtype, validate=validate, copy=False)
        if validate and len(src):
            is_bad = (src < 0) | (src >= num_src) | (dst < 0) | (dst >= num_dst)
            if arrays.read(is_bad.any())[0]:
                return cls.from_coo(num_src, num_dst, active.to_numpy(src), active.to_numpy(dst), idtype)
        self = cls(num_src, num_dst, len(src), np.dtype(idtype))
        self._device_ends = arrays.astype(src, self.index_dtype), arrays.astype(dst, self.index_dtype)
        return self

    @classmethod
    def from_csr(
        cls,
        num_src: int,
        num_dst: int,
        indptr: np.ndarray,
        indices: np.ndarray,
        edge_ids: np.ndarray | None = None,
        idtype: Any = None,
    ) -> Adjacency:
        """Make a relation of rows of destinations: ``indices[indptr[u]:indptr[u + 1]]`` are u's successors.

        ``edge_ids``, a permutation of 0 .. num_edges - 1, numbers the entries; None numbers them in order.

        Raises ``DGLError``: ``indptr`` does not have ``num_src + 1`` ascending entries from 0 to num_edges, an index is
        not a node, or ``edge_ids`` is not a permutation.
        """
        return cls.from_csc(num_dst, num_src, indptr, indices, edge_ids, idtype).reverse()

    @classmethod
    def from_csc(
        cls,
        num_src: int,
        num_dst: int,
        indptr: np.ndarray,
        indices: np.ndarray,
        edge_ids: np.ndarray | None = None,
        idtype: Any = None,
        copy: bool = True,
        validate: bool = True,
    ) -> Adjacency:
        """Make a relation of columns of sources: ``indices[indptr[v]:indptr[v + 1]]`` are v's predecessors.

        Edge ids and errors are those of :meth:`from_csr`; ``indptr`` and indices are not looked at without
        ``validate``. Without ``copy`` arrays of ``index_dtype`` become the relation's own: they may not be written to
        afterwards.
        """
        if validate:
            check_indptr(indptr, num_dst, len(indices))
            check_range(indices, num_src, "node")
        self = cls(num_src, num_dst, len(indices), indices.dtype if idtype is None else idtype)
        csc = Compressed(*(array.astype(self.index_dtype, copy=copy) for array in (indptr, indices)))
        if edge_ids is None or len(edge_ids) == 0:
            csc.in_order = True
        else:
            check_permutation(edge_ids, len(indices))
            csc = compress(scattered(csc.rows(), edge_ids), scattered(csc.indices, edge_ids), num_dst)
        self._csc = csc
        return self

    @classmethod
    def from_rows(
        cls,
        num_src: int,
        num_dst: int,
        csc: Compressed,
        idtype: Any = _INT64,
        endpoints: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Adjacency:
        """Make a relation whose CSC and, if they are there, endpoints are these, of ``index_dtype`` and not checked."""
        self = cls(num_src, num_dst, len(csc.indices), idtype)
        self._csc, self._endpoints = csc, endpoints
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        counts, endpoints = (self.num_src, self.num_dst, self.num_edges, self.idtype), self._endpoints
        rows = self._csr, self._csc
        if endpoints is None and rows == (None, None):
            endpoints = self.endpoints()
        if endpoints is not None and self.few_edges:
            rows = None, None  # arrays with a place for every node, which are made again as fast as they are read
        return _restore, (counts, self.allowed, endpoints, *rows)

    def __deepcopy__(self, memo: dict) -> Adjacency:
        return self

    def __repr__(self) -> str:
        return (
            f"Adjacency(num_src={self.num_src}, num_dst={self.num_dst}, num_edges={self.num_edges}, "
            f"idtype={self.idtype}, formats={list(self.formats)})"
        )

    # -- formats ------------------------------------------------------------------------------------------------
    def endpoints(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (source, destination) of each edge in edge-id order, in ``index_dtype``."""
        endpoints = self._endpoints
        if endpoints is None:
            with self.lock:
                endpoints = self._edges()
                if "coo" in self.allowed and self._endpoints is None:
                    self._endpoints = endpoints
                    self._share()
        return endpoints

    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the endpoints, not kept where they are made: sorting the other way must not leave COO behind."""
        return self._endpoints_from_rows() if self._endpoints is None else self._endpoints

    def _endpoints_from_rows(self) -> tuple[np.ndarray, np.ndarray]:
        by_dst = self._csc is not None
        stored = self._csc if self._csc is not None else self._csr
        if stored is None:
            assert self._device_ends is not None, "an adjacency holds at least one format"
            src, dst = active.to_numpy(active.stack(self._device_ends))
            return src, dst
        rows, cols = stored.rows(), stored.indices
        if stored.edge_ids is not None:
            rows, cols = scattered(rows, stored.edge_ids), scattered(cols, stored.edge_ids)
        return (cols, rows) if by_dst else (rows, cols)

    def on_host(self) -> Adjacency:
        """Return the same relation in the host's memory alone."""
        if self._device_ends is None:
            return self
        adjacency = Adjacency(self.num_src, self.num_dst, self.num_edges, self.idtype)
        adjacency.allowed, adjacency._endpoints = self.allowed, self.endpoints()
        adjacency._csr, adjacency._csc = self._csr, self._csc
        return adjacency

    def coo(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (source, destination) of each edge in edge-id order, in ``idtype``."""
        if self.idtype == self.index_dtype:
            return self.endpoints()
        if self._coo is None:
            src, dst = self.endpoints()
            self._coo = src.astype(self.idtype), dst.astype(self.idtype)
        return self._coo

    def csc(self) -> Compressed:
        """Return the in-edges of each destination node: rows are destinations, indices sources."""
        csc = self._csc
        return self._compressed("csc") if csc is None else csc

    def csr(self) -> Compressed:
        """Return the out-edges of each source node: rows are sources, indices destinations."""
        csr = self._csr
        return self._compressed("csr") if csr is None else csr

    def _compressed(self, name: str) -> Compressed:
        """Make the CSR or the CSC, unless another thread just has, and keep it where it is allowed."""
        with self.lock:
            cached: Compressed | None = getattr(self, f"_{name}")
            if cached is not None:
                return cached
            src, dst = self._edges()
            matrix = compress(src, dst, self.num_src) if name == "csr" else compress(dst, src, self.num_dst)
            if name in self.allowed:
                setattr(self, f"_{name}", matrix)
                self._share()
            return matrix

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that exist now."""
        coo = self._device_ends if self._endpoints is None else self._endpoints
        stored = coo, self._csr, self._csc
        return tuple(name for name, value in zip(FORMATS, stored, strict=True) if value is not None)

    def create_formats(self) -> None:
        """Make every allowed format now, with edge ids, so that threads and processes can share them."""
        for name, build in zip(FORMATS, (self.endpoints, self.csr, self.csc), strict=True):
            matrix = build() if name in self.allowed else None
            if isinstance(matrix, Compressed):
                matrix.make_edge_ids()

    def restrict(self, allowed: tuple[str, ...]) -> Adjacency:
        """Return the same relation that keeps only the formats ``allowed``; others are made when needed, not kept."""
        adjacency = Adjacency(self.num_src, self.num_dst, self.num_edges, self.idtype)
        adjacency.allowed = tuple(name for name in FORMATS if name in allowed)
        adjacency._endpoints = self._endpoints if "coo" in allowed else None
        adjacency._device_ends = self._device_ends if "coo" in allowed else None
        adjacency._csr = self._csr if "csr" in allowed else None
        adjacency._csc = self._csc if "csc" in allowed else None
        if not adjacency.formats:
            adjacency._endpoints = self.endpoints() if "coo" in allowed else None
            adjacency._csr = self.csr() if "csr" in allowed and adjacency._endpoints is None else None
            adjacency._csc = self.csc() if adjacency._endpoints is None and adjacency._csr is None else None
        return adjacency

    def as_idtype(self, idtype: Any) -> Adjacency:
        """Return the same relation with users' ids as ``idtype``; shares every format."""
        idtype = np.dtype(idtype)
        if idtype == self.idtype:
            return self
        adjacency = Adjacency(self.num_src, self.num_dst, self.num_edges, idtype)
        adjacency.allowed = self.allowed
        adjacency._endpoints, adjacency._csr, adjacency._csc = self._endpoints, self._csr, self._csc
        adjacency._device_ends = self._device_ends
        adjacency._in_degrees, adjacency._out_degrees = self._in_degrees, self._out_degrees
        return adjacency

    def resized(self, num_src: int, num_dst: int) -> Adjacency:
        """Return the same edges among ``num_src`` and ``num_dst`` nodes, which must include all that they join."""
        if (self.num_src, self.num_dst) == (num_src, num_dst):
            return self
        adjacency = Adjacency(num_src, num_dst, self.num_edges, self.idtype)
        adjacency.allowed = self.allowed
        if self._endpoints is None and self._device_ends is not None:
            dtype = str(adjacency.index_dtype)
            adjacency._device_ends = tuple(active.astype(x, dtype) for x in self._device_ends)
            return adjacency
        src, dst = self._edges()
        adjacency._endpoints = (
            src.astype(adjacency.index_dtype, copy=False),
            dst.astype(adjacency.index_dtype, copy=False),
        )
        return adjacency

    def reverse(self) -> Adjacency:
        """Return the relation with every edge reversed, in O(1). Formats are shared; edge ids stay.

        The reverse of the reverse is this object.
        """
        other = self._known_reverse()
        if other is None:
            with self.lock:
                other = self._known_reverse() or self._make_reverse()
        return other

    def _known_reverse(self) -> Adjacency | None:
        other = self._reverse
        return other() if isinstance(other, weakref.ref) else other

    def _make_reverse(self) -> Adjacency:
        other = Adjacency(self.num_dst, self.num_src, self.num_edges, self.idtype)
        swapped = {"csr": "csc", "csc": "csr"}
        other.allowed = tuple(name for name in FORMATS if swapped.get(name, name) in self.allowed)
        other.lock = self.lock
        # Weak one way: a cycle would keep the arrays of every graph alive until the garbage collector runs.
        other._reverse = weakref.ref(self)
        self._share_with(other)
        self._reverse = other
        return other

    def _share(self) -> None:
        """Give the reverse what this relation has made."""
        other = self._known_reverse()
        if other is not None:
            self._share_with(other)

    def _share_with(self, other: Adjacency) -> None:
        other._csr, other._csc = self._csc, self._csr
        if self._endpoints is not None and other._endpoints is None:
            other._endpoints = self._endpoints[::-1]
        if self._device_ends is not None and other._device_ends is None:
            other._device_ends = self._device_ends[::-1]

    # -- degrees and subsets ------------------------------------------------------------------------------------------
    def in_degrees(self) -> np.ndarray:
        """Return the number of in-edges of each destination node, int64."""
        if self._in_degrees is None:
            self._in_degrees = self._degrees(self._csc, self._csr, 1, self.num_dst)
        return self._in_degrees

    def out_degrees(self) -> np.ndarray:
        """Return the number of out-edges of each source node, int64."""
        if self._out_degrees is None:
            self._out_degrees = self._degrees(self._csr, self._csc, 0, self.num_src)
        return self._out_degrees

    def set_out_degrees(self, degrees: np.ndarray) -> None:
        """Let nodes have these out-degrees: in a part of a graph, those of the graph. They are not checked."""
        self._out_degrees = degrees

    def _degrees(self, stored: Compressed | None, other: Compressed | None, end: int, count: int) -> np.ndarray:
        """Return how many edges each of ``count`` nodes has at ``end``; ``stored`` has them as rows."""
        if stored is not None:
            return np.diff(stored.indptr).astype(np.int64)
        if self._endpoints is None and other is not None:
            return count_ids(other.indices, count)
        return count_ids(self.endpoints()[end], count)

    def subset(self, edge_ids: np.ndarray) -> EdgeSubset:
        """Return the given edges as a relation of their own, in O(k log k) for k edges, whatever the number of nodes.

        Edge ``edge_ids[i]`` becomes edge i. Sources keep their ids; destinations are renumbered to the sorted distinct
        ones, which ``dst_ids`` lists. All edges in their order, where each destination has one, are this relation.
        """
        src, dst = self.endpoints()
        dst_ids, local = numbered(dst[edge_ids])
        if len(dst_ids) == self.num_dst and np.array_equal(edge_ids, np.arange(self.num_edges)):
            return EdgeSubset(self, edge_ids, dst_ids)
        adjacency = Adjacency(self.num_src, len(dst_ids), len(edge_ids), self.idtype)
        adjacency._endpoints = src[edge_ids].astype(adjacency.index_dtype), local.astype(adjacency.index_dtype)
        return EdgeSubset(adjacency, edge_ids, dst_ids)


class EdgeSubset:
    """Some edges of a relation: see :meth:`Adjacency.subset`."""

    __slots__ = ("adjacency", "dst_ids", "edge_ids")

    def __init__(self, adjacency: Adjacency, edge_ids: np.ndarray, dst_ids: np.ndarray) -> None:
        self.adjacency, self.edge_ids, self.dst_ids = adjacency, edge_ids, dst_ids

    def __repr__(self) -> str:
        return f"EdgeSubset(num_edges={len(self.edge_ids)}, num_dst={len(self.dst_ids)})"


def _restore(
    counts: tuple[int, int, int, Any],
    allowed: tuple[str, ...],
    endpoints: tuple[np.ndarray, np.ndarray] | None,
    csr: Compressed | None,
    csc: Compressed | None,
) -> Adjacency:
    """Rebuild a pickled relation with the formats that it had."""
    adjacency = Adjacency(*counts)
    adjacency.allowed, adjacency._endpoints, adjacency._csr, adjacency._csc = allowed, endpoints, csr, csc
    return adjacency
