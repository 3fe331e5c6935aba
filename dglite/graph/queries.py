"""Queries about the nodes and edges of a graph.

Ids may be numbers, lists, arrays or tensors. One number gives one answer, several give a tensor.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ..arguments import explained
from ..backend import Tensor, framework
from ..errors import DGLError, warn_deprecated
from ..expr import Side
from ..ops import fallback
from ..ops.traced import is_read
from ..structure import ALL, is_all
from ..structure.arrays import HOST
from ..structure.ids import Ids, SingleId, integer_array
from ..structure.metagraph import EdgeType
from .base import GraphBase

Pair = tuple[Tensor, Tensor]
Triple = tuple[Tensor, Tensor, Tensor]


class QueryMixin(GraphBase):
    """Counts, degrees, neighbours and edges. Errors are :class:`DGLError` and name the offending id or type."""

    # -- counts -------------------------------------------------------------------------------------------------
    def num_nodes(self, ntype: str | None = None) -> int:
        """Return the number of nodes of a type, or of all types."""
        if ntype is None:
            return sum(self.node_counts)
        return self.node_counts[self.type_graph.node_set(ntype)]

    def num_edges(self, etype: EdgeType | None = None) -> int:
        """Return the number of edges of a type, or of all types."""
        if etype is None:
            return sum([adjacency.num_edges for adjacency in self.adjacencies])
        return self.adjacencies[self.etype_id(etype)].num_edges

    def num_src_nodes(self, ntype: str | None = None) -> int:
        """Return the number of source nodes of a type, or of all source types."""
        metagraph = self.type_graph
        names = metagraph.srctypes if ntype is None else (ntype,)
        return sum([self.node_counts[metagraph.src_set(name)] for name in names])

    def num_dst_nodes(self, ntype: str | None = None) -> int:
        """Return the number of destination nodes of a type, or of all destination types."""
        metagraph = self.type_graph
        names = metagraph.dsttypes if ntype is None else (ntype,)
        return sum([self.node_counts[metagraph.dst_set(name)] for name in names])

    def __len__(self) -> int:
        """Return the number of nodes."""
        return sum(self.node_counts)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, node: Any) -> bool:
        """Whether the graph, of one node type, has this node."""
        exists = self.has_nodes(node)
        if not isinstance(exists, bool) and len(exists) != 1:
            raise DGLError(f"'in' asks for one node, got {len(exists)}; has_nodes takes several")
        return bool(exists)

    # -- degrees ------------------------------------------------------------------------------------------------
    @overload
    def in_degrees(self, v: SingleId, etype: EdgeType | None = None) -> int: ...
    @overload
    def in_degrees(self, v: Ids = ALL, etype: EdgeType | None = None) -> Tensor: ...
    def in_degrees(self, v: Any = ALL, etype: EdgeType | None = None) -> Tensor | int:
        """Return the in-degrees of nodes ``v`` along one edge type, a tensor, or a number for one id."""
        index = self.etype_id(etype)
        return self._degrees(index, v, 1)

    @overload
    def out_degrees(self, u: SingleId, etype: EdgeType | None = None) -> int: ...
    @overload
    def out_degrees(self, u: Ids = ALL, etype: EdgeType | None = None) -> Tensor: ...
    def out_degrees(self, u: Any = ALL, etype: EdgeType | None = None) -> Tensor | int:
        """Return the out-degrees of nodes ``u`` along one edge type, a tensor, or a number for one id."""
        index = self.etype_id(etype)
        return self._degrees(index, u, 0)

    def _degrees(self, index: int, nodes: Any, end: int) -> Tensor | int:
        adjacency = self.adjacencies[index]
        if is_all(nodes):
            if is_read(adjacency):
                return self._program_ids(fallback.degrees(adjacency, Side.V if end else Side.U, "int64"))
            return self.ids_copy(adjacency.degrees(self.id_arrays, end))
        counts = adjacency.degrees_at(self.node_ids_at(nodes, self.type_graph.ends[index][end]), end)
        return int(counts[0]) if _is_number(nodes) else self.ids_tensor(counts)

    # -- nodes --------------------------------------------------------------------------------------------------
    @overload
    def has_nodes(self, vid: SingleId, ntype: str | None = None) -> bool: ...
    @overload
    def has_nodes(self, vid: Ids, ntype: str | None = None) -> Tensor: ...
    def has_nodes(self, vid: Any, ntype: str | None = None) -> Tensor | bool:
        """Return whether each node exists, a boolean tensor, or a bool for one id."""
        count = self.node_counts[self.type_graph.node_set(ntype)]
        if _is_number(vid):
            return bool(0 <= vid < count)
        ids = integer_array(vid, "node ids")
        return self.as_tensor(((ids >= 0) & (ids < count)).reshape(-1))

    def predecessors(self, v: Any, etype: EdgeType | None = None) -> Tensor:
        """Return the sources of the in-edges of node ``v``, in edge-id order; once per edge."""
        index = self.etype_id(etype)
        return self.ids_tensor(self.adjacencies[index].in_edges(self._single_node(v, index, 1))[0])

    def successors(self, v: Any, etype: EdgeType | None = None) -> Tensor:
        """Return the destinations of the out-edges of node ``v``, in edge-id order; once per edge."""
        index = self.etype_id(etype)
        return self.ids_tensor(self.adjacencies[index].out_edges(self._single_node(v, index, 0))[1])

    def _single_node(self, node: Any, index: int, end: int) -> np.ndarray:
        ids = self.node_ids_at(node, self.type_graph.ends[index][end])
        if len(ids) != 1:
            raise DGLError(f"expected one node, got {len(ids)}; in_edges and out_edges take several")
        return ids

    # -- edges --------------------------------------------------------------------------------------------------
    @overload
    def has_edges_between(self, u: SingleId, v: SingleId, etype: EdgeType | None = None) -> bool: ...
    @overload
    def has_edges_between(self, u: Ids, v: Ids, etype: EdgeType | None = None) -> Tensor: ...
    def has_edges_between(self, u: Any, v: Any, etype: EdgeType | None = None) -> Tensor | bool:
        """Return whether an edge ``u[i] -> v[i]`` exists, a boolean tensor, or a bool for two numbers."""
        index = self.etype_id(etype)
        exists = self.adjacencies[index].has_edges(*self._pairs(u, v, index))
        return bool(exists[0]) if _is_number(u) and _is_number(v) else self.as_tensor(exists)

    @overload
    def edge_ids(
        self, u: SingleId, v: SingleId, return_uv: Literal[False] = False, etype: EdgeType | None = None
    ) -> int: ...
    @overload
    def edge_ids(self, u: Ids, v: Ids, return_uv: Literal[False] = False, etype: EdgeType | None = None) -> Tensor: ...
    @overload
    def edge_ids(
        self, u: Ids | SingleId, v: Ids | SingleId, return_uv: Literal[True], etype: EdgeType | None = None
    ) -> Triple: ...
    def edge_ids(
        self, u: Any, v: Any, return_uv: bool = False, etype: EdgeType | None = None, *, force_multi: bool | None = None
    ) -> Any:
        """Return the id of an edge ``u[i] -> v[i]`` for each i, a tensor, or a number for two numbers.

        Of parallel edges the lowest id is returned; with ``return_uv``, all that there are, as tensors (u, v, id).
        ``force_multi`` is the classic name of ``return_uv``.

        Raises DGLError: a node does not exist, or no edge joins a pair and ``return_uv`` is false.
        """
        if force_multi is not None:
            warn_deprecated("edge_ids(force_multi=)", "use return_uv=")
            return_uv = force_multi
        index = self.etype_id(etype)
        adjacency = self.adjacencies[index]
        sources, destinations = self._pairs(u, v, index)
        if return_uv:
            return tuple(self.ids_tensor(x) for x in adjacency.edges_between(sources, destinations))
        edge_ids = adjacency.edge_ids(sources, destinations)
        if len(edge_ids) and edge_ids.min() < 0:
            raise self._no_such_edge(sources, destinations, index)
        return int(edge_ids[0]) if _is_number(u) and _is_number(v) else self.ids_tensor(edge_ids)

    def find_edges(self, eid: Any, etype: EdgeType | None = None) -> tuple[Tensor, Tensor]:
        """Return the endpoints (u, v) of the given edges."""
        index, arrays = self.etype_id(etype), self.id_arrays
        adjacency = self.adjacencies[index]
        if arrays is HOST:
            src, dst = adjacency.find_edges(self.edge_ids_of(eid, index, pairs=False))
        else:
            ids = self.edges_in(arrays, eid, index)
            src, dst = (end[ids] for end in adjacency.ends(arrays))
        return self.ids_tensor(src), self.ids_tensor(dst)

    @overload
    def in_edges(self, v: Ids | SingleId, form: Literal["uv"] = "uv", etype: EdgeType | None = None) -> Pair: ...
    @overload
    def in_edges(self, v: Ids | SingleId, form: Literal["eid"], etype: EdgeType | None = None) -> Tensor: ...
    @overload
    def in_edges(self, v: Ids | SingleId, form: Literal["all"], etype: EdgeType | None = None) -> Triple: ...
    @explained
    def in_edges(self, v: Any, form: str = "uv", etype: EdgeType | None = None) -> Any:
        """Return the in-edges of nodes ``v``, node after node: ``form`` is "uv", "eid" or "all" (u, v, eid)."""
        index = self.etype_id(etype)
        return self._edges_as(form, *self._incident(v, index, 1))

    @overload
    def out_edges(self, u: Ids | SingleId, form: Literal["uv"] = "uv", etype: EdgeType | None = None) -> Pair: ...
    @overload
    def out_edges(self, u: Ids | SingleId, form: Literal["eid"], etype: EdgeType | None = None) -> Tensor: ...
    @overload
    def out_edges(self, u: Ids | SingleId, form: Literal["all"], etype: EdgeType | None = None) -> Triple: ...
    @explained
    def out_edges(self, u: Any, form: str = "uv", etype: EdgeType | None = None) -> Any:
        """Return the out-edges of nodes ``u``, node after node: ``form`` is "uv", "eid" or "all" (u, v, eid)."""
        index = self.etype_id(etype)
        return self._edges_as(form, *self._incident(u, index, 0))

    def _incident(self, nodes: Any, index: int, end: int) -> tuple[Any, Any, Any]:
        """Return (source, destination, edge id) of the edges with ``nodes`` at ``end``, where the graph is."""
        arrays = self.id_arrays
        ids = self.nodes_in(arrays, nodes, self.type_graph.ends[index][end])
        return self.adjacencies[index].incident(arrays, ids, end)

    @overload
    def all_edges(
        self, form: Literal["uv"] = "uv", order: str | None = "eid", etype: EdgeType | None = None
    ) -> Pair: ...
    @overload
    def all_edges(self, form: Literal["eid"], order: str | None = "eid", etype: EdgeType | None = None) -> Tensor: ...
    @overload
    def all_edges(self, form: Literal["all"], order: str | None = "eid", etype: EdgeType | None = None) -> Triple: ...
    @explained
    def all_edges(self, form: str = "uv", order: str | None = "eid", etype: EdgeType | None = None) -> Any:
        """Return all edges as "uv", "eid" or "all" (u, v, eid).

        They are ordered by edge id ("eid", None) or by source, destination and edge id ("srcdst").
        """
        adjacency = self.adjacencies[self.etype_id(etype)]
        if is_read(adjacency) and (order is None or order == "eid"):
            us, vs = map(self._program_ids, adjacency.tensors)
            ids = framework.arange(adjacency.num_edges, dtype=us.dtype, device=us.device)
            return _in_form(form, us.clone(), vs.clone(), ids)
        if order is None or order == "eid":
            arrays = self.id_arrays
            src, dst = adjacency.ends(arrays)
            edge_ids = src if form == "uv" else arrays.arange(adjacency.num_edges, self.numpy_idtype)
            return self._edges_as(form, src, dst, edge_ids, shared=(True, True, form == "uv"))
        if order == "srcdst":
            return self._edges_as(form, *adjacency.sorted_edges(), shared=(True, True, True))
        raise DGLError(f"order={order!r} is not understood; expected 'eid', 'srcdst' or None")

    def _edges_as(
        self, form: str, src: Any, dst: Any, edge_ids: Any, shared: tuple[bool, ...] = (False, False, False)
    ) -> Any:
        """Return what ``form`` asks for; ``shared`` arrays are copied."""

        def tensor(array: Any, is_shared: bool) -> Tensor:
            return self.ids_copy(array) if is_shared else self.ids_tensor(array)

        if form == "eid":
            return tensor(edge_ids, shared[2])
        return tuple(map(tensor, _in_form(form, src, dst, edge_ids), shared))

    @property
    def is_multigraph(self) -> bool:
        """Whether two edges of one type join the same nodes in the same direction."""
        return any(adjacency.is_multigraph for adjacency in self.adjacencies)


def _in_form(form: str, src: Any, dst: Any, edge_ids: Any) -> Any:
    """Return those of the three that ``form`` asks for."""
    if form == "uv":
        return src, dst
    if form == "eid":
        return edge_ids
    if form == "all":
        return src, dst, edge_ids
    raise DGLError(f"form={form!r} is not understood; expected 'uv', 'eid' or 'all'")


def _is_number(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)
