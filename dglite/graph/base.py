"""The base of ``DGLGraph``: relations, node counts and frames, found by type and by id."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..backend import Tensor, active, framework
from ..backend.memory import new_array
from ..errors import DGLError
from ..frame import Frame
from ..locks import new_lock
from ..ops.traced import require_input
from ..structure import Adjacency, Metagraph
from ..structure.arrays import HOST, arrays_on, ids_in
from ..structure.ids import broadcast_pair
from ..structure.metagraph import EdgeType
from .scope import BY_THREAD, OUTERMOST, copies, leave_scopes

_DTYPES = {np.dtype(name): active.empty((0,), name, active.cpu()).dtype for name in ("int32", "int64")}
_ID_DTYPES: dict[Any, np.dtype] = {tensor_dtype: dtype for dtype, tensor_dtype in _DTYPES.items()}


def tensor_dtype(dtype: np.dtype) -> Any:
    """Return the framework's dtype of ids of NumPy dtype int32 or int64."""
    return _DTYPES[dtype]


def id_dtype(idtype: Any) -> np.dtype:
    """Return the NumPy dtype that ``idtype``, the framework's or NumPy's int32 or int64 or its name, means."""
    try:
        dtype = _ID_DTYPES.get(idtype) or np.dtype(idtype)
    except (TypeError, ValueError):
        dtype = None
    if dtype not in _DTYPES:
        raise DGLError(f"idtype must be int32 or int64, got {idtype!r:.60}")
    return dtype


