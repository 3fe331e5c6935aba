"""``dgl.graphbolt``: what training scripts use of it, on dglite's loaders and samplers.

A data pipe is the list of its stages. :class:`DataLoader` runs them, from the items on, in worker threads. Data sets on
disk are folders that a YAML file describes, as GraphBolt documents it.
"""

from .etypes import etype_str_to_tuple, etype_tuple_to_str
from .features import BasicFeatureStore, TorchBasedFeature, TorchBasedFeatureStore
from .item_sampler import (
    DataLoader,
    DistributedItemSampler,
    ItemSampler,
    MultiProcessDataLoader,
    SingleProcessDataLoader,
    minibatcher_default,
)
from .itemset import HeteroItemSet, ItemSet, ItemSetDict
from .minibatch import MiniBatch, exclude_seed_edges
from .ondisk import OnDiskDataset, OnDiskTask
from .sampling_graph import FusedCSCSamplingGraph, from_dglgraph, fused_csc_sampling_graph

__all__ = [
    "BasicFeatureStore",
    "DataLoader",
    "DistributedItemSampler",
    "FusedCSCSamplingGraph",
    "HeteroItemSet",
    "ItemSampler",
    "ItemSet",
    "ItemSetDict",
    "MiniBatch",
    "MultiProcessDataLoader",
    "OnDiskDataset",
    "OnDiskTask",
    "SingleProcessDataLoader",
    "TorchBasedFeature",
    "TorchBasedFeatureStore",
    "etype_str_to_tuple",
    "etype_tuple_to_str",
    "exclude_seed_edges",
    "from_dglgraph",
    "fused_csc_sampling_graph",
    "minibatcher_default",
]
