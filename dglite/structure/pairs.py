"""Edges by (source, destination), found by one key each: no array has a place for every node."""

from __future__ import annotations

import numpy as np

from .distinct import KEY_BITS, distinct


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
