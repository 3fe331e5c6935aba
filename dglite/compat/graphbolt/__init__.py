"""``dgl.graphbolt``: GraphBolt's names on dglite's loaders and samplers.

A pipe is an :class:`ItemSampler` and stages after it. :class:`DataLoader` runs the stages, from the items on, in worker
threads. Data sets on disk are folders that a YAML file describes, as GraphBolt documents it.
"""

import sys

from ...data.utils import check_sha1, download, extract_archive
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
from .samplers import *
from .sampling_graph import *
from .stages import *
from .subgraph import *
from .utils import *

FusedSampledSubgraphImpl = SampledSubgraphImpl

_MODULES = [x for name, x in sys.modules.items() if name.rpartition(".")[0] == __name__]
__all__ = ["FusedSampledSubgraphImpl", "check_sha1", "download", "extract_archive"]
__all__ += sorted({name for module in _MODULES for name in getattr(module, "__all__", ())})
