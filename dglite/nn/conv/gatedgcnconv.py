"""Gated graph convolution of nodes and edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn


@final
class GatedGCNConv(Layer):
    r"""Residual gated graph convolution of Bresson and Laurent, 2017, as in Dwivedi et al., "Benchmarking graph neural
    networks", 2020.

    .. math:: e_{uv}' = D h_u + E h_v + C e_{uv}, \quad
              h_v' = A h_v + \frac{\sum_{u \to v} \mathrm{sigmoid}(e_{uv}') \circ B h_u}
                                  {\sum_{u \to v} \mathrm{sigmoid}(e_{uv}') + 10^{-6}}

    each then normalised over the batch, activated, added to the input and dropped out. The new edge features are one
    kernel; the gates are computed inside of the kernels that add up, and not stored.

    Parameters
    ----------
    input_feats, edge_feats, output_feats
        Sizes of the last axis of node features, edge features, and of both results.
    dropout
        Of both results.
    batch_norm
        Whether both go through ``BatchNorm1d``.
    residual
        Whether the input is added, if all sizes agree.
    activation
        Applied to both.

    Shapes
    ------
    feat (num_nodes, input_feats), edge_feat (num_edges, edge_feats) -> (num_nodes, output_feats), (num_edges,
    output_feats)
    """

    def __init__(
        self,
        input_feats: int,
        edge_feats: int,
        output_feats: int,
        dropout: float = 0,
        batch_norm: bool = True,
        residual: bool = True,
        activation: Callable[[Tensor], Tensor] | None = nn.functional.relu,
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.batch_norm = batch_norm
        self.residual = residual and input_feats == output_feats == edge_feats
        self.A, self.B, self.D, self.E = (nn.Linear(input_feats, output_feats) for _ in "ABDE")
        self.C = nn.Linear(edge_feats, output_feats)
        self.bn_node, self.bn_edge = nn.BatchNorm1d(output_feats), nn.BatchNorm1d(output_feats)
        self.activation = activation

    def forward(self, graph: DGLGraph, feat: Tensor, edge_feat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new features of nodes and edges; raises ``DGLError`` for wrong widths and numbers of rows."""
        adjacency = functional.adjacency_of(graph)
        feat = functional.require_one_size(self, "feat", graph, feat, self.A.in_features)
        functional.require_rows(self, "edge_feat", edge_feat, adjacency.num_edges, "edges", self.C.in_features)
        edges = functional.sum_of_three(adjacency, self.D(feat), self.E(feat), self.C(edge_feat))
        nodes = self.A(feat) + functional.gated_mean(adjacency, self.B(feat), edges)
        if self.batch_norm:
            nodes, edges = self.bn_node(nodes), self.bn_edge(edges)
        nodes, edges = (functional.activated(x, None, self.activation) for x in (nodes, edges))
        if self.residual:
            nodes, edges = feat + nodes, edge_feat + edges
        return self.dropout(nodes), self.dropout(edges)
