"""DGLGraph: the graph object, how it is made, copied, moved and pickled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from inspect import isfunction
from typing import Any, ClassVar

import numpy as np

from .. import hints
from ..backend import active, framework
from ..errors import DGLError, DGLWarning, warn_deprecated
from ..structure import Adjacency, Metagraph
from ..structure.arrays import HOST, arrays_on
from ..structure.metagraph import HOMOGENEOUS
from ..structure.parse import device_of, parse_edges
from .attached import AttachedMixin
from .base import INTERNAL_NAMES, id_dtype, tensor_dtype
from .deprecated import READONLY, DeprecatedMixin
from .describe import html_of, text_of
from .features import FeatureMixin
from .formats import FormatMixin
from .internals import INTERNALS
from .mutation import MutationMixin
from .propagation import PropagationMixin
from .protected import ProtectedMixin
from .queries import QueryMixin
from .scope import STATE, LocalScope, leave_scopes, set_state, state_of_thread
from .types import TypeMixin

_PICKLED_NAMES = {
    "_metagraph": "type_graph",
    "_num_nodes": "node_counts",
    "_node_frames": "node_frames",
    "_edge_frames": "edge_frames",
    "_idtype": "numpy_idtype",
    "_batch_num_nodes": "batch_node_counts",
    "_batch_num_edges": "batch_edge_counts",
}
"""New names of attributes by those that are in graphs which older versions pickled."""


class DGLGraph(
    DeprecatedMixin,
    TypeMixin,
    FeatureMixin,
    QueryMixin,
    MutationMixin,
    FormatMixin,
    PropagationMixin,
    AttachedMixin,
    ProtectedMixin,
):
    """A directed graph with features, of one or of many types of nodes and edges.

    Make one with :func:`dglite.graph`, :func:`dglite.heterograph` or :func:`dglite.create_block`, or grow one:
    ``DGLGraph()`` is empty and takes ``add_nodes`` and ``add_edges``.

    Examples
    --------
    >>> g = DGLGraph()
    >>> g.add_nodes(3)
    >>> g.add_edges([0, 1], [1, 2])
    >>> g.num_nodes(), g.num_edges()
    (3, 2)
    """

    read_state: ClassVar[Any] = None
    """Returns the graph that a pickle's state of DGL describes; :mod:`dglite.compat` sets it."""

    def __init__(
        self,
        graph_data: Any = None,
        num_nodes: int | None = None,
        *,
        multigraph: bool | None = None,
        readonly: bool | None = None,
        sort_csr: bool | None = None,
    ) -> None:
        """Make a graph of one type from what :func:`dglite.graph` takes; without data, one without edges.

        The other arguments are classic: any graph may have parallel edges, formats are sorted where a kernel needs it,
        and a graph made with ``readonly=True`` cannot be changed in place.
        """
        if isinstance(graph_data, DGLGraph):
            raise DGLError("the argument is a DGLGraph already; g.clone() copies one")
        if num_nodes is not None and not isinstance(num_nodes, int | np.integer):
            raise DGLError(f"num_nodes must be an integer >= 0, got {num_nodes!r:.60}")
        if graph_data is None:
            adjacency = Adjacency.from_coo(num_nodes or 0, num_nodes or 0, _NO_IDS, _NO_IDS)
        else:
            adjacency = parse_edges(graph_data, num_nodes, num_nodes, square=True)
        _fill(self, HOMOGENEOUS, (adjacency,), (adjacency.num_src,), device_of(graph_data))
        if (multigraph, readonly, sort_csr) != (None, None, None):
            warn_deprecated("DGLGraph(multigraph=, readonly=, sort_csr=)", "drop them; parallel edges are allowed")
            if readonly:
                self._readonly = READONLY

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def __getattr__(self, name: str) -> Any:
        if name in INTERNALS:
            return INTERNALS[name](self)
        if name in STATE and name in (state := state_of_thread(self)):  # threads have scopes of the graph
            return state[name]
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that failed raises its own error again
        raise hints.attribute_error(f"{type(self).__name__!r} object", name, dir(self))

    def __dir__(self) -> list[str]:
        hidden = INTERNAL_NAMES.union(set(hints.DATA_NAMES).difference(self.__dict__))
        return [name for name in object.__dir__(self) if name not in hidden]

    # -- copies -------------------------------------------------------------------------------------------------
    def local_var(self) -> DGLGraph:
        """Return a shallow copy: features written to it do not appear in this graph."""
        return self.clone()

    def local_scope(self) -> LocalScope:
        """Return a context manager; when it ends, the graph has the structure and features that it had before.

        Features are restored as columns: an in-place operation on a tensor stays. Where several threads have scopes of
        one graph, each sees what it writes itself, and a thread without a scope what no scope has changed.
        """
        return LocalScope(self)

    __copy__ = local_var
    __iter__ = None  # or Python would try g[0], g[1], ...

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        leave_scopes(state)
        for derived in ("_inboxes", "_count_tensors", "_structure_tensors"):
            state.pop(derived, None)
        state["_device"] = str(self._device)
        return state

    def __setstate__(self, state: Any) -> None:
        if self.read_state is not None and not (isinstance(state, dict) and "adjacencies" in state):
            state = type(self).read_state(state).__getstate__()
        self.__dict__.update({_PICKLED_NAMES.get(name, name): value for name, value in state.items()})
        self._device = canonical_device(state["_device"])

    # -- ids and devices ----------------------------------------------------------------------------------------
    @property
    def idtype(self) -> Any:
        """The dtype of the node and edge ids that the graph returns, int32 or int64."""
        return tensor_dtype(self.numpy_idtype)

    def astype(self, idtype: Any) -> DGLGraph:
        """Return the graph with ids of another dtype; features are shared."""
        dtype = id_dtype(idtype)
        if dtype == self.numpy_idtype:
            return self
        graph = self.clone()
        adjacencies = tuple([adjacency.as_idtype(dtype) for adjacency in self.adjacencies])
        set_state(graph, adjacencies=adjacencies, numpy_idtype=dtype)
        return graph

    def int(self) -> DGLGraph:
        """Return the graph with int32 ids."""
        return self.astype(np.int32)

    def long(self) -> DGLGraph:
        """Return the graph with int64 ids."""
        return self.astype(np.int64)

    @property
    def device(self) -> framework.device:
        """The device of the features, of the ids that the graph returns, and of the structure that kernels read."""
        return self._device

    def to(self, device: Any, non_blocking: bool = False, **kwargs: Any) -> DGLGraph:
        """Return the graph on ``device``: its features now, its edges when something there first reads them.

        If it is there already, this graph is returned for a device object, and a shallow copy for a device that is
        named by text, as in DGL: features set on ``g.to("cpu")`` do not appear in ``g``.

        With ``non_blocking`` the host does not wait for a GPU: features are copied through page-locked memory, in the
        order of the current stream; work on another stream has to wait for this one.
        """
        target = canonical_device(device)
        if target == self._device and not isinstance(device, str):
            return self
        graph = self.clone()
        if target == self._device:
            return graph
        graph._device = target
        if arrays_on(target) is HOST and not active.compiling():
            graph.adjacencies = tuple([x.on_host() if type(x) is Adjacency else x for x in graph.adjacencies])
        for frames in (graph.node_frames, graph.edge_frames):
            frames[:] = [None if frame is None else frame.to_device(target, non_blocking) for frame in frames]
        return graph

    def is_pinned(self) -> bool:
        """Whether the structure is in page-locked memory: never. It stays on the host, where samplers run."""
        return False

    def pin_memory_(self) -> DGLGraph:
        """Do nothing and return the graph: no kernel on another device reads its structure."""
        return self

    unpin_memory_ = pin_memory_

    def record_stream(self, stream: Any) -> DGLGraph:
        """Do nothing and return the graph: its structure uses no memory of the stream's device."""
        return self

    def materialize_data(self) -> DGLGraph:
        """Gather every feature that is not gathered yet, and return the graph."""
        for frame in (*self.node_frames, *self.edge_frames):
            dict(frame.items() if frame is not None else ())
        return self

    def cpu(self) -> DGLGraph:
        """Return the graph with its features on the CPU."""
        return self.to(active.cpu())


