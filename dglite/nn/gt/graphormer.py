"""Layer of Graphormer."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from ...backend import Tensor
from .. import functional
from ..base import TorchLayer, nn
from .biased_mha import BiasedMHA


@final
class GraphormerLayer(TorchLayer):
    r"""Layer of Graphormer, of Ying et al., "Do transformers really perform bad for graph representation?", 2021.

    .. math:: h = \mathrm{norm}(x + \mathrm{attention}(x)), \quad \mathrm{norm}(h + \mathrm{ffn}(h))

    With ``norm_first``: :math:`h = x + \mathrm{attention}(\mathrm{norm}(x))` and
    :math:`h + \mathrm{ffn}(\mathrm{norm}(h))`.
    It needs torch.

    Parameters
    ----------
    feat_size, num_heads, attn_bias_type, attn_dropout
        Of the attention: see :class:`BiasedMHA`.
    hidden_size
        Hidden size of the feed-forward network.
    norm_first
        Whether what goes into attention and network is normalised, in place of what comes out.
    dropout
        Dropout of what the attention and both layers of the network give.
    activation
        Of the network; ReLU unless given.

    Shapes
    ------
    nfeat (batch_size, N, feat_size), attn_bias (batch_size, N, N, num_heads), attn_mask (batch_size, N, N)
    -> (batch_size, N, feat_size)
    """

    def __init__(
        self,
        feat_size: int,
        hidden_size: int,
        num_heads: int,
        attn_bias_type: str = "add",
        norm_first: bool = False,
        dropout: float = 0.1,
        attn_dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attn = BiasedMHA(feat_size, num_heads, attn_bias_type=attn_bias_type, attn_drop=attn_dropout)
        self.ffn = nn.Sequential(
            nn.Linear(feat_size, hidden_size),
            functional.as_module(activation, nn.ReLU),
            nn.Dropout(p=dropout),
            nn.Linear(hidden_size, feat_size),
            nn.Dropout(p=dropout),
        )
        self.dropout = nn.Dropout(p=dropout)
        self.attn_layer_norm = nn.LayerNorm(feat_size)
        self.ffn_layer_norm = nn.LayerNorm(feat_size)

    def forward(self, nfeat: Tensor, attn_bias: Tensor | None = None, attn_mask: Tensor | None = None) -> Tensor:
        """Return the new features; masks and errors are those of :class:`BiasedMHA`."""
        functional.require_dense_batch(self, "nfeat", nfeat, self.attn.feat_size)
        if self.norm_first:
            nfeat = nfeat + self.dropout(self.attn(self.attn_layer_norm(nfeat), attn_bias, attn_mask))
            return nfeat + self.ffn(self.ffn_layer_norm(nfeat))
        nfeat = self.attn_layer_norm(nfeat + self.dropout(self.attn(nfeat, attn_bias, attn_mask)))
        return self.ffn_layer_norm(nfeat + self.ffn(nfeat))
