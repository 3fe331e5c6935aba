"""``dgl.graph_index``: graphs without features are graphs here, made of whatever ``DGLGraph`` takes."""

from __future__ import annotations

from typing import Any

from ..errors import DGLError
from ..graph import DGLGraph


def create_graph_index(graph_data: Any, readonly: bool = False) -> DGLGraph:
    """Return a graph of one node and one edge type: of pairs of ids, a SciPy matrix or a NetworkX graph; None has none.

    A graph is returned itself. Raises ``DGLError`` for other data, and for a graph without data that must not change.
    """
    if isinstance(graph_data, DGLGraph):
        return graph_data
    if graph_data is None and readonly:
        raise DGLError("a graph without nodes that cannot be changed is of no use; give graph_data, or readonly=False")
    return DGLGraph(graph_data, readonly=readonly)


from_edge_list = from_networkx = from_scipy_sparse_matrix = create_graph_index
