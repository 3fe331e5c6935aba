"""Graph transformers: attention among all nodes of dense batches of graphs, and encodings of the structure."""

from .biased_mha import BiasedMHA
from .degree_encoder import DegreeEncoder
from .egt import EGTLayer
from .graphormer import GraphormerLayer
from .lap_pos_encoder import LapPosEncoder
from .path_encoder import PathEncoder
from .spatial_encoder import SpatialEncoder, SpatialEncoder3d

__all__ = [
    "BiasedMHA",
    "DegreeEncoder",
    "EGTLayer",
    "GraphormerLayer",
    "LapPosEncoder",
    "PathEncoder",
    "SpatialEncoder",
    "SpatialEncoder3d",
]
