"""Graph files, files of other data, and exchange with PyTorch Geometric. Reading a file executes nothing."""

from .dgl_pickle import load_pickled
from .graphs import load_graphs, load_labels, save_graphs
from .info import load_info, save_info
from .pyg import from_pyg, to_pyg
from .shared import hetero_from_shared_memory
from .tensors import load_tensors, save_tensors

__all__ = [
    "from_pyg",
    "hetero_from_shared_memory",
    "load_graphs",
    "load_info",
    "load_labels",
    "load_pickled",
    "load_tensors",
    "save_graphs",
    "save_info",
    "save_tensors",
    "to_pyg",
]
