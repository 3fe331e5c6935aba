"""Mini-batches: samplers, and loaders that run them in threads. See docs/dataloading.md."""

from .. import hints
from . import negative_sampler
from .base import (
    BlockSampler,
    Sampler,
    SubgraphSampler,
    set_dst_lazy_features,
    set_edge_lazy_features,
    set_node_lazy_features,
    set_src_lazy_features,
)
from .capped_sampler import CappedNeighborSampler, CapSampler
from .collator import Collator, EdgeCollator, GraphCollator, NodeCollator
from .dataloader import (
    DataLoader,
    DistDataLoader,
    DistEdgeDataLoader,
    DistNodeDataLoader,
    EdgeDataLoader,
    NodeDataLoader,
)
from .edge_sampler import EdgePredictionSampler, as_edge_prediction_sampler
from .exclusion import SpotTarget, find_exclude_eids
from .features import CachedFeatures, FeatureStore, MappedFeatures, TensorFeatures, hot_rows
from .graph_loader import GraphDataLoader
from .inference import inference
from .neighbor_sampler import LaborSampler, MultiLayerFullNeighborSampler, MultiLayerNeighborSampler, NeighborSampler
from .schedule import ScheduledFeatures
from .subgraph_samplers import ClusterGCNSampler, SAINTSampler, ShaDowKHopSampler

__all__ = [
    "BlockSampler",
    "CachedFeatures",
    "CapSampler",
    "CappedNeighborSampler",
    "ClusterGCNSampler",
    "Collator",
    "DataLoader",
    "DistDataLoader",
    "DistEdgeDataLoader",
    "DistNodeDataLoader",
    "EdgeCollator",
    "EdgeDataLoader",
    "EdgePredictionSampler",
    "FeatureStore",
    "GraphCollator",
    "GraphDataLoader",
    "LaborSampler",
    "MappedFeatures",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "NodeCollator",
    "NodeDataLoader",
    "SAINTSampler",
    "Sampler",
    "ScheduledFeatures",
    "ShaDowKHopSampler",
    "SpotTarget",
    "SubgraphSampler",
    "TensorFeatures",
    "as_edge_prediction_sampler",
    "find_exclude_eids",
    "hot_rows",
    "inference",
    "negative_sampler",
    "set_dst_lazy_features",
    "set_edge_lazy_features",
    "set_node_lazy_features",
    "set_src_lazy_features",
]

__getattr__ = hints.names_of(__name__)
