"""Graph deep learning with DGL's programming model, in pure Python.

``import dglite as dgl`` is all that much DGL code needs. The names here are the public ones; the rest of the package
is reached through its modules: ``dglite.function``, ``dglite.ops``, ``dglite.nn``, ``dglite.data``.
"""

from . import backend, data, function, nn, ops, sparse
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
from .generators import rand_bipartite, rand_graph, rand_power_law_graph
from .graph import DGLGraph
from .io import from_pyg, load_graphs, save_graphs, to_pyg
from .random import seed
from .scheduler import explain
from .structure import ALL
from .transforms import reorder_graph
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
    "bipartite_from_networkx",
    "bipartite_from_scipy",
    "create_block",
    "data",
    "explain",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "function",
    "graph",
    "heterograph",
    "load_graphs",
    "nn",
    "ops",
    "rand_bipartite",
    "rand_graph",
    "rand_power_law_graph",
    "reorder_graph",
    "save_graphs",
    "seed",
    "sparse",
    "to_networkx",
    "to_pyg",
]
