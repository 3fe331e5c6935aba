"""Graph deep learning with DGL's programming model, in pure Python.

``import dglite as dgl`` is all that much DGL code needs. The names here are the public ones; the rest of the package
is reached through its modules: ``dglite.function``, ``dglite.ops``, ``dglite.nn``, ``dglite.data``.
"""

from . import backend, data, function, nn, ops
from .batch import batch, merge, slice_batch, unbatch
from .convert import (
    bipartite_from_networkx,
    bipartite_from_scipy,
    create_block,
    from_networkx,
    from_scipy,
    graph,
    heterograph,
    to_networkx,
)
from .errors import DGLError, DGLWarning
from .frame import EID, ETYPE, NID, NTYPE
from .generators import rand_bipartite, rand_graph
from .graph import DGLGraph
from .homophily import (
    adjusted_homophily,
    edge_homophily,
    edge_label_informativeness,
    linkx_homophily,
    node_homophily,
    node_label_informativeness,
)
from .propagate import (
    prop_edges,
    prop_edges_dfs,
    prop_nodes,
    prop_nodes_bfs,
    prop_nodes_topo,
)
from .random import seed
from .readout import (
    broadcast_edges,
    broadcast_nodes,
    max_edges,
    max_nodes,
    mean_edges,
    mean_nodes,
    readout_edges,
    readout_nodes,
    softmax_edges,
    softmax_nodes,
    sum_edges,
    sum_nodes,
    topk_edges,
    topk_nodes,
)
from .scheduler import explain
from .structure import ALL
from .subgraph import (
    edge_subgraph,
    edge_type_subgraph,
    in_subgraph,
    khop_in_subgraph,
    khop_out_subgraph,
    node_subgraph,
    node_type_subgraph,
    out_subgraph,
)
from .traversal import (
    bfs_edges_generator,
    bfs_nodes_generator,
    dfs_edges_generator,
    dfs_labeled_edges_generator,
    topological_nodes_generator,
)
from .udf import EdgeBatch, NodeBatch

__version__ = "0.1.0"

__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "NID",
    "NTYPE",
    "DGLError",
    "DGLGraph",
    "DGLWarning",
    "EdgeBatch",
    "NodeBatch",
    "adjusted_homophily",
    "backend",
    "batch",
    "bfs_edges_generator",
    "bfs_nodes_generator",
    "bipartite_from_networkx",
    "bipartite_from_scipy",
    "broadcast_edges",
    "broadcast_nodes",
    "create_block",
    "data",
    "dfs_edges_generator",
    "dfs_labeled_edges_generator",
    "edge_homophily",
    "edge_label_informativeness",
    "edge_subgraph",
    "edge_type_subgraph",
    "explain",
    "from_networkx",
    "from_scipy",
    "function",
    "graph",
    "heterograph",
    "in_subgraph",
    "khop_in_subgraph",
    "khop_out_subgraph",
    "linkx_homophily",
    "max_edges",
    "max_nodes",
    "mean_edges",
    "mean_nodes",
    "merge",
    "nn",
    "node_homophily",
    "node_label_informativeness",
    "node_subgraph",
    "node_type_subgraph",
    "ops",
    "out_subgraph",
    "prop_edges",
    "prop_edges_dfs",
    "prop_nodes",
    "prop_nodes_bfs",
    "prop_nodes_topo",
    "rand_bipartite",
    "rand_graph",
    "readout_edges",
    "readout_nodes",
    "seed",
    "slice_batch",
    "softmax_edges",
    "softmax_nodes",
    "sum_edges",
    "sum_nodes",
    "to_networkx",
    "topk_edges",
    "topk_nodes",
    "topological_nodes_generator",
    "unbatch",
]
