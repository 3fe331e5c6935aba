"""The structure of a graph with types as numbers: ``g._graph``, with the methods of DGL's graph index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backend import Tensor
from ..structure import ALL, Adjacency
from ..structure.metagraph import EdgeType, Metagraph
from .internals import INTERNALS
from .storage import DGLGraph, make_graph

_ONE_TYPE = Metagraph(("_N",), (("_N", "_E", "_N"),))


class GraphIndex(DGLGraph):
    """Structure without features, whose node and edge types are numbers; operations take it as a graph.

    Methods that DGL's graph index shares by name with graphs take the type first, as there: ``in_edges(0, v)``. Edges
    are returned as (src, dst, edge id).
    """

    @classmethod
    def from_graph(cls, g: DGLGraph) -> GraphIndex:
        """Return the structure of a graph, shared with it."""
        index = object.__new__(cls)
        index.__dict__.update(make_graph(g.type_graph, g.adjacencies, g.node_counts, g._device).__dict__)
        index.numpy_idtype, index._readonly = g.numpy_idtype, g._readonly
        return index

    # -- types and sizes ----------------------------------------------------------------------------------------
    @property
    def metagraph(self) -> GraphIndex:  # type: ignore[override]
        """The graph of types: a node for each node type, an edge for each edge type, in the order of their numbers."""
        ends = np.array(self.type_graph.ends, dtype=np.int64).reshape(-1, 2)
        num_types = self.number_of_ntypes()
        adjacency = Adjacency.from_coo(num_types, num_types, ends[:, 0].copy(), ends[:, 1].copy())
        return GraphIndex.from_graph(make_graph(_ONE_TYPE, (adjacency,), (num_types,)))

    def is_metagraph_unibipartite(self) -> bool:
        """Whether no node type is both a source and a destination."""
        return self.is_unibipartite

    def number_of_ntypes(self) -> int:
        """Return the number of node types; a block counts those of its two sides apart."""
        return len(self.node_counts)

    def number_of_etypes(self) -> int:
        """Return the number of edge types."""
        return len(self.adjacencies)

    def num_nodes(self, ntype: Any = 0) -> int:
        """Return the number of nodes of a type."""
        return self.node_counts[ntype] if isinstance(ntype, int) else super().num_nodes(ntype)

    def num_edges(self, etype: EdgeType | int | None = 0) -> int:
        """Return the number of edges of a type."""
        return super().num_edges(etype)  # type: ignore[arg-type]

    number_of_nodes, number_of_edges = num_nodes, num_edges

    @property
    def dtype(self) -> str:
        """The dtype of ids, ``"int32"`` or ``"int64"``."""
        return str(self.numpy_idtype)

    @property
    def nbits(self) -> int:
        """The bits of an id, 32 or 64."""
        return 8 * self.numpy_idtype.itemsize

    def asbits(self, bits: int) -> GraphIndex:
        """Return the structure with ids of 32 or 64 bits."""
        return GraphIndex.from_graph(self.astype(f"int{bits}"))

    @property
    def ctx(self) -> Any:
        """The device of the ids that are returned."""
        return self.device

    def is_multigraph(self) -> bool:  # type: ignore[override]
        """Whether two edges of one type join the same nodes in the same direction."""
        return super().is_multigraph

    def is_readonly(self) -> bool:  # type: ignore[override]
        """Whether the structure cannot be changed: always, as its graph makes a new one for each change."""
        return True

    # -- nodes and edges ----------------------------------------------------------------------------------------
    def has_nodes(self, ntype: int, vids: Any) -> Tensor:  # type: ignore[override]
        """Return whether each of some ids is a node of a type."""
        ids = np.asarray(vids).reshape(-1)
        return self.as_tensor((ids >= 0) & (ids < self.node_counts[ntype]))

    def edges(self, etype: Any = 0, order: str | None = None) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Return all edges of a type; ``order`` is "eid", "srcdst" or None."""
        etype, order = (0, etype) if isinstance(etype, str) else (etype, order)  # a metagraph is asked for edges("eid")
        return self.all_edges("all", order, etype)  # type: ignore[no-any-return]

    def find_edge(self, eid: int) -> tuple[int, int]:
        """Return the ends of an edge of a structure of one type, such as a metagraph: numbers."""
        src, dst = self.adjacencies[0].find_edges(np.array([eid]))
        return int(src[0]), int(dst[0])

    def find_edges(self, etype: int, eid: Any) -> tuple[Tensor, Tensor, Any]:  # type: ignore[override]
        """Return the edges of a type with some ids."""
        return (*super().find_edges(eid, etype), eid)  # type: ignore[arg-type]

    def in_edges(self, etype: int, v: Any) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Return the edges of a type to nodes ``v``."""
        return super().in_edges(v, "all", etype)  # type: ignore[call-overload, no-any-return]

    def out_edges(self, etype: int, v: Any) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Return the edges of a type from nodes ``v``."""
        return super().out_edges(v, "all", etype)  # type: ignore[call-overload, no-any-return]

    def in_degrees(self, etype: int, v: Any = ALL) -> Any:  # type: ignore[override]
        """Return the in-degrees of nodes ``v`` along a type."""
        return super().in_degrees(v, etype)  # type: ignore[call-overload]

    def out_degrees(self, etype: int, v: Any = ALL) -> Any:  # type: ignore[override]
        """Return the out-degrees of nodes ``v`` along a type."""
        return super().out_degrees(v, etype)  # type: ignore[call-overload]

    def predecessors(self, etype: int, v: Any) -> Tensor:  # type: ignore[override]
        """Return the sources of the edges of a type to one node."""
        return super().predecessors(v, etype)  # type: ignore[arg-type]

    def successors(self, etype: int, v: Any) -> Tensor:  # type: ignore[override]
        """Return the destinations of the edges of a type from one node."""
        return super().successors(v, etype)  # type: ignore[arg-type]

    def has_edges_between(self, etype: int, u: Any, v: Any) -> Any:  # type: ignore[override]
        """Return whether an edge ``u[i] -> v[i]`` of a type exists."""
        return super().has_edges_between(u, v, etype)  # type: ignore[call-overload]

    def edge_ids_one(self, etype: int, u: Any, v: Any) -> Any:
        """Return the id of an edge ``u[i] -> v[i]`` for each i."""
        return self.edge_ids(u, v, etype=etype)  # type: ignore[call-overload]

    def edge_ids_all(self, etype: int, u: Any, v: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return all edges ``u[i] -> v[i]``."""
        return self.edge_ids(u, v, return_uv=True, etype=etype)  # type: ignore[call-overload, no-any-return]

    # -- matrices and relations ---------------------------------------------------------------------------------
    def adjacency_matrix_scipy(self, etype: int, transpose: bool = False, fmt: str = "csr", *_: Any) -> Any:  # type: ignore[override]
        """Return the matrix of a type with sources as rows, or ``transpose``d, as SciPy's ``csr`` or ``coo``."""
        return self.adj_external(transpose, scipy_fmt=fmt, etype=self.canonical_etypes[etype])

    def get_relation_graph(self, etype: int) -> GraphIndex:
        """Return the structure of one edge type."""
        metagraph, sets = self.type_graph.slice([etype])
        nodes = [self.node_counts[i] for i in sets]
        return GraphIndex.from_graph(make_graph(metagraph, (self.adjacencies[etype],), nodes, self._device))

    def edge_subgraph(self, induced_edges: Sequence[Any], preserve_nodes: bool = False) -> InducedIndex:  # type: ignore[override]
        """Return the structure of some edges, of each type in turn; of all nodes, or of the ends of these edges."""
        edges = dict(zip(self.canonical_etypes, induced_edges, strict=True))
        sub = super().edge_subgraph(edges, relabel_nodes=not preserve_nodes, store_ids=False)
        return InducedIndex(GraphIndex.from_graph(sub), tuple(induced_edges))


class InducedIndex(NamedTuple):
    """The structure of a subgraph, and the ids that its edges had."""

    graph: GraphIndex
    induced_edges: tuple[Any, ...]


INTERNALS["_graph"] = GraphIndex.from_graph
