"""Graph attention with dot-product scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, final, overload

from ...backend import Tensor
from ...graph import DGLGraph
from ...ops.core import Attention, Score
from .. import functional
from ..base import InEdgesRequired
from ..sparselinear import SparseLinear


@final
class DotGatConv(InEdgesRequired):
    r"""Graph attention whose scores are scaled dot products (Vaswani et al., "Attention is all you need", 2017).

    .. math:: h_v' = \sum_{u \to v} \alpha_{uv} W_s h_u, \quad
              \alpha_{uv} = \mathrm{softmax}_u\big((W_s h_u) \cdot (W_d h_v) / \sqrt{d}\big)

    for each of ``num_heads`` heads of size d; one matrix serves both sides unless their sizes are given apart.

    Parameters
    ----------
    in_feats
        Size of the input's last axis; a pair (source, destination) gives each side a matrix of its own.
    out_feats, num_heads
        Size of each head's output, and how many heads there are.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused: the output of such a node is 0.

    Shapes
    ------
    feat (num_src, \*, in_feats) -> (num_dst, \*, num_heads, out_feats)
    """

    def __init__(
        self, in_feats: int | tuple[int, int], out_feats: int, num_heads: int, allow_zero_in_degree: bool = False
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, num_heads=num_heads)
        functional.require_sizes(self, in_feats=in_feats, out_feats=out_feats)
        source_size, destination_size = functional.pair_of_sizes(in_feats)
        self._in_src_feats, self._in_dst_feats = source_size, destination_size
        self._out_feats, self._num_heads = out_feats, num_heads
        self._allow_zero_in_degree = allow_zero_in_degree
        self._paired = isinstance(in_feats, tuple)
        if self._paired:
            self.fc_src = SparseLinear(source_size, num_heads * out_feats, bias=False)
            self.fc_dst = SparseLinear(destination_size, num_heads * out_feats, bias=False)
        else:
            self.fc = SparseLinear(source_size, num_heads * out_feats, bias=False)

    @overload
    def forward(self, graph: DGLGraph, feat: Any, get_attention: Literal[False] = False) -> Tensor: ...
    @overload
    def forward(self, graph: DGLGraph, feat: Any, *, get_attention: bool) -> tuple[Tensor, Tensor]: ...
    def forward(
        self, graph: DGLGraph, feat: Tensor | tuple[Tensor, Tensor], get_attention: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        r"""Return the new features of the destination nodes.

        With ``get_attention``, also returns the attention, shape (num_edges, \*, num_heads, 1). Raises ``DGLError``
        for nodes without in-edges and for wrong numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        widths = self._in_src_feats, self._in_dst_feats
        source, destination = functional.pair_of_features(self, "feat", graph, adjacency, feat, widths=widths)
        source, destination = self._project(source, destination, isinstance(feat, tuple))
        attention = Attention(Score.DOT, scale=max(self._out_feats, 1) ** -0.5)
        result, weights = functional.attention(
            adjacency, attention, source, (destination,), get_attention=get_attention
        )
        return result if weights is None else (result, weights)

    if TYPE_CHECKING:
        __call__ = forward

    def _project(self, source: Tensor, destination: Tensor, separate: bool) -> tuple[Tensor, Tensor]:
        """Return both sides after the matrices, by head; one tensor given for both is multiplied once."""
        if self._paired:
            sides = self.fc_src(source), self.fc_dst(destination)
        else:
            projected = self.fc(source)
            sides = (
                projected,
                self.fc(destination) if separate else functional.first_rows(projected, destination.shape[0]),
            )
        return functional.by_head(sides[0], self._num_heads), functional.by_head(sides[1], self._num_heads)
