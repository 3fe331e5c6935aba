"""Graph attention whose ranking of neighbours depends on the destination node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, final, overload

from ...backend import Tensor, framework
from ...graph import DGLGraph
from ...ops.core import Attention, Score
from .. import functional
from ..base import InEdgesRequired, nn
from ..sparselinear import FeatureDropout, SparseLinear


@final
class GATv2Conv(InEdgesRequired):
    r"""Graph attention of Brody et al., "How attentive are graph attention networks?", 2022.

    .. math:: h_v' = \sigma\Big(\sum_{u \to v} \alpha_{uv} W_s h_u\Big), \quad
              \alpha_{uv} = \mathrm{softmax}_u(a^T \mathrm{LeakyReLU}(W_s h_u + W_d h_v))

    for each of ``num_heads`` heads.

    Parameters
    ----------
    in_feats
        Size of the input's last axis; a pair (source, destination) where the sides differ.
    out_feats, num_heads
        Size of each head's output, and how many heads there are.
    feat_drop, attn_drop
        Dropout of the input and of the attention.
    negative_slope
        Of the leaky ReLU.
    residual
        Add the destination's input, through a matrix where sizes differ.
    activation
        Applied to the result.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused.
    bias
        Whether the matrices have a bias.
    share_weights
        One matrix for both sides. A pair of sizes has two whatever this says.

    Shapes
    ------
    feat (num_src, \*, in_feats) -> (num_dst, \*, num_heads, out_feats)
    """

    res_fc: nn.Module | None

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        feat_drop: float = 0.0,
        attn_drop: float = 0.0,
        negative_slope: float = 0.2,
        residual: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
        share_weights: bool = False,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, num_heads=num_heads)
        functional.require_sizes(self, in_feats=in_feats, out_feats=out_feats)
        source_size, destination_size = functional.pair_of_sizes(in_feats)
        self._in_src_feats, self._in_dst_feats = source_size, destination_size
        width = num_heads * out_feats
        self._num_heads, self._allow_zero_in_degree = num_heads, allow_zero_in_degree
        self.share_weights = share_weights and not isinstance(in_feats, tuple)
        self.fc_src = SparseLinear(source_size, width, bias=bias)
        self.fc_dst = self.fc_src if self.share_weights else SparseLinear(destination_size, width, bias=bias)
        self.attn = nn.Parameter(framework.empty(1, num_heads, out_feats))
        self.feat_drop = FeatureDropout(feat_drop)
        self.attn_drop = nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.activation = activation
        self.res_fc = None
        if residual:
            projected = destination_size != width
            self.res_fc = SparseLinear(destination_size, width, bias=bias) if projected else nn.Identity()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights from Glorot's normal distribution with the gain of ReLU and set biases to 0."""
        gain = nn.init.calculate_gain("relu")
        _draw(self.fc_src, gain)
        if self.fc_dst is not self.fc_src:
            _draw(self.fc_dst, gain)
        functional.xavier_normal_(self.attn, gain=gain)
        if isinstance(self.res_fc, nn.Linear):
            _draw(self.res_fc, gain)

    @overload
    def forward(self, graph: DGLGraph, feat: Any, get_attention: Literal[False] = False) -> Tensor: ...
    @overload
    def forward(self, graph: DGLGraph, feat: Any, *, get_attention: bool) -> tuple[Tensor, Tensor]: ...
    def forward(
        self, graph: DGLGraph, feat: Tensor | tuple[Tensor, Tensor], get_attention: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        r"""Return the new features of the destination nodes.

        With ``get_attention``, also returns the attention as it was applied, shape (num_edges, \*, num_heads, 1).
        Raises ``DGLError`` for nodes without in-edges and for wrong numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        widths = self._in_src_feats, self._in_dst_feats
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat, widths=widths)
        source, destination, residual = self._project(source, destination, isinstance(feat, tuple))
        attention = Attention(Score.GATV2, self.leaky_relu.negative_slope, dropout=self.attn_drop.p * self.training)
        operands = destination, self.attn.view(self.attn.shape[1:]).expand(source.shape[1:])
        result, weights = functional.attention(adjacency, attention, source, operands, get_attention=get_attention)
        if self.res_fc is not None:
            if isinstance(self.res_fc, nn.Identity):
                functional.require_dense(residual, "a residual without a matrix")
            result = result + functional.by_head(self.res_fc(residual), self._num_heads)
        result = functional.activated(result, None, self.activation)
        return result if weights is None else (result, weights)

    if TYPE_CHECKING:
        __call__ = forward

    def _project(self, source: Tensor, destination: Tensor, separate: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return both sides after dropout and the matrices, by head, and the destination after dropout alone.

        Where one tensor was given for both sides, it goes through dropout once: the destination's rows are the first
        of the source's.
        """
        source = self.feat_drop(source)
        destination = self.feat_drop(destination) if separate else functional.first_rows(source, destination.shape[0])
        projected = self.fc_src(source)
        shared = self.share_weights and not separate
        other = functional.first_rows(projected, destination.shape[0]) if shared else self.fc_dst(destination)
        heads = self._num_heads
        return functional.by_head(projected, heads), functional.by_head(other, heads), destination


def _draw(linear: nn.Linear, gain: float) -> None:
    """Draw the weight of a product and set its bias to 0."""
    functional.xavier_normal_(linear.weight, gain=gain)
    functional.zeros_(linear.bias)
