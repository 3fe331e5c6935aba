"""The edges of a relation in the memory of devices: where they were made, and copies."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..backend import Tensor, active
from .arrays import HOST, arrays_on, expand_ranges, place_of
from .derived import CacheKey, cache_key, variant
from .lookups import Lookups

_ENDS: CacheKey[tuple[Tensor, Tensor]] = cache_key("ends on a device", "both ends of every edge, by device and stream")
_DEGREES: CacheKey[Tensor] = cache_key("degrees on a device", "out-degrees (0) or in-degrees (1), by device and stream")
_ROWS: CacheKey[tuple[Any, Any]] = cache_key(
    "rows on a device", "the edges in the order of one end, and where each row ends, by end, device and stream"
)
_LISTED: CacheKey[tuple[Tensor, int | None]] = cache_key(
    "where rows begin on a device", "of edges made there in the order of destinations, and the most that one has"
)


class EdgesOnDevice(Lookups):
    """What :class:`~dglite.structure.Adjacency` answers with the arrays of a device; ids that it is given are valid."""

    __slots__ = ()

    _device_ends: tuple[Tensor, Tensor] | None
    _endpoints: tuple[np.ndarray, np.ndarray] | None

    @abstractmethod
    def _known_reverse(self) -> Any:
        """Return the reverse if there is one."""

    def ends(self, arrays: Any) -> tuple[Any, Any]:
        """Return (source, destination) of each edge as arrays of ``arrays``, in ``index_dtype``; do not write to them.

        For a device they are copied there once for each stream, unless they are there; the host does not wait.
        """
        if arrays is HOST:
            return self.endpoints()
        there = self.made_on(arrays.device)
        if there is not None:
            return there
        key, other = variant(_ENDS, place_of(arrays.device)), self._known_reverse()
        ends = self.cache.get(key)
        if ends is None and other is not None and key in other.cache:
            ends = other.cache[key][::-1]
        if ends is None:
            ends = tuple(map(arrays.asarray, self._device_ends or self.endpoints()))
        return self.cache.setdefault(key, ends)

    def made_on(self, device: Any) -> tuple[Tensor, Tensor] | None:
        """Return the ends of every edge where they were made, if that is ``device``; None otherwise."""
        ends = self._device_ends
        return ends if ends is not None and active.device(ends[0]) == device else None

    def set_rows_there(self, indptr: Tensor, longest: int | None) -> None:
        """Say that the edges, made on a device, come by destination: where each one's begin, and end, int64.

        ``longest``: the most that a destination has, if that is known.
        """
        self.cache[_LISTED] = indptr, longest

    def rows_there(self) -> tuple[Tensor, int | None] | None:
        """Return what :meth:`set_rows_there` was given."""
        return self.cache.get(_LISTED)

    def arrays_near(self, device: Any) -> Any:
        """Return what makes arrays on ``device`` if both ends of every edge are there already, else the host's."""
        if device == active.cpu():
            return HOST
        there = self.made_on(device) is not None or variant(_ENDS, place_of(device)) in self.cache
        return arrays_on(device) if there else HOST

    def arrays_made(self) -> Any:
        """Return what makes arrays where the edges are at hand without a copy: on the host if it has them."""
        ends = self._device_ends
        return HOST if ends is None or self._endpoints is not None else arrays_on(active.device(ends[0]))

    def degrees(self, arrays: Any, end: int) -> Any:
        """Return the out-degrees of all sources (``end`` 0) or the in-degrees of all destinations (1), int64."""
        if arrays is HOST:
            return self.in_degrees() if end else self.out_degrees()
        key = variant(_DEGREES, end, place_of(arrays.device))
        degrees = self.cache.get(key)
        if degrees is None:
            count = self.num_dst if end else self.num_src
            degrees = self.cache.setdefault(key, arrays.bincount(self.ends(arrays)[end], count))
        return degrees

    def incident(self, arrays: Any, nodes: Any, end: int) -> tuple[Any, Any, Any]:
        """Return (source, destination, edge id) of the out-edges (``end`` 0) or in-edges (1) of ``nodes``.

        By position in ``nodes``, then by edge id. On a device the host waits for how many there are.
        """
        if arrays is HOST:
            return self.in_edges(nodes) if end else self.out_edges(nodes)
        (src, dst), (order, ends) = self.ends(arrays), self.order_on(arrays, end)
        counts = self.degrees(arrays, end)[nodes]
        (total,) = arrays.read(counts.sum())
        edge_ids = order[expand_ranges(arrays, ends[nodes] - counts, counts, total)]
        return src[edge_ids], dst[edge_ids], edge_ids

    def order_on(self, arrays: Any, end: int) -> tuple[Any, Any]:
        """Return the edges on a device in the order of their sources (``end`` 0) or destinations, and rows' ends."""
        key = variant(_ROWS, end, place_of(arrays.device))
        rows = self.cache.get(key)
        if rows is None:
            ends = arrays.cumsum(self.degrees(arrays, end))
            rows = self.cache.setdefault(key, (arrays.argsort(self.ends(arrays)[end]), ends))
        return rows

    def edges_joining(self, arrays: Any, src_places: Any, dst_places: Any) -> tuple[Any, Any, Any]:
        """Return the edges on a device that :meth:`edges_inside` does; by node, places are positions or -1."""
        src, dst = self.ends(arrays)
        near, far = src_places[src], dst_places[dst]
        edge_ids = arrays.nonzero((near >= 0) & (far >= 0))
        edge_ids = edge_ids[arrays.argsort(near[edge_ids])]
        return near[edge_ids], far[edge_ids], edge_ids
