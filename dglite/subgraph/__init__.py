"""Subgraphs: by nodes, by edges, by types, by hops. Features are gathered when they are first read."""

from ..graph.attached import attach
from .hops import khop_in_subgraph, khop_out_subgraph
from .select import edge_subgraph, in_subgraph, node_subgraph, out_subgraph
from .types import edge_type_subgraph, node_type_subgraph

__all__ = [
    "edge_subgraph",
    "edge_type_subgraph",
    "in_subgraph",
    "khop_in_subgraph",
    "khop_out_subgraph",
    "node_subgraph",
    "node_type_subgraph",
    "out_subgraph",
]

attach(
    subgraph=node_subgraph,
    edge_subgraph=edge_subgraph,
    in_subgraph=in_subgraph,
    out_subgraph=out_subgraph,
    khop_in_subgraph=khop_in_subgraph,
    khop_out_subgraph=khop_out_subgraph,
    node_type_subgraph=node_type_subgraph,
    edge_type_subgraph=edge_type_subgraph,
)
