"""Queries about the edges of a relation, for arrays of nodes or edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import active
from ..backend.memory import new_array
from ..kernels.density import few_among
from .compressed import SMALL, Compressed, compress, expand_ranges, kernels
from .derived import CacheKey, DerivedCache, cache_key, variant
from .distinct import KEY_BITS, Positions, distinct


class SortedPairs:
    """The edges of a relation in order of source, destination and id, and a search in them.

    An edge's key is ``source * num_dst + destination``; where that exceeds 63 bits, the nodes that have edges are
    numbered first.

    Attributes
    ----------
    src, dst
        the ends of the edges in this order, in their own dtype.
    edge_ids
        their ids, in the same dtype.
    """

    __slots__ = ("_dst_ids", "_keys", "_src_ids", "_width", "dst", "edge_ids", "src")

    def __init__(self, src: np.ndarray, dst: np.ndarray, num_src: int, num_dst: int) -> None:
        self._src_ids = self._dst_ids = None
        rows, cols, self._width = src, dst, max(num_dst, 1)
        if num_src * self._width >= 1 << KEY_BITS:
            self._src_ids, self._dst_ids = distinct(src), distinct(dst)
            rows, cols = np.searchsorted(self._src_ids, src), np.searchsorted(self._dst_ids, dst)
            num_src, self._width = len(self._src_ids), len(self._dst_ids)
        keys = rows.astype(np.int64) * self._width + cols
        id_bits = len(src).bit_length()
        if (num_src * self._width).bit_length() + id_bits <= KEY_BITS:
            # Whole edges as keys: that is sorted several times as fast as places in an order, which lead anywhere.
            keys = np.sort(keys << id_bits | np.arange(len(src)))
            order = keys & ((1 << id_bits) - 1)
            self._keys = keys >> id_bits
        else:
            order = np.argsort(keys, kind="stable")
            self._keys = keys[order]
        self.src, self.dst, self.edge_ids = src[order], dst[order], order.astype(src.dtype, copy=False)

    def first_of_each(self) -> np.ndarray:
        """Return which edges differ from the one before by their ends, (num_edges,) booleans."""
        first = np.ones(len(self._keys), np.bool_)
        np.not_equal(self._keys[1:], self._keys[:-1], out=first[1:])
        return first

    def ranges(self, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``(first, last)``: edges ``u[i] -> v[i]`` are those at ``first[i]`` to ``last[i] - 1``, if any."""
        missing = None
        if self._src_ids is not None and self._dst_ids is not None:
            u, no_src = _places(u, self._src_ids)
            v, no_dst = _places(v, self._dst_ids)
            missing = no_src | no_dst
        codes = u.astype(np.int64) * self._width + v
        first, last = self._keys.searchsorted(codes, "left"), self._keys.searchsorted(codes, "right")
        if missing is not None:
            last[missing] = first[missing]
        return first, last


