"""Decoder of a set transformer."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn
from .setattention import PMALayer, SetAttentionBlock


@final
class SetTransformerDecoder(Layer):
    """Decoder of Lee et al., "Set transformer: a framework for attention-based permutation-invariant neural networks",
    2019: ``k`` learned seeds attend to the nodes of each graph, then to each other. It needs torch.

    Parameters
    ----------
    d_model
        Size of the last axis of the features.
    num_heads, d_head
        Number and size of the attention's heads.
    d_ff
        Hidden size of the feed-forward networks.
    n_layers
        How many blocks of attention among the seeds there are.
    k
        Number of seeds.
    dropouth, dropouta
        Dropout inside the feed-forward networks, and of the attention's weights. DGL 2.1 accepts ``dropouta`` and
        ignores it.

    For a graph without nodes the seeds read 0. Nodes are of one type.

    Shapes
    ------
    feat (num_nodes, d_model) -> (batch_size, k * d_model)
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_head: int,
        d_ff: int,
        n_layers: int,
        k: int,
        dropouth: float = 0.0,
        dropouta: float = 0.0,
    ) -> None:
        super().__init__()
        functional.require_torch(self)
        self.d_model, self.n_layers, self.k = d_model, n_layers, k
        sizes = d_model, num_heads, d_head, d_ff, dropouth, dropouta
        self.pma = PMALayer(k, *sizes)
        self.layers = nn.ModuleList(SetAttentionBlock(*sizes) for _ in range(n_layers))

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        """Return a row for each graph. Raises ``DGLError`` for another number of rows, width or node types."""
        sizes = functional.batch_sizes(self, graph, feat)
        functional.require_width(self, "feat", feat, self.d_model)
        feat = self.pma(feat, sizes)
        seeds = functional.equal_sizes(sizes, self.k)
        pairs = functional.set_pairs(seeds, seeds)
        for layer in self.layers:
            feat = layer(feat, pairs)
        return feat.reshape(sizes.shape[0], self.k * self.d_model)
