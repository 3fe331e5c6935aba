"""Edge convolution."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import InEdgesRequired, nn


@final
class EdgeConv(InEdgesRequired):
    r"""Edge convolution of Wang et al., "Dynamic graph CNN for learning on point clouds", 2019.

    .. math:: h_v' = \max_{u \to v} \big(\Theta (h_v - h_u) + \Phi h_v\big)

    Products are made for nodes, and difference and maximum are one kernel; no message is stored. With ``batch_norm``
    messages are normalised over all edges, which needs them as a tensor.

    Parameters
    ----------
    in_feat, out_feat
        Sizes of the last axis of input and output.
    batch_norm
        Whether messages go through ``BatchNorm1d``.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused: the output of such a node is 0.

    Shapes
    ------
    feat (num_src, in_feat) -> (num_dst, out_feat)
    """

    def __init__(
        self, in_feat: int, out_feat: int, batch_norm: bool = False, allow_zero_in_degree: bool = False
    ) -> None:
        super().__init__()
        self.batch_norm, self._allow_zero_in_degree = batch_norm, allow_zero_in_degree
        self.theta, self.phi = nn.Linear(in_feat, out_feat), nn.Linear(in_feat, out_feat)
        if batch_norm:
            self.bn = nn.BatchNorm1d(out_feat)

    def forward(self, g: DGLGraph, feat: Any) -> Tensor:
        """Return the new features of the destination nodes.

        Raises ``DGLError`` for nodes without in-edges, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(g)
        self.require_in_edges(adjacency)
        widths = self.theta.in_features, self.theta.in_features
        source, destination = functional.pair_of_features(self, "feat", g, adjacency, feat, widths=widths)
        functional.compute_weights(self.theta, source)
        functional.compute_weights(self.phi, destination)
        theta, phi = self.theta.weight, self.phi.weight
        left = nn.functional.linear(source, theta)
        right = nn.functional.linear(destination, theta + phi, self.theta.bias + self.phi.bias)
        if not self.batch_norm:
            return functional.greatest_difference(adjacency, left, right)
        return functional.greatest_edge(adjacency, self.bn(functional.difference(adjacency, left, right)))