class _DataName:
    """A name of PyG's ``Data``: a graph keeps what is assigned to it, as under any name, and warns about a tensor."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, graph: DGLGraph | None, owner: type) -> Any:
        if graph is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self.name!r}")
        if self.name not in graph.__dict__:
            raise hints.attribute_error(f"{owner.__name__!r} object", self.name, ())
        return graph.__dict__[self.name]

    def __set__(self, graph: DGLGraph, value: Any) -> None:
        if type(graph) is DGLGraph and hasattr(value, "shape"):
            warnings.warn(hints.not_a_feature(self.name), DGLWarning, stacklevel=3)  # behind __setattr__
        graph.__dict__[self.name] = value

    def __delete__(self, graph: DGLGraph) -> None:
        self.__get__(graph, type(graph))
        del graph.__dict__[self.name]


for _mixin in DGLGraph.__mro__[1:-1]:  # errors of Python's name a method by __qualname__
    for _name, _method in vars(_mixin).items():
        if isfunction(_method):
            _method.__qualname__ = f"DGLGraph.{_name}"

for _name in hints.DATA_NAMES:  # descriptors cost nothing under other names, as __setattr__ would
    setattr(DGLGraph, _name, _DataName(_name))


_NO_IDS = np.empty(0, np.int64)
_CPU = active.cpu()


def canonical_device(device: Any) -> Any:
    """Return the framework's device for ``device``, its name or its object; None means the CPU."""
    try:
        return _CPU if device is None or device == _CPU else active.device(active.empty((0,), "float32", device))
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:  # the first from a torch without CUDA
        raise DGLError(
            f"no device {device!r:.60}; expected 'cpu', 'cuda', 'cuda:1', the number of a GPU or a torch.device that "
            "this machine has. Dtypes are converted feature by feature: g.ndata['h'] = g.ndata['h'].float()"
        ) from error


