"""The partition book: each part owns one range of ids of every type, so P parts need P + 1 numbers a type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..structure.ids import as_ids

CanonicalEtype = tuple[str, str, str]
"""Source type, name, destination type."""


@final
class Ranges:
    """The ids of one type, cut into one range for each part.

    Parameters
    ----------
    bounds
        P + 1 ascending numbers from 0: part p owns the ids from ``bounds[p]`` up to ``bounds[p + 1]``.
    type_
        the type of the nodes or edges.
    kind
        ``"node"`` or ``"edge"``, or another word for errors.
    """

    def __init__(self, bounds: Any, type_: Any, kind: str = "") -> None:
        self.bounds, self.type, self.kind = np.asarray(bounds, np.int64), type_, kind
        self.label = f"{type_!r} {kind}" if kind else str(type_)
        if self.bounds.ndim != 1 or len(self.bounds) < 2 or self.bounds[0] != 0 or (np.diff(self.bounds) < 0).any():
            raise DGLError(f"the parts of {self.label}s have bounds {bounds!r:.80}; expected ascending numbers from 0")

    @property
    def count(self) -> int:
        """Ids of all parts."""
        return int(self.bounds[-1])

    def range_of(self, part: int) -> tuple[int, int]:
        """Return the first id of a part and the one after its last."""
        return int(self.bounds[part]), int(self.bounds[part + 1])

    def checked(self, ids: Any) -> np.ndarray:
        """Return ids as int64. Raises ``DGLError`` where they are no integers or do not exist."""
        return as_ids(ids, self.count, self.label).astype(np.int64, copy=False)

    def outside(self, ids: np.ndarray, part: int) -> np.ndarray:
        """Return whether each id is another part's."""
        first, last = self.range_of(part)
        return (ids < first) | (ids >= last)

    def owners(self, ids: np.ndarray) -> np.ndarray:
        """Return the part that owns each id, int64."""
        return np.searchsorted(self.bounds, ids, "right") - 1

    def cuts(self, ids: np.ndarray) -> np.ndarray:
        """Return where the ids of each part begin among ascending ``ids``: P + 1 numbers."""
        return np.searchsorted(ids, self.bounds)


@final
class IdsByOwner:
    """Ids in ascending order, so that those of each owner stand together.

    Attributes
    ----------
    ids
        the ids, ascending.
    order
        where each was among those given.
    counts
        how many each part owns.
    """

    def __init__(self, ranges: Ranges, ids: np.ndarray) -> None:
        self.order = np.argsort(ids, kind="stable")
        self.ids = ids[self.order]
        self._cuts = ranges.cuts(self.ids)
        self.counts: list[int] = np.diff(self._cuts).tolist()

    def ids_of(self, part: int) -> np.ndarray:
        """Return the ids of a part."""
        return self.ids[self._cuts[part] : self._cuts[part + 1]]

    def restored(self, values: np.ndarray) -> np.ndarray:
        """Return values of the ids, part after part, in the order in which the ids were given."""
        restored = np.empty(len(self.order), values.dtype)
        restored[self.order] = values
        return restored


