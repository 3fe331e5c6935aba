"""Scopes: what a thread writes to a graph inside of ``with g.local_scope():`` is gone afterwards, and only that thread
sees it where other threads have scopes of the graph, too.

A scope puts copies of the frames into the graph. Once a second thread opens one, a table of the graph has the state of
each thread, and the graph's own attributes are removed: Python then asks ``__getattr__``, which reads the table. So
graphs of one thread pay nothing for it.
"""

from __future__ import annotations

from threading import get_ident, local
from types import TracebackType
from typing import Any

from ..backend import active
from ..errors import DGLError
from ..frame import Frame
from ..locks import new_lock

STATE = (
    "adjacencies",
    "type_graph",
    "node_counts",
    "node_frames",
    "edge_frames",
    "numpy_idtype",
    "_device",
    "batch_node_counts",
    "batch_edge_counts",
    "_readonly",
)
"""Attributes of a graph that a scope restores."""
OUTERMOST, BY_THREAD = "_scope", "_states"
"""The first open scope; or, once two threads have scopes, states by thread, with None for threads without a scope."""
_moving = new_lock()


class _ThreadIdent(local):
    """The identifier of the thread that reads it, which compiled functions compare each time they are called."""

    def __init__(self) -> None:
        self.thread = get_ident()


_this = _ThreadIdent()


class LocalScope:
    """Remembers a graph's state on entry and puts it back on exit. See :meth:`DGLGraph.local_scope`."""

    __slots__ = ("_graph", "_outermost", "_saved", "_thread")
    _saved: dict[str, Any]

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._thread, self._outermost = 0, False

    @active.compiled_within_others
    def __enter__(self) -> None:
        state = self._graph.__dict__
        if active.compiling():  # which knows no locks; a compiled function writes to no graph before it returns
            _require_own(state)
            self._saved = {name: getattr(self._graph, name) for name in STATE}
            _copy_frames(state, self._saved)
            return
        thread = self._thread = get_ident()
        with _moving:
            states = state.get(BY_THREAD)
            if states is None:
                alone = len(state) == len(STATE)  # with nothing that users or caches have put beside it
                saved = self._saved = state.copy() if alone else {name: state[name] for name in STATE}
                first = state.setdefault(OUTERMOST, self)
                if first._thread == thread:
                    _copy_frames(state, saved)
                    return
                states = _moved_to_threads(state)
            self._outermost = thread not in states
            saved = self._saved = states[None if self._outermost else thread]
            states[thread] = saved.copy()
            _copy_frames(states[thread], saved)

    @active.compiled_within_others
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state = self._graph.__dict__
        if not self._thread:
            state.update(self._saved)
            return
        with _moving:
            states = state.get(BY_THREAD)
            if states is None:
                state.update(self._saved)
                if state.get(OUTERMOST) is self:
                    del state[OUTERMOST]
            elif not self._outermost:
                states[self._thread] = self._saved
            else:
                states.pop(self._thread, None)
                if len(states) == 1:  # of threads without a scope
                    state.update(states[None])
                    del state[BY_THREAD]


def _require_own(state: dict[str, Any]) -> None:
    """Raise :class:`DGLError` if another thread has a scope of the graph: its attributes may be that thread's."""
    first = state.get(OUTERMOST)
    if BY_THREAD in state or (first is not None and first._thread != _this.thread):
        raise DGLError(
            "a compiled function opens a scope of a graph in whose scope another thread is, and would read that one's "
            "features; give each thread a graph of its own, g.local_var(), or compile without fullgraph=True"
        )


def _copy_frames(state: dict[str, Any], saved: dict[str, Any]) -> None:
    state["node_frames"], state["edge_frames"] = copies(saved["node_frames"]), copies(saved["edge_frames"])


def _moved_to_threads(state: dict[str, Any]) -> dict[int | None, dict[str, Any]]:
    """Move a graph's state to a table by thread: one thread has a scope open, and another one opens its first."""
    first = state.pop(OUTERMOST)
    first._outermost = True
    scoped: dict[str, Any] = {name: state[name] for name in STATE}
    states = state[BY_THREAD] = {None: first._saved, first._thread: scoped}
    for name in STATE:
        scoped[name] = state.pop(name)
    return states


def state_of_thread(graph: Any) -> dict[str, Any]:
    """Return the attributes of a graph that this thread sees."""
    state: dict[str, Any] = graph.__dict__
    states = state.get(BY_THREAD)
    if states is None:
        return state
    return states.get(get_ident()) or states[None]  # type: ignore[no-any-return]


def set_state(graph: Any, **values: Any) -> None:
    """Set attributes of a graph, some of :data:`STATE`, as this thread sees them."""
    state: dict[str, Any] = graph.__dict__
    if BY_THREAD in state:
        with _moving:
            state_of_thread(graph).update(values)
    else:
        state.update(values)


def leave_scopes(state: dict[str, Any]) -> None:
    """Make a copy of a graph's attributes those that this thread sees, without any of scopes."""
    states = state.pop(BY_THREAD, None)
    if states is not None:
        state.update(states.get(get_ident()) or states[None])
    state.pop(OUTERMOST, None)


def copies(frames: list[Frame | None]) -> list[Frame | None]:
    """Return copies of those frames that exist."""
    return [None if frame is None else frame.copy() for frame in frames]
