"""The arguments of user-defined functions: batches of edges or nodes, whose features are gathered when read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from . import hints
from .backend import Tensor
from .backend import active as backend
from .errors import DGLError

_NO_CHANGES: Mapping[str, Tensor | None] = MappingProxyType({})


class Columns(MutableMapping[str, Tensor]):
    """Columns by name. A column is gathered when it is first read, then kept for the batch.

    What a function writes into a column in place, it sees; the graph's own columns stay as they are. Columns that it
    sets or removes are in ``changes``, a removed one as None: where ``data`` has all edges or nodes, as in
    ``update_all`` and ``apply_nodes`` without ids, these then become the graph's.
    """

    __slots__ = ("_columns", "_label", "_names", "_read", "changes")

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("columns are read by name, ['{name}'], not .{name}")
        __call__ = hints.not_called

    def __init__(self, label: str, names: Collection[str], read: Callable[[str], Any]) -> None:
        """``label`` names the rows in errors, e.g. "source nodes"; ``read`` gathers one of ``names``."""
        self._label = label
        self._names = names
        self._read = read
        self._columns: dict[str, Tensor] = {}
        self.changes: Mapping[str, Tensor | None] = _NO_CHANGES

    def __getitem__(self, name: str) -> Tensor:
        column = self._columns.get(name)
        if column is None:
            if name not in self._names:
                raise KeyError(f"no {name!r} on the {self._label}; there are: {_listed(self._names)}{self._remark()}")
            column = self._columns[name] = self._read(name)
        return column

    def _remark(self) -> str:
        return "; reduce functions get messages, g.update_all(message, reduce)" if self._label == "messages" else ""

    def __setitem__(self, name: str, value: Tensor) -> None:
        if name not in self._names:
            self._names = (*self._names, name)
        self._columns[name] = value
        self.changes = {**self.changes, name: value}

    def __delitem__(self, name: str) -> None:
        if name not in self._names:
            raise KeyError(f"no {name!r} on the {self._label}; there are: {_listed(self._names)}")
        self._names = [other for other in self._names if other != name]
        self._columns.pop(name, None)
        self.changes = {**self.changes, name: None}

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Columns({self._label}: {_listed(self._names)})"


def _not_subscriptable(batch: Any, name: Any) -> NoReturn:
    fields = "src, dst and data" if isinstance(batch, EdgeBatch) else "data and mailbox"
    example = f"src[{name!r}]" if isinstance(batch, EdgeBatch) else f"data[{name!r}]"
    raise TypeError(f"{type(batch).__name__} has its columns in {fields}; write {example} of it, not [{name!r}]")


class _RowBatch:
    """Base of batches of edges and of nodes."""

    __slots__ = ("_data", "_read_graph", "_size")

    def __init__(self, data: Columns, size: int, graph: Callable[[], Any]) -> None:
        self._data, self._size, self._read_graph = data, size, graph

    @property
    def _graph(self) -> Any:
        """The graph, or its slice ``g[etype]``, that the batch's ids are of. Not public, but code for DGL reads it."""
        return self._read_graph()

    @property
    def data(self) -> Columns:
        """Columns of the edges or nodes, each with a row for each of them."""
        return self._data

    def batch_size(self) -> int:
        """Return the number of edges or nodes."""
        return self._size

    def __len__(self) -> int:
        return self._size

    __getitem__ = _not_subscriptable
    __iter__ = None  # or Python would try batch[0], batch[1], ...


