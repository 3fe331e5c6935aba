"""Names of the node and edge types of a graph, relation slices, several relations as one, and batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import Tensor
from ..errors import DGLError
from ..frame import EID, ETYPE, NID, NTYPE, Frame
from ..structure import Adjacency, Metagraph
from ..structure.ids import integer_array
from ..structure.metagraph import EdgeType
from ..structure.traced import in_program
from .base import GraphBase, sizes_in_program


def combine_relations(graph: GraphBase, indices: Sequence[int], joined: GraphBase) -> None:
    """Fill ``joined``, which has no state yet: the graph of one edge type that joins relations ``indices``.

    Its source nodes are those of all source types, type after type, and so are its destination nodes; they are one type
    where these are the same types. Types are called by the names of theirs, sorted and joined by ``+``. Features that
    all of them have follow; NTYPE, NID, ETYPE and EID say which nodes and edges they were.

    Raises ``DGLError``: a feature has different shapes or dtypes.
    """
    metagraph = graph.type_graph
    sources, destinations = (sorted({metagraph.ends[i][side] for i in indices}) for side in (0, 1))
    one_type = sources == destinations
    sides = [sources] if one_type else [sources, destinations]
    names = [_joined_name([metagraph.ntypes[i] for i in side]) for side in sides]
    relation = (names[0], _joined_name([metagraph.etypes[i] for i in indices]), names[-1])
    joined.type_graph = (
        Metagraph(names[:1], [relation], names[1:]) if metagraph.is_block else Metagraph(names, [relation])
    )
    joined.node_counts = tuple(sum(graph.node_counts[i] for i in side) for side in sides)
    joined.adjacencies = (_adjacency(graph, indices, sources, destinations),)
    joined.numpy_idtype, joined._device = graph.numpy_idtype, graph._device
    joined.batch_node_counts = joined.batch_edge_counts = joined._readonly = None
    joined.node_frames, joined.edge_frames = [None] * len(sides), [None]
    for i, side in enumerate(sides):
        _fill(joined, joined.node_frame_at(i), graph.node_frame_at, side, (NTYPE, NID))
    _fill(joined, joined.edge_frame_at(0), graph.edge_frame_at, indices, (ETYPE, EID))


def _joined_name(names: list[str]) -> str:
    return "+".join(sorted(names))


def _adjacency(graph: GraphBase, indices: Sequence[int], sources: list[int], destinations: list[int]) -> Adjacency:
    first = [_offsets(graph, side) for side in (sources, destinations)]
    src, dst = [], []
    for i in indices:
        (u, v), (src_set, dst_set) = graph.adjacencies[i].endpoints(), graph.type_graph.ends[i]
        src.append(u.astype(np.int64) + first[0][src_set])
        dst.append(v.astype(np.int64) + first[1][dst_set])
    counts = [sum(graph.node_counts[i] for i in side) for side in (sources, destinations)]
    ends = np.concatenate(src), np.concatenate(dst)
    return Adjacency.from_coo(counts[0], counts[1], *ends, graph.numpy_idtype, validate=False)


def _offsets(graph: GraphBase, side: list[int]) -> dict[int, int]:
    ends = np.cumsum([graph.node_counts[i] for i in side]).tolist()
    return dict(zip(side, [0, *ends], strict=False))


def _fill(
    joined: GraphBase, frame: Frame, part: Callable[[int], Frame], ids: Sequence[int], columns: tuple[str, str]
) -> None:
    """Join the columns that all parts have, and write which part each row is of and its row there."""
    parts = [part(i) for i in ids]
    counts = [x.num_rows for x in parts]
    shared = [name for name in parts[0] if all(name in x for x in parts)]
    frame.join(parts, counts, shared)
    frame[columns[0]] = joined.ids_tensor(np.repeat(np.array(ids), counts))
    frame[columns[1]] = joined.ids_tensor(np.concatenate([np.arange(count) for count in counts]))


if TYPE_CHECKING:
    import networkx

    from .storage import DGLGraph


class TypeMixin(GraphBase):
    """Type names and what a graph is, read from its metagraph."""

    @property
    def ntypes(self) -> list[str]:
        """Node types, by id. A block lists its source types and then its destination types."""
        return list(self.type_graph.ntypes)

    @property
    def etypes(self) -> list[str]:
        """Names of the edge types, by id."""
        return list(self.type_graph.etypes)

    @property
    def canonical_etypes(self) -> list[tuple[str, str, str]]:
        """Edge types as (source type, name, destination type), by id."""
        return list(self.type_graph.canonical_etypes)

    @property
    def srctypes(self) -> list[str]:
        """Types of the nodes that edges start from, or at which there are none: all, unless it is uni-bipartite."""
        return list(self.type_graph.srctypes)

    @property
    def dsttypes(self) -> list[str]:
        """Types of the nodes that edges point to: all types, unless the graph is uni-bipartite."""
        return list(self.type_graph.dsttypes)

    @property
    def is_block(self) -> bool:
        """Whether source and destination nodes are separate sets, as in one layer of a sampled mini-batch."""
        return self.type_graph.is_block

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.type_graph.ntypes) == 1 and len(self.type_graph.etypes) == 1

    @property
    def is_unibipartite(self) -> bool:
        """Whether no node type is both a source and a destination."""
        return self.type_graph.is_unibipartite

    def metagraph(self) -> networkx.MultiDiGraph:
        """Return the types as a NetworkX graph: a node per node type, an edge per edge type with its name as key."""
        import networkx  # 0.1 s, which `import dglite` must not pay

        graph = networkx.MultiDiGraph()
        graph.add_nodes_from(self.type_graph.ntypes)
        for src, name, dst in self.type_graph.canonical_etypes:
            graph.add_edge(src, dst, key=name)
        return graph

    def to_canonical_etype(self, etype: EdgeType) -> tuple[str, str, str]:
        """Return the (source type, name, destination type) of an edge type.

        Raises DGLError: the type is unknown, or its name is shared by several relations.
        """
        return self.type_graph.canonical_etypes[self.etype_id(etype)]

    def get_etype_id(self, etype: EdgeType | None) -> int:
        """Return the number of an edge type."""
        return self.etype_id(etype)

    def get_ntype_id(self, ntype: str | None) -> int:
        """Return the number of a node type."""
        return self.type_graph.node_set(ntype)

    def get_ntype_id_from_src(self, ntype: str | None) -> int:
        """Return the number of a source node type."""
        return self.type_graph.src_set(ntype)

    def get_ntype_id_from_dst(self, ntype: str | None) -> int:
        """Return the number of a destination node type."""
        return self.type_graph.dst_set(ntype)

    def __getitem__(self, key: Any) -> DGLGraph:
        """Return the slice of one relation: ``g['follows']`` or ``g['user', 'follows', 'user']``; ``:`` matches any.

        The slice shares features with this graph and cannot be changed in place. Where several relations match, they
        are joined as :func:`~dglite.graph.types.combine_relations` describes; features are copies then.

        Raises DGLError: no relation matches.
        """
        relations = self._relations_of(key)
        if len(relations) > 1:
            joined: Any = object.__new__(type(self))
            combine_relations(self, relations, joined)
            return joined
        index = relations[0]
        metagraph, sets = self.type_graph.slice_of(index)
        part: Any = object.__new__(type(self))
        part.adjacencies = (self.adjacencies[index],)
        part.type_graph = metagraph
        part.node_counts = tuple(self.node_counts[i] for i in sets)
        part.node_frames = [self.node_frame_at(i) for i in sets]
        part.edge_frames = [self.edge_frame_at(index)]
        part.numpy_idtype, part._device = self.numpy_idtype, self._device
        nodes, edges = self.batch_node_counts, self.batch_edge_counts
        part.batch_node_counts = None if nodes is None else tuple(nodes[i] for i in sets)
        part.batch_edge_counts = None if edges is None else (edges[index],)
        part._readonly = (
            f"a slice g[{key!r}] shares its nodes with the graph; change that graph, or a clone() of the slice"
        )
        return part

    def _relations_of(self, key: Any) -> Sequence[int]:
        if type(key) is str and (named := self.type_graph.named(key)):
            return named
        if type(key) is tuple and (index := self.type_graph.exactly(key)) is not None:
            return (index,)
        whole, anything = key, slice(None)
        if not isinstance(key, tuple):
            key = (anything, key, anything)
        if len(key) != 3:
            raise DGLError(f"g[{whole!r:.80}] is not understood; use g['etype'] or g['srctype', 'etype', 'dsttype']")
        relations = [
            i
            for i, etype in enumerate(self.type_graph.canonical_etypes)
            if all(_is_meant(want, name) for want, name in zip(key, etype, strict=True))
        ]
        if not relations:
            names = [name for name in key if not _is_meant(name, "")]
            pattern = names[0] if len(names) == 1 else whole
            there = list(self.type_graph.canonical_etypes)
            hint = "" if isinstance(pattern, str | tuple | slice) else "; of ids: g.successors(0), g.edge_ids(0, 1)"
            raise DGLError(f"g[{pattern!r:.80}] matches no edge type; there are {there}{hint}")
        return relations

    # -- batches ------------------------------------------------------------------------------------------------
    @property
    def batch_size(self) -> int:
        """Number of graphs that were batched into this one; 1 for a single graph."""
        return 1 if self.batch_node_counts is None else len(self.batch_node_counts[0])

    def batch_num_nodes(self, ntype: str | None = None) -> Tensor:
        """Return the number of nodes of one type in each batched graph, ids of shape (batch_size,)."""
        node_set = self.type_graph.node_set(ntype)
        return self._sizes(self.batch_node_counts, node_set, self.node_counts[node_set])

    def batch_num_edges(self, etype: EdgeType | None = None) -> Tensor:
        """Return the number of edges of one type in each batched graph, ids of shape (batch_size,)."""
        index = self.etype_id(etype)
        return self._sizes(self.batch_edge_counts, index, self.adjacencies[index].num_edges)

    def _sizes(self, of_batch: tuple[np.ndarray, ...] | None, index: int, count: int) -> Tensor:
        if any(map(in_program, self.adjacencies)):
            return self._program_ids(sizes_in_program(of_batch, index, count)).clone()
        return self.ids_tensor(np.array([count]) if of_batch is None else of_batch[index].copy())

    def set_batch_num_nodes(self, val: Tensor | Mapping[str, Tensor]) -> None:
        """Set the number of nodes in each batched graph, by node type where there are several.

        Raises DGLError: the numbers of a type do not sum to its number of nodes.
        """
        names = self.type_graph.set_names()
        counts = {i: self.node_counts[i] for i in range(len(names))}
        by_set = {self.type_graph.node_set(name): value for name, value in _by_type(val, names).items()}
        self.batch_node_counts = _segments(by_set, counts, names, "nodes")

    def set_batch_num_edges(self, val: Tensor | Mapping[EdgeType, Tensor]) -> None:
        """Set the number of edges in each batched graph, by edge type where there are several.

        Raises DGLError: the numbers of a type do not sum to its number of edges.
        """
        names = self.type_graph.canonical_etypes
        counts = {i: adjacency.num_edges for i, adjacency in enumerate(self.adjacencies)}
        by_type = {self.etype_id(name): value for name, value in _by_type(val, names).items()}
        self.batch_edge_counts = _segments(by_type, counts, names, "edges")


def _is_meant(key: Any, name: str) -> bool:
    """Whether a part of ``g[...]`` is ``:`` or this name."""
    return isinstance(key, str | slice) and key in (slice(None), name)


def _by_type(values: Any, names: tuple[Any, ...]) -> Mapping[Any, Any]:
    if isinstance(values, Mapping):
        return values
    if len(names) != 1:
        raise DGLError(f"there are {len(names)} types {list(names)}; give a dictionary by type")
    return {names[0]: values}


def _segments(numbers: dict[int, Any], counts: dict[int, int], names: Any, label: str) -> tuple[np.ndarray, ...]:
    result = []
    for i, count in counts.items():
        if i not in numbers:
            raise DGLError(f"no batch numbers for the {label} of type {names[i]!r}; give one tensor for each type")
        sizes = integer_array(numbers[i], f"numbers of {label}").astype(np.int64)
        if sizes.ndim != 1 or (len(sizes) and sizes.min() < 0) or sizes.sum() != count:
            raise DGLError(
                f"batch numbers {sizes.tolist()} of type {names[i]!r} must sum to its {count} {label}; give a list, "
                "one number for each graph"
            )
        result.append(sizes)
    if len({len(sizes) for sizes in result}) > 1:
        raise DGLError(f"every type must have one number per graph, got {[len(sizes) for sizes in result]}")
    return tuple(result)
