"""Equivariant graph convolution."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer, nn


@final
class EGNNConv(Layer):
    r"""Equivariant convolution of Satorras et al., "E(n) equivariant graph neural networks", 2021.

    .. math:: m_{uv} = \phi_e(h_u, h_v, |x_u - x_v|^2, a_{uv}), \quad
              x_v' = x_v + \operatorname{mean}_{u \to v} \frac{x_u - x_v}{|x_u - x_v|} \phi_x(m_{uv}), \quad
              h_v' = \phi_h\Big(h_v, \sum_{u \to v} m_{uv}\Big)

    The first layer of :math:`\phi_e` is applied to nodes, not to edges.

    Parameters
    ----------
    in_size, hidden_size, out_size
        Sizes of the input, of the messages, and of the output.
    edge_feat_size
        Size of the edge features; 0 for none.

    Edges from a node to where it is (self-loops) move nothing, and neither does their gradient.

    Shapes
    ------
    node_feat (num_nodes, in_size), coord_feat (num_nodes, dim), edge_feat (num_edges, edge_feat_size) -> (num_nodes,
    out_size), (num_nodes, dim)
    """

    def __init__(self, in_size: int, hidden_size: int, out_size: int, edge_feat_size: int = 0) -> None:
        super().__init__()
        self.in_size, self.hidden_size, self.out_size = in_size, hidden_size, out_size
        self.edge_feat_size = edge_feat_size
        self.edge_mlp = nn.Sequential(
            nn.Linear(2 * in_size + edge_feat_size + 1, hidden_size),
            nn.SiLU(),
            nn.Linear(hidden_size, hidden_size),
            nn.SiLU(),
        )
        self.node_mlp = nn.Sequential(
            nn.Linear(in_size + hidden_size, hidden_size), nn.SiLU(), nn.Linear(hidden_size, out_size)
        )
        self.coord_mlp = nn.Sequential(
            nn.Linear(hidden_size, hidden_size), nn.SiLU(), nn.Linear(hidden_size, 1, bias=False)
        )

    def forward(
        self, graph: DGLGraph, node_feat: Tensor, coord_feat: Tensor, edge_feat: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the new features and coordinates; raises ``DGLError`` for wrong widths and numbers of rows."""
        adjacency = functional.adjacency_of(graph)
        node_feat = functional.require_one_size(self, "node_feat", graph, node_feat, self.in_size)
        functional.require_rows(self, "coord_feat", coord_feat, adjacency.num_src, "nodes")
        if self.edge_feat_size and edge_feat is None:
            raise DGLError(f"EGNNConv: edge_feat is missing; expected (num_edges, {self.edge_feat_size})")
        apart = functional.squared_distance(adjacency, coord_feat)
        messages = self._messages(graph, node_feat, apart, edge_feat)
        at_distance = apart > 0
        distance = framework.where(at_distance, apart, framework.ones_like(apart)).sqrt()
        pull = framework.where(at_distance, self.coord_mlp(messages) / distance, framework.zeros_like(apart))
        total = functional.reduce_edges(adjacency, messages, Reducer.SUM)
        new = self.node_mlp(framework.cat([node_feat, total], -1))
        return new, coord_feat + functional.mean_difference(adjacency, coord_feat, pull)

    def _messages(self, graph: DGLGraph, node_feat: Tensor, apart: Tensor, edge_feat: Tensor | None) -> Tensor:
        """Return the messages, (num_edges, hidden_size): the edges' network without its first layer's long rows."""
        first: Any = self.edge_mlp[0]
        size, adjacency = self.in_size, functional.adjacency_of(graph)
        if edge_feat is not None and self.edge_feat_size:
            functional.require_rows(self, "edge_feat", edge_feat, graph.num_edges(), "edges", self.edge_feat_size)
        else:
            edge_feat = None
        if not functional.is_plain(self.edge_mlp, nn.Sequential) or not functional.is_plain(first):
            parts = *functional.both_ends(adjacency, node_feat), apart, *(() if edge_feat is None else (edge_feat,))
            return self.edge_mlp(framework.cat(parts, -1))
        linear, weight = nn.functional.linear, first.weight
        edge_term = apart * weight[:, 2 * size]
        if edge_feat is not None:
            edge_term = edge_term + linear(edge_feat, weight[:, 2 * size + 1 :])
        left, right = linear(node_feat, weight[:, :size]), linear(node_feat, weight[:, size : 2 * size], first.bias)
        hidden = functional.sum_of_three(adjacency, left, right, edge_term)
        for layer in list(self.edge_mlp)[1:]:
            hidden = layer(hidden)
        return hidden
