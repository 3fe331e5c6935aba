"""Continuous-filter convolution."""

from __future__ import annotations

import math
from typing import Any, final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn


@final
class ShiftedSoftplus(Layer):
    r"""``softplus(x) - log(shift)``, which is 0 at 0 for a shift of 2; any shape."""

    def __init__(self, beta: float = 1, shift: float = 2, threshold: float = 20) -> None:
        super().__init__()
        self.shift = shift
        self.softplus = nn.Softplus(beta=beta, threshold=threshold)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the function of each element."""
        return self.softplus(inputs) - math.log(self.shift)


@final
class CFConv(Layer):
    r"""Continuous-filter convolution of Schuett et al., "SchNet: a continuous-filter convolutional neural network for
    modeling quantum interactions", 2017.

    .. math:: h_v' = \mathrm{ssp}\Big(W_o \sum_{u \to v} (W_n h_u) \circ f(e_{uv})\Big), \quad
              f(e) = \mathrm{ssp}(W_2\, \mathrm{ssp}(W_1 e)), \quad \mathrm{ssp}(x) = \mathrm{softplus}(x) - \log 2

    The last function of the filter, the product and the sum are one kernel.

    Parameters
    ----------
    node_in_feats, edge_in_feats
        Sizes of the last axis of node and edge features.
    hidden_feats, out_feats
        Sizes of the messages and of the output.

    A node without in-edges has the sum 0.

    Shapes
    ------
    node_feats (num_src, node_in_feats), edge_feats (num_edges, edge_in_feats) -> (num_dst, out_feats)
    """

    def __init__(self, node_in_feats: int, edge_in_feats: int, hidden_feats: int, out_feats: int) -> None:
        super().__init__()
        self._edge_in_feats = edge_in_feats
        self.project_edge = nn.Sequential(
            nn.Linear(edge_in_feats, hidden_feats),
            ShiftedSoftplus(),
            nn.Linear(hidden_feats, hidden_feats),
            ShiftedSoftplus(),
        )
        self.project_node = nn.Linear(node_in_feats, hidden_feats)
        self.project_out = nn.Sequential(nn.Linear(hidden_feats, out_feats), ShiftedSoftplus())

    def forward(self, g: DGLGraph, node_feats: Any, edge_feats: Tensor) -> Tensor:
        """Return the new features of the destination nodes; of a pair of features only the source's are read.

        Raises ``DGLError`` for wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(g)
        source = node_feats[0] if isinstance(node_feats, tuple) else node_feats
        functional.require_rows(self, "node_feats", source, adjacency.num_src, "source nodes")
        functional.require_width(self, "node_feats", source, self.project_node.in_features)
        functional.require_rows(self, "edge_feats", edge_feats, adjacency.num_edges, "edges", self._edge_in_feats)
        for layer in list(self.project_edge)[:-1]:
            edge_feats = layer(edge_feats)
        return self.project_out(functional.filtered_sum(adjacency, self.project_node(source), edge_feats))
