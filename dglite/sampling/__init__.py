"""Sampling of neighbours, walks and negative pairs. All draws follow :func:`dglite.seed`, for any number of threads."""

from .. import hints
from .fused import sample_neighbors_fused
from .labor import sample_labors
from .latest import LatestNeighbors, latest_neighbors
from .negative import global_uniform_negative_sampling
from .neighbor import sample_etype_neighbors, sample_neighbors, sample_neighbors_biased, select_topk
from .pinsage import PinSAGESampler, RandomWalkNeighborSampler
from .walks import node2vec_random_walk, pack_traces, random_walk

__all__ = [
    "LatestNeighbors",
    "PinSAGESampler",
    "RandomWalkNeighborSampler",
    "global_uniform_negative_sampling",
    "latest_neighbors",
    "node2vec_random_walk",
    "pack_traces",
    "random_walk",
    "sample_etype_neighbors",
    "sample_labors",
    "sample_neighbors",
    "sample_neighbors_biased",
    "sample_neighbors_fused",
    "select_topk",
]

__getattr__ = hints.names_of(__name__)