def _places(nodes: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where nodes are in ascending ``ids``, and which are not there."""
    if not len(ids):
        return np.zeros(len(nodes), np.int64), np.ones(len(nodes), np.bool_)
    at = np.minimum(np.searchsorted(ids, nodes), len(ids) - 1)
    return at, ids[at] != nodes


_ASCENDING: CacheKey[np.ndarray] = cache_key("ascending ends", "the sources, or the destinations, of all edges, sorted")
_IS_MULTIGRAPH: CacheKey[bool] = cache_key("is a multigraph", "whether two edges join the same nodes")
_SORTED_PAIRS: CacheKey[SortedPairs] = cache_key("sorted pairs", "the edges sorted by (source, destination, id)")
_SORTED_CSR: CacheKey[Compressed] = cache_key("sorted CSR", "the CSR with ascending destinations in each row")
_SORTING = 2
"""Out-edges are read unless they are more than this many times the in-edges: those found by in-edges must be sorted."""


class Lookups(ABC):
    """The queries of :class:`~dglite.structure.Adjacency`. Ids given are valid; ids returned are of ``idtype``."""

    __slots__ = ()

    num_src: int
    num_dst: int
    num_edges: int
    idtype: Any
    index_dtype: Any
    cache: DerivedCache

    @abstractmethod
    def endpoints(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (source, destination) of each edge in edge-id order, in ``index_dtype``."""

    @property
    @abstractmethod
    def formats(self) -> tuple[str, ...]:
        """The formats that exist now."""

    @abstractmethod
    def in_degrees(self) -> np.ndarray:
        """Return the number of in-edges of each destination node, int64."""

    @abstractmethod
    def out_degrees(self) -> np.ndarray:
        """Return the number of out-edges of each source node, int64."""

    @abstractmethod
    def csc(self) -> Compressed:
        """Return the in-edges of each destination node."""

    @abstractmethod
    def csr(self) -> Compressed:
        """Return the out-edges of each source node."""

    @property
    def few_edges(self) -> bool:
        """Whether edges are few among nodes, so that they are sorted rather than compressed into rows of all nodes."""
        return few_among(self.num_edges, max(self.num_src, self.num_dst))

    def degrees_at(self, nodes: np.ndarray, end: int) -> np.ndarray:
        """Return how many edges have each of ``nodes`` as their source (``end`` 0) or destination (1), int64."""
        if not self.few_edges or ("csr", "csc")[end] in self.formats:
            return (self.in_degrees() if end else self.out_degrees())[nodes]
        ascending = self.cache.get(variant(_ASCENDING, end))
        if ascending is None:
            ascending = self.cache[variant(_ASCENDING, end)] = np.sort(self.endpoints()[end])
        return ascending.searchsorted(nodes, "right") - ascending.searchsorted(nodes, "left")

    def find_edges(self, edge_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (source, destination) of the given edges, in ``idtype``."""
        src, dst = self.endpoints()
        return src[edge_ids].astype(self.idtype), dst[edge_ids].astype(self.idtype)

    def in_edges(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (source, destination, edge id) of the in-edges of ``v``: by position in ``v``, then by edge id."""
        dst, src, edge_ids = self._row_edges(self.csc(), v)
        return src, dst, edge_ids

    def out_edges(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (source, destination, edge id) of the out-edges of ``u``: by position in ``u``, then by edge id."""
        return self._row_edges(self.csr(), u)

    def edges_inside(
        self, u: np.ndarray, v: np.ndarray, in_u: Positions, in_v: Positions
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the edges from ``u`` to ``v`` in the order of :meth:`out_edges`: positions in ``u`` and ``v``, and id.

        Read are the out-edges of ``u`` or the in-edges of ``v``, whichever are fewer: sampled neighbours are hubs,
        whose other edges are many.
        """
        out = self.csr() if "csr" in self.formats or "csc" not in self.formats else None
        into = self.csc() if "csc" in self.formats else None
        num_out, num_in = (-1 if x is None else _num_entries(x, rows) for x, rows in ((out, u), (into, v)))
        if into is None or 0 <= num_out <= _SORTING * num_in:
            return self._marked_edges(self.csr(), u, v, in_v, num_out)
        near, far, edge_ids = self._marked_edges(into, v, u, in_u, num_in)
        id_bits, near_bits = self.num_edges.bit_length(), len(v).bit_length()
        if len(u).bit_length() + id_bits + near_bits > KEY_BITS:
            order = np.lexsort((edge_ids, far))
            return far[order], near[order], edge_ids[order]
        # Whole edges as keys: that is sorted several times as fast as places in an order, which lead anywhere.
        keys = ((far.astype(np.int64) << id_bits | edge_ids) << near_bits) | near
        keys.sort()
        src = (keys >> (id_bits + near_bits)).astype(far.dtype)
        dst = (keys & ((1 << near_bits) - 1)).astype(near.dtype)
        return src, dst, (keys >> near_bits & ((1 << id_bits) - 1)).astype(edge_ids.dtype, copy=False)

    def _marked_edges(
        self, stored: Compressed, rows: np.ndarray, others: np.ndarray, positions: Positions, scanned: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the entries of ``rows`` that lead to ``others``: positions of the row and of the other, edge id."""
        table = positions.table
        if self.num_edges <= SMALL or table is None:
            starts = stored.indptr[rows].astype(np.int64)
            counts = stored.indptr[rows + 1] - starts
            entries = expand_ranges(starts, counts)
            numbers = positions.find(stored.indices[entries])
            is_member = numbers >= 0
            return (
                np.repeat(np.arange(len(rows)), counts)[is_member],
                numbers[is_member],
                stored.edge_ids_of(entries[is_member]),
            )
        # Imported here because it imports LLVM, which takes 0.05 s that `import dglite` must not pay.
        from ..kernels.cpu.run.rows import run_rows
        from ..kernels.cpu.sample import block

        indptr, indices, ids = stored.indptr, stored.indices, stored.edge_ids
        counts, threads = np.empty(len(rows), np.int64), active.num_threads()
        marks = np.zeros(1 + len(table) // 8, np.uint8)
        block.mark(others, marks)
        run_rows(block.count_inside, len(rows), scanned, threads, indptr, indices, rows, marks, counts)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        total = int(offsets[-1])
        near, far = np.empty(total, self.index_dtype), np.empty(total, self.index_dtype)
        edge_ids = np.empty(total, self.idtype)
        matrix = indptr, indices, indices[:0] if ids is None else ids
        run_rows(
            block.list_inside, len(rows), scanned, threads, *matrix, rows, marks, table, offsets, near, far, edge_ids
        )
        return near, far, edge_ids

    def _row_edges(self, stored: Compressed, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if len(rows) == 1:
            row = rows.item()
            first, last = stored.indptr[row].item(), stored.indptr[row + 1].item()
            entries = np.arange(first, last)
            repeated = np.full(last - first, row, self.idtype)
        elif len(rows) <= SMALL:
            starts = stored.indptr[rows].astype(np.int64)
            counts = stored.indptr[rows + 1] - starts
            entries = expand_ranges(starts, counts)
            repeated = np.repeat(rows.astype(self.idtype, copy=False), counts)
        else:
            return self._many_row_edges(stored, rows)
        edge_ids = stored.edge_ids_of(entries).astype(self.idtype)
        return repeated, stored.indices[entries].astype(self.idtype), edge_ids

    def _many_row_edges(self, stored: Compressed, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from ..kernels.cpu.run.rows import run_rows
        from ..kernels.cpu.sample import block

        rows, ids = np.ascontiguousarray(rows), stored.edge_ids
        offsets = block.row_offsets(stored.indptr, rows)
        total, threads = int(offsets[-1]), active.num_threads()
        edges = tuple(new_array((total,), np.dtype(self.idtype)) for _ in range(3))
        matrix = stored.indptr, stored.indices, stored.indices[:0] if ids is None else ids
        run_rows(block.list_entries, len(rows), total // 4, threads, *matrix, rows, offsets, *edges)
        return edges  # type: ignore[return-value]

    def edge_ids(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the lowest id of the edges ``u[i] -> v[i]``, in ``idtype``, or -1."""
        edge_ids_of, first, last = self._pair_entries(u, v)
        edge_ids = np.full(len(first), -1, self.idtype)
        hits = last > first
        edge_ids[hits] = edge_ids_of(first[hits])
        return edge_ids

    def edge_ids_in_turn(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the id of an edge ``u[i] -> v[i]`` for each i, in ``idtype``, or -1.

        The first time that a pair occurs it gives its edge of lowest id, the second time the next one, and so on round.
        """
        if len(u) == self.num_edges and all(map(np.array_equal, self.endpoints(), (u, v))):  # all edges, as g.edges()
            return np.arange(len(u), dtype=self.idtype)
        if len(u) < 2 or not self.is_multigraph:
            return self.edge_ids(u, v)
        edge_ids_of, first, last = self._pair_entries(u, v)
        order = np.lexsort((v, u))
        fresh = np.ones(len(u), bool)
        fresh[1:] = (np.diff(u[order]) != 0) | (np.diff(v[order]) != 0)
        place = np.arange(len(u))
        turn = np.empty(len(u), np.int64)
        turn[order] = place - np.maximum.accumulate(np.where(fresh, place, 0))
        edge_ids, hits = np.full(len(u), -1, self.idtype), last > first
        edge_ids[hits] = edge_ids_of(first[hits] + turn[hits] % (last - first)[hits])
        return edge_ids

    def has_edges(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return whether an edge ``u[i] -> v[i]`` exists."""
        _, first, last = self._pair_entries(u, v)
        return last > first

    def edges_between(self, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (source, destination, edge id) of every edge ``u[i] -> v[i]``: by i, then by edge id."""
        edge_ids_of, first, last = self._pair_entries(u, v)
        counts = last - first
        edge_ids = edge_ids_of(expand_ranges(first, counts))
        src, dst = (np.repeat(x.astype(self.idtype, copy=False), counts) for x in (u, v))
        return src, dst, edge_ids.astype(self.idtype)

    def _pair_entries(
        self, u: np.ndarray, v: np.ndarray
    ) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, np.ndarray]:
        """Return ``(edge_ids_of, first, last)``: edges ``u[i] -> v[i]`` are ``edge_ids_of`` places first[i]:last[i].

        Their ids ascend. One pair is looked for in the in-edges of its destination, so that it does not cost a sort of
        all edges.
        """
        if len(u) == 1 and ("csc" in self.formats or not self.few_edges):
            csc, row = self.csc(), v.item()
            begin, end = csc.indptr[row].item(), csc.indptr[row + 1].item()
            hits = (csc.indices[begin:end] == u.item()).nonzero()[0] + begin
            return csc.edge_ids_of(hits).__getitem__, np.array([0]), np.array([len(hits)])
        pairs = self._sorted_pairs()
        if pairs is not None:
            return pairs.edge_ids.__getitem__, *pairs.ranges(u, v)
        by_src = self.sorted_csr()
        first, last = np.empty(len(u), np.int64), np.empty(len(u), np.int64)
        u, v = u.astype(self.index_dtype), v.astype(self.index_dtype)
        kernels().pair_ranges(by_src.indptr, by_src.indices, u, v, first, last)
        return by_src.edge_ids_of, first, last

    @property
    def is_multigraph(self) -> bool:
        """Whether two edges join the same pair of nodes in the same direction."""
        if _IS_MULTIGRAPH not in self.cache:
            pairs = self._sorted_pairs()
            if pairs is not None:
                self.cache[_IS_MULTIGRAPH] = not pairs.first_of_each().all()
            else:
                by_src = self.sorted_csr()
                repeated = by_src.indices[1:] == by_src.indices[:-1]
                self.cache[_IS_MULTIGRAPH] = bool((repeated & (np.diff(by_src.rows()) == 0)).any())
        return self.cache[_IS_MULTIGRAPH]

    def sorted_edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (source, destination, edge id) of all edges in this order, in ``index_dtype``."""
        pairs = self._sorted_pairs()
        if pairs is not None:
            return pairs.src, pairs.dst, pairs.edge_ids
        by_src = self.sorted_csr()
        return by_src.rows(), by_src.indices, by_src.entry_edge_ids()

    def _sorted_pairs(self) -> SortedPairs | None:
        """Return the edges sorted by keys; or None if compressed rows are faster."""
        if self.num_edges > SMALL and not self.few_edges:
            return None
        pairs = self.cache.get(_SORTED_PAIRS)
        if pairs is None:
            fresh = SortedPairs(*self.endpoints(), self.num_src, self.num_dst)
            pairs = self.cache.setdefault(_SORTED_PAIRS, fresh)
        return pairs

    def sorted_csr(self) -> Compressed:
        """Return the out-edges of each source node ordered by (destination, edge id)."""
        csr = self.cache.get(_SORTED_CSR)
        if csr is None:
            pairs = self._sorted_pairs()
            if pairs is not None:
                csr = Compressed(self.csr().indptr, pairs.dst, pairs.edge_ids)
            else:
                csc = self.csc()
                csr = compress(csc.indices, csc.rows(), self.num_src)
                if csc.edge_ids is not None:
                    csr = Compressed(csr.indptr, csr.indices, csc.edge_ids_of(csr.entry_edge_ids()))
            self.cache[_SORTED_CSR] = csr
        return csr


def _num_entries(stored: Compressed, rows: np.ndarray) -> int:
    """Return how many entries some rows have together."""
    if stored.num_edges <= SMALL:
        return int((stored.indptr[rows + 1] - stored.indptr[rows]).sum(dtype=np.int64))
    from ..kernels.cpu.sample import block

    return int(block.row_offsets(stored.indptr, rows)[-1])
