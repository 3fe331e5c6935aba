"""Registered message, reduce and apply functions of DGL 0.4: the default of methods that are called without."""

from __future__ import annotations

from typing import Any

from ..errors import DGLError, warn_deprecated
from .base import GraphBase


class RegistryMixin(GraphBase):
    """The ``register_*`` methods of ``DGLGraph``, each deprecated: pass functions to methods instead."""

    def register_message_func(self, func: Any, etype: Any = None) -> None:
        """Set the message function of methods that are called without one."""
        _warn("register_message_func")
        state(self, "_registered")["message", self.etype_id(etype)] = func

    def register_reduce_func(self, func: Any, etype: Any = None) -> None:
        """Set the reduce function of methods that are called without one."""
        _warn("register_reduce_func")
        state(self, "_registered")["reduce", self.etype_id(etype)] = func

    def register_apply_node_func(self, func: Any, ntype: str | None = None) -> None:
        """Set the apply function of ``apply_nodes`` and of methods that receive messages, if called without one."""
        _warn("register_apply_node_func")
        state(self, "_registered")["apply node", self.type_graph.node_set(ntype)] = func

    def register_apply_edge_func(self, func: Any, etype: Any = None) -> None:
        """Set the function of ``apply_edges`` where it is given none."""
        _warn("register_apply_edge_func")
        state(self, "_registered")["apply edge", self.etype_id(etype)] = func


def _warn(name: str) -> None:
    warn_deprecated(f"g.{name}()", "pass the function to the method, e.g. g.update_all(message, reduce)")


def state(graph: GraphBase, name: str) -> dict[Any, Any]:
    """Return a dictionary that the graph keeps for these methods, made when it is first needed."""
    state: dict[Any, Any] = graph.__dict__.setdefault(name, {})
    return state


def function_or_registered(graph: GraphBase, function: Any, role: str, type_id: int) -> Any:
    """Return ``function``, or the registered one where it is None."""
    if function is None:
        function = state(graph, "_registered").get((role, type_id))
        if function is None:
            raise DGLError(
                f"no {role} function given, and none registered on the graph; pass one "
                "to the method, as in g.update_all(fn.copy_u('h', 'm'), fn.sum('m', 'h'))"
            )
    return function


def reducers(graph: GraphBase, index: int, reduce: Any, apply: Any) -> tuple[Any, Any]:
    """Return the reduce function and the apply function or None, registered ones where none is given."""
    if reduce is None:
        reduce = function_or_registered(graph, None, "reduce", index)
    if apply is None and "_registered" in graph.__dict__:
        apply = graph.__dict__["_registered"].get(("apply node", graph.dst_type_id(index)))
    return reduce, apply
