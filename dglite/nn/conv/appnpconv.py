"""Personalised propagation of predictions."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn


@final
class APPNPConv(Layer):
    r"""Personalised propagation of Gasteiger et al., "Predict then propagate", 2019.

    .. math:: H^{(0)} = H, \quad H^{(k+1)} = (1 - \alpha) D^{-1/2} A D^{-1/2} H^{(k)} + \alpha H

    Each of the steps is one kernel, its normalisation inside; sources are divided by the root of their out-degrees,
    destinations by that of their in-degrees, 0 counting as 1.

    Parameters
    ----------
    k
        How many steps are taken.
    alpha
        :math:`\alpha`, the probability of a restart.
    edge_drop
        Dropout of edges, drawn anew in each step.

    Shapes
    ------
    feat (num_nodes, \*feat) -> (num_nodes, \*feat)
    """

    def __init__(self, k: int, alpha: float, edge_drop: float = 0.0) -> None:
        super().__init__()
        functional.require_sizes(self, k=k)
        self._k, self._alpha = k, alpha
        self.edge_drop = nn.Dropout(edge_drop)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the features after the steps.

        ``edge_weight`` (num_edges,), positive, takes the place of the degrees, normalised as by
        :class:`EdgeWeightNorm`. Raises ``DGLError`` for wrong numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        feat = functional.require_one_size(self, "feat", graph, feat)
        if edge_weight is not None:
            edge_weight = functional.checked_edge_weight(self, adjacency, edge_weight)
        restart, keep = feat * self._alpha, 1 - self._alpha
        dropping = self.training and self.edge_drop.p > 0
        if dropping and edge_weight is None:
            edge_weight = functional.walk_weight(adjacency, feat)
        for _ in range(self._k):
            weight = self.edge_drop(edge_weight) if dropping else edge_weight
            feat = functional.walk(adjacency, feat, weight, by_source="out", scale=keep, residual=restart)
        return feat
