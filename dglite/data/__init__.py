"""Data sets. Files are looked for locally first, else downloaded and checked."""

from .citation import CitationGraphDataset, CiteseerGraphDataset, CoraGraphDataset, PubmedGraphDataset
from .dataset import DGLDataset
from .karate import KarateClubDataset
from .sst import SSTDataset
from .utils import load_graphs, load_labels, load_tensors, save_graphs, save_tensors

__all__ = [
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "CoraGraphDataset",
    "DGLDataset",
    "KarateClubDataset",
    "PubmedGraphDataset",
    "SSTDataset",
    "load_graphs",
    "load_labels",
    "load_tensors",
    "save_graphs",
    "save_tensors",
]
