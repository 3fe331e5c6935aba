"""Features of a graph: ``ndata``, ``edata``, ``srcdata`` and ``dstdata``, initializers, schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..arguments import explained
from ..column import Features, Initializer, Scheme
from ..frame import Frame
from ..structure.metagraph import EdgeType
from .queries import QueryMixin
from .views import ColumnStorage, EdgeView, NodeView, TypedData


class FeatureMixin(QueryMixin):
    """Access to frames. With one type a feature is a tensor; with several, a dictionary by type."""

    @property
    def ndata(self) -> Features:
        """Features of all nodes, by name."""
        frames = self.node_frames
        if len(frames) == 1:
            return frames[0] if frames[0] is not None else self.node_frame_at(0)  # type: ignore[return-value]
        names = self.type_graph.set_names()
        sets = {name: self.node_frame_at(i) for i, name in enumerate(names)}
        return TypedData(sets, partial(_type_of, names, self.type_graph.node_set))

    @property
    def edata(self) -> Features:
        """Features of all edges, by name."""
        frames = self.edge_frames
        if len(frames) == 1:
            return frames[0] if frames[0] is not None else self.edge_frame_at(0)  # type: ignore[return-value]
        return TypedData(
            {etype: self.edge_frame_at(i) for i, etype in enumerate(self.type_graph.canonical_etypes)},
            self.type_graph.canonical,
        )

    @property
    def srcdata(self) -> Features:
        """Features of the source nodes; the same as ``ndata`` when every node may be a source."""
        if len(self.node_frames) == 1:
            return self.ndata
        return self._side_data(self.type_graph.srctypes, self.type_graph.src_set)

    @property
    def dstdata(self) -> Features:
        """Features of the destination nodes; the same as ``ndata`` when every node may be a destination."""
        if len(self.node_frames) == 1:
            return self.ndata
        return self._side_data(self.type_graph.dsttypes, self.type_graph.dst_set)

    def _side_data(self, names: tuple[str, ...], find: Any) -> Features:
        if len(names) == 1:
            return self.node_frame_at(find(names[0]))  # type: ignore[return-value]
        frames: dict[str, Frame] = {name: self.node_frame_at(find(name)) for name in names}
        by_set = {find(name): name for name in names}
        return TypedData(frames, partial(_type_of, by_set, find))

    @property
    def nodes(self) -> NodeView:
        """``g.nodes()`` gives ids, ``g.nodes['user'].data`` and ``g.nodes[[0, 2]].data`` features."""
        return NodeView(self)

    @property
    def srcnodes(self) -> NodeView:
        """As ``nodes``, of the source nodes."""
        return NodeView(self, "src")

    @property
    def dstnodes(self) -> NodeView:
        """As ``nodes``, of the destination nodes."""
        return NodeView(self, "dst")

    @property
    def edges(self) -> EdgeView:
        """``g.edges()`` gives endpoints, ``g.edges['follows'].data`` and ``g.edges[u, v].data`` features."""
        return EdgeView(self)

    def get_node_storage(self, key: str, ntype: str | None = None) -> ColumnStorage:
        """Return a node feature as data loaders read it: ``fetch(ids, device)`` gives rows."""
        frame = self.node_frame(ntype)
        return ColumnStorage(frame, frame.require(key))

    def get_edge_storage(self, key: str, etype: EdgeType | None = None) -> ColumnStorage:
        """Return an edge feature as data loaders read it: ``fetch(ids, device)`` gives rows."""
        frame = self.edge_frame(etype)
        return ColumnStorage(frame, frame.require(key))

    @explained
    def set_n_initializer(
        self, initializer: Initializer | None, field: str | None = None, ntype: str | None = None
    ) -> None:
        """Set what fills node features that were not set: one column, or all. None goes back to zeros."""
        self.node_frame(ntype).set_initializer(initializer, field)

    @explained
    def set_e_initializer(
        self, initializer: Initializer | None, field: str | None = None, etype: EdgeType | None = None
    ) -> None:
        """Set what fills edge features that were not set: one column, or all. None goes back to zeros."""
        self.edge_frame(etype).set_initializer(initializer, field)

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """Return the row shape and dtype of each feature of a node type."""
        return self.node_frame(ntype).schemes

    def edge_attr_schemes(self, etype: EdgeType | None = None) -> dict[str, Scheme]:
        """Return the row shape and dtype of each feature of an edge type."""
        return self.edge_frame(etype).schemes


def _type_of(names: Sequence[str] | Mapping[int, str], find: Callable[[Any], int], key: Any) -> str:
    """Return the name of the node type that a user's key means; a function, as lambdas cannot be pickled."""
    return names[find(key)]