class GraphBase:
    """State of a graph, and what other packages of dglite read of it: its internal interface.

    Names without an underscore are that interface; no other package reads those with one (tests/test_layering.py).
    ``dir(g)`` lists neither. Attributes are set by what makes a graph, and read only afterwards.

    Node types are numbered by *node set*: one per node type, or in a block the source types and then the destination
    types. An ``index`` is the number of an edge type.
    """

    adjacencies: tuple[Adjacency, ...]
    """The relations, by edge type."""
    type_graph: Metagraph
    """Node and edge types: their names, and the node sets that each edge type joins."""
    node_counts: tuple[int, ...]
    """Number of nodes, by node set."""
    node_frames: list[Frame | None]
    """Features by node set; None where none was asked for. :meth:`node_frame_at` makes a missing one."""
    edge_frames: list[Frame | None]
    """Features by edge type; None where none was asked for. :meth:`edge_frame_at` makes a missing one."""
    numpy_idtype: np.dtype
    """The dtype of ids that users see, int32 or int64; ``idtype`` is the framework's name of it."""
    batch_node_counts: tuple[np.ndarray, ...] | None
    """Numbers of nodes in each batched graph, by node set; None in a single graph."""
    batch_edge_counts: tuple[np.ndarray, ...] | None
    """Numbers of edges in each batched graph, by edge type; None in a single graph."""
    _device: Any
    _readonly: str | None
    """Why the graph cannot be changed in place, or None."""

    # -- copies -------------------------------------------------------------------------------------------------
    def clone(self) -> Self:
        """Return a graph with the same structure and features; changing one's frames leaves the other's unchanged."""
        graph = object.__new__(type(self))
        state = graph.__dict__
        state.update(self.__dict__)
        if OUTERMOST in state or BY_THREAD in state:
            leave_scopes(state)
        state["node_frames"] = copies(state["node_frames"])
        state["edge_frames"] = copies(state["edge_frames"])
        state["_readonly"] = None
        if "_inboxes" in state:
            del state["_inboxes"]
        if "_registered" in state:
            state["_registered"] = state["_registered"].copy()
        return graph

    # -- relations ----------------------------------------------------------------------------------------------
    def etype_id(self, etype: EdgeType | int | None = None) -> int:
        """Return the number of an edge type given by name or canonical name; None means the only one."""
        if etype is None and len(self.adjacencies) == 1:
            return 0
        if type(etype) is int:
            if not 0 <= etype < len(self.adjacencies):
                raise DGLError(f"edge type id {etype} does not exist; there are {len(self.adjacencies)} edge types")
            return etype
        return self.type_graph.etype_id(etype)  # type: ignore[arg-type]

    def adjacency(self, etype: EdgeType | int | None = None) -> Adjacency:
        """Return the structure of one edge type; None means the only one."""
        if etype is None and len(self.adjacencies) == 1:
            return self.adjacencies[0]
        return self.adjacencies[self.etype_id(etype)]

    def src_type_id(self, etype: EdgeType | int | None = None) -> int:
        """Return the number of the node set that an edge type starts from."""
        return self.type_graph.ends[self.etype_id(etype)][0]

    def dst_type_id(self, etype: EdgeType | int | None = None) -> int:
        """Return the number of the node set that an edge type points to."""
        return self.type_graph.ends[self.etype_id(etype)][1]

    # -- frames -------------------------------------------------------------------------------------------------
    def node_frame(self, ntype: str | None = None) -> Frame:
        """Return the features of a node type; None means the only one."""
        return self.node_frame_at(self.type_graph.node_set(ntype))

    def src_frame(self, etype: EdgeType | int | None = None) -> Frame:
        """Return the features of the nodes that an edge type starts from."""
        return self.node_frame_at(self.type_graph.ends[self.etype_id(etype)][0])

    def dst_frame(self, etype: EdgeType | int | None = None) -> Frame:
        """Return the features of the nodes that an edge type points to."""
        return self.node_frame_at(self.type_graph.ends[self.etype_id(etype)][1])

    def edge_frame(self, etype: EdgeType | int | None = None) -> Frame:
        """Return the features of an edge type; None means the only one."""
        return self.edge_frame_at(self.etype_id(etype))

    def node_frame_at(self, node_set: int) -> Frame:
        """Return the features of a node set."""
        frame = self.node_frames[node_set]
        if frame is None:
            frame = _entered(self.node_frames, node_set, self._new_node_frame(node_set))
        return frame

    def _new_node_frame(self, node_set: int) -> Frame:
        names = self.type_graph.ntypes
        label = "node" if len(names) == 1 else f"{names[node_set]!r} node"
        return Frame(self.node_counts[node_set], None, label, self._device)

    def edge_frame_at(self, index: int) -> Frame:
        """Return the features of an edge type."""
        frame = self.edge_frames[index]
        if frame is None:
            frame = _entered(self.edge_frames, index, self._new_edge_frame(index))
        return frame

    def _new_edge_frame(self, index: int) -> Frame:
        names = self.type_graph.etypes
        label = "edge" if len(names) == 1 else f"{names[index]!r} edge"
        return Frame(self.adjacencies[index].num_edges, None, label, self._device)

    # -- structure ----------------------------------------------------------------------------------------------
    @property
    def id_arrays(self) -> Any:
        """The functions that make arrays of ids where the graph is: see :mod:`dglite.structure.arrays`."""
        return arrays_on(self._device)

    # -- ids ----------------------------------------------------------------------------------------------------
    def node_ids(self, nodes: Any, ntype: str | None = None) -> np.ndarray:
        """Return the int64 ids that ``nodes`` selects: ids, a slice, a boolean mask, or ``ALL``.

        Raises DGLError: an id is not an integer, or no node has it.
        """
        return self.node_ids_at(nodes, self.type_graph.node_set(ntype))

    def node_ids_at(self, nodes: Any, node_set: int) -> np.ndarray:
        """Return the int64 ids of a node set that ``nodes`` selects; errors are those of :meth:`node_ids`."""
        return self.nodes_in(HOST, nodes, node_set)  # type: ignore[no-any-return]

    def nodes_in(self, arrays: Any, nodes: Any, node_set: int) -> Any:
        """Return the int64 ids that ``nodes`` selects, as an array of ``arrays``; errors are those of node_ids."""
        names = self.type_graph.ntypes
        return ids_in(
            arrays, nodes, self.node_counts[node_set], "node" if len(names) == 1 else f"{names[node_set]!r} node"
        )

    def edges_in(self, arrays: Any, edges: Any, index: int) -> Any:
        """Return the int64 ids that ``edges``, which are no pairs, selects, as an array of ``arrays``."""
        names, count = self.type_graph.etypes, self.adjacencies[index].num_edges
        return ids_in(arrays, edges, count, "edge" if len(names) == 1 else f"{names[index]!r} edge")

    def edge_ids_of(self, edges: Any, etype: EdgeType | int | None = None, pairs: bool = True) -> np.ndarray:
        """Return the int64 ids that ``edges`` selects: ids, a slice, a mask, ``ALL``, or a pair ``(u, v)`` of nodes.

        A pair stands for one edge ``u[i] -> v[i]`` for each i: the edge of lowest id, and where a pair is repeated, its
        parallel edges in turn, so that ``g.edges()`` stands for every edge once. Without ``pairs`` a tuple is ids, as
        a list is.

        Raises DGLError: an id is not an integer, no edge has it, or no edge joins a pair.
        """
        index = self.etype_id(etype)
        adjacency = self.adjacencies[index]
        if pairs and isinstance(edges, tuple) and len(edges) == 2:
            u, v = self._pairs(edges[0], edges[1], index)
            edge_ids = adjacency.edge_ids_in_turn(u, v)
            if len(edge_ids) and edge_ids.min() < 0:
                raise self._no_such_edge(u, v, index)
            return edge_ids.astype(np.int64, copy=False)
        return self.edges_in(HOST, edges, index)  # type: ignore[no-any-return]

    def _pairs(self, u: Any, v: Any, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the endpoints of node pairs; one id on a side goes with every id on the other."""
        src_set, dst_set = self.type_graph.ends[index]
        return broadcast_pair(self.node_ids_at(u, src_set), self.node_ids_at(v, dst_set))

    def _no_such_edge(self, u: np.ndarray, v: np.ndarray, index: int) -> DGLError:
        i = int(np.argmin(self.adjacencies[index].has_edges(u, v)))
        return DGLError(f"there is no edge from node {u[i]} to node {v[i]} of type {self.type_graph.etypes[index]!r}")

    @property
    def features_device(self) -> Any:
        """The graph's device as the library of its features has it."""
        if active.guest is not None:
            for frame in (*self.node_frames, *self.edge_frames):
                for column in () if frame is None else frame.features():
                    return active.device(column)
        return self._device

    def ids_tensor(self, array: Any) -> Tensor:
        """Return ids as a tensor of the graph's id dtype on its device. ``array`` must not be shared."""
        if active.is_tensor(array):
            return active.astype(array, str(self.numpy_idtype))
        if array.dtype != self.numpy_idtype:
            array = array.astype(self.numpy_idtype)
        return self.as_tensor(array)

    def _program_ids(self, ids: Any) -> Tensor:
        """Return ids that a program holds, an array or a tensor, as a tensor of the graph's id dtype on its device."""
        for adjacency in self.adjacencies:
            require_input(adjacency)
        tensor = active.astype(framework.as_tensor(ids), str(self.numpy_idtype))
        return active.to_device(tensor, self._device)

    def ids_copy(self, array: Any) -> Tensor:
        """Return ids as :meth:`ids_tensor` does, copied; many into memory of the pool."""
        if active.is_tensor(array):
            ids = active.astype(array, str(self.numpy_idtype))
            return active.copy(ids) if ids is array else ids
        copy = new_array(array.shape, self.numpy_idtype)
        active.copy_numbers(array, copy)
        return self.as_tensor(copy)

    def as_tensor(self, array: np.ndarray) -> Tensor:
        """Return an array as a tensor of its dtype on the graph's device. ``array`` must not be shared."""
        if active.guest is not None:
            return active.from_numpy(array, self.features_device)
        return active.from_numpy(array, None if self._device == active.cpu() else self._device)


INTERNAL_NAMES = {name for name in (*vars(GraphBase), *GraphBase.__annotations__) if name[0] != "_"} - {"clone"}
"""The internal interface of graphs, which ``dir(g)`` leaves out."""

_entering = new_lock()


def _entered(frames: list[Frame | None], place: int, empty: Frame) -> Frame:
    """Return the frame at a place, which is ``empty`` unless another thread has put one there."""
    if active.compiling():  # which knows no locks; other threads wait meanwhile
        frames[place] = empty
        return empty
    with _entering:
        frame = frames[place]
        if frame is None:
            frame = frames[place] = empty
    return frame


def sizes_in_program(of_batch: tuple[np.ndarray, ...] | None, index: int, count: int) -> Tensor:
    """Return the numbers of nodes or edges of a type in each graph of a batch as a program holds them, (batch_size,).

    Without any, there is one graph, of ``count``.
    """
    if of_batch is None:
        return framework.full((1,), count)
    sizes: Any = of_batch[
        index
    ]  # as_tensor of a tensor would be two more operations of every call of an exported program
    return sizes if active.is_tensor(sizes) else framework.as_tensor(sizes)
