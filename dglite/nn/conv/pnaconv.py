"""Principal neighbourhood aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backend import Tensor, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...readout import broadcast_nodes
from ...structure.adjacency import Adjacency
from .. import functional
from ..base import Layer, nn


class PNAConvTower(Layer):
    """The parameters of one tower of :class:`PNAConv`, which runs all towers together."""

    def __init__(
        self,
        in_size: int,
        out_size: int,
        aggregators: Sequence[str],
        scalers: Sequence[str],
        delta: float,
        dropout: float = 0.0,
        edge_feat_size: int = 0,
    ) -> None:
        super().__init__()
        self.in_size, self.out_size, self.edge_feat_size = in_size, out_size, edge_feat_size
        self.aggregators, self.scalers, self.delta = list(aggregators), list(scalers), delta
        self.M = nn.Linear(2 * in_size + edge_feat_size, in_size)
        self.U = nn.Linear((len(self.aggregators) * len(self.scalers) + 1) * in_size, out_size)
        self.dropout = nn.Dropout(dropout)
        self.batchnorm = nn.BatchNorm1d(out_size)

    def message_parts(self, feat: Tensor, edge_feat: Tensor | None) -> list[Tensor]:
        """Return what sources, destinations and edges add to a message, each (rows, in_size)."""
        functional.compute_weights(self.M, feat)
        size, weight, linear = self.in_size, self.M.weight, nn.functional.linear
        parts = [linear(feat, weight[:, :size]), linear(feat, weight[:, size : 2 * size], self.M.bias)]
        return parts if edge_feat is None else [*parts, linear(edge_feat, weight[:, 2 * size :])]

    def update(
        self, feat: Tensor, reduced: Tensor, scales: Sequence[Tensor | float], by_graph: Tensor | float
    ) -> Tensor:
        """Return the tower's output from the reduced messages, (num_nodes, aggregators * in_size).

        A scaled copy of that is never made: its product is scaled.
        """
        functional.compute_weights(self.U, reduced)
        size, wide, weight = self.in_size, reduced.shape[1], self.U.weight
        result = nn.functional.linear(feat, weight[:, :size], self.U.bias)
        for i, scale in enumerate(scales):
            begin = size + i * wide
            result = result + scale * nn.functional.linear(reduced, weight[:, begin : begin + wide])
        return self.dropout(self.batchnorm(result * by_graph))


class PNAConv(Layer):
    r"""Principal neighbourhood aggregation of Corso et al., "Principal neighbourhood aggregation for graph nets", 2020.

    .. math:: h_v' = h_v + \mathrm{LeakyReLU}\Big(W_m \Big\Vert_t\, \mathrm{BN}\Big(\frac{1}{\sqrt N}
              U_t\Big(h_v^t, \bigoplus_{u \to v} M_t(h_u^t, h_v^t, e_{uv})\Big)\Big)\Big)

    for towers t, each of which has its part of the features. :math:`M` and :math:`U` are linear, and :math:`\oplus`
    joins each aggregator times each scaler. The products of :math:`M` are made for nodes; messages are not stored, and
    one pass over the edges gives all aggregators of all towers, moments aside, which need the mean beforehand.

    Parameters
    ----------
    in_size, out_size
        Sizes of input and output, which ``num_towers`` divides.
    aggregators
        Of ``"mean"``, ``"sum"``, ``"max"``, ``"min"``, ``"std"``, ``"var"``, ``"moment3"``, ``"moment4"``,
        ``"moment5"``.
    scalers
        Of ``"identity"``; ``"amplification"``, :math:`\log(d + 1) / \delta` of the in-degree d; ``"attenuation"``, its
        inverse.
    delta
        :math:`\delta`, the mean of :math:`\log(d + 1)` over the training set.
    dropout
        Of each tower's output.
    num_towers
        How many towers there are.
    edge_feat_size
        Size of the edge features; 0 for none.
    residual
        Whether :math:`h_v` is added, if sizes agree.

    Nothing arrives at a node without in-edges. Raises ``DGLError`` for unknown names and sizes that cannot be divided.

    Shapes
    ------
    node_feat (num_nodes, in_size), edge_feat (num_edges, edge_feat_size) -> (num_nodes, out_size)
    """

    known_aggregators: tuple[str, ...] = functional.AGGREGATORS

    def __init__(
        self,
        in_size: int,
        out_size: int,
        aggregators: Sequence[str],
        scalers: Sequence[str],
        delta: float,
        dropout: float = 0.0,
        num_towers: int = 1,
        edge_feat_size: int = 0,
        residual: bool = True,
    ) -> None:
        super().__init__()
        for names, admitted in ((aggregators, self.known_aggregators), (scalers, functional.SCALERS)):
            for name in names:
                if name not in admitted:
                    raise DGLError(
                        f"{type(self).__name__}: {name!r} is not known; expected some of {', '.join(admitted)}"
                    )
        if in_size % num_towers or out_size % num_towers:
            raise DGLError(
                f"{type(self).__name__}: num_towers={num_towers} must divide in_size={in_size} and out_size={out_size}"
            )
        self.in_size, self.out_size, self.edge_feat_size = in_size, out_size, edge_feat_size
        self.tower_in_size, self.tower_out_size = in_size // num_towers, out_size // num_towers
        self.residual = residual and in_size == out_size
        self._aggregators = tuple(aggregators)
        self.towers = nn.ModuleList(
            [
                PNAConvTower(
                    self.tower_in_size, self.tower_out_size, aggregators, scalers, delta, dropout, edge_feat_size
                )
                for _ in range(num_towers)
            ]
        )
        self.mixing_layer = nn.Sequential(nn.Linear(out_size, out_size), nn.LeakyReLU())

    def forward(self, graph: DGLGraph, node_feat: Tensor, edge_feat: Tensor | None = None) -> Tensor:
        """Return the new features; raises ``DGLError`` for missing edge features, wrong widths and numbers of rows."""
        return self._compute(graph, node_feat, edge_feat, None)

    def _compute(self, graph: DGLGraph, node_feat: Tensor, edge_feat: Tensor | None, fields: Tensor | None) -> Tensor:
        """Return the new features; ``fields`` (num_nodes, k) are for aggregators that read some."""
        adjacency = functional.adjacency_of(graph)
        node_feat = functional.require_one_size(self, "node_feat", graph, node_feat, self.in_size)
        if not self.edge_feat_size:
            edge_feat = None
        elif edge_feat is None:
            raise DGLError(f"{type(self).__name__}: edge_feat is missing; expected (num_edges, {self.edge_feat_size})")
        else:
            functional.require_rows(self, "edge_feat", edge_feat, adjacency.num_edges, "edges", self.edge_feat_size)
        result = self.mixing_layer(self._towers(graph, node_feat, edge_feat, fields))
        return result + node_feat if self.residual else result

    def _towers(self, graph: DGLGraph, node_feat: Tensor, edge_feat: Tensor | None, fields: Tensor | None) -> Tensor:
        adjacency, size = graph.adjacency(), self.tower_in_size
        towers: list[Any] = list(self.towers)
        feats = [node_feat[:, t * size : (t + 1) * size] for t in range(len(towers))]
        parts = [tower.message_parts(feat, edge_feat) for tower, feat in zip(towers, feats, strict=True)]
        operands = [framework.cat(part, 1) for part in zip(*parts, strict=True)]
        reduced = framework.stack(self._aggregate(adjacency, operands, node_feat, fields), 1)
        first = towers[0]
        scales = [functional.degree_scaler(adjacency, name, first.delta, reduced) for name in first.scalers]
        by_graph = _root_of_sizes(graph, reduced)
        outputs = []
        for t, (tower, feat) in enumerate(zip(towers, feats, strict=True)):
            of_tower = reduced[:, :, t * size : (t + 1) * size]
            of_tower = of_tower.reshape(adjacency.num_dst, len(first.aggregators) * size)
            outputs.append(tower.update(feat, of_tower, scales, by_graph))
        return framework.cat(outputs, 1)

    def _aggregate(
        self, adjacency: Adjacency, operands: list[Tensor], node_feat: Tensor, fields: Tensor | None
    ) -> list[Tensor]:
        """Return each aggregator's statistic of the messages of all towers, (num_nodes, in_size)."""
        return functional.statistics(adjacency, operands, self._aggregators)


def _root_of_sizes(graph: DGLGraph, like: Tensor) -> Tensor | float:
    """Return one over the root of the number of nodes of each node's graph."""
    if graph.batch_node_counts is None:
        return max(graph.num_nodes(), 1) ** -0.5
    sizes = graph.batch_num_nodes().to(like.dtype)
    return broadcast_nodes(graph, framework.where(sizes > 0, sizes, framework.ones_like(sizes))[:, None] ** -0.5)
