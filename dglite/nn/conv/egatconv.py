"""Graph attention that also updates edge features."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, framework
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn


@final
class EGATConv(Layer):
    r"""Attention with edge features of Kaminski et al., "Rossmann-toolbox: a deep learning-based protocol for the
    prediction and design of cofactor specificity in Rossmann fold proteins", 2022.

    .. math:: f_{uv}' = \mathrm{LeakyReLU}(A_1 h_u + A_2 h_v + A_3 f_{uv} + b), \quad
              \alpha_{uv} = \mathrm{softmax}_u(a^T f_{uv}'), \quad h_v' = \sum_{u \to v} \alpha_{uv} W h_u

    for each head. The new edge features are one kernel from products made for nodes; their scores, softmax and weighted
    sum are one attention kernel.

    Parameters
    ----------
    in_node_feats
        Size of the node features, or a pair (source, destination).
    in_edge_feats, out_node_feats, out_edge_feats
        Size of the edge features, and of each head's results.
    num_heads
        How many heads there are.
    bias
        Whether :math:`b` is learned.

    Shapes
    ------
    nfeats (num_src, in_node_feats), efeats (num_edges, in_edge_feats) -> (num_dst, num_heads, out_node_feats),
    (num_edges, num_heads, out_edge_feats)
    """

    bias: Tensor | None

    def __init__(
        self,
        in_node_feats: int | tuple[int, int],
        in_edge_feats: int,
        out_node_feats: int,
        out_edge_feats: int,
        num_heads: int,
        bias: bool = True,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, num_heads=num_heads)
        source, destination = functional.pair_of_sizes(in_node_feats)
        self._num_heads, self._out_node_feats, self._out_edge_feats = num_heads, out_node_feats, out_edge_feats
        self.fc_node_src = nn.Linear(source, out_node_feats * num_heads, bias=False)
        self.fc_ni = nn.Linear(source, out_edge_feats * num_heads, bias=False)
        self.fc_nj = nn.Linear(destination, out_edge_feats * num_heads, bias=False)
        self.fc_fij = nn.Linear(in_edge_feats, out_edge_feats * num_heads, bias=False)
        self.attn = nn.Parameter(framework.empty(1, num_heads, out_edge_feats))
        self.register_parameter("bias", nn.Parameter(framework.empty(num_heads * out_edge_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights from Glorot's normal distribution with the gain of ReLU and set the bias to 0."""
        gain = nn.init.calculate_gain("relu")
        for linear in (self.fc_node_src, self.fc_ni, self.fc_fij, self.fc_nj):
            functional.xavier_normal_(linear.weight, gain=gain)
        functional.xavier_normal_(self.attn, gain=gain)
        functional.zeros_(self.bias)

    def forward(
        self,
        graph: DGLGraph,
        nfeats: Any,
        efeats: Tensor,
        edge_weight: Tensor | None = None,
        get_attention: bool = False,
    ) -> tuple[Tensor, ...]:
        """Return the new features of the destination nodes and of the edges.

        ``edge_weight`` (num_edges,) multiplies the attention. With ``get_attention``, also returns the attention as it
        was applied, (num_edges, num_heads, 1). Raises ``DGLError`` for nodes without in-edges, wrong widths and numbers
        of rows.
        """
        adjacency = functional.adjacency_of(graph)
        functional.require_in_edges(adjacency)
        widths = self.fc_ni.in_features, self.fc_nj.in_features
        source, destination = functional.pair_of_features(self, "nfeats", graph, adjacency, nfeats, widths=widths)
        functional.require_rows(self, "efeats", efeats, adjacency.num_edges, "edges", self.fc_fij.in_features)
        right = self.fc_nj(destination) if self.bias is None else self.fc_nj(destination) + self.bias
        edges = functional.leaky_sum_of_three(adjacency, self.fc_ni(source), right, self.fc_fij(efeats))
        edges = functional.by_head(edges, self._num_heads)
        scores = functional.dots_by_head(adjacency, edges, self.attn.view(self.attn.shape[1:]))
        if edge_weight is not None:
            functional.require_rows(self, "edge_weight", edge_weight, adjacency.num_edges, "edges")
        values = functional.by_head(self.fc_node_src(source), self._num_heads)
        nodes, weights = functional.attention_by_scores(adjacency, values, scores, edge_weight, get_attention)
        return (nodes, edges) if weights is None else (nodes, edges, weights)
