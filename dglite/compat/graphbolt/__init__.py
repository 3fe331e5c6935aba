"""``dgl.graphbolt``: GraphBolt's names on dglite's loaders and samplers.

A pipe is an :class:`ItemSampler` and stages after it. :class:`DataLoader` runs the stages, from the items on, in worker
threads. Data sets on disk are folders that a YAML file describes, as GraphBolt documents it.
"""

from ...data.utils import check_sha1, download, extract_archive
from . import (
    base,
    caches,
    compact,
    dataset,
    exclusion,
    features,
    fetch,
    forms,
    item_sampler,
    itemset,
    metadata,
    minibatch,
    negative_sampler,
    ondisk,
    per_layer,
    pipes,
    samplers,
    sampling_graph,
    stages,
    subgraph,
    utils,
)
from .base import *
from .caches import *
from .compact import *
from .dataset import *
from .exclusion import *
from .features import *
from .fetch import *
from .forms import *
from .item_sampler import *
from .itemset import *
from .metadata import *
from .minibatch import *
from .negative_sampler import *
from .ondisk import *
from .per_layer import *
from .pipes import *
from .samplers import *
from .sampling_graph import *
from .stages import *
from .subgraph import *
from .utils import *

FusedSampledSubgraphImpl = SampledSubgraphImpl

__all__ = ["FusedSampledSubgraphImpl", "check_sha1", "download", "extract_archive"]
for _module in (
    base,
    caches,
    compact,
    dataset,
    exclusion,
    features,
    fetch,
    forms,
    item_sampler,
    itemset,
    metadata,
    minibatch,
    negative_sampler,
    ondisk,
    per_layer,
    pipes,
    samplers,
    sampling_graph,
    stages,
    subgraph,
    utils,
):
    __all__ += _module.__all__
