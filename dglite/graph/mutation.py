"""Changing a graph in place: new structure and frames are made first, then exchanged at once."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..frame import EID, NID, Frame
from ..structure import Adjacency
from ..structure.ids import LARGEST_COUNT, broadcast_pair, count_of, integer_array
from ..structure.metagraph import EdgeType
from ..structure.sizes import require_room
from ..structure.traced import in_program, traced_edges
from .base import GraphBase
from .scope import set_state

_Numbers = tuple[np.ndarray, ...] | None
"""Numbers of nodes or edges in each graph of a batch, by type."""


class MutationMixin(GraphBase):
    """Adding and removing nodes and edges. A call that raises leaves the graph as it was.

    Each call costs O(number of nodes and edges): structure is immutable, and a changed graph has a new one. Add edges
    by the thousand rather than one by one.
    """

    @explained
    def add_nodes(self, num: int, data: Mapping[str, Tensor] | None = None, ntype: str | None = None) -> None:
        """Add ``num`` nodes of a type, with features ``data``; features left out come from the initializer.

        Raises DGLError: the number is negative, features do not have ``num`` rows, or the graph is a block or a slice.
        """
        self._require_mutable("add_nodes")
        num = count_of(num, "the number of nodes to add")
        node_set = self.type_graph.node_set(ntype)
        frame = self.node_frame_at(node_set).copy()
        frame.append(num, data)
        counts = [count + num if i == node_set else count for i, count in enumerate(self.node_counts)]
        self._exchange(self._resized(counts), counts, {node_set: frame}, {}, self._numbers_after(num))

    @explained
    def add_edges(
        self, u: Any, v: Any, data: Mapping[str, Tensor] | None = None, etype: EdgeType | int | None = None
    ) -> None:
        """Add edges ``u[i] -> v[i]``; one id on a side goes with every id on the other. They get the next edge ids.

        Nodes that do not exist yet are added first, up to the largest id, with features from the initializer.

        Raises DGLError: an id is negative, features do not have one row per new edge, the graph is a slice, or it is a
        block and a node does not exist.
        """
        self._require_mutable("add_edges")
        index = self.etype_id(etype)
        if in_program(self.adjacencies[index]) and active.is_tensor(u) and active.is_tensor(v):
            self._add_traced_edges(u, v, data, index)
            return
        arrays = self.id_arrays
        src, dst = broadcast_pair(_node_ids(u), _node_ids(v))
        frame = self.edge_frame_at(index).copy()
        frame.append(len(src), data)
        counts, node_frames = self._grown(index, src, dst)
        adjacencies = self._resized(counts)
        old = adjacencies[index]
        src, dst = (
            arrays.concatenate([end, arrays.asarray(new, old.index_dtype)])
            for end, new in zip(old.ends(arrays), (src, dst), strict=True)
        )
        numbers = self._numbers_after(len(src) - old.num_edges)
        extended = Adjacency.from_ends(old.num_src, old.num_dst, src, dst, self.numpy_idtype, arrays)
        extended.allowed = old.allowed
        self._exchange(_replaced(adjacencies, index, extended), counts, node_frames, {index: frame}, numbers)

    def _add_traced_edges(self, u: Tensor, v: Tensor, data: Mapping[str, Tensor] | None, index: int) -> None:
        """Add edges between nodes that exist, whose ids are looked at when the program runs."""
        old, frame = self.adjacencies[index], self.edge_frame_at(index).copy()
        frame.append(u.shape[0], data)
        src, dst = (active.concat([end, new.to(end)]) for end, new in zip(old.tensors, (u, v), strict=True))
        extended: Any = traced_edges(src, dst, old.num_src, old.num_dst, self.numpy_idtype)
        numbers = self._numbers_after(True)
        self._exchange(_replaced(self.adjacencies, index, extended), self.node_counts, {}, {index: frame}, numbers)

    @explained
    def remove_edges(self, eids: Any, etype: EdgeType | None = None, store_ids: bool = False) -> None:
        """Remove edges; the others are renumbered in order.

        With ``store_ids``, ``edata[dglite.EID]`` of every edge type has the old ids. A batch stays one.

        Raises DGLError: an edge does not exist, or the graph is a slice.
        """
        self._require_mutable("remove_edges")
        index = self.etype_id(etype)
        arrays = self.id_arrays
        keep = arrays.full(self.adjacencies[index].num_edges, True, "bool")
        keep[self.edges_in(arrays, eids, index)] = False
        src, dst = self.adjacencies[index].ends(arrays)
        remaining, frame = self._kept_edges(index, keep, src, dst, store_ids)
        numbers = self.batch_node_counts, _kept_numbers(self.batch_edge_counts, {index: keep})
        self._exchange(_replaced(self.adjacencies, index, remaining), self.node_counts, {}, {index: frame}, numbers)
        if store_ids:
            self._number_edges({index})

    @explained
    def remove_nodes(self, nids: Any, ntype: str | None = None, store_ids: bool = False) -> None:
        """Remove nodes and the edges at them; the others are renumbered in order.

        With ``store_ids``, ``ndata[dglite.NID]`` and ``edata[dglite.EID]`` of every type have the old ids. A batch
        stays one.

        Raises DGLError: a node does not exist, or the graph is a block or a slice.
        """
        self._require_mutable("remove_nodes")
        if self.type_graph.is_block:
            raise DGLError("remove_nodes: the nodes of a block are fixed")
        node_set = self.type_graph.node_set(ntype)
        require_room(self.node_counts[node_set], 25, sum(adjacency.num_edges for adjacency in self.adjacencies))
        arrays = self.id_arrays
        keep_nodes = arrays.full(self.node_counts[node_set], True, "bool")
        keep_nodes[self.nodes_in(arrays, nids, node_set)] = False
        (remaining,) = arrays.read(keep_nodes.sum())
        counts = [remaining if i == node_set else count for i, count in enumerate(self.node_counts)]
        node_frames, edge_frames = (
            {node_set: self._kept_rows(self.node_frame_at(node_set), arrays.nonzero(keep_nodes), NID, store_ids)},
            {},
        )
        adjacencies = list(self.adjacencies)
        new_ids, edge_masks = arrays.cumsum(keep_nodes) - 1, {}
        for i, (src_set, dst_set) in enumerate(self.type_graph.ends):
            if node_set not in (src_set, dst_set):
                continue
            src, dst = adjacencies[i].ends(arrays)
            keep_edges = arrays.full(len(src), True, "bool")
            if src_set == node_set:
                keep_edges &= keep_nodes[src]
                src = new_ids[src]
            if dst_set == node_set:
                keep_edges &= keep_nodes[dst]
                dst = new_ids[dst]
            edge_masks[i] = keep_edges
            sizes = counts[src_set], counts[dst_set]
            adjacencies[i], edge_frames[i] = self._kept_edges(i, keep_edges, src, dst, store_ids, sizes)
        numbers = (
            _kept_numbers(self.batch_node_counts, {node_set: keep_nodes}),
            _kept_numbers(self.batch_edge_counts, edge_masks),
        )
        self._exchange(adjacencies, counts, node_frames, edge_frames, numbers)
        if store_ids:
            for i in range(len(counts)):
                if i != node_set:
                    self.node_frame_at(i)[NID] = self.ids_tensor(np.arange(counts[i]))
            self._number_edges(edge_frames.keys())

    # -- parts --------------------------------------------------------------------------------------------------
    def _require_mutable(self, verb: str) -> None:
        if self._readonly is not None:
            raise DGLError(f"{verb}: {self._readonly}")
        if self.type_graph.is_block and verb == "add_nodes":
            raise DGLError("add_nodes: the nodes of a block are fixed")

    def _grown(self, index: int, src: np.ndarray, dst: np.ndarray) -> tuple[list[int], dict[int, Frame]]:
        """Return the numbers of nodes with the ends of edges among them, and the frames of the types that grow."""
        counts, frames = list(self.node_counts), {}
        for node_set, ids in zip(self.type_graph.ends[index], (src, dst), strict=True):
            counts[node_set] = max(counts[node_set], int(ids.max(initial=-1)) + 1)
        for node_set, (old, new) in enumerate(zip(self.node_counts, counts, strict=True)):
            if new > old:
                if self.type_graph.is_block:
                    raise DGLError(f"add_edges: node {new - 1} does not exist, and the nodes of a block are fixed")
                frames[node_set] = self.node_frame_at(node_set).copy()
                frames[node_set].append(new - old)
        return counts, frames

    def _resized(self, counts: Sequence[int]) -> tuple[Adjacency, ...]:
        """Return the relations over other numbers of nodes."""
        ends = zip(self.adjacencies, self.type_graph.ends, strict=True)
        return tuple(adjacency.resized(counts[src], counts[dst]) for adjacency, (src, dst) in ends)

    def _kept_edges(
        self, index: int, keep: Any, src: Any, dst: Any, store_ids: bool, sizes: tuple[int, int] | None = None
    ) -> tuple[Adjacency, Frame]:
        """Return the relation and the frame of the edges ``keep`` marks."""
        old, arrays, rows = self.adjacencies[index], self.id_arrays, self.id_arrays.nonzero(keep)
        num_src, num_dst = sizes or (old.num_src, old.num_dst)
        adjacency = Adjacency.from_ends(num_src, num_dst, src[rows], dst[rows], self.numpy_idtype, arrays)
        adjacency.allowed = old.allowed
        return adjacency, self._kept_rows(self.edge_frame_at(index), rows, EID, store_ids)

    def _kept_rows(self, frame: Frame, rows: Any, column: str, store_ids: bool) -> Frame:
        part = frame.take(rows)
        if store_ids:
            part[column] = self.ids_tensor(rows)
        return part

    def _number_edges(self, done: Container[int]) -> None:
        """Store the ids of the edges of all types but those done, which kept theirs."""
        for i, adjacency in enumerate(self.adjacencies):
            if i not in done:
                self.edge_frame_at(i)[EID] = self.ids_tensor(np.arange(adjacency.num_edges))

    def _numbers_after(self, num_added: int) -> tuple[_Numbers, _Numbers]:
        """Return the batch numbers: what is added belongs to no graph of a batch, so the batch becomes one graph."""
        return (None, None) if num_added else (self.batch_node_counts, self.batch_edge_counts)

    def _exchange(
        self,
        adjacencies: Any,
        num_nodes: Any,
        node_frames: Mapping[int, Frame],
        edge_frames: Mapping[int, Frame],
        batch_numbers: tuple[_Numbers, _Numbers] = (None, None),
    ) -> None:
        """Put the new parts in place of the old ones. Slices and clones made before keep the old ones."""
        set_state(
            self,
            adjacencies=tuple(adjacencies),
            node_counts=tuple(num_nodes),
            node_frames=[node_frames.get(i, frame) for i, frame in enumerate(self.node_frames)],
            edge_frames=[edge_frames.get(i, frame) for i, frame in enumerate(self.edge_frames)],
            batch_node_counts=batch_numbers[0],
            batch_edge_counts=batch_numbers[1],
        )


def _node_ids(ids: Any) -> np.ndarray:
    """Return ids of nodes that need not exist yet."""
    array = integer_array(ids, "node ids").reshape(-1)
    if array.min(initial=0) < 0:
        raise DGLError(f"node id {array.min()} is negative; node ids count from 0")
    if array.dtype.kind == "b" or array.max(initial=0) >= LARGEST_COUNT:
        raise DGLError(f"node ids are integers below 2**48, got {ids!r:.60}")
    return array.astype(np.int64, copy=False)


def _kept_numbers(numbers: _Numbers, masks: Mapping[int, np.ndarray]) -> _Numbers:
    """Return how many of each graph's nodes or edges, by type, are kept."""
    if numbers is None:
        return None
    result = list(numbers)
    for index, mask in masks.items():
        up_to = np.concatenate([[0], np.cumsum(integer_array(mask))])
        result[index] = np.diff(up_to[np.concatenate([[0], np.cumsum(numbers[index])])])
    return tuple(result)


def _replaced(adjacencies: tuple[Adjacency, ...], index: int, adjacency: Adjacency) -> tuple[Adjacency, ...]:
    return (*adjacencies[:index], adjacency, *adjacencies[index + 1 :])
