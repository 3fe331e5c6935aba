"""The states of objects in a pickle of DGL 0.4 to 2.x, and the graphs that they describe.

A graph of DGL is pickled as a tree of objects of DGL's classes. The classes of this module stand for those and only
keep the state that the pickle gives; :func:`graph_of` makes a graph of the whole:

    0.4   homogeneous    dict: ``_graph`` (a GraphIndexState: number of nodes, read-only, sources, destinations),
                         ``_node_frame`` and ``_edge_frame``, numbers of nodes and edges of a batch as lists
    0.4   others         (index, node types, edge types, node frames, edge frames), until 0.4.2 as a dict
    0.5 - everything     dict: ``_graph`` (an index), names of types, ``_node_frames`` and ``_edge_frames``, batch sizes

An index is (version, bytes, arrays) since 0.5: the bytes hold the graph of types, the number of nodes by type, in
version 2 whether they were pinned, and for each relation its format (4 bytes) and whether it is sorted. Before, it is
(graph of types, numbers of nodes, matrices).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..structure import Adjacency
from ..structure.formats import FORMATS
from ..structure.ids import integer_array
from ..structure.restore import restore
from .dgl_file import Cursor, read_metagraph
from .unpack import metagraph_of

_COO, _CSR, _CSC = (1,), (2,), (3, 4)
"""Numbers of formats; 4 is CSC since DGL 0.6, 3 before."""


class State:
    """An object of DGL's, of whatever class: the state that its pickle gives."""

    content: Any = None

    def __setstate__(self, state: Any) -> None:
        self.content = state


class IndexState(State):
    """Ids: a slice or a tensor."""


class FrameRefState(State):
    """Rows of a frame."""


class FusedGraphState(State):
    """GraphBolt's graph: its attributes by name, or the arguments of the function that makes it."""

    @classmethod
    def of_arguments(cls, *arguments: Any) -> FusedGraphState:
        """Return it for the arguments of ``fused_csc_sampling_graph``."""
        graph = cls()
        graph.content = arguments
        return graph


class SchemeState(tuple):
    """Shape of a row and dtype."""

    __slots__ = ()

    @classmethod
    def _reconstruct_scheme(cls, shape: tuple[int, ...], dtype: str) -> SchemeState:
        return cls((shape, dtype))


def new_object(kind: type[State]) -> State:
    """Return an object without state, as DGL's function of this name does."""
    if not (isinstance(kind, type) and issubclass(kind, State)):
        raise DGLError(f"an object of {kind!r:.60}, which is not a class of DGL")
    return kind()


def graph_of(state: Any, is_block: bool = False, source: Path = Path("the pickle")) -> DGLGraph:
    """Return the graph that the state of one of DGL describes.

    Raises ``DGLError``: the state is not one that DGL 0.4 to 2.x writes, or contradicts itself.
    """
    try:
        if isinstance(state, tuple) and len(state) == 5:
            return _graph_0_4(state, source)
        if not (isinstance(state, dict) and isinstance(state.get("_graph"), State)):
            raise ValueError(f"its state is {type(state).__name__}, which no version from 0.4 to 2.4 wrote")
        if "_node_frame" in state:
            return _homogeneous_0_4(state, source)
        if "_srctypes_invmap" not in state:
            names = ("_graph", "_ntypes", "_etypes", "_node_frames", "_edge_frames")
            graph = _graph_0_4(tuple(state[name] for name in names), source)
            if state.get("_batch_num_nodes") is not None:
                graph.set_batch_num_nodes(dict(zip(graph.ntypes, _sizes(state["_batch_num_nodes"]), strict=True)))
                edges = zip(graph.canonical_etypes, _sizes(state["_batch_num_edges"]), strict=True)
                graph.set_batch_num_edges(dict(edges))
            return graph
        return _graph(state, is_block, source)
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError) as error:
        raise DGLError(f"{source} holds no graph of DGL that can be read: {error}") from error


