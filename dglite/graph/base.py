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

_DTYPES = {np.dtype(name): active.empty((0,), name, active.cpu()).dtype for name in ("int32", "int64")}
_ID_DTYPES: dict[Any, np.dtype] = {tensor_dtype: dtype for dtype, tensor_dtype in _DTYPES.items()}


def tensor_dtype(dtype: np.dtype) -> Any:
    """Return the framework's dtype of ids of NumPy dtype int32 or int64."""
    return _DTYPES[dtype]


def id_dtype(idtype: Any) -> np.dtype:
    """Return the NumPy dtype that ``idtype``, the framework's or NumPy's int32 or int64 or its name, means."""
    dtype = _ID_DTYPES.get(idtype)
    if dtype is None:
        try:
            dtype = np.dtype(idtype)
        except TypeError:
            dtype = None
        if dtype not in _DTYPES:
            raise DGLError(f"idtype must be int32 or int64, got {idtype!r}")
    return dtype


class GraphBase:
    """State of a graph and how its other parts reach it.

    Node counts and node frames are listed by *node set*: one per node type, or in a block the source types and then
    the destination types. Frames are made when first asked for.
    """

    adjacencies: tuple[Adjacency, ...]
    """The relations, by edge type id."""
    _metagraph: Metagraph
    _num_nodes: tuple[int, ...]
    _node_frames: list[Frame | None]
    _edge_frames: list[Frame | None]
    _idtype: np.dtype
    _device: Any
    _batch_num_nodes: tuple[np.ndarray, ...] | None
    _batch_num_edges: tuple[np.ndarray, ...] | None
    _readonly: str | None
    """Why the graph cannot be changed in place, or None."""

    # -- copies ---------------------------------------------------------------------------------------
    def clone(self) -> Self:
        """Return a graph with the same structure and features; changing one's frames leaves the other's unchanged."""
        graph = object.__new__(type(self))
        state = graph.__dict__
        state.update(self.__dict__)
        state["_node_frames"] = copies(self._node_frames)
        state["_edge_frames"] = copies(self._edge_frames)
        state["_readonly"] = None
        state.pop("_inboxes", None)
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
        return self._metagraph.etype_id(etype)  # type: ignore[arg-type]

    def adjacency(self, etype: EdgeType | int | None = None) -> Adjacency:
        """Return the structure of one edge type; None means the only one."""
        if etype is None and len(self.adjacencies) == 1:
            return self.adjacencies[0]
        return self.adjacencies[self.etype_id(etype)]

    def src_type_id(self, etype: EdgeType | int | None = None) -> int:
        """Return the number of the node set that an edge type starts from."""
        return self._metagraph.ends[self.etype_id(etype)][0]

    def dst_type_id(self, etype: EdgeType | int | None = None) -> int:
        """Return the number of the node set that an edge type points to."""
        return self._metagraph.ends[self.etype_id(etype)][1]

    # -- frames -------------------------------------------------------------------------------------------------
    def node_frame(self, ntype: str | None = None) -> Frame:
        """Return the features of a node type; None means the only one."""
        return self._node_frame(self._metagraph.node_set(ntype))

    def src_frame(self, etype: EdgeType | int | None = None) -> Frame:
        """Return the features of the nodes that an edge type starts from."""
        return self._node_frame(self._metagraph.ends[self.etype_id(etype)][0])

    def dst_frame(self, etype: EdgeType | int | None = None) -> Frame:
        """Return the features of the nodes that an edge type points to."""
        return self._node_frame(self._metagraph.ends[self.etype_id(etype)][1])

    def edge_frame(self, etype: EdgeType | int | None = None) -> Frame:
        """Return the features of an edge type; None means the only one."""
        return self._edge_frame(self.etype_id(etype))

    def _node_frame(self, node_set: int) -> Frame:
        frame = self._node_frames[node_set]
        if frame is None:
            frame = _entered(self._node_frames, node_set, self._new_node_frame(node_set))
        return frame

    def _new_node_frame(self, node_set: int) -> Frame:
        names = self._metagraph.ntypes
        label = "node" if len(names) == 1 else f"{names[node_set]!r} node"
        return Frame(self._num_nodes[node_set], None, label, self._device)

    def _edge_frame(self, index: int) -> Frame:
        frame = self._edge_frames[index]
        if frame is None:
            frame = _entered(self._edge_frames, index, self._new_edge_frame(index))
        return frame

    def _new_edge_frame(self, index: int) -> Frame:
        names = self._metagraph.etypes
        label = "edge" if len(names) == 1 else f"{names[index]!r} edge"
        return Frame(self.adjacencies[index].num_edges, None, label, self._device)

    # -- structure ----------------------------------------------------------------------------------------------
    @property
    def _arrays(self) -> Any:
        """What makes arrays of ids where the graph is: see :mod:`dglite.structure.arrays`."""
        return arrays_on(self._device)

    # -- ids ----------------------------------------------------------------------------------------------------
    def node_ids(self, nodes: Any, ntype: str | None = None) -> np.ndarray:
        """Return the int64 ids that ``nodes`` selects: ids, a slice, a boolean mask, or ``ALL``.

        Raises
        ------
        DGLError
            An id is not an integer, or no node has it.
        """
        return self._set_ids(nodes, self._metagraph.node_set(ntype))

    def _set_ids(self, nodes: Any, node_set: int) -> np.ndarray:
        return self._nodes_in(HOST, nodes, node_set)  # type: ignore[no-any-return]

    def _nodes_in(self, arrays: Any, nodes: Any, node_set: int) -> Any:
        """Return the int64 ids that ``nodes`` selects, as an array of ``arrays``; errors are those of node_ids."""
        names = self._metagraph.ntypes
        return ids_in(
            arrays, nodes, self._num_nodes[node_set], "node" if len(names) == 1 else f"{names[node_set]!r} node"
        )

    def _edges_in(self, arrays: Any, edges: Any, index: int) -> Any:
        """Return the int64 ids that ``edges``, which are no pairs, selects, as an array of ``arrays``."""
        names, count = self._metagraph.etypes, self.adjacencies[index].num_edges
        return ids_in(arrays, edges, count, "edge" if len(names) == 1 else f"{names[index]!r} edge")

    def edge_ids_of(self, edges: Any, etype: EdgeType | int | None = None, pairs: bool = True) -> np.ndarray:
        """Return the int64 ids that ``edges`` selects: ids, a slice, a mask, ``ALL``, or a pair ``(u, v)`` of nodes.

        A pair stands for one edge ``u[i] -> v[i]`` for each i: the edge of lowest id, and where a pair is repeated, its
        parallel edges in turn, so that ``g.edges()`` stands for every edge once. Without ``pairs`` a tuple is ids, as
        a list is.

        Raises
        ------
        DGLError
            An id is not an integer, no edge has it, or no edge joins a pair.
        """
        index = self.etype_id(etype)
        adjacency = self.adjacencies[index]
        if pairs and isinstance(edges, tuple) and len(edges) == 2:
            u, v = self._pairs(edges[0], edges[1], index)
            edge_ids = adjacency.edge_ids_in_turn(u, v)
            if len(edge_ids) and edge_ids.min() < 0:
                raise self._no_such_edge(u, v, index)
            return edge_ids.astype(np.int64, copy=False)
        return self._edges_in(HOST, edges, index)  # type: ignore[no-any-return]

    def _pairs(self, u: Any, v: Any, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the endpoints of node pairs; one id on a side goes with every id on the other."""
        src_set, dst_set = self._metagraph.ends[index]
        return broadcast_pair(self._set_ids(u, src_set), self._set_ids(v, dst_set))

    def _no_such_edge(self, u: np.ndarray, v: np.ndarray, index: int) -> DGLError:
        i = int(np.argmin(self.adjacencies[index].has_edges(u, v)))
        return DGLError(f"there is no edge from node {u[i]} to node {v[i]} of type {self._metagraph.etypes[index]!r}")

    @property
    def _features_device(self) -> Any:
        """The graph's device as the library of its features has it."""
        if active.guest is not None:
            for frame in (*self._node_frames, *self._edge_frames):
                for column in () if frame is None else frame.features():
                    return active.device(column)
        return self._device

    def _ids_tensor(self, array: Any) -> Tensor:
        """Return ids as a tensor of the graph's id dtype on its device. ``array`` must not be shared."""
        if active.is_tensor(array):
            return active.astype(array, str(self._idtype))
        if array.dtype != self._idtype:
            array = array.astype(self._idtype)
        return self._tensor(array)

    def _program_ids(self, ids: Any) -> Tensor:
        """Return ids that a program holds, an array or a tensor, as a tensor of the graph's id dtype on its device."""
        for adjacency in self.adjacencies:
            require_input(adjacency)
        tensor = active.astype(framework.as_tensor(ids), str(self._idtype))
        return active.to_device(tensor, self._device)

    def _ids_copy(self, array: Any) -> Tensor:
        """Return ids as :meth:`_ids_tensor` does, copied; many into memory of the pool."""
        if active.is_tensor(array):
            ids = active.astype(array, str(self._idtype))
            return active.copy(ids) if ids is array else ids
        copy = new_array(array.shape, self._idtype)
        copy[:] = array
        return self._tensor(copy)

    def _tensor(self, array: np.ndarray) -> Tensor:
        if active.guest is not None:
            return active.from_numpy(array, self._features_device)
        return active.from_numpy(array, None if self._device == active.cpu() else self._device)


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


def copies(frames: list[Frame | None]) -> list[Frame | None]:
    """Return copies of those frames that exist."""
    return [None if frame is None else frame.copy() for frame in frames]


def sizes_in_program(of_batch: tuple[np.ndarray, ...] | None, index: int, count: int) -> Tensor:
    """Return the numbers of nodes or edges of a type in each graph of a batch as a program holds them, (batch_size,).

    Without any, there is one graph, of ``count``.
    """
    return framework.full((1,), count) if of_batch is None else framework.as_tensor(of_batch[index])
