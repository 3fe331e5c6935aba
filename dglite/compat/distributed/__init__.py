"""``dgl.distributed``: DGL's names and habits over :mod:`dglite.distributed`, with one-sided reads.

Here are the classes that have another name than DGL's; the alias reads all others from the modules, see ``homes``.
"""

from ...distributed import PartitionBook as GraphPartitionBook
from .graph import NamedEmbedding as DistEmbedding
from .graph import OneSidedGraph as DistGraph
from .loaders import CollatedBatches as DistDataLoader

__all__ = ["DistDataLoader", "DistEmbedding", "DistGraph", "GraphPartitionBook", "RangePartitionBook"]

RangePartitionBook = GraphPartitionBook
