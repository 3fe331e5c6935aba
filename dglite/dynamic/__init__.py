"""Dynamic networks: models over trees, sequences and graphs of each sample's own, at the speed of the products in them.

Vertex programs (Cavs): write the function of one vertex as a :class:`VertexFunction`, call it with a batch of graphs.
"""

from .options import options
from .vertex import ByKind, Children, Partial, VertexFunction

__all__ = ["ByKind", "Children", "Partial", "VertexFunction", "options"]
