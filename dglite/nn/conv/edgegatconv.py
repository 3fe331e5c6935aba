"""Graph attention with edge features."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, final, overload

from ...backend import Tensor, framework
from ...graph import DGLGraph
from ...ops.core import Attention, Score
from .. import functional
from ..base import InEdgesRequired, nn


@final
class EdgeGATConv(InEdgesRequired):
    r"""Graph attention in which edges take part, after Monninger et al., "SCENE: reasoning about traffic scenes using
    heterogeneous graph neural networks", 2023.

    .. math:: h_v' = \sigma\Big(W_0 h_v + \sum_{u \to v} \alpha_{uv} (W h_u + W_e f_{uv}) + b\Big), \quad
              \alpha_{uv} = \mathrm{softmax}_u(\mathrm{LeakyReLU}(a_l^T W h_u + a_r^T W h_v + a_e^T W_e f_{uv}))

    for each head. Edge features are added up with the attention before they go through :math:`W_e`, and their scores
    are products with :math:`W_e^T a_e`: of edges there is that score only, and the rest is one attention kernel.

    Parameters
    ----------
    in_feats
        Size of the input's last axis; a pair (source, destination) gives each side a matrix of its own.
    edge_feats
        Size of the edge features.
    out_feats, num_heads
        Size of each head's output, and how many heads there are.
    feat_drop, attn_drop
        Dropout of the input and of the attention.
    negative_slope
        Of the leaky ReLU.
    residual
        Whether :math:`W_0 h_v` is added.
    activation
        :math:`\sigma`.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused.
    bias
        Whether :math:`b` is learned.

    Shapes
    ------
    feat (num_src, in_feats), edge_feat (num_edges, edge_feats) -> (num_dst, num_heads, out_feats)
    """

    bias: Tensor | None
    res_fc: nn.Module | None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        edge_feats: int,
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, num_heads=num_heads)
        functional.require_sizes(self, in_feats=in_feats, out_feats=out_feats)
        source, destination = functional.pair_of_sizes(in_feats)
        width = num_heads * out_feats
        self._num_heads, self._out_feats, self._edge_feats = num_heads, out_feats, edge_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        self._paired = isinstance(in_feats, tuple)
        if self._paired:
            self.fc_src = nn.Linear(source, width, bias=False)
            self.fc_dst = nn.Linear(destination, width, bias=False)
        else:
            self.fc = nn.Linear(source, width, bias=False)
        self.attn_l = nn.Parameter(framework.empty(1, num_heads, out_feats))
        self.attn_r = nn.Parameter(framework.empty(1, num_heads, out_feats))
        self.feat_drop, self.attn_drop = nn.Dropout(feat_drop), nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.register_parameter("bias", nn.Parameter(framework.empty(width)) if bias else None)
        self.res_fc = nn.Linear(destination, width, bias=False) if residual else None
        self.fc_edge = nn.Linear(edge_feats, width, bias=False)
        self.attn_edge = nn.Parameter(framework.empty(1, num_heads, out_feats))
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights from Glorot's normal distribution with the gain of ReLU and set the bias to 0."""
        gain = nn.init.calculate_gain("relu")
        linears = [self.fc_src, self.fc_dst] if self._paired else [self.fc]
        # DGL's order, so that a seed gives the same weights.
        attention = self.attn_l, self.attn_r, self.fc_edge.weight, self.attn_edge
        for weight in (*(linear.weight for linear in linears), *attention):
            functional.xavier_normal_(weight, gain=gain)
        if isinstance(self.res_fc, nn.Linear):
            functional.xavier_normal_(self.res_fc.weight, gain=gain)
        functional.zeros_(self.bias)

    @overload
    def forward(
        self, graph: DGLGraph, feat: Any, edge_feat: Tensor, get_attention: Literal[False] = False
    ) -> Tensor: ...
    @overload
    def forward(
        self, graph: DGLGraph, feat: Any, edge_feat: Tensor, *, get_attention: bool
    ) -> tuple[Tensor, Tensor]: ...
    def forward(
        self, graph: DGLGraph, feat: Any, edge_feat: Tensor, get_attention: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the new features of the destination nodes.

        With ``get_attention``, also returns the attention as it was applied, (num_edges, num_heads, 1). Raises
        ``DGLError`` for nodes without in-edges, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat)
        fc_src, fc_dst = (self.fc_src, self.fc_dst) if self._paired else (self.fc, self.fc)
        functional.require_width(self, "feat", source, fc_src.in_features)
        functional.require_width(self, "feat", destination, fc_dst.in_features)
        functional.require_rows(self, "edge_feat", edge_feat, adjacency.num_edges, "edges", self._edge_feats)
        source = self.feat_drop(source)
        if isinstance(feat, tuple):
            destination = self.feat_drop(destination)
        else:
            destination = functional.first_rows(source, adjacency.num_dst)
        values = functional.by_head(fc_src(source), self._num_heads)
        # One tensor for both sides: the kernel makes the scores, products with two vectors, of what it adds up.
        projected = not isinstance(feat, tuple) and not self._paired
        if projected:
            operands = tuple(attn.view(attn.shape[1:]) for attn in (self.attn_l, self.attn_r))
        else:
            functional.compute_weights(fc_dst, destination)
            operands = (values * self.attn_l).sum(-1), destination @ self._folded(fc_dst.weight, self.attn_r)
        attention = Attention(
            Score.ADDITIVE,
            self.leaky_relu.negative_slope,
            dropout=self.attn_drop.p * self.training,
            projected=projected,
            edges=True,
            edge_features=True,
        )
        functional.compute_weights(self.fc_edge, edge_feat)
        edge_weight = self.fc_edge.weight
        terms = edge_feat @ self._folded(edge_weight, self.attn_edge)
        result, edge_sums, weights = functional.attention_with_edges(
            adjacency, attention, values, (*operands, terms), edge_feat, get_attention
        )
        result = result + functional.by_each_head(edge_sums, edge_weight)
        if self.res_fc is not None:
            result = result + functional.by_head(self.res_fc(destination), self._num_heads)
        bias = None if self.bias is None else self.bias.reshape(self._num_heads, self._out_feats)
        result = functional.activated(result, bias, self.activation)
        return result if weights is None else (result, weights)

    if TYPE_CHECKING:
        __call__ = forward

    def _folded(self, weight: Tensor, vector: Tensor) -> Tensor:
        """Return the matrix (in, heads) whose product is that of the heads' results with a vector each."""
        by_head = weight.reshape(self._num_heads, self._out_feats, weight.shape[1])
        return (by_head * vector[0, :, :, None]).sum(1).T
