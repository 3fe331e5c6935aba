"""``dgl.dataloading``'s neighbour sampler, which may have no layers, and ``dgl.distributed``'s loaders.

Samples without layers are for models that look at the seeds alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dataloading import NeighborSampler as LayeredSampler
from .distributed.loaders import CollatedBatches as DistDataLoader
from .distributed.loaders import DistEdgeDataLoader, DistNodeDataLoader

__all__ = [
    "DistDataLoader",
    "DistEdgeDataLoader",
    "DistNodeDataLoader",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
]


class NeighborSampler(LayeredSampler):
    """Draws neighbours as :class:`dglite.dataloading.NeighborSampler`, whose arguments it takes.

    With ``fanouts=[]`` the seeds are the input nodes, and there are no blocks.
    """

    def __init__(self, fanouts: Sequence[Any], *args: Any, **options: Any) -> None:
        no_layers = isinstance(fanouts, Sequence) and len(fanouts) == 0
        super().__init__([0] if no_layers else fanouts, *args, **options)
        if no_layers:
            self.fanouts = []

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> tuple[Any, Any, list[Any]]:
        """Return the input nodes, the seed nodes and the blocks."""
        return super().sample_blocks(g, seed_nodes, exclude_eids) if self.fanouts else (seed_nodes, seed_nodes, [])

    def assign_lazy_features(self, result: Any) -> Any:
        """Let the blocks have the features that are prefetched, if there are blocks."""
        return super().assign_lazy_features(result) if result[2] else result


MultiLayerNeighborSampler = NeighborSampler
