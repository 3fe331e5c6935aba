"""Deprecated methods of ``DGLGraph``: names of DGL 0.4 to 1.0 that later versions renamed or dropped.

Each does what it did, by today's methods, and gives a ``DeprecationWarning`` that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError, warn_deprecated
from ..frame import EID, NID
from ..structure.ids import ALL, integer_array, is_all, positions_of
from ..structure.metagraph import EdgeType
from ..structure.traced import in_program
from .attached import AttachedMixin
from .formats import FormatMixin
from .queries import QueryMixin
from .types import TypeMixin


class _Renamed:
    """A method that has another name today."""

    def __init__(self, new: str) -> None:
        self.new, self.__doc__ = new, f"Classic name of ``{new}``."

    def __set_name__(self, owner: type, old: str) -> None:
        self.old = old

    def __get__(self, graph: Any, owner: type | None = None) -> Any:
        return self if graph is None else partial(self._call, graph)

    def _call(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        warn_deprecated(f"g.{self.old}()", f"use g.{self.new}()")
        return getattr(graph, self.new)(*args, **kwargs)


class _PerGraph(list[int]):
    """Today's method ``g.batch_num_nodes(...)``, which used to be a list of numbers and may be read as one.

    A list itself, as ``torch.split(x, g.batch_num_nodes)`` and ``[0] + g.batch_num_nodes`` take no other sequence.
    """

    def __init__(self, name: str, method: Callable[..., Tensor], counts: Sequence[Any]) -> None:
        """Take the numbers by type; a graph of several types is not a list, and has to be asked for one of them."""
        super().__init__(np.asarray(counts[0]).tolist() if len(counts) == 1 else ())
        self._name, self._method = name, method

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._method(*args, **kwargs)

    def _list(self) -> list[int]:
        warn_deprecated(f"g.{self._name} read as a list", f"call it: g.{self._name}().tolist()")
        numbers: list[int] = active.to_numpy(self._method()).tolist()
        return numbers

    def __getitem__(self, index: Any) -> Any:
        return self._list()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._list())

    def __len__(self) -> int:
        return len(self._list())

    def __eq__(self, other: object) -> bool:
        return self._list() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<method {self._name}: {active.to_numpy(self._method()).tolist()}>"


class DeprecatedMixin(TypeMixin, QueryMixin, FormatMixin, AttachedMixin):
    """What code for DGL 0.4 to 1.0 calls."""

    number_of_nodes = _Renamed("num_nodes")
    number_of_edges = _Renamed("num_edges")
    number_of_src_nodes = _Renamed("num_src_nodes")
    number_of_dst_nodes = _Renamed("num_dst_nodes")
    in_degree = _Renamed("in_degrees")
    out_degree = _Renamed("out_degrees")
    has_node = _Renamed("has_nodes")
    has_edge_between = _Renamed("has_edges_between")
    add_node = _Renamed("add_nodes")
    add_edge = _Renamed("add_edges")
    adj_sparse = _Renamed("adj_tensors")
    restrict_format = _Renamed("formats")
    to_format = _Renamed("formats")

    from_networkx: ClassVar[Callable[..., Any]]
    from_scipy_sparse_matrix: ClassVar[Callable[..., Any]]

    # -- queries ------------------------------------------------------------------------------------------------
    def edge_id(self, u: Any, v: Any, force_multi: bool | None = None, etype: EdgeType | None = None) -> Any:
        """Return the id of the edge ``u -> v``; a tensor of the ids of all where edges are parallel or it is forced.

        Raises DGLError: a node does not exist, or there is no such edge.
        """
        warn_deprecated("g.edge_id()", "use g.edge_ids(), with return_uv=True for all parallel edges")
        first = self.edge_ids(u, v, etype=etype)
        several = force_multi or self.adjacency(etype).is_multigraph
        return self.edge_ids(u, v, return_uv=True, etype=etype)[2] if several else first

    # -- numbers of a batch -------------------------------------------------------------------------------------
    @property
    def batch_num_nodes(self) -> Any:  # type: ignore[override]
        """As :meth:`TypeMixin.batch_num_nodes`; without a call, classic code's list of numbers."""
        if any(map(in_program, self.adjacencies)):
            return super().batch_num_nodes
        return _PerGraph(
            "batch_num_nodes", super().batch_num_nodes, self.batch_node_counts or [[x] for x in self.node_counts]
        )

    @property
    def batch_num_edges(self) -> Any:  # type: ignore[override]
        """As :meth:`TypeMixin.batch_num_edges`; without a call, classic code's list of numbers."""
        if any(map(in_program, self.adjacencies)):
            return super().batch_num_edges
        counts = self.batch_edge_counts or [[x.num_edges] for x in self.adjacencies]
        return _PerGraph("batch_num_edges", super().batch_num_edges, counts)

    # -- features -----------------------------------------------------------------------------------------------
    def set_n_repr(
        self, data: Mapping[str, Tensor], u: Any = ALL, ntype: str | None = None, inplace: bool = False
    ) -> None:
        """Write features of nodes ``u``, out of place whatever ``inplace`` says."""
        warn_deprecated("g.set_n_repr()", "write g.ndata[name] or g.nodes[ids].data[name]")
        frame = self.node_frame(ntype)
        frame.update(data) if is_all(u) else frame.set_rows(self.node_ids(u, ntype), data)

    def get_n_repr(self, u: Any = ALL, ntype: str | None = None) -> dict[str, Tensor]:
        """Return the features of nodes ``u``."""
        warn_deprecated("g.get_n_repr()", "read g.ndata or g.nodes[ids].data")
        frame = self.node_frame(ntype)
        return dict(frame.items()) if is_all(u) else frame.get_rows(self.node_ids(u, ntype))

    def pop_n_repr(self, key: str, ntype: str | None = None) -> Tensor:
        """Drop a node feature and return it."""
        warn_deprecated("g.pop_n_repr()", "use g.ndata.pop(name)")
        return self.node_frame(ntype).pop(key)

    def set_e_repr(
        self, data: Mapping[str, Tensor], edges: Any = ALL, etype: EdgeType | None = None, inplace: bool = False
    ) -> None:
        """Write features of ``edges``, out of place whatever ``inplace`` says."""
        warn_deprecated("g.set_e_repr()", "write g.edata[name] or g.edges[ids].data[name]")
        frame = self.edge_frame(etype)
        frame.update(data) if is_all(edges) else frame.set_rows(self.edge_ids_of(edges, etype), data)

    def get_e_repr(self, edges: Any = ALL, etype: EdgeType | None = None) -> dict[str, Tensor]:
        """Return the features of ``edges``."""
        warn_deprecated("g.get_e_repr()", "read g.edata or g.edges[ids].data")
        frame = self.edge_frame(etype)
        return dict(frame.items()) if is_all(edges) else frame.get_rows(self.edge_ids_of(edges, etype))

    def pop_e_repr(self, key: str, etype: EdgeType | None = None) -> Tensor:
        """Drop an edge feature and return it."""
        warn_deprecated("g.pop_e_repr()", "use g.edata.pop(name)")
        return self.edge_frame(etype).pop(key)

    # -- subgraphs ----------------------------------------------------------------------------------------------
    @property
    def parent_nid(self) -> Tensor:
        """Ids that the nodes of a subgraph have in its parent."""
        warn_deprecated("g.parent_nid", "read g.ndata[dglite.NID]")
        return self.node_frame()[NID]

    @property
    def parent_eid(self) -> Tensor:
        """Ids that the edges of a subgraph have in its parent."""
        warn_deprecated("g.parent_eid", "read g.edata[dglite.EID]")
        return self.edge_frame()[EID]

    def map_to_subgraph_nid(self, parent_vids: Any) -> Tensor:
        """Return the ids in this subgraph of nodes of its parent.

        Raises DGLError: a node is not in the subgraph.
        """
        warn_deprecated("g.map_to_subgraph_nid()", "search in g.ndata[dglite.NID]")
        parent_ids, ids = active.to_numpy(self.node_frame()[NID]), integer_array(parent_vids, "node ids").reshape(-1)
        positions = positions_of(ids, parent_ids)
        if positions.min(initial=0) < 0:
            raise DGLError(f"some of the nodes {ids.tolist()} are not in the subgraph, whose nodes are in ndata[NID]")
        return self.ids_tensor(positions)

    def subgraphs(self, nodes: Sequence[Any]) -> list[Any]:
        """Return the subgraph of each of several sets of nodes."""
        warn_deprecated("g.subgraphs()", "call g.subgraph() for each")
        return [self.subgraph(ids) for ids in nodes]

    def copy_from_parent(self, inplace: bool = False) -> None:
        """Do nothing: a subgraph has its parent's features as soon as it is made."""
        warn_deprecated("g.copy_from_parent()", "drop the call: a subgraph has the features of its parent")

    def copy_to_parent(self, inplace: bool = False) -> None:
        """Raise DGLError: a subgraph has no reference to its parent."""
        raise DGLError(
            "a subgraph does not keep its parent; write there: "
            "parent.nodes[sub.ndata[dglite.NID]].data[name] = sub.ndata[name]"
        )

    # -- structure ----------------------------------------------------------------------------------------------
    @property
    def is_readonly(self) -> bool:
        """Whether nodes and edges cannot be added in place."""
        warn_deprecated("g.is_readonly", "drop it: graphs can be changed unless g.readonly() was called")
        return self._readonly is not None

    def readonly(self, readonly_state: bool = True) -> None:
        """Refuse to change the structure in place from now on, or allow it again.

        Raises DGLError: the graph is a slice, which cannot be changed.
        """
        warn_deprecated("g.readonly()", "drop it: a graph that is not changed is as fast")
        if self._readonly not in (None, READONLY):
            raise DGLError(f"readonly: {self._readonly}")
        self._readonly = READONLY if readonly_state else None

    def is_homograph(self) -> bool:
        """Whether there is one node type and one edge type between nodes of it."""
        warn_deprecated("g.is_homograph()", "read g.is_homogeneous")
        return self.is_homogeneous

    def clear(self) -> None:
        """Drop all nodes, edges, features and sent messages; initializers and registered functions too."""
        warn_deprecated("g.clear()", "make a new graph")
        state = vars(type(self)())
        self.__dict__.clear()
        self.__dict__.update(state)

    # -- matrices -----------------------------------------------------------------------------------------------
    def adjacency_matrix(
        self, etype: Any = None, *, transpose: bool | None = None, ctx: Any = None, scipy_fmt: str | None = None
    ) -> Any:
        """As ``adj(etype)``; with a classic argument or ``True`` or ``False`` in first place, as ``adj_external``."""
        if isinstance(etype, bool):
            etype, transpose = None, etype
        if transpose is None and ctx is None and scipy_fmt is None:
            return self.adj(etype)
        warn_deprecated("g.adjacency_matrix(transpose, ctx, scipy_fmt)", "use g.adj_external() or g.adj()")
        return self.adj_external(bool(transpose), ctx, scipy_fmt, etype)

    def adjacency_matrix_scipy(
        self, transpose: bool | None = None, fmt: str = "csr", return_edge_ids: bool | None = None, etype: Any = None
    ) -> Any:
        """Return the adjacency matrix in SciPy's format ``fmt``: data are edge ids, or ones where these are refused."""
        warn_deprecated("g.adjacency_matrix_scipy()", "use g.adj_external(scipy_fmt='csr')")
        matrix = self.adj_external(bool(transpose), None, "csr", etype)
        if return_edge_ids is not False:
            adjacency = self.adjacency(etype)
            matrix.data = (adjacency.reverse() if transpose else adjacency).csr().entry_edge_ids().copy()
        return matrix.asformat(fmt)


READONLY = "the graph was made read-only; call g.readonly(False) to allow changes"
