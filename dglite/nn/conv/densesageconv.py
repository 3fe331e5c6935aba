"""GraphSAGE over a dense adjacency matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor
from .. import functional
from ..base import Layer, nn


@final
class DenseSAGEConv(Layer):
    r""":class:`SAGEConv` with the ``"gcn"`` aggregator, of a dense adjacency matrix.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output.
    feat_drop
        Dropout of the input.
    bias
        Whether a learned bias is added.
    norm, activation
        Applied to the result, the activation first.

    Shapes
    ------
    adj (num_dst, num_src), feat (num_src, in_feats) or a pair (source, destination) -> (num_dst, out_feats)
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        feat_drop: float = 0.0,
        bias: bool = True,
        norm: Callable[[Tensor], Tensor] | None = None,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        functional.require_norm(self, norm)
        self._in_feats, self._out_feats, self._norm = in_feats, out_feats, norm
        self.feat_drop, self.activation = nn.Dropout(feat_drop), activation
        self.fc = nn.Linear(in_feats, out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight from Glorot's uniform distribution with the gain of ReLU."""
        functional.xavier_uniform_(self.fc.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, adj: Tensor, feat: Any) -> Tensor:
        """Return the new features; ``adj[v, u]`` is the weight of an edge from u to v."""
        if isinstance(feat, tuple):
            source, destination = self.feat_drop(feat[0]), self.feat_drop(feat[1])
        else:
            source = destination = self.feat_drop(feat)
        adj = functional.require_matrix(self, adj, source)
        result = self.fc((adj @ source + destination) / (adj.sum(1)[:, None] + 1))
        if self.activation is not None:
            result = self.activation(result)
        return result if self._norm is None else self._norm(result)
