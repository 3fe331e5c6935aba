"""Assignments to methods and properties of a graph raise, and say what to write instead.

``g.num_nodes = 5`` would hide the method from this graph, and every later call would fail far from the line.
"""

from __future__ import annotations

from typing import Any

from .base import GraphBase
from .scope import BY_THREAD, STATE, set_state

_STATE = frozenset(STATE)
"""Attributes that dglite's own modules set, at no other cost than a look into this set."""

_FEATURES = (
    "g.{name}['h'] = tensor sets a feature, g.{name}.update({{'h': tensor}}) several, del g.{name}['h'] drops one"
)
_TYPES = "types are fixed when a graph is made: dglite.heterograph({{(srctype, etype, dsttype): (u, v)}})"
_BATCH = (
    "dglite.batch(graphs) makes a batch; g.set_batch_num_nodes(numbers) and g.set_batch_num_edges say where it is cut"
)
_INSTEAD = {
    **dict.fromkeys(("ndata", "edata", "srcdata", "dstdata"), _FEATURES),
    **dict.fromkeys(("ntypes", "etypes", "canonical_etypes", "srctypes", "dsttypes", "metagraph"), _TYPES),
    **dict.fromkeys(("batch_size", "batch_num_nodes", "batch_num_edges"), _BATCH),
    "device": "g = g.to('cuda')",
    "edges": "g.add_edges(u, v) and g.remove_edges(ids) change edges; features are in g.edata",
    "idtype": "g = g.int() for int32 ids, g = g.long() for int64",
    "nodes": "g.add_nodes(num) and g.remove_nodes(ids) change nodes; features are in g.ndata",
    "num_edges": "g.add_edges(u, v) and g.remove_edges(ids) change the edges",
    "num_nodes": "g.add_nodes(num) adds nodes, and dglite.graph((u, v), num_nodes=5) makes nodes without edges",
}
"""By attribute: what changes what the user wants to change."""


class ProtectedMixin(GraphBase):
    """A graph keeps what is assigned to any other name, as every Python object does."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _STATE:
            state = self.__dict__
            if BY_THREAD in state:
                set_state(self, **{name: value})
            else:
                state[name] = value
            return
        if hasattr(type(self), name):
            _require_free(self, name, value, "set")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name not in self.__dict__:
            _require_free(self, name, None, "deleted")
        object.__delattr__(self, name)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"g[{key!r:.30}] cannot be set: g['etype'] is a part of a graph, "
            "and features are set by g.ndata['h'] = tensor or g.edata['h'] = tensor"
        )

    def __delitem__(self, key: Any) -> None:
        raise TypeError(
            f"g[{key!r:.30}] cannot be deleted: del g.ndata['h'] drops a feature, g.remove_nodes(ids) removes nodes"
        )


def _require_free(graph: GraphBase, name: str, value: Any, verb: str) -> None:
    """Raise AttributeError for a method or a property of graphs that its class does not let users set.

    A method may be replaced by a function, as tests do.
    """
    in_class: Any = next((vars(owner)[name] for owner in type(graph).__mro__ if name in vars(owner)), None)
    is_property = isinstance(in_class, property)
    refused = in_class.fset is None if is_property else callable(getattr(graph, name, None)) and not callable(value)
    if name.startswith("__") or not refused:
        return
    hint = _INSTEAD.get(name, "take another name for an attribute of your own; features are in g.ndata and g.edata")
    raise AttributeError(
        f"g.{name} is a {'property' if is_property else 'method'} of graphs and cannot be {verb}; "
        f"{hint.format(name=name)}"
    )
