"""Graph attention."""

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
class GATConv(InEdgesRequired):
    r"""Graph attention of Velickovic et al., "Graph attention networks", 2018.

    .. math:: h_v' = \sigma\Big(\sum_{u \to v} \alpha_{uv} W h_u\Big), \quad
              \alpha_{uv} = \mathrm{softmax}_u(\mathrm{LeakyReLU}(a_l^T W h_u + a_r^T W h_v))

    for each of ``num_heads`` heads.

    Parameters
    ----------
    in_feats
        Size of the input's last axis; a pair (source, destination) gives each side a matrix of its own.
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
        Without it, a graph with nodes without in-edges is refused: the output of such a node is the bias alone.
    bias
        Whether a learned bias is added.

    Shapes
    ------
    feat (num_src, \*, in_feats), dense, or a sparse matrix (num_src, in_feats) -> (num_dst, \*, num_heads, out_feats)
    """

    bias: Tensor | None
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
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, num_heads=num_heads)
        functional.require_sizes(self, in_feats=in_feats, out_feats=out_feats)
        source_size, destination_size = functional.pair_of_sizes(in_feats)
        self._in_src_feats, self._in_dst_feats = source_size, destination_size
        width = num_heads * out_feats
        self._out_feats, self._num_heads = out_feats, num_heads
        self._allow_zero_in_degree = allow_zero_in_degree
        self._paired = isinstance(in_feats, tuple)
        if self._paired:
            self.fc_src = SparseLinear(source_size, width, bias=False)
            self.fc_dst = SparseLinear(destination_size, width, bias=False)
        else:
            self.fc = SparseLinear(source_size, width, bias=False)
        self.attn_l = nn.Parameter(framework.empty(1, num_heads, out_feats))
        self.attn_r = nn.Parameter(framework.empty(1, num_heads, out_feats))
        self.feat_drop = FeatureDropout(feat_drop)
        self.attn_drop = nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.activation = activation
        self.res_fc = None
        projected = residual and destination_size != width
        if residual:
            self.res_fc = SparseLinear(destination_size, width, bias=bias) if projected else nn.Identity()
        # A residual matrix has a bias of its own, which serves for the layer's.
        self.register_parameter("bias", nn.Parameter(framework.empty(width)) if bias and not projected else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights from Glorot's normal distribution with the gain of ReLU and set biases to 0."""
        gain = nn.init.calculate_gain("relu")
        linears = [self.fc_src, self.fc_dst] if self._paired else [self.fc]
        for weight in (*(linear.weight for linear in linears), self.attn_l, self.attn_r):
            functional.xavier_normal_(weight, gain=gain)
        functional.zeros_(self.bias)
        if isinstance(self.res_fc, nn.Linear):
            functional.xavier_normal_(self.res_fc.weight, gain=gain)
            functional.zeros_(self.res_fc.bias)

    @overload
    def forward(
        self, graph: DGLGraph, feat: Any, edge_weight: Tensor | None = None, get_attention: Literal[False] = False
    ) -> Tensor: ...
    @overload
    def forward(
        self, graph: DGLGraph, feat: Any, edge_weight: Tensor | None = None, *, get_attention: bool
    ) -> tuple[Tensor, Tensor]: ...
    def forward(
        self, graph: DGLGraph, feat: Any, edge_weight: Tensor | None = None, get_attention: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        r"""Return the new features of the destination nodes.

        ``edge_weight`` (num_edges,) multiplies the attention. With ``get_attention``, also returns the attention as it
        was applied, shape (num_edges, \*, num_heads, 1). Raises ``DGLError`` for nodes without in-edges and for wrong
        numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        widths = self._in_src_feats, self._in_dst_feats
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat, widths=widths)
        if edge_weight is not None:
            functional.require_rows(self, "edge_weight", edge_weight, adjacency.num_edges, "edges")
        source, operands, residual = self._project(source, destination, isinstance(feat, tuple))
        attention = Attention(
            Score.ADDITIVE,
            self.leaky_relu.negative_slope,
            dropout=self.attn_drop.p * self.training,
            projected=not isinstance(feat, tuple) and not self._paired,
        )
        result, weights = functional.attention(adjacency, attention, source, operands, edge_weight, get_attention)
        if self.res_fc is not None:
            if isinstance(self.res_fc, nn.Identity):
                functional.require_dense(residual, "a residual without a matrix")
            result = result + functional.by_head(self.res_fc(residual), self._num_heads)
        bias = None if self.bias is None else self.bias.view(self._num_heads, self._out_feats)
        result = functional.activated(result, bias, self.activation)
        return result if weights is None else (result, weights)

    if TYPE_CHECKING:
        __call__ = forward

    def _project(self, source: Any, destination: Any, separate: bool) -> tuple[Tensor, tuple[Tensor, Tensor], Any]:
        """Return the source by head, the operands of the score, and the destination after dropout alone.

        Where one tensor was given for both sides, it goes through dropout and the matrix once: the destination's rows
        are the first of the source's, and the operands are the vectors. Else they are the scores of both sides; the
        destination's need no more of its matrix than its product with the vector.
        """
        heads = self._num_heads
        source = self.feat_drop(source)
        destination = self.feat_drop(destination) if separate else functional.first_rows(source, destination.shape[0])
        fc_src, fc_dst = (self.fc_src, self.fc_dst) if self._paired else (self.fc, self.fc)
        projected = functional.by_head(functional.projected(fc_src, source), heads)
        if not self._paired and not separate:
            by_head = projected.shape[1:]
            # By view, whose gradient is one, too; that of an index is written into zeros.
            attn_l, attn_r = (attn.view(heads, self._out_feats) for attn in (self.attn_l, self.attn_r))
            if len(by_head) > 2:
                attn_l, attn_r = attn_l.expand(by_head), attn_r.expand(by_head)
            return projected, (attn_l, attn_r), destination
        if not functional.is_plain(fc_dst, SparseLinear):
            right = functional.by_head(fc_dst(destination), heads)
            return projected, ((projected * self.attn_l).sum(-1), (right * self.attn_r).sum(-1)), destination
        folded = (self.attn_r[0, :, :, None] * fc_dst.weight.view(heads, self._out_feats, -1)).sum(1)
        scores = (projected * self.attn_l).sum(-1), destination @ folded.T
        return projected, scores, destination
