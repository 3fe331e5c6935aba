"""Names of node and edge types, and which node sets each relation connects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DGLError

EdgeType = str | tuple[str, str, str]
"""An edge type by its name, or by (source type, name, destination type)."""


class Metagraph:
    """The types of a graph. Immutable, and shared by all graphs of one schema.

    A *node set* holds nodes of one type. In a block the source and the destination nodes of one type are two sets;
    sets are numbered sources first.
    """

    __slots__ = (
        "_by_name",
        "_canonical_id",
        "_dst_set",
        "_node_set",
        "_slices",
        "_src_set",
        "canonical_etypes",
        "dsttypes",
        "ends",
        "etypes",
        "is_block",
        "is_unibipartite",
        "ntypes",
        "srctypes",
    )

    def __init__(
        self,
        ntypes: Sequence[str],
        canonical_etypes: Sequence[tuple[str, str, str]],
        dsttypes: Sequence[str] | None = None,
    ) -> None:
        """Take the node types and the relations in order; with ``dsttypes``, a block's, ``ntypes`` are its sources."""
        self.is_block = dsttypes is not None
        self.ntypes = tuple(ntypes) + tuple(dsttypes or ())
        self._src_set = {name: i for i, name in enumerate(ntypes)}
        self._dst_set = (
            {name: len(ntypes) + i for i, name in enumerate(dsttypes)} if dsttypes is not None else self._src_set
        )
        self._node_set = self._dst_set | self._src_set
        self.canonical_etypes = tuple(canonical_etypes)
        self.etypes = tuple(name for _, name, _ in self.canonical_etypes)
        self.ends = tuple((self._src_set[src], self._dst_set[dst]) for src, _, dst in self.canonical_etypes)
        self._canonical_id = {etype: i for i, etype in enumerate(self.canonical_etypes)}
        self._by_name: dict[str, list[int]] = {}
        for i, name in enumerate(self.etypes):
            self._by_name.setdefault(name, []).append(i)
        sources, destinations = {src for src, _ in self.ends}, {dst for _, dst in self.ends}
        self.is_unibipartite = self.is_block or (bool(self.ends) and not sources & destinations)
        if self.is_unibipartite and not self.is_block:
            # A type without edges is a source type, as in DGL, so that its nodes are on one of the sides.
            self._src_set = {name: i for name, i in self._node_set.items() if i not in destinations}
            self._dst_set = {name: i for name, i in self._node_set.items() if i in destinations}
        self.srctypes, self.dsttypes = tuple(self._src_set), tuple(self._dst_set)
        self._slices: dict[int, tuple[Metagraph, list[int]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_block:
            return Metagraph, (self.srctypes, self.canonical_etypes, self.dsttypes)
        return Metagraph, (self.ntypes, self.canonical_etypes)

    def __deepcopy__(self, memo: dict) -> Metagraph:
        return self

    def __repr__(self) -> str:
        kind = "block, " if self.is_block else ""
        return f"Metagraph({kind}ntypes={list(self.ntypes)}, canonical_etypes={list(self.canonical_etypes)})"

    def etype_id(self, etype: EdgeType | None) -> int:
        """Return the number of an edge type; None means the only one.

        Raises ``DGLError``: the type is unknown, its bare name is shared by several relations, or None is given and
        there are several.
        """
        if etype is None:
            if len(self.etypes) != 1:
                hint = f", by etype= or g[{self.etypes[0]!r}]" if self.etypes else ""
                raise DGLError(
                    f"this graph has {len(self.etypes)} edge types; name one of {list(self.canonical_etypes)}{hint}"
                )
            return 0
        if isinstance(etype, str):
            indices = self._by_name.get(etype, ())
            if len(indices) == 1:
                return indices[0]
            if indices:
                candidates = [self.canonical_etypes[i] for i in indices]
                raise DGLError(f"edge type {etype!r} is ambiguous; give one of {candidates}")
        else:
            index = self.exactly(tuple(etype) if isinstance(etype, list) else etype)
            if index is not None:
                return index
        raise DGLError(f"edge type {etype!r} does not exist; expected one of {list(self.canonical_etypes)}")

    def exactly(self, key: Any) -> int | None:
        """Return the number of the relation of a canonical edge type, None for anything else."""
        try:
            return self._canonical_id.get(key)
        except TypeError:  # it has no hash
            return None

    def canonical(self, etype: EdgeType) -> tuple[str, str, str]:
        """Return the canonical name of an edge type."""
        return self.canonical_etypes[self.etype_id(etype)]

    def node_set(self, ntype: str | None) -> int:
        """Return the number of a type's node set; None means the only one. ``"SRC/x"`` and ``"DST/x"`` work too.

        In a block a bare name means the source set when there is one.
        """
        if ntype is None:
            if len(self.ntypes) != 1:
                sides = "; a block's are in g.srcnodes and g.dstnodes" if self.is_block else ""
                raise DGLError(f"this graph has {len(self.ntypes)} node types; name one of {list(self.ntypes)}{sides}")
            return 0
        try:
            node_set = self._node_set.get(ntype)
        except TypeError:  # it has no hash
            node_set = None
        if node_set is None and isinstance(ntype, str):
            side, _, name = ntype.partition("/")
            node_set = {"SRC": self._src_set, "DST": self._dst_set}.get(side, {}).get(name)
        if node_set is None:
            raise DGLError(f"node type {ntype!r} does not exist; expected one of {list(self.ntypes)}")
        return node_set

    def src_set(self, ntype: str | None) -> int:
        """Return the number of the node set that holds the sources of type ``ntype``; None means the only one."""
        return _one_side(ntype, self._src_set, "source", "SRC/")

    def dst_set(self, ntype: str | None) -> int:
        """Return the number of the node set that holds the destinations of type ``ntype``; None means the only one."""
        return _one_side(ntype, self._dst_set, "destination", "DST/")

    def named(self, name: str) -> Sequence[int]:
        """Return the numbers of the relations of a name."""
        return self._by_name.get(name, ())

    def slice_of(self, etype_id: int) -> tuple[Metagraph, list[int]]:
        """Return what :meth:`slice` does of one relation; made once, do not write to it."""
        part = self._slices.get(etype_id)
        return self._slices.setdefault(etype_id, self.slice([etype_id])) if part is None else part

    def slice(self, etype_ids: Sequence[int]) -> tuple[Metagraph, list[int]]:
        """Return the metagraph of some relations, and the node sets that it keeps, in its own order."""
        relations = [self.canonical_etypes[i] for i in etype_ids]
        sources = list(dict.fromkeys(self.ends[i][0] for i in etype_ids))
        destinations = list(dict.fromkeys(self.ends[i][1] for i in etype_ids))
        if self.is_block:
            names = [self.ntypes[i] for i in sources], [self.ntypes[i] for i in destinations]
            return Metagraph(names[0], relations, names[1]), sources + destinations
        node_sets = list(dict.fromkeys(sources + destinations))
        return Metagraph([self.ntypes[i] for i in node_sets], relations), node_sets

    def reversed(self) -> Metagraph:
        """Return the metagraph with every relation reversed; type order is kept."""
        relations = tuple([(dst, name, src) for src, name, dst in self.canonical_etypes])
        if relations == self.canonical_etypes and not self.is_block:
            return self
        if self.is_block:
            return Metagraph(self.dsttypes, relations, self.srctypes)
        return Metagraph(self.ntypes, relations)

    def set_names(self) -> tuple[str, ...]:
        """Return a distinct name for each node set: the type, with ``SRC/`` or ``DST/`` before it in a block."""
        if not self.is_block:
            return self.ntypes
        return tuple([f"SRC/{name}" for name in self.srctypes] + [f"DST/{name}" for name in self.dsttypes])


def _one_side(ntype: str | None, sets: dict[str, int], side: str, prefix: str) -> int:
    if ntype is None:
        if len(sets) != 1:
            raise DGLError(f"this graph has {len(sets)} {side} node types; name one of {list(sets)}")
        return next(iter(sets.values()))
    node_set = sets.get(ntype.removeprefix(prefix)) if isinstance(ntype, str) else None
    if node_set is None:
        raise DGLError(f"{side} node type {ntype!r} does not exist; expected one of {list(sets)}")
    return node_set


HOMOGENEOUS = Metagraph(["_N"], [("_N", "_E", "_N")])
"""The metagraph of every graph with one node type and one edge type that the user did not name."""
