"""``Adjacency``: one relation as an immutable sparse matrix; COO, CSR and CSC are made on demand and cached.

Users see ids of the index dtype that they chose; inside, arrays are int32 whenever the counts fit, which halves the
index traffic of every kernel.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..backend import active
from ..errors import DGLError
from .arrays import HOST
from .compressed import Compressed, check_indptr, check_permutation, compress, copy_as, scattered
from .distinct import numbered
from .formats import FORMATS, INT64, StoredFormats
from .ids import check_range


class Adjacency(StoredFormats):
    """One canonical edge type: ``num_edges`` edges from ``num_src`` source nodes to ``num_dst`` destination nodes.

    Edge ids are positions in the order of insertion. Parallel edges and self-loops are allowed. Arrays that it returns
    may be shared: do not write to them.

    """

    __slots__ = ()

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
        idtype: Any = INT64,
        endpoints: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Adjacency:
        """Make a relation whose CSC and, if they are there, endpoints are these, of ``index_dtype`` and not checked."""
        self = cls(num_src, num_dst, len(csc.indices), idtype)
        self._csc, self._endpoints = csc, endpoints
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        counts, endpoints = (self.num_src, self.num_dst, self.num_edges, self.idtype), self._endpoints
        csr, csc = self._csr, self._csc
        if endpoints is None and csr is None and csc is None:
            endpoints = self.endpoints()
        if endpoints is not None:
            csr = csc = None  # they are made again as fast as they are read
        return _restore, (counts, self.allowed, endpoints, None if csc is not None else csr, csc)

    def __deepcopy__(self, memo: dict) -> Adjacency:
        return self

    def __repr__(self) -> str:
        return (
            f"Adjacency(num_src={self.num_src}, num_dst={self.num_dst}, num_edges={self.num_edges}, "
            f"idtype={self.idtype}, formats={list(self.formats)})"
        )

    # -- formats ------------------------------------------------------------------------------------------------

    def on_host(self) -> Adjacency:
        """Return the same relation in the host's memory alone."""
        if self._device_ends is None:
            return self
        adjacency = Adjacency(self.num_src, self.num_dst, self.num_edges, self.idtype)
        adjacency.allowed, adjacency._endpoints = self.allowed, self.endpoints()
        adjacency._csr, adjacency._csc = self._csr, self._csc
        return adjacency

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

    # -- degrees and subsets ------------------------------------------------------------------------------------------

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
    """Rebuild a pickled relation with the format that was written."""
    adjacency = Adjacency(*counts)
    adjacency.allowed, adjacency._endpoints, adjacency._csr, adjacency._csc = allowed, endpoints, csr, csc
    return adjacency