# -- graphs by version ---------------------------------------------------------------------------------------------
def _graph(state: Mapping[str, Any], is_block: bool, source: Path) -> DGLGraph:
    """Return a graph of DGL 0.5 or later."""
    counts, relations = _structure(state["_graph"], source)
    sources, destinations = dict(state["_srctypes_invmap"]), dict(state["_dsttypes_invmap"])
    two_sided = bool(state["_is_unibipartite"]) and (is_block or bool(sources.keys() & destinations.keys()))
    ntypes = [str(name) for name in state["_ntypes"]]
    etypes = [tuple(map(str, etype)) for etype in state["_canonical_etypes"]]
    # By number: sources come first, then destinations.
    dsttypes = [ntypes[i] for i in sorted(destinations.values())] if two_sided else None
    names = [ntypes[i] for i in sorted(sources.values())] if two_sided else ntypes
    graph = _assembled(names, etypes, dsttypes, counts, relations)
    _fill(graph, state["_node_frames"], state["_edge_frames"])
    if state.get("_batch_num_nodes") is not None and not two_sided:
        graph.set_batch_num_nodes(_batch_sizes(state["_batch_num_nodes"]))
        graph.set_batch_num_edges(_batch_sizes(state["_batch_num_edges"]))
    return graph


def _graph_0_4(state: tuple[Any, ...], source: Path) -> DGLGraph:
    """Return a graph of several types of DGL 0.4."""
    index, ntypes, etypes, node_frames, edge_frames = state
    counts, relations = _structure(index, source)
    ends = _ends(index, source)
    names = [str(name) for name in ntypes]
    canonical = [(names[src], str(name), names[dst]) for (src, dst), name in zip(ends, etypes, strict=True)]
    half = len(names) // 2
    sides = (names[:half], names[half:]) if len(set(names)) < len(names) else (names, None)  # a block, or not
    graph = _assembled(sides[0], canonical, sides[1], counts, relations)
    _fill(graph, node_frames, edge_frames)
    return graph


def _homogeneous_0_4(state: Mapping[str, Any], source: Path) -> DGLGraph:
    """Return a graph of one type of DGL 0.4, or a batch of them."""
    num_nodes, *_, src, dst = state["_graph"].content
    ends = _ids(src), _ids(dst)
    count = int(num_nodes)
    relation = restore((count, count, len(ends[0])), ends[0].dtype, FORMATS, endpoints=ends)
    graph = _assembled(["_N"], [("_N", "_E", "_N")], None, [count], [relation])
    _fill(graph, [state["_node_frame"]], [state["_edge_frame"]])
    if state.get("_batch_num_nodes") is not None:
        graph.set_batch_num_nodes(*_sizes([state["_batch_num_nodes"]]))
        graph.set_batch_num_edges(*_sizes([state["_batch_num_edges"]]))
    return graph


def _assembled(
    ntypes: list[str], etypes: Sequence[Any], dsttypes: list[str] | None, counts: list[int], relations: list[Adjacency]
) -> DGLGraph:
    metagraph = metagraph_of(ntypes, list(etypes), dsttypes)
    if len(metagraph.ends) != len(relations) or len(metagraph.set_names()) != len(counts):
        raise ValueError("its types are not as many as its relations and numbers of nodes")
    for (src, dst), relation in zip(metagraph.ends, relations, strict=True):
        if (relation.num_src, relation.num_dst) != (counts[src], counts[dst]):
            raise ValueError("a relation joins other numbers of nodes than there are")
    return make_graph(metagraph, tuple(relations), counts)


# -- structure -----------------------------------------------------------------------------------------------------
def _structure(index: State, source: Path) -> tuple[list[int], list[Adjacency]]:
    """Return the number of nodes by type, and the relations."""
    content = _index_state(index)
    if not isinstance(content[0], int):  # DGL 0.4
        _metagraph, num_nodes, matrices = content
        counts = [int(count) for count in num_nodes]
        pairs = zip(_ends(index, source), matrices, strict=True)
        return counts, [_of_matrix(matrix, counts[src], counts[dst]) for (src, dst), matrix in pairs]
    version, text, arrays = content
    if version not in (0, 1, 2):
        raise ValueError(f"version {version} of its structure is not known")
    cursor, left = Cursor(source, bytes(text)), iter(arrays)
    _, ends = read_metagraph(cursor)
    counts = cursor.numbers().tolist()
    cursor.take(int(version == 2))  # whether the memory was pinned
    relations = [_relation(cursor, counts[src], counts[dst], left) for src, dst in ends]
    if cursor.left or next(left, None) is not None:
        raise ValueError("it says more of its structure than is understood")
    return counts, relations


def _index_state(index: State) -> Sequence[Any]:
    """Return the three parts of an index; until DGL 0.4.2 there was no object around them."""
    if index.content is None:
        raise ValueError("DGL before 0.4.2 wrote no edges of graphs of several types")
    parts: Sequence[Any] = index.content.content if isinstance(index.content, State) else index.content
    return parts


