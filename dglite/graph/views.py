"""What ``g.nodes``, ``g.edges`` and the features of a heterogeneous graph return: thin views of frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from .. import hints
from ..arguments import explained
from ..backend import Tensor, active, framework
from ..column import Features
from ..errors import DGLError
from ..frame import Frame
from ..structure.ids import as_ids
from ..structure.sizes import require_room

if TYPE_CHECKING:
    from .queries import QueryMixin


class Space(NamedTuple):
    """Some nodes or edges; ``data`` maps names to their features."""

    data: MutableMapping[str, Tensor]

    def __getitem__(self, key: Any) -> Any:
        """Return the data for 0, as of any tuple; features are in ``data``."""
        if isinstance(key, str):
            raise TypeError(f"features of some nodes or edges are in .data: write .data[{key!r}], not [{key!r}]")
        return tuple.__getitem__(self, key)


if not TYPE_CHECKING:  # a named tuple's body takes no statements
    Space.__setitem__ = Space.__delitem__ = Space.__setattr__ = hints.no_assignment("write .data['h'] = tensor")


class FrameRows(MutableMapping[str, Tensor]):
    """Some rows of a frame. Writing leaves the other rows as they are and changes no tensor in place."""

    __slots__ = ("_frame", "_rows")

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("features are read by name, ['{name}'], not .{name}")

    def __init__(self, frame: Frame, rows: np.ndarray) -> None:
        self._frame, self._rows = frame, rows

    def __getitem__(self, name: str) -> Tensor:
        return self._frame.rows_of(name, self._rows)

    def __setitem__(self, name: str, values: Tensor) -> None:
        self._frame.set_rows(self._rows, {name: values})

    def __delitem__(self, name: str) -> None:
        raise DGLError(f"feature {name!r} cannot be dropped from some rows; drop the whole column")

    def update(self, other: Any = (), /, **more: Tensor) -> None:  # type: ignore[override]
        """Write several columns, or none if one of them is wrong."""
        self._frame.set_rows(self._rows, dict(other, **more))

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame)

    def __len__(self) -> int:
        return len(self._frame)

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class TypedData(Features):
    """Features of several types at once: a name maps to a dictionary from the types that have it to their columns.

    The dictionary is a new one: entries added to it do not become features. Setting takes such a dictionary; types that
    it leaves out keep what they have. As in DGL, a name that no type has maps to an empty dictionary; otherwise it
    counts as missing, as a key of a ``defaultdict`` does.
    """

    __slots__ = ("_frames", "_resolve")

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("features are read by name, ['{name}'], not .{name}")

    def __init__(self, frames: Mapping[Any, Frame], resolve: Any) -> None:
        """Take the frames by type, and a function that finds the type which a user's key means."""
        self._frames, self._resolve = frames, resolve

    def __getitem__(self, name: str) -> dict[Any, Tensor]:  # type: ignore[override]
        return {key: frame[name] for key, frame in self._frames.items() if name in frame}

    def __setitem__(self, name: str, values: Mapping[Any, Tensor]) -> None:  # type: ignore[override]
        if not isinstance(values, Mapping):
            raise DGLError(
                f"feature {name!r} of a graph with types {list(self._frames)} must be a dictionary from type to "
                f"tensor, got {type(values).__name__}"
            )
        frames = [(self._frames[self._resolve(key)], value) for key, value in values.items()]
        checked = [(frame, frame.checked(name, value)) for frame, value in frames]
        for frame, value in checked:
            frame[name] = value

    def __delitem__(self, name: str) -> None:
        frames = [frame for frame in self._frames.values() if name in frame]
        if not frames:
            raise KeyError(f"no type has a feature {name!r}; there are {sorted(self) or 'none'}")
        for frame in frames:
            del frame[name]

    def __contains__(self, name: object) -> bool:
        return any(name in frame for frame in self._frames.values())

    def get(self, name: str, default: Any = None) -> Any:
        """Return the columns, or ``default`` where no type has one."""
        return super().get(name, default) if name in self else default

    def pop(self, name: str, *default: Any) -> Any:
        """Drop the columns and return them, or ``default`` where no type has one; without it, raise KeyError."""
        return default[0] if default and name not in self else super().pop(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the columns; where no type has one, set ``default`` first."""
        if name not in self:
            self[name] = default
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for frame in self._frames.values() for name in frame))

    def __len__(self) -> int:
        return len({name for frame in self._frames.values() for name in frame})

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class ColumnStorage:
    """A feature as data loaders read it."""

    __slots__ = ("_frame", "_name")

    def __init__(self, frame: Frame, name: str) -> None:
        self._frame, self._name = frame, name

    def requires_ddp(self) -> bool:
        """Whether loaders must know of other processes: never."""
        return False

    def fetch(self, indices: Any, device: Any = None, pin_memory: bool = False, **kwargs: Any) -> Tensor:
        """Return the rows of the given ids, on ``device`` where one is given."""
        rows = self._frame.rows_of(self._name, as_ids(indices, self._frame.num_rows, self._frame.label))
        return rows if device is None else active.to_device(rows, device)


class NodeView:
    """``g.nodes``: call it for the ids of a type, index it by type or by ids for features.

    ``side`` limits it to the source (``g.srcnodes``) or destination nodes (``g.dstnodes``).
    """

    __slots__ = ("_graph", "_side")

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("features are in g.ndata, or g.nodes['type'].data for one type")
        __setitem__ = __delitem__ = hints.no_assignment(
            "g.ndata['h'] = tensor sets a feature, g.nodes['type'].data['h'] that of one type, "
            "g.remove_nodes(ids) removes nodes"
        )

    def __init__(self, graph: QueryMixin, side: str = "all") -> None:
        self._graph, self._side = graph, side

    @explained
    def __call__(self, ntype: str | None = None) -> Tensor:
        """Return the node ids of a type, 0 .. num_nodes - 1; None means the only one."""
        num_nodes = self._graph.node_counts[self._node_set(ntype)]
        if active.compiling():
            return self._graph._program_ids(framework.arange(num_nodes))
        require_room(num_nodes, 8, self._graph.num_edges())
        return self._graph.ids_tensor(np.arange(num_nodes))

    def __getitem__(self, key: Any) -> Space:
        """Return the features of a node type, of the nodes with the given ids of the only type, or of ``ids, type``."""
        graph = self._graph
        if isinstance(key, str) or key is None:
            return Space(graph.node_frame_at(self._node_set(key)))
        key, ntype = key if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], str) else (key, None)
        node_set = self._node_set(ntype)
        if isinstance(key, slice) and key == slice(None):
            return Space(graph.node_frame_at(node_set))
        return Space(FrameRows(graph.node_frame_at(node_set), graph.node_ids_at(key, node_set)))

    def __len__(self) -> int:
        graph = getattr(self, "_graph", None)  # as of edges
        return 0 if graph is None else int(graph.node_counts[self._node_set(None)])

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self())

    def __repr__(self) -> str:
        types = {"all": "ntypes", "src": "srctypes", "dst": "dsttypes"}[self._side]
        return f"NodeView({types}={list(getattr(self._graph.type_graph, types))})"

    def _node_set(self, ntype: str | None) -> int:
        metagraph = self._graph.type_graph
        if self._side == "all":
            return metagraph.node_set(ntype)
        return metagraph.src_set(ntype) if self._side == "src" else metagraph.dst_set(ntype)


class EdgeView:
    """``g.edges``: call it for endpoints and ids, index it by type, by ids or by node pairs ``[u, v]`` for features."""

    __slots__ = ("_graph",)

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("features are in g.edata, or g.edges['type'].data for one type")
        __setitem__ = __delitem__ = hints.no_assignment(
            "g.edata['h'] = tensor sets a feature, g.edges['type'].data['h'] that of one type, "
            "g.remove_edges(ids) removes edges"
        )

    def __init__(self, graph: QueryMixin) -> None:
        self._graph = graph

    @overload
    def __call__(
        self, form: Literal["uv"] = "uv", order: str | None = "eid", etype: Any = None
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(self, form: Literal["eid"], order: str | None = "eid", etype: Any = None) -> Tensor: ...
    @overload
    def __call__(
        self, form: Literal["all"], order: str | None = "eid", etype: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @explained
    def __call__(self, form: str = "uv", order: str | None = "eid", etype: Any = None) -> Any:
        """Return the edges as :meth:`DGLGraph.all_edges` does."""
        return self._graph.all_edges(form, order, etype)  # type: ignore[call-overload]

    def __getitem__(self, key: Any) -> Space:
        """Return the features of an edge type, or of the given edges of the only type."""
        graph = self._graph
        if key is None or isinstance(key, str) or (isinstance(key, tuple) and any(isinstance(x, str) for x in key)):
            return Space(graph.edge_frame_at(graph.etype_id(key)))
        index = graph.etype_id()
        if isinstance(key, slice) and key == slice(None):
            return Space(graph.edge_frame_at(index))
        return Space(FrameRows(graph.edge_frame_at(index), graph.edge_ids_of(key)))

    def __len__(self) -> int:
        graph = getattr(self, "_graph", None)  # Dynamo before torch 2.12 asks one that is not constructed yet
        return 0 if graph is None else graph.adjacency().num_edges

    def __repr__(self) -> str:
        return f"EdgeView(canonical_etypes={list(self._graph.type_graph.canonical_etypes)})"


for _view, _hint in (
    (FrameRows, "g.nodes[ids].data['{name}'] = tensor"),
    (TypedData, "g.ndata['{name}'] = {{'user': tensor}}, or g.nodes['user'].data['{name}'] = tensor"),
    (NodeView, "g.ndata['{name}'] = tensor"),
    (EdgeView, "g.edata['{name}'] = tensor"),
):
    hints.refuse_features(_view, _hint)
