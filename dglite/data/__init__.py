"""Data sets. Files are looked for locally first, else downloaded and checked."""

from .citation import CitationGraphDataset, CiteseerGraphDataset, CoraGraphDataset, PubmedGraphDataset
from .dataset import DGLDataset
from .karate import KarateClubDataset
from .utils import load_graphs, load_labels, load_tensors, save_graphs, save_tensors
from .wikiner import WikiNERDataset

__all__ = [
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "CoraGraphDataset",
    "DGLDataset",
    "KarateClubDataset",
    "PubmedGraphDataset",
    "WikiNERDataset",
    "load_graphs",
    "load_labels",
    "load_tensors",
    "save_graphs",
    "save_tensors",
]