def _ends(index: State, source: Path) -> list[tuple[int, int]]:
    """Return the types that each relation joins, by number."""
    content = _index_state(index)
    if isinstance(content[0], int):
        return read_metagraph(Cursor(source, bytes(content[1])))[1]
    *_, src, dst = content[0].content
    return list(zip(_ids(src).tolist(), _ids(dst).tolist(), strict=True))


def _relation(cursor: Cursor, num_src: int, num_dst: int, arrays: Iterator[Any]) -> Adjacency:
    (code,) = cursor.unpacked("<i")
    if code in _COO:
        cursor.take(2)  # whether rows and columns are sorted
        ends = _ids(next(arrays)), _ids(next(arrays))
        return restore((num_src, num_dst, len(ends[0])), ends[0].dtype, FORMATS, endpoints=ends)
    cursor.take(1)
    return _of_rows(code, num_src, num_dst, [next(arrays) for _ in range(3)])


def _of_matrix(matrix: Any, num_src: int, num_dst: int) -> Adjacency:
    """Return a relation of DGL 0.4: (format, rows, columns, arrays, flags), or (sources, destinations, ids)."""
    code, *_, arrays, _flags = matrix.content if isinstance(matrix, State) else (1, matrix, None)
    if code not in _COO:
        return _of_rows(code, num_src, num_dst, arrays)
    src, dst = _ids(arrays[0]), _ids(arrays[1])
    return restore((num_src, num_dst, len(src)), src.dtype, FORMATS, endpoints=(src, dst))


def _of_rows(code: int, num_src: int, num_dst: int, arrays: Sequence[Any]) -> Adjacency:
    if code not in _CSR + _CSC:
        raise ValueError(f"sparse format {code} is not known")
    indptr, indices, ids = map(_ids, arrays)
    rows = indptr, indices, ids if len(ids) else None
    parts: dict[str, Any] = {"csr" if code in _CSR else "csc": rows}
    return restore((num_src, num_dst, len(indices)), indices.dtype, FORMATS, **parts)


def _ids(values: Any) -> np.ndarray:
    """Return ids as an array, from a tensor or DGL 0.4's index object."""
    if isinstance(values, IndexState):
        values = values.content
    if isinstance(values, slice):
        return np.arange(values.start or 0, values.stop)
    ids = np.asarray(values.tonumpy() if hasattr(values, "tonumpy") else values)
    if ids.dtype.kind != "i" or ids.ndim != 1:
        raise ValueError(f"ids are {ids.dtype} of shape {ids.shape}")
    return ids


# -- features ------------------------------------------------------------------------------------------------------
def _fill(graph: DGLGraph, node_frames: Sequence[Any], edge_frames: Sequence[Any]) -> None:
    for i, frame in enumerate(node_frames):
        graph.node_frame_at(i).update(_columns(frame))
    for j, frame in enumerate(edge_frames):
        graph.edge_frame_at(j).update(_columns(frame))


def _columns(frame: Any) -> dict[str, Tensor]:
    """Return the features of a frame of any version."""
    if not isinstance(frame, State):  # a frame that has been read already
        return dict(frame)
    content = frame.content
    if isinstance(frame, FrameRefState):
        rows = _tensor(_ids(content["_index"]))
        return {name: active.take(column, rows) for name, column in _columns(content["_frame"]).items()}
    return {str(name): _values(str(name), column) for name, column in content["_columns"].items()}


def _values(name: str, column: Any) -> Tensor:
    content = column.content if isinstance(column, State) else vars(column)
    values = content.get("storage", content.get("data"))
    if values is None:
        raise ValueError(f"feature {name!r} has no values: it was to be read from a store when it is used")
    values, rows = _tensor(values), content.get("index")
    return values if rows is None else active.take(values, _tensor(rows))


def _tensor(values: Any) -> Tensor:
    """Return a tensor of torch or an array as a tensor of the backend."""
    return values if active.is_tensor(values) else active.from_numpy(np.asarray(values))


def _sizes(lists: Any) -> list[Tensor]:
    """Return the batch sizes of DGL 0.4 as tensors."""
    return [active.from_numpy(integer_array(sizes, "batch sizes")) for sizes in lists]


def _batch_sizes(sizes: Any) -> Any:
    """Return batch sizes by type; of one type, without its name."""
    by_type = {key: _tensor(values) for key, values in sizes.items()}
    return next(iter(by_type.values())) if len(by_type) == 1 else by_type
