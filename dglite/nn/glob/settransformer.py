"""Encoder and decoder of a set transformer."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import TorchLayer, nn
from .setattention import InducedSetAttentionBlock, PMALayer, SetAttentionBlock


@final
class SetTransformerEncoder(TorchLayer):
    """Encoder of Lee et al., "Set transformer: a framework for attention-based permutation-invariant neural networks",
    2019: layers of attention among the nodes of each graph, whatever its edges.

    Graphs of like sizes are padded to a dense batch, whose attention is torch's: see decision 94. It needs torch.

    Parameters
    ----------
    d_model
        Size of the last axis of the features.
    n_heads, d_head
        Number and size of the attention's heads.
    d_ff
        Hidden size of the feed-forward networks.
    n_layers
        How many blocks there are.
    block_type
        ``"sab"``, every node attends to all nodes of its graph, or ``"isab"``, by way of ``m`` learned points.
    m
        Number of points, needed for ``"isab"``.
    dropouth, dropouta
        Dropout inside the feed-forward networks, and of the attention's weights. DGL 2.1 accepts ``dropouta`` and
        ignores it.

    Raises ``KeyError`` for another ``block_type`` and for ``"isab"`` without ``m``. Nodes are of one type.

    Shapes
    ------
    feat (num_nodes, d_model) -> (num_nodes, d_model)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int,
        d_ff: int,
        n_layers: int = 1,
        block_type: str = "sab",
        m: int | None = None,
        dropouth: float = 0.0,
        dropouta: float = 0.0,
    ) -> None:
        super().__init__()
        if block_type not in ("sab", "isab"):
            raise KeyError(f"SetTransformerEncoder: block_type={block_type!r} is not known; expected 'sab' or 'isab'")
        if block_type == "isab" and m is None:
            raise KeyError("SetTransformerEncoder: block_type='isab' needs m, its number of points")
        self.d_model, self.n_layers, self.block_type, self.m = d_model, n_layers, block_type, m
        sizes = d_model, n_heads, d_head, d_ff, dropouth, dropouta
        self.layers = nn.ModuleList(
            SetAttentionBlock(*sizes) if block_type == "sab" else InducedSetAttentionBlock(m or 0, *sizes)
            for _ in range(n_layers)
        )

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        """Return the new features. Raises ``DGLError`` for another number of rows, width or node types."""
        sizes = functional.batch_sizes(self, graph, feat)
        functional.require_width(self, "feat", feat, self.d_model)
        among = functional.set_pairs(sizes, sizes) if self.block_type == "sab" else sizes
        for layer in self.layers:
            feat = layer(feat, among)
        return feat


@final
class SetTransformerDecoder(TorchLayer):
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
