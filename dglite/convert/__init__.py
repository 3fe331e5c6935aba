"""Making graphs from edges, and converting from and to SciPy and NetworkX."""

from .edges import create_block, graph, heterograph
from .networkx import bipartite_from_networkx, from_networkx, to_networkx
from .scipy import bipartite_from_scipy, from_scipy

__all__ = [
    "bipartite_from_networkx",
    "bipartite_from_scipy",
    "create_block",
    "from_networkx",
    "from_scipy",
    "graph",
    "heterograph",
    "to_networkx",
]
