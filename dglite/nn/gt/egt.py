"""Layer of the edge-augmented graph transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor, framework
from .. import functional
from ..base import TorchLayer, nn


@final
class EGTLayer(TorchLayer):
    r"""Layer of the edge-augmented graph transformer of Hussain et al., "Global self-attention as a replacement for
    graph convolution", 2022.

    .. math:: S_{ij} = \mathrm{clip}(q_i \cdot k_j) + E_{ij}, \quad
              A_{ij} = \mathrm{softmax}_j(S_{ij})\, \sigma(G_{ij}), \quad
              h_i = \log\Big(1 + \sum_j \sigma(G_{ij})\Big) \sum_j A_{ij} v_j

    where :math:`E` and :math:`G` are linear in the normalised features of pairs, and scores are clipped to -5 .. 5.
    :math:`h` goes through a linear layer and a feed-forward network, each added to what came; the features of pairs are
    made of :math:`S` in the same way. It needs torch.

    Parameters
    ----------
    feat_size, edge_feat_size
        Sizes of the features of nodes and of pairs. ``feat_size`` is a multiple of ``num_heads``.
    num_heads
        Number of heads.
    num_virtual_nodes
        How many first nodes are virtual: their sums are not scaled by the logarithm.
    dropout, attn_dropout
        Dropout of what is added, and of :math:`A`.
    activation
        Of the feed-forward networks; ELU unless given.
    edge_update
        Whether the features of pairs are computed, too.

    Shapes
    ------
    nfeat (batch_size, N, feat_size), efeat (batch_size, N, N, edge_feat_size), mask (batch_size, N, N)
    -> (batch_size, N, feat_size), and with ``edge_update`` (batch_size, N, N, edge_feat_size)
    """

    def __init__(
        self,
        feat_size: int,
        edge_feat_size: int,
        num_heads: int,
        num_virtual_nodes: int,
        dropout: float = 0,
        attn_dropout: float = 0,
        activation: Callable[[Tensor], Tensor] | None = None,
        edge_update: bool = True,
    ) -> None:
        super().__init__()
        functional.require_multiple(self, "feat_size", feat_size, num_heads=num_heads)
        self.num_heads, self.num_virtual_nodes, self.edge_update = num_heads, num_virtual_nodes, edge_update
        self.feat_size, self.edge_feat_size, self.dot_dim = feat_size, edge_feat_size, feat_size // num_heads
        self.mha_ln_h = nn.LayerNorm(feat_size)
        self.mha_ln_e = nn.LayerNorm(edge_feat_size)
        self.edge_input = nn.Linear(edge_feat_size, num_heads)
        self.qkv_proj = nn.Linear(feat_size, feat_size * 3)
        self.gate = nn.Linear(edge_feat_size, num_heads)
        self.attn_dropout = nn.Dropout(attn_dropout)
        self.node_output = nn.Linear(feat_size, feat_size)
        self.mha_dropout_h = nn.Dropout(dropout)
        activation = functional.as_module(activation, nn.ELU)
        self.node_ffn = _feed_forward(feat_size, activation, dropout)
        if edge_update:
            self.edge_output = nn.Linear(num_heads, edge_feat_size)
            self.mha_dropout_e = nn.Dropout(dropout)
            self.edge_ffn = _feed_forward(edge_feat_size, activation, dropout)

    def forward(self, nfeat: Tensor, efeat: Tensor, mask: Tensor | None = None) -> Any:
        """Return the new features of nodes, and with ``edge_update`` those of pairs.

        ``mask`` is added to scores and gates: 0, or minus infinity where the node of the row must not read the node of
        the column; some node must be left in every row. Raises ``DGLError`` for other shapes.
        """
        functional.require_dense_batch(self, "nfeat", nfeat, self.feat_size)
        batch, count, _ = nfeat.shape
        functional.require_pairs(self, "efeat", efeat, (batch, count, count, self.edge_feat_size))
        if mask is not None:
            functional.require_pairs(self, "mask", mask, (batch, count, count))
        attended, scores = self._attend(nfeat, self.mha_ln_e(efeat), mask)
        nfeat = self.mha_dropout_h(self.node_output(attended)) + nfeat
        nfeat = self.node_ffn(nfeat) + nfeat
        if not self.edge_update:
            return nfeat
        efeat = self.mha_dropout_e(self.edge_output(scores)) + efeat
        return nfeat, self.edge_ffn(efeat) + efeat

    def _attend(self, nfeat: Tensor, pairs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return h, (batch_size, N, feat_size), and S, (batch_size, N, N, num_heads)."""
        qkv = self.qkv_proj(self.mha_ln_h(nfeat))
        batch, count, _ = qkv.shape
        # The heads of a query are its last axis: (batch, N, 3 * d, heads).
        query, key, value = qkv.reshape(batch, count, 3 * self.dot_dim, self.num_heads).split(self.dot_dim, 2)
        scores = framework.einsum("bldh,bmdh->blmh", query, key).clamp(-5, 5) + self.edge_input(pairs)
        gates, masked = self.gate(pairs), scores
        if mask is not None:
            gates, masked = gates + mask[..., None], scores + mask[..., None]
        gates = framework.sigmoid(gates)
        weights = self.attn_dropout(framework.softmax(masked, 2) * gates)
        attended = framework.einsum("blmh,bmdh->bldh", weights, value.to(weights.dtype))
        scale = framework.log1p(gates.sum(2)[:, self.num_virtual_nodes :])
        ones = scale.new_ones(batch, count - scale.shape[1], self.num_heads)
        attended = attended * framework.cat([ones, scale], 1)[:, :, None]
        return attended.reshape(batch, count, self.feat_size), scores


def _feed_forward(size: int, activation: nn.Module, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(size), nn.Linear(size, size), activation, nn.Linear(size, size), nn.Dropout(dropout)
    )