@final
class PartitionBook:
    """Which part owns which nodes and edges.

    Parameters
    ----------
    part_id
        the part that asks.
    nodes, edges
        by type, the P + 1 bounds of the parts' ranges.
    """

    def __init__(
        self, part_id: int, nodes: Mapping[str, Sequence[int]], edges: Mapping[CanonicalEtype, Sequence[int]]
    ) -> None:
        self.nodes = {ntype: Ranges(bounds, ntype, "node") for ntype, bounds in nodes.items()}
        self.edges = {etype: Ranges(bounds, etype, "edge") for etype, bounds in edges.items()}
        sizes = {len(ranges.bounds) for ranges in (*self.nodes.values(), *self.edges.values())}
        if len(sizes) != 1:
            raise DGLError(f"a partition book has bounds for {sorted(x - 1 for x in sizes)} parts; expected one number")
        self._parts = sizes.pop() - 1
        if not 0 <= part_id < self._parts:
            raise DGLError(f"part {part_id} does not exist; there are {self._parts}, counted from 0")
        self.partid = part_id

    def num_partitions(self) -> int:
        """Return the number of parts."""
        return self._parts

    def metadata(self) -> list[dict[str, int]]:
        """Return for each part a dictionary of ``machine_id``, ``num_nodes`` and ``num_edges``."""
        nodes = np.sum([np.diff(ranges.bounds) for ranges in self.nodes.values()], axis=0)
        edges = np.sum([np.zeros(self._parts, np.int64), *(np.diff(r.bounds) for r in self.edges.values())], axis=0)
        return [
            {"machine_id": part, "num_nodes": int(nodes[part]), "num_edges": int(edges[part])}
            for part in range(self._parts)
        ]

    # -- types ------------------------------------------------------------------------------------------------------
    @property
    def ntypes(self) -> list[str]:
        """The node types."""
        return list(self.nodes)

    @property
    def etypes(self) -> list[str]:
        """The names of the edge types."""
        return [etype for _, etype, _ in self.edges]

    @property
    def canonical_etypes(self) -> list[CanonicalEtype]:
        """The edge types as (source type, name, destination type)."""
        return list(self.edges)

    def ranges_by_type(self, kind: str) -> dict[Any, Ranges]:
        """Return the ranges of all types of ``kind`` ``"node"`` or ``"edge"``."""
        return self.nodes if kind == "node" else self.edges  # type: ignore[return-value]

    def to_canonical_etype(self, etype: Any) -> CanonicalEtype:
        """Return the edge type that a name means. Raises ``DGLError`` where none or several have it."""
        fitting = [canonical for canonical in self.edges if etype in (canonical, canonical[1])]
        if len(fitting) != 1:
            raise DGLError(f"edge type {etype!r} is not one type of {self.canonical_etypes}; give one of these triples")
        return fitting[0]

    def ranges_of(self, kind: str, type_: Any = None) -> Ranges:
        """Return the ranges of a type; see :meth:`type_of`."""
        return self.ranges_by_type(kind)[self.type_of(kind, type_)]

    def type_of(self, kind: str, type_: Any = None) -> Any:
        """Return the type of ``kind`` ``"node"`` or ``"edge"`` that is meant; None means the only type.

        Raises DGLError: there is no such type, or several and none is named.
        """
        ranges = self.ranges_by_type(kind)
        if type_ is None or (type_ not in ranges and type_ == {"node": "_N", "edge": "_E"}[kind]):
            if len(ranges) != 1:
                raise DGLError(f"the graph has {kind}s of types {list(ranges)}; name one of them")
            return next(iter(ranges))
        if kind == "edge":
            return self.to_canonical_etype(type_)
        if type_ not in ranges:
            raise DGLError(f"there are no nodes of type {type_!r}; types are {self.ntypes}")
        return type_

    # -- ids of all types in one numbering, part after part ---------------------------------------------------------
    def map_to_per_ntype(self, ids: Any) -> tuple[Tensor, Tensor]:
        """Return the number of the type and the id in it, of nodes in one numbering of all types."""
        return self._by_type("node", ids)

    def map_to_per_etype(self, ids: Any) -> tuple[Tensor, Tensor]:
        """Return the number of the type and the id in it, of edges in one numbering of all types."""
        return self._by_type("edge", ids)

    def map_to_homo_nid(self, ids: Any, ntype: Any) -> Tensor:
        """Return the ids of a type's nodes in one numbering of all types: by part, then type, then id."""
        return self._in_one_numbering("node", ids, ntype)

    def map_to_homo_eid(self, ids: Any, etype: Any) -> Tensor:
        """Return the ids of a type's edges in one numbering of all types."""
        return self._in_one_numbering("edge", ids, etype)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one type of nodes and one of edges."""
        return len(self.nodes) == len(self.edges) == 1

    def _starts(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Return where each part's ids of each type begin in one numbering, and in the type: (parts, types)."""
        bounds = np.stack([ranges.bounds for ranges in self.ranges_by_type(kind).values()], axis=1)
        sizes = np.diff(bounds, axis=0)
        return (np.cumsum(sizes.reshape(-1)) - sizes.reshape(-1)).reshape(sizes.shape), bounds[:-1]

    def _by_type(self, kind: str, ids: Any) -> tuple[Tensor, Tensor]:
        starts, firsts = self._starts(kind)
        whole = Ranges([0, sum(ranges.count for ranges in self.ranges_by_type(kind).values())], f"{kind} of any type")
        numbers = whole.checked(ids)
        cell = np.searchsorted(starts.reshape(-1), numbers, "right") - 1
        per_type = numbers - starts.reshape(-1)[cell] + firsts.reshape(-1)[cell]
        return active.from_numpy(cell % starts.shape[1]), active.from_numpy(per_type)

    def _in_one_numbering(self, kind: str, ids: Any, type_: Any) -> Tensor:
        starts, firsts = self._starts(kind)
        ranges = self.ranges_of(kind, type_)
        number, numbers = list(self.ranges_by_type(kind)).index(self.type_of(kind, type_)), ranges.checked(ids)
        owners = ranges.owners(numbers)
        return active.from_numpy(numbers - firsts[owners, number] + starts[owners, number])

    # -- owners -----------------------------------------------------------------------------------------------------
    def nid2partid(self, nids: Any, ntype: Any = None) -> Tensor:
        """Return the part that owns each node, int64."""
        return self._owners(self.ranges_of("node", ntype), nids)

    def eid2partid(self, eids: Any, etype: Any = None) -> Tensor:
        """Return the part that owns each edge, int64: the one that owns its destination node."""
        return self._owners(self.ranges_of("edge", etype), eids)

    def partid2nids(self, partid: int, ntype: Any = None) -> Tensor:
        """Return the nodes of a part, int64."""
        return self._ids(self.ranges_of("node", ntype), partid)

    def partid2eids(self, partid: int, etype: Any = None) -> Tensor:
        """Return the edges of a part, int64."""
        return self._ids(self.ranges_of("edge", etype), partid)

    def nid2localnid(self, nids: Any, partid: int, ntype: Any = None) -> Tensor:
        """Return the places of a part's nodes in its arrays, int64. Raises ``DGLError`` for nodes of other parts."""
        return self._places(self.ranges_of("node", ntype), nids, partid)

    def eid2localeid(self, eids: Any, partid: int, etype: Any = None) -> Tensor:
        """Return the places of a part's edges in its arrays, int64. Raises ``DGLError`` for edges of other parts."""
        return self._places(self.ranges_of("edge", etype), eids, partid)

    def _part(self, partid: int) -> int:
        if isinstance(partid, bool) or not isinstance(partid, int | np.integer) or not 0 <= partid < self._parts:
            raise DGLError(f"part {partid!r} does not exist; there are {self._parts}, counted from 0")
        return int(partid)

    def _owners(self, ranges: Ranges, ids: Any) -> Tensor:
        return active.from_numpy(ranges.owners(ranges.checked(ids)))

    def _ids(self, ranges: Ranges, partid: int) -> Tensor:
        return active.from_numpy(np.arange(*ranges.range_of(self._part(partid))))

    def _places(self, ranges: Ranges, ids: Any, partid: int) -> Tensor:
        checked = ranges.checked(ids)
        first, last = ranges.range_of(self._part(partid))
        other = checked[ranges.outside(checked, partid)]
        if len(other):
            raise DGLError(
                f"{ranges.label} {other[0]} belongs to part {ranges.owners(other[:1])[0]}, not to part {partid}, which "
                f"owns {first} to {last - 1}"
            )
        return active.from_numpy(checked - first)
