"""Heterogeneous graph transformer."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, framework
from ...graph import DGLGraph
from .. import functional
from ..base import Layer, nn
from ..hetero.typedlinear import TypedLinear


@final
class HGTConv(Layer):
    r"""Heterogeneous graph transformer of Hu et al., "Heterogeneous graph transformer", 2020.

    .. math:: \alpha_{uv} = \mathrm{softmax}_u\Big((K_{t(u)} h_u) A_{r} (Q_{t(v)} h_v) \frac{\mu_r}{\sqrt d}\Big), \quad
              h_v' = s\, O_{t(v)} \sum_{u \to v} \alpha_{uv} (V_{t(u)} h_u) M_{r} + (1 - s) h_v

    for each head of size d, with :math:`s = \mathrm{sigmoid}` of a number of each node type, and r the edge's type.
    Products with :math:`A` and :math:`M` are made for pairs of a node and an edge type, not for edges.

    Parameters
    ----------
    in_size, head_size, num_heads
        Size of the input, of each head, and how many heads there are.
    num_ntypes, num_etypes
        How many types of nodes and edges there are.
    dropout
        Of the result, before :math:`h_v` is added.
    use_norm
        Whether the result goes through ``LayerNorm``.

    A node without in-edges keeps :math:`(1 - s) h_v`, through ``residual_w`` where sizes differ.

    Shapes
    ------
    x (num_src, in_size), ntype (num_src,), etype (num_edges,) -> (num_dst, head_size * num_heads)
    """

    def __init__(
        self,
        in_size: int,
        head_size: int,
        num_heads: int,
        num_ntypes: int,
        num_etypes: int,
        dropout: float = 0.2,
        use_norm: bool = False,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, num_heads=num_heads)
        width = head_size * num_heads
        self.in_size, self.head_size, self.num_heads, self.use_norm = in_size, head_size, num_heads, use_norm
        self.linear_k = TypedLinear(in_size, width, num_ntypes)
        self.linear_q = TypedLinear(in_size, width, num_ntypes)
        self.linear_v = TypedLinear(in_size, width, num_ntypes)
        self.linear_a = TypedLinear(width, width, num_ntypes)
        self.relation_pri = nn.ParameterList([nn.Parameter(framework.ones(num_etypes)) for _ in range(num_heads)])
        self.relation_att: Any = nn.ModuleList(
            [TypedLinear(head_size, head_size, num_etypes) for _ in range(num_heads)]
        )
        self.relation_msg: Any = nn.ModuleList(
            [TypedLinear(head_size, head_size, num_etypes) for _ in range(num_heads)]
        )
        self.skip = nn.Parameter(framework.ones(num_ntypes))
        self.drop = nn.Dropout(dropout)
        if use_norm:
            self.norm = nn.LayerNorm(width)
        if in_size != width:
            self.residual_w = nn.Parameter(framework.empty(in_size, width))
            functional.xavier_uniform_(self.residual_w)

    def forward(self, g: DGLGraph, x: Tensor, ntype: Tensor, etype: Tensor, *, presorted: bool = False) -> Tensor:
        """Return the new features of the destination nodes; of a block, these are the first sources.

        Whether nodes and edges are sorted by type does not matter; ``presorted`` is accepted. Raises ``DGLError`` for
        types out of range, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(g)
        functional.require_rows(self, "x", x, adjacency.num_src, "source nodes", self.in_size)
        functional.require_rows(self, "ntype", ntype, adjacency.num_src, "source nodes")
        functional.require_rows(self, "etype", etype, adjacency.num_edges, "edges")
        destination, dst_type = (functional.first_rows(rows, adjacency.num_dst) for rows in (x, ntype))
        keys, values = (functional.by_head(f(x, ntype), self.num_heads) for f in (self.linear_k, self.linear_v))
        queries = functional.by_head(self.linear_q(destination, dst_type), self.num_heads)
        for linear in (*self.relation_att, *self.relation_msg):
            functional.compute_weights(linear, keys, etype)
        prior = framework.stack(list(self.relation_pri), 1)[:, :, None, None] * max(self.head_size, 1) ** -0.5
        score = framework.stack([linear.W for linear in self.relation_att], 1) * prior
        message = framework.stack([linear.W for linear in self.relation_msg], 1)
        attended = functional.typed_attention(adjacency, keys, queries, values, etype, score, message)
        result = self.drop(
            self.linear_a(attended.reshape(adjacency.num_dst, self.num_heads * self.head_size), dst_type)
        )
        gate = framework.sigmoid(self.skip[dst_type])[:, None]
        residual = destination if destination.shape[1] == result.shape[1] else destination @ self.residual_w
        result = result * gate + residual * (1 - gate)
        return self.norm(result) if self.use_norm else result
