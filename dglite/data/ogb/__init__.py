"""The Open Graph Benchmark's node, link and graph data sets, their splits and evaluators, without the package ``ogb``.

A script written for that package changes its imports only: ``ogb.nodeproppred`` is ``dglite.data.ogb.nodeproppred``,
likewise ``linkproppred`` and ``graphproppred``. Hu et al., "Open Graph Benchmark: datasets for machine learning on
graphs", 2020.
"""

from .evaluate import Evaluator
from .graphproppred import DglGraphPropPredDataset, collate_dgl
from .linkproppred import DglLinkPropPredDataset
from .nodeproppred import DglNodePropPredDataset

__all__ = ["DglGraphPropPredDataset", "DglLinkPropPredDataset", "DglNodePropPredDataset", "Evaluator", "collate_dgl"]
