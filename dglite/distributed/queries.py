"""Questions about a partitioned graph that its replicated structure, or its partition book, answers."""

from __future__ import annotations

from typing import Any

from ..backend import Tensor
from ..column import Scheme
from ..graph import DGLGraph
from ..sampling import sample_neighbors
from ..subgraph import edge_subgraph, in_subgraph
from .book import CanonicalEtype, PartitionBook


class GraphQueries:
    """What :class:`DistGraph` has of :class:`~dglite.DGLGraph`'s methods. None of them is an exchange.

    Those that read edges need the replicated structure, and raise ``DGLError`` where it is partitioned.
    """

    @property
    def topology(self) -> DGLGraph:
        """The replicated structure."""
        raise NotImplementedError

    def get_partition_book(self) -> PartitionBook:
        """Return the partition book."""
        raise NotImplementedError

    def frame(self, kind: str, type_: Any) -> Any:
        """Return the features of a type."""
        raise NotImplementedError

    @property
    def idtype(self) -> Any:
        """The dtype of ids."""
        return self.topology.idtype

    @property
    def device(self) -> Any:
        """The device that ids and structure are on: the CPU."""
        return self.topology.device

    def to_canonical_etype(self, etype: Any) -> CanonicalEtype:
        """Return an edge type as (source type, name, destination type)."""
        canonical: CanonicalEtype = self.get_partition_book().type_of("edge", etype)
        return canonical

    def get_ntype_id(self, ntype: str) -> int:
        """Return the place of a node type in ``ntypes``."""
        book = self.get_partition_book()
        return book.ntypes.index(book.type_of("node", ntype))

    def get_etype_id(self, etype: Any) -> int:
        """Return the place of an edge type in ``canonical_etypes``."""
        return self.get_partition_book().canonical_etypes.index(self.to_canonical_etype(etype))

    def out_degrees(self, u: Any, etype: Any = None) -> Tensor:
        """Return the out-degrees of nodes of any rank."""
        return self.topology.out_degrees(u, etype)

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """Return the shape of a row and the dtype of each feature of a node type."""
        return {name: Scheme(x.shape[1:], x.dtype) for name, x in self.frame("node", ntype).items()}

    def edge_attr_schemes(self, etype: Any = None) -> dict[str, Scheme]:
        """Return the shape of a row and the dtype of each feature of an edge type."""
        return {name: Scheme(x.shape[1:], x.dtype) for name, x in self.frame("edge", etype).items()}

    def edge_subgraph(self, edges: Any, relabel_nodes: bool = True, store_ids: bool = True) -> DGLGraph:
        """Return the graph of some edges, without features; see :func:`dglite.edge_subgraph`."""
        return edge_subgraph(self.topology, edges, relabel_nodes=relabel_nodes, store_ids=store_ids)

    def in_subgraph(self, nodes: Any) -> DGLGraph:
        """Return the graph of the in-edges of some nodes, without features; see :func:`dglite.in_subgraph`."""
        return in_subgraph(self.topology, nodes)

    def sample_neighbors(self, seed_nodes: Any, fanout: Any, **options: Any) -> DGLGraph:
        """Return the graph of edges drawn around nodes, without features; see :func:`dglite.sampling.sample_neighbors`.

        ``prob`` names a feature of the replicated structure, see :attr:`topology`.
        """
        return sample_neighbors(self.topology, seed_nodes, fanout, **options)
