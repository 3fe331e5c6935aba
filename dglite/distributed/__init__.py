"""Training on several machines: parts of a graph, and processes of torch.distributed. See docs/machines.md."""

from .book import PartitionBook
from .feature_split import FeatureSplit
from .full_graph import FullGraph
from .full_graph_plan import FullGraphPlan, plan_full_graph
from .partition import partition_graph
from .parts import load_partition, load_partition_book, load_partition_feats

__all__ = [
    "FeatureSplit",
    "FullGraph",
    "FullGraphPlan",
    "PartitionBook",
    "load_partition",
    "load_partition_book",
    "load_partition_feats",
    "partition_graph",
    "plan_full_graph",
]
