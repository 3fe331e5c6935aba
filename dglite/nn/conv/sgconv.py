"""Simplified graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import InEdgesRequired, nn


@final
class SGConv(InEdgesRequired):
    r"""Simplified graph convolution of Wu et al., "Simplifying graph convolutional networks", 2019.

    .. math:: H' = \mathrm{norm}\big((D^{-1/2} A D^{-1/2})^K H\big)\, W^T + b

    Each of the :math:`K` steps is one kernel, its normalisation inside. Degrees are in-degrees, 0 counting as 1.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output.
    k
        :math:`K`.
    cached
        Keep what the first call computes before :math:`W`, and use it from then on: graph and features must not change.
    bias
        Whether :math:`b` is learned.
    norm
        A function of the features after the steps.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused.

    Shapes
    ------
    feat (num_nodes, in_feats) -> (num_nodes, out_feats)
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        k: int = 1,
        cached: bool = False,
        bias: bool = True,
        norm: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, k=k)
        self.fc = nn.Linear(in_feats, out_feats, bias=bias)
        self._k = k
        self._cached = cached
        self._cached_h: Tensor | None = None
        functional.require_norm(self, norm)
        self.norm = norm
        self._allow_zero_in_degree = allow_zero_in_degree
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight from Glorot's uniform distribution and set the bias to 0."""
        functional.xavier_uniform_(self.fc.weight)
        functional.zeros_(self.fc.bias)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the new features.

        ``edge_weight`` (num_edges,), positive, takes the place of the degrees, normalised as by
        :class:`EdgeWeightNorm`. Raises ``DGLError`` for nodes without in-edges, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        if self._cached_h is not None:
            return self.fc(self._cached_h)
        feat = functional.require_one_size(self, "feat", graph, feat, self.fc.in_features)
        product_first = False
        if self._k and self.norm is None and not self._cached and functional.is_plain(self.fc):
            sizes = self.fc.in_features, self.fc.out_features
            product_first = functional.product_goes_first(feat, adjacency.num_dst, *sizes)
        if product_first:
            feat = nn.functional.linear(feat, self.fc.weight)
        if edge_weight is not None:
            edge_weight = functional.checked_edge_weight(self, adjacency, edge_weight)
        for step in range(self._k):
            bias = self.fc.bias if product_first and step == self._k - 1 else None
            feat = functional.walk(adjacency, feat, edge_weight, bias=bias)
        if product_first:
            return feat
        if self.norm is not None:
            feat = self.norm(feat)
        if self._cached:
            self._cached_h = feat
        return self.fc(feat)
