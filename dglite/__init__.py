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
from .random import seed
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
    "backend",
    "batch",
    "bipartite_from_networkx",
    "bipartite_from_scipy",
    "create_block",
    "data",
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
    "merge",
    "nn",
    "node_subgraph",
    "node_type_subgraph",
    "ops",
    "out_subgraph",
    "rand_bipartite",
    "rand_graph",
    "seed",
    "slice_batch",
    "to_networkx",
    "unbatch",
]
