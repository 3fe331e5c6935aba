"""Data sets. Files are looked for locally first, else downloaded and checked."""

from .citation import CitationGraphDataset, CiteseerGraphDataset, CoraGraphDataset, PubmedGraphDataset
from .dataset import DGLDataset
from .karate import KarateClubDataset

__all__ = [
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "CoraGraphDataset",
    "DGLDataset",
    "KarateClubDataset",
    "PubmedGraphDataset",
]
