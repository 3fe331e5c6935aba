"""From graphs to graphs: functions, and modules that compose."""

from .edges import (
    add_edges,
    add_nodes,
    add_reverse_edges,
    add_self_loop,
    remove_edges,
    remove_nodes,
    remove_self_loop,
    reverse,
    to_bidirected,
)
from .products import adj_product_graph, adj_sum_graph, khop_adj, khop_graph, line_graph, metapath_reachable_graph
from .simple import compact_graphs, to_simple, to_simple_graph
from .types import block_to_graph, to_heterogeneous, to_homogeneous

__all__ = [
    "add_edges",
    "add_nodes",
    "add_reverse_edges",
    "add_self_loop",
    "adj_product_graph",
    "adj_sum_graph",
    "block_to_graph",
    "compact_graphs",
    "khop_adj",
    "khop_graph",
    "line_graph",
    "metapath_reachable_graph",
    "remove_edges",
    "remove_nodes",
    "remove_self_loop",
    "reverse",
    "to_bidirected",
    "to_heterogeneous",
    "to_homogeneous",
    "to_simple",
    "to_simple_graph",
]
