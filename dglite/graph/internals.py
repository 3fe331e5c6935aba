"""Private attributes of DGL's graphs that code for DGL reads all the same, computed when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..structure.ids import is_all


def _canonical_by_name(g: Any) -> dict[str, tuple[str, ...]]:
    """Return the canonical edge type of each name, ``()`` where relations share it."""
    counts = Counter(name for _, name, _ in g.canonical_etypes)
    return {etype[1]: etype if counts[etype[1]] == 1 else () for etype in g.canonical_etypes}


def _by_type(g: Any, types: Iterable[Any], count: Callable[[Any], Any]) -> dict[Any, Any] | None:
    """Return the batch's numbers of each type, None in a single graph."""
    return None if g.batch_node_counts is None else {type_: count(type_) for type_ in types}


class _Rows:
    """The methods ``_get_n_repr`` and so on of a graph, which take the number of a node type, or of an edge type."""

    def __init__(self, frame_of: Callable[[int], Any], ids_of: Callable[[Any, int], Any]) -> None:
        self._frame_of, self._ids_of = frame_of, ids_of

    def get(self, type_id: int, ids: Any) -> dict[str, Any]:
        """Return the features of some nodes or edges."""
        frame = self._frame_of(type_id)
        return dict(frame.items()) if is_all(ids) else frame.get_rows(self._ids_of(ids, type_id))

    def set(self, type_id: int, ids: Any, data: Mapping[str, Any]) -> None:
        """Write features of some nodes or edges, out of place."""
        frame = self._frame_of(type_id)
        frame.update(data) if is_all(ids) else frame.set_rows(self._ids_of(ids, type_id), data)

    def pop(self, type_id: int, key: str) -> Any:
        """Drop a feature and return it."""
        return self._frame_of(type_id).pop(key)


def _nodes(g: Any) -> _Rows:
    return _Rows(g.node_frame_at, g.node_ids_at)


def _edges(g: Any) -> _Rows:
    return _Rows(g.edge_frame_at, g.edge_ids_of)


INTERNALS: dict[str, Callable[[Any], Any]] = {
    "_batch_num_edges": lambda g: _by_type(g, g.canonical_etypes, g.batch_num_edges),
    "_batch_num_nodes": lambda g: _by_type(g, g.type_graph.set_names(), g.batch_num_nodes),
    "_canonical_etypes": lambda g: g.canonical_etypes,
    "_dsttypes_invmap": lambda g: {ntype: g.get_ntype_id_from_dst(ntype) for ntype in g.dsttypes},
    "_edge_frames": lambda g: [g.edge_frame_at(i) for i in range(len(g.etypes))],
    "_etype2canonical": _canonical_by_name,
    "_etypes": lambda g: g.etypes,
    "_etypes_invmap": lambda g: {etype: i for i, etype in enumerate(g.canonical_etypes)},
    "_get_e_repr": lambda g: _edges(g).get,
    "_get_n_repr": lambda g: _nodes(g).get,
    "_idtype_str": lambda g: str(g.idtype).removeprefix("torch."),
    "_is_unibipartite": lambda g: g.is_unibipartite,
    "_node_frames": lambda g: [g.node_frame_at(i) for i in range(len(g.ntypes))],
    "_ntypes": lambda g: g.ntypes,
    "_pop_e_repr": lambda g: _edges(g).pop,
    "_pop_n_repr": lambda g: _nodes(g).pop,
    "_set_e_repr": lambda g: _edges(g).set,
    "_set_n_repr": lambda g: _nodes(g).set,
    "_srctypes_invmap": lambda g: {ntype: g.get_ntype_id_from_src(ntype) for ntype in g.srctypes},
}
