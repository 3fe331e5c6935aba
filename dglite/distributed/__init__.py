"""Training on several machines: partitioned graphs over torch.distributed. See docs/machines.md."""

from . import optim
from .book import PartitionBook
from .checkpoint import load_checkpoint, save_checkpoint
from .collectives import Collectives, RankError
from .embedding import DistEmbedding
from .feature_split import FeatureSplit
from .full_graph import FullGraph
from .full_graph_plan import FullGraphPlan, plan_full_graph
from .graph import DistGraph
from .loader import DistEdgeDataLoader, DistNodeDataLoader
from .partition import partition_graph
from .parts import load_partition, load_partition_book, load_partition_feats
from .split import edge_split, node_split
from .start import exit_client, initialize
from .tensor import DistTensor, PartitionPolicy, TensorNames

__all__ = [
    "Collectives",
    "DistEdgeDataLoader",
    "DistEmbedding",
    "DistGraph",
    "DistNodeDataLoader",
    "DistTensor",
    "FeatureSplit",
    "FullGraph",
    "FullGraphPlan",
    "PartitionBook",
    "PartitionPolicy",
    "RankError",
    "TensorNames",
    "edge_split",
    "exit_client",
    "initialize",
    "load_checkpoint",
    "load_partition",
    "load_partition_book",
    "load_partition_feats",
    "node_split",
    "optim",
    "partition_graph",
    "plan_full_graph",
    "save_checkpoint",
]
