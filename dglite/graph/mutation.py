"""Changing a graph in place: new structure and new frames are made beside the old ones, then exchanged at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..backend import Tensor
from ..errors import DGLError
from ..frame import EID, NID, Frame
from ..structure import Adjacency
from ..structure.metagraph import EdgeType
from .base import GraphBase

__all__ = ["MutationMixin"]


class MutationMixin(GraphBase):
    """Adding and removing nodes and edges. A call that raises leaves the graph as it was.

    Each call costs O(number of nodes and edges): structure is immutable, and a changed graph has a new one. Add edges
    by the thousand rather than one by one.
    """

    def add_nodes(self, num: int, data: Mapping[str, Tensor] | None = None, ntype: str | None = None) -> None:
        """Add ``num`` nodes of a type, with features ``data``; features left out come from the initializer.

        Raises
        ------
        DGLError
            The number is negative, features do not have ``num`` rows, or the graph is a block or a slice.
        """
        self._require_mutable("add_nodes")
        if isinstance(num, bool) or not isinstance(num, int | np.integer) or num < 0:
            raise DGLError(f"the number of nodes to add must be an integer >= 0, got {num!r}")
        node_set = self._metagraph.node_set(ntype)
        frame = self._node_frame(node_set).copy()
        frame.append(int(num), data)
        counts = [count + int(num) if i == node_set else count for i, count in enumerate(self._num_nodes)]
        adjacencies = list(self.adjacencies)
        for i, (src, dst) in enumerate(self._metagraph.ends):
            if node_set in (src, dst):
                adjacencies[i] = adjacencies[i].resized(counts[src], counts[dst])
        self._exchange(adjacencies, counts, {node_set: frame}, {})

    def add_edges(
        self, u: Any, v: Any, data: Mapping[str, Tensor] | None = None, etype: EdgeType | int | None = None
    ) -> None:
        """Add edges ``u[i] -> v[i]``; one id on a side goes with every id on the other. They get the next edge ids.

        Raises
        ------
        DGLError
            A node does not exist, features do not have one row per new edge, or the graph is a slice.
        """
        self._require_mutable("add_edges")
        index = self.etype_id(etype)
        src, dst = self._pairs(u, v, index)
        frame = self._edge_frame(index).copy()
        frame.append(len(src), data)
        old = self.adjacencies[index]
        old_src, old_dst = old.endpoints()
        ends = np.concatenate([old_src, src]), np.concatenate([old_dst, dst])
        made = Adjacency.from_coo(old.num_src, old.num_dst, *ends, self._idtype, validate=False)
        made.allowed = old.allowed
        self._exchange(_replaced(self.adjacencies, index, made), self._num_nodes, {}, {index: frame})

    def remove_edges(self, eids: Any, etype: EdgeType | None = None, store_ids: bool = False) -> None:
        """Remove edges; the others are renumbered in order.

        With ``store_ids``, ``edata[dglite.EID]`` has the old ids.

        Raises
        ------
        DGLError
            An edge does not exist, or the graph is a slice.
        """
        self._require_mutable("remove_edges")
        index = self.etype_id(etype)
        keep = np.ones(self.adjacencies[index].num_edges, bool)
        keep[self.edge_ids_of(eids, index)] = False
        src, dst = self.adjacencies[index].endpoints()
        made, frame = self._kept_edges(index, keep, src, dst, store_ids)
        self._exchange(_replaced(self.adjacencies, index, made), self._num_nodes, {}, {index: frame})

    def remove_nodes(self, nids: Any, ntype: str | None = None, store_ids: bool = False) -> None:
        """Remove nodes and the edges at them; the others are renumbered in order.

        With ``store_ids``, ``ndata[dglite.NID]`` and ``edata[dglite.EID]`` have the old ids.

        Raises
        ------
        DGLError
            A node does not exist, or the graph is a block or a slice.
        """
        self._require_mutable("remove_nodes")
        if self._metagraph.is_block:
            raise DGLError("remove_nodes: the nodes of a block are fixed")
        node_set = self._metagraph.node_set(ntype)
        keep = np.ones(self._num_nodes[node_set], bool)
        keep[self._set_ids(nids, node_set)] = False
        counts = [int(keep.sum()) if i == node_set else count for i, count in enumerate(self._num_nodes)]
        node_frames, edge_frames = {node_set: self._kept_rows(self._node_frame(node_set), keep, NID, store_ids)}, {}
        adjacencies = list(self.adjacencies)
        new_ids = np.cumsum(keep) - 1
        for i, (src_set, dst_set) in enumerate(self._metagraph.ends):
            if node_set not in (src_set, dst_set):
                continue
            src, dst = adjacencies[i].endpoints()
            kept = np.ones(len(src), bool)
            if src_set == node_set:
                kept &= keep[src]
                src = new_ids[src]
            if dst_set == node_set:
                kept &= keep[dst]
                dst = new_ids[dst]
            sizes = counts[src_set], counts[dst_set]
            adjacencies[i], edge_frames[i] = self._kept_edges(i, kept, src, dst, store_ids, sizes)
        self._exchange(adjacencies, counts, node_frames, edge_frames)

    # -- parts --------------------------------------------------------------------------------------------------
    def _require_mutable(self, verb: str) -> None:
        if self._readonly is not None:
            raise DGLError(f"{verb}: {self._readonly}")
        if self._metagraph.is_block and verb == "add_nodes":
            raise DGLError("add_nodes: the nodes of a block are fixed")

    def _kept_edges(
        self,
        index: int,
        keep: np.ndarray,
        src: np.ndarray,
        dst: np.ndarray,
        store_ids: bool,
        sizes: tuple[int, int] | None = None,
    ) -> tuple[Adjacency, Frame]:
        """Return the relation and the frame of the edges ``keep`` marks."""
        old = self.adjacencies[index]
        num_src, num_dst = sizes or (old.num_src, old.num_dst)
        made = Adjacency.from_coo(num_src, num_dst, src[keep], dst[keep], self._idtype, validate=False)
        made.allowed = old.allowed
        return made, self._kept_rows(self._edge_frame(index), keep, EID, store_ids)

    def _kept_rows(self, frame: Frame, keep: np.ndarray, column: str, store_ids: bool) -> Frame:
        rows = keep.nonzero()[0]
        kept = frame.take(rows)
        if store_ids:
            kept[column] = self._ids_tensor(rows)
        return kept

    def _exchange(
        self, adjacencies: Any, num_nodes: Any, node_frames: Mapping[int, Frame], edge_frames: Mapping[int, Frame]
    ) -> None:
        """Put the new parts in place of the old ones. Slices and clones made before keep the old ones."""
        self.adjacencies, self._num_nodes = tuple(adjacencies), tuple(num_nodes)
        self._node_frames = [node_frames.get(i, frame) for i, frame in enumerate(self._node_frames)]
        self._edge_frames = [edge_frames.get(i, frame) for i, frame in enumerate(self._edge_frames)]
        self._batch_num_nodes = self._batch_num_edges = None


def _replaced(adjacencies: tuple[Adjacency, ...], index: int, made: Adjacency) -> tuple[Adjacency, ...]:
    return (*adjacencies[:index], made, *adjacencies[index + 1 :])
