"""Graph deep learning with DGL's programming model, in pure Python.

``import dglite as dgl`` is all that much DGL code needs. The names here are the public ones; the rest of the package
is reached through its modules: ``dglite.function``, ``dglite.ops``, ``dglite.nn``, ``dglite.data``,
``dglite.sampling``, ``dglite.transforms``.
"""

from . import backend, data, function, nn, ops, sampling, transforms
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
from .transforms import to_block
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
    "from_scipy",
    "function",
    "graph",
    "heterograph",
    "nn",
    "ops",
    "rand_bipartite",
    "rand_graph",
    "sampling",
    "seed",
    "to_block",
    "to_networkx",
    "transforms",
]
