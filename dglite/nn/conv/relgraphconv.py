"""Relational graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor, framework
from ...errors import DGLError, warn_deprecated
from ...graph import DGLGraph
from ...structure.adjacency import Adjacency
from .. import functional
from ..base import Layer, nn
from ..hetero.typedlinear import TypedLinear


@final
class RelGraphConv(Layer):
    r"""Relational graph convolution of Schlichtkrull et al., "Modeling relational data with graph convolutional
    networks", 2018.

    .. math:: h_v' = \mathrm{dropout}\Big(\sigma\Big(\mathrm{norm}\Big(\sum_{u \to v} w_{uv} h_u W_{r(uv)}\Big)
                     + b + h_v W_0\Big)\Big)

    No message is stored. Neighbours of one type are added up before the product, or a source's product is used for all
    its edges of a type, whichever multiplies fewer rows; few bases take one pass over the edges for all of them.

    Parameters
    ----------
    in_feat, out_feat
        Sizes of the last axis of input and output.
    num_rels
        How many types of edges there are.
    regularizer, num_bases
        How :math:`W_r` are shared, as in :class:`TypedLinear`; ``num_bases`` is ``num_rels`` unless given.
    bias, self_loop
        Whether :math:`b` and :math:`W_0` are learned.
    activation
        :math:`\sigma`.
    dropout
        Of the result.
    layer_norm
        Whether the sum of messages goes through ``LayerNorm``.
    low_mem
        Of DGL 0.5 to 0.7; changes nothing.

    A node without in-edges has the sum 0.

    Shapes
    ------
    feat (num_src, in_feat), etypes (num_edges,) -> (num_dst, out_feat). On a block or a graph with two sets of nodes
    the first sources are the destinations.
    """

    def __init__(
        self,
        in_feat: int,
        out_feat: int,
        num_rels: int,
        regularizer: str | None = None,
        num_bases: int | None = None,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        self_loop: bool = True,
        dropout: float = 0.0,
        layer_norm: bool = False,
        *,
        low_mem: bool | None = None,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, in_feat=in_feat, out_feat=out_feat, num_rels=num_rels)
        if low_mem is not None:
            warn_deprecated("RelGraphConv(low_mem=)", "drop it: no message is stored")
        if regularizer is not None and num_bases is None:
            num_bases = num_rels
        self.linear_r = TypedLinear(in_feat, out_feat, num_rels, regularizer, num_bases)
        self.bias, self.activation, self.self_loop, self.layer_norm = bias, activation, self_loop, layer_norm
        if bias:
            self.h_bias = nn.Parameter(framework.zeros(out_feat))
        if layer_norm:
            self.layer_norm_weight = nn.LayerNorm(out_feat, elementwise_affine=True)
        if self_loop:
            self.loop_weight = nn.Parameter(framework.empty(in_feat, out_feat))
            functional.xavier_uniform_(self.loop_weight, gain=nn.init.calculate_gain("relu"))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, g: DGLGraph, feat: Tensor, etypes: Any = None, norm: Tensor | None = None, *, presorted: bool = False
    ) -> Tensor:
        """Return the new features of the destination nodes.

        ``etypes`` (num_edges,) numbers the edges' types, a tensor or a list; ``norm`` (num_edges,) or (num_edges, 1)
        multiplies the messages. Whether edges are sorted by type does not matter; ``presorted`` is accepted. Raises
        ``DGLError`` for missing types or such out of range, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(g)
        functional.require_rows(self, "feat", feat, adjacency.num_src, "source nodes", self.linear_r.in_size)
        if etypes is None:
            raise DGLError(
                "RelGraphConv: etypes is missing; give the number of each edge's type, integers (num_edges,) from 0 to "
                "num_rels - 1, as in layer(g, feat, g.edata[dglite.ETYPE]) after dglite.to_homogeneous"
            )
        etypes = framework.tensor(etypes) if isinstance(etypes, list) else etypes
        functional.require_rows(self, "etypes", etypes, adjacency.num_edges, "edges")
        if norm is not None:
            functional.require_rows(self, "norm", norm, adjacency.num_edges, "edges")
            if norm.ndim != 1:
                functional.require_width(self, "norm", norm, 1)
        result = self._messages(adjacency, feat, etypes, norm)
        if self.layer_norm:
            result = self.layer_norm_weight(result)
        if self.self_loop:
            result = result + functional.first_rows(feat, adjacency.num_dst) @ self.loop_weight
        return self.dropout(functional.activated(result, self.h_bias if self.bias else None, self.activation))

    def _messages(self, adjacency: Adjacency, feat: Tensor, etypes: Any, norm: Tensor | None) -> Tensor:
        """Return the sums of messages."""
        linear = self.linear_r
        functional.compute_weights(linear, feat, etypes)
        if linear.regularizer == "basis":
            return functional.typed_sum_of_bases(adjacency, feat, etypes, linear.coeff, linear.W, norm)
        rows, matrices = linear.by_block(feat)
        total = functional.typed_sum(adjacency, rows, etypes, matrices, norm)
        return total.reshape(adjacency.num_dst, linear.out_size)