def require_graph(graph: Any) -> None:
    """Raise DGLError unless a function's first argument is a graph: arguments are swapped, for instance."""
    if not isinstance(graph, DGLGraph):
        raise DGLError(hints.not_a_graph(graph))


def graphs_of(graphs: Any, caller: str) -> list[DGLGraph]:
    """Return the graphs of a list, or of anything else that holds graphs; raise DGLError where it does not."""
    if isinstance(graphs, DGLGraph):
        raise DGLError(f"{caller}: expected a list of graphs, got DGLGraph; write dglite.{caller}([g])")
    try:
        listed = list(graphs)
    except TypeError:
        raise DGLError(f"{caller}: expected a list of graphs, got {type(graphs).__name__}") from None
    for i, g in enumerate(listed):
        if not isinstance(g, DGLGraph):
            raise DGLError(f"{caller}: item {i} is a {type(g).__name__}; expected a list of graphs")
    return listed


def make_graph(
    metagraph: Metagraph,
    adjacencies: tuple[Adjacency, ...],
    num_nodes: Sequence[int],
    device: Any = None,
    like: DGLGraph | None = None,
) -> DGLGraph:
    """Return a graph of relations that fit the metagraph, with ``num_nodes`` by node set and no features.

    It is on the device of ``like`` and has its id dtype; without, on ``device``, with that of the relations.
    """
    graph = object.__new__(DGLGraph)
    _fill(graph, metagraph, adjacencies, num_nodes, device)
    if like is not None:
        graph.__dict__["_device"], graph.__dict__["numpy_idtype"] = like._device, like.numpy_idtype
    return graph


def _fill(
    graph: DGLGraph,
    metagraph: Metagraph,
    adjacencies: tuple[Adjacency, ...],
    num_nodes: Sequence[int],
    device: Any = None,
) -> None:
    state = graph.__dict__  # attributes would be set at five times the cost: see ProtectedMixin
    state["adjacencies"] = adjacencies
    state["type_graph"] = metagraph
    state["node_counts"] = tuple(num_nodes)
    state["node_frames"] = [None] * len(num_nodes)
    state["edge_frames"] = [None] * len(adjacencies)
    state["numpy_idtype"] = adjacencies[0].idtype if adjacencies else _NO_IDS.dtype
    state["_device"] = _CPU if device is None or device is _CPU else canonical_device(device)
    state["batch_node_counts"] = state["batch_edge_counts"] = None
    state["_readonly"] = None
