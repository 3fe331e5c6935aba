"""What pickles of DGL name besides frames, which ``pickle.load`` and ``torch.load`` read; DGL's names of graphs."""

from __future__ import annotations

import sys
from typing import Any

from ..classic import BatchedHeteroDGLGraph
from ..errors import DGLError
from ..graph import DGLGraph
from ..io.dgl_states import FrameRefState as FrameRef
from ..io.dgl_states import State, graph_of, new_object

__all__ = ["BatchedDGLHeteroGraph", "DGLBlock", "DGLGraph", "DGLHeteroGraph", "DGLSubGraph"]
__all__ += ["FrameRef", "GraphIndex", "HeteroGraphIndex", "HeteroPickleStates", "SparseMatrix", "create_graph_index"]
__all__ += ["from_edge_list", "from_networkx", "from_scipy_sparse_matrix", "read_state"]

_new_object = new_object
GraphIndex = HeteroGraphIndex = HeteroPickleStates = SparseMatrix = State


def read_state(state: Any) -> DGLGraph:
    """Return the graph that a pickle of DGL describes.

    Raises DGLError: no version from 0.4 to 2.x wrote it, or torch fills the tensors of the file later.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        # Until 2020 torch wrote what is in tensors behind the pickle: now they hold anything.
        if frame.f_code.co_name == "_legacy_load" and frame.f_globals.get("__name__") == "torch.serialization":
            raise DGLError(
                "torch.load reads this file, in torch's format of before 2020, too late for graphs of DGL in it; "
                "use dglite.io.load_pickled(path)"
            )
        frame = frame.f_back
    return graph_of(state)


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


DGLHeteroGraph = DGLBlock = DGLSubGraph = DGLGraph
BatchedDGLHeteroGraph = BatchedHeteroDGLGraph
