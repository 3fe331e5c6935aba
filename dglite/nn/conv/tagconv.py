"""Topology adaptive graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from ...backend import Tensor, framework
from ...graph import DGLGraph
from ...structure.adjacency import Adjacency
from .. import functional
from ..base import Layer, nn


@final
class TAGConv(Layer):
    r"""Topology adaptive graph convolution of Du et al., "Topology adaptive graph convolutional networks", 2017.

    .. math:: H' = \sigma\Big(\sum_{k=0}^{K} (D^{-1/2} A D^{-1/2})^k H\, \Theta_k + b\Big)

    Each step is one kernel, its normalisation inside. Degrees are in-degrees, 0 counting as 1.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output.
    k
        :math:`K`, the number of steps.
    bias
        Whether :math:`b` is learned.
    activation
        Applied to the result.

    Shapes
    ------
    feat (num_nodes, \*, in_feats) -> (num_nodes, \*, out_feats)
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        k: int = 2,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, k=k)
        self._in_feats, self._out_feats, self._k = in_feats, out_feats, k
        self._activation = activation
        self.lin = nn.Linear(in_feats * (k + 1), out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight from Glorot's normal distribution with the gain of ReLU."""
        functional.xavier_normal_(self.lin.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the new features.

        ``edge_weight`` (num_edges,), positive, takes the place of the degrees, normalised as by
        :class:`EdgeWeightNorm`. Raises ``DGLError`` for wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        feat = functional.require_one_size(self, "feat", graph, feat, self._in_feats)
        if edge_weight is not None:
            edge_weight = functional.checked_edge_weight(self, adjacency, edge_weight)
        if self._out_feats <= self._in_feats and functional.is_plain(self.lin):
            result = self._from_the_last_step(adjacency, feat, edge_weight)
        else:
            steps = [feat]
            for _ in range(self._k):
                steps.append(functional.walk(adjacency, steps[-1], edge_weight))
            result = self.lin(framework.cat(steps, -1))
        return result if self._activation is None else self._activation(result)

    def _from_the_last_step(self, adjacency: Adjacency, feat: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Sum the polynomial by Horner's scheme: steps are taken by out_feats features and nothing is joined."""
        size, weight = self._in_feats, self.lin.weight
        result = None
        for k in reversed(range(self._k + 1)):
            bias = self.lin.bias if k == 0 else None
            term = nn.functional.linear(feat, weight[:, k * size : (k + 1) * size], bias)
            result = term if result is None else functional.walk(adjacency, result, edge_weight, residual=term)
        assert result is not None
        return result