class EdgeBatch(_RowBatch):
    """A batch of edges, given to message functions, ``apply_edges`` and ``filter_edges``.

    ``src['h']``, ``dst['h']`` and ``data['w']`` have shape (num_edges, *feat): row i belongs to the i-th edge of the
    batch. In ``group_apply_edges`` they have shape (num_groups, degree, *feat).
    """

    __slots__ = ("_dst", "_ends", "_etype", "_src")

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of(
            "columns are in .src['{name}'], .dst['{name}'] and .data['{name}']",
            {"srcdata": "write .src['h']", "dstdata": "write .dst['h']", "edata": "write .data['w']"},
        )

    def __init__(
        self,
        src: Columns,
        data: Columns,
        dst: Columns,
        size: int,
        ends: Callable[[], tuple[Tensor, Tensor, Tensor]],
        etype: tuple[str, str, str],
        graph: Callable[[], Any],
    ) -> None:
        super().__init__(data, size, graph)
        self._src, self._dst, self._ends, self._etype = src, dst, ends, etype

    @property
    def src(self) -> Columns:
        """Columns of the source nodes."""
        return self._src

    @property
    def dst(self) -> Columns:
        """Columns of the destination nodes."""
        return self._dst

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return source ids, destination ids and edge ids, each of shape (num_edges,)."""
        return self._ends()

    @property
    def canonical_etype(self) -> tuple[str, str, str]:
        """The (source type, edge type, destination type) of the edges."""
        return self._etype


class NodeBatch(_RowBatch):
    """A batch of nodes, given to reduce functions, ``apply_nodes`` and ``filter_nodes``."""

    __slots__ = ("_ids", "_mailbox", "_ntype")

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of(
            "columns are in .data['{name}'] and messages in .mailbox['{name}']", {"ndata": "write .data['h']"}
        )

    def __init__(
        self, data: Columns, mailbox: Columns, size: int, ids: Callable[[], Any], ntype: str, graph: Callable[[], Any]
    ) -> None:
        super().__init__(data, size, graph)
        self._mailbox, self._ids, self._ntype = mailbox, ids, ntype

    @property
    def mailbox(self) -> Columns:
        """Messages of the nodes, of shape (num_nodes, degree, *feat); empty outside of reduce functions.

        In a reduce function all nodes of the batch have the same number of messages: slice (i, j) is node i's j-th
        message in the order of edge ids.
        """
        return self._mailbox

    def nodes(self) -> Tensor:
        """Return the node ids, of shape (num_nodes,)."""
        return self._ids()

    @property
    def ntype(self) -> str:
        """The type of the nodes."""
        return self._ntype


def call_with_batch(function: Callable[[Any], Any], batch: Any, rows: str) -> Any:
    """Return ``function(batch)``. ``TypeError`` says what to pass if ``function`` does not take one argument."""
    try:
        return function(batch)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # the function itself failed
        name = getattr(function, "__name__", type(function).__name__)
        columns = "edges.src['h']" if rows == "edges" else "nodes.data['h']"
        raise TypeError(
            f"{name} cannot be called with one argument, a batch of {rows}: {error}. Pass a built-in called with the "
            f"names of its features, such as fn.copy_u('h', 'm') or fn.sum('m', 'h'), or a function such as "
            f"lambda {rows}: {{'h': {columns}}}"
        ) from error


def checked(
    result: Any, shape: tuple[int, ...], rows: str, device: Any, function: Callable[..., Any]
) -> dict[str, Tensor]:
    """Return what a user's function returned if it is a dict of tensors that fit its batch; else raise DGLError.

    The first axes of every tensor must be ``shape``, which count ``rows``, e.g. "edges"; the rest is the feature's.
    """
    if isinstance(result, Columns):
        result = dict(result)
    if not isinstance(result, dict):
        raise DGLError(
            f"function {function_name(function)} returned {type(result).__name__}; "
            "expected a dict of column name to tensor, such as {'h': x}"
        )
    for name, column in result.items():
        if not isinstance(name, str):
            raise DGLError(f"function {function_name(function)} returned a column called {name!r}; names are strings")
        if not backend.is_tensor(column):
            pair = isinstance(column, tuple) and column and backend.is_tensor(column[0])
            raise DGLError(
                f"function {function_name(function)} returned {type(column).__name__} for {name!r}; expected a tensor"
                + (", such as its first part, [0]" if pair else "")
            )
        if backend.shape(column)[: len(shape)] != shape:
            raise DGLError(
                f"function {function_name(function)} returned {name!r} of shape {tuple(backend.shape(column))}; "
                f"expected the first axes to be {shape}, the number of {rows} in its batch"
            )
        if backend.device(column) != device:
            raise DGLError(
                f"function {function_name(function)} returned {name!r} on {backend.device(column)}; "
                f"the graph is on {device}: move one of them"
            )
    return result


def ends_computation(error: Exception) -> bool:
    """Whether an error is no fault of a function, but how torch ends a recomputation that has all it needs.

    ``torch.utils.checkpoint`` raises such errors from whatever operation comes next: catching one goes on computing.
    """
    return type(error).__module__ == "torch.utils.checkpoint"


def function_name(function: Callable[..., Any]) -> str:
    """Return what to call a user's function in an error or a plan."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).rpartition("<locals>.")[2]


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
