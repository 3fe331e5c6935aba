"""The formats of a relation: COO, CSR and CSC, each made when it is asked for first, and the degrees."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..locks import new_lock
from .compressed import Compressed, compress, count_ids, scattered
from .derived import DerivedCache
from .on_device import EdgesOnDevice

FORMATS = ("coo", "csr", "csc")
"""Every sparse format."""

_INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)

_INT32_MAX = 2**31 - 1

_NUMBERS = itertools.count()

_LOCKS = tuple(new_lock() for _ in range(64))
"""Shared out over all structures: a lock for each would be felt where graphs are small and many. Nobody waits for a
second one of them."""


def index_dtype_for(num_src: int, num_dst: int, num_edges: int) -> np.dtype:
    """Return int32 where all counts fit it, else int64."""
    return _INT32 if num_src <= _INT32_MAX and num_dst <= _INT32_MAX and num_edges <= _INT32_MAX else INT64


class _Tensors(dict):
    """Answers, of an adjacency, with its :attr:`~Adjacency.tensors`.

    A property that reads itself by a built-in method is read by a compiler of torch, not traced into: so the tensors
    can be made while a program is compiled, and where the next graph is passed to it.
    """

    def __missing__(self, adj: StoredFormats) -> tuple[Tensor, Tensor]:
        return adj._make_tensors()


class StoredFormats(EdgesOnDevice):
    """What an adjacency stores of its edges. Formats that exist are shared with the reverse.

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

    def __init__(self, num_src: int, num_dst: int, num_edges: int, idtype: Any = INT64) -> None:
        """Make a relation with no format yet; use :meth:`from_coo`, :meth:`from_csr` or :meth:`from_csc`."""
        self.num_src, self.num_dst, self.num_edges, self.idtype = num_src, num_dst, num_edges, idtype
        self.index_dtype = index_dtype_for(num_src, num_dst, num_edges)
        if self.index_dtype is INT64 and idtype == _INT32:
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

    # -- the reverse ----------------------------------------------------------------------------------------------
    def _known_reverse(self) -> Any:
        other = self._reverse
        return other() if isinstance(other, weakref.ref) else other

    def _share(self) -> None:
        """Give the reverse what this relation has made."""
        other = self._known_reverse()
        if other is not None:
            self._share_with(other)

    def _share_with(self, other: StoredFormats) -> None:
        other._csr, other._csc = self._csc, self._csr
        if self._endpoints is not None and other._endpoints is None:
            other._endpoints = self._endpoints[::-1]
        if self._device_ends is not None and other._device_ends is None:
            other._device_ends = self._device_ends[::-1]

    # -- degrees --------------------------------------------------------------------------------------------------
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
