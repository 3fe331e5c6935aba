"""Graph convolution with initial residual and identity mapping."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

from ...backend import Tensor, framework
from ...graph import DGLGraph
from .. import functional
from ..base import InEdgesRequired, nn


@final
class GCN2Conv(InEdgesRequired):
    r"""GCNII of Chen et al., "Simple and deep graph convolutional networks", 2020.

    .. math:: H' = \sigma\Big(\big((1 - \alpha) P H + \alpha H_0\big)
                   \big((1 - \beta) I + \beta W_1\big) + b\Big), \quad P = D^{-1/2} A D^{-1/2}

    and, with ``project_initial_features=False``, a matrix :math:`W_2` of its own for :math:`H_0`. The step is one
    kernel, normalisation and :math:`1 - \alpha` inside. Degrees are in-degrees, 0 counting as 1.

    Parameters
    ----------
    in_feats
        Size of the last axis of input and output.
    layer
        The number :math:`l` of this layer in the network, from 1: :math:`\beta = \log(\lambda / l + 1)`.
    alpha, lambda\_
        :math:`\alpha` and :math:`\lambda`.
    project_initial_features
        Whether :math:`W_1` serves :math:`H_0` too.
    allow_zero_in_degree
        Without it, a graph with nodes without in-edges is refused.
    bias
        Whether :math:`b` is learned.
    activation
        Applied to the result.

    Shapes
    ------
    feat (num_nodes, \*, in_feats), feat_0 the same -> (num_nodes, \*, in_feats)
    """

    weight2: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        in_feats: int,
        layer: int,
        alpha: float = 0.1,
        lambda_: float = 1,
        project_initial_features: bool = True,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self._in_feats = in_feats
        self._project_initial_features = project_initial_features
        functional.require_sizes(self, least=1, layer=layer)
        self.alpha, self.beta = alpha, math.log(lambda_ / layer + 1)
        self._activation = activation
        self._allow_zero_in_degree = allow_zero_in_degree
        self.weight1 = nn.Parameter(framework.empty(in_feats, in_feats))
        initial_weight = None if project_initial_features else nn.Parameter(framework.empty(in_feats, in_feats))
        self.register_parameter("weight2", initial_weight)
        self.register_parameter("bias", nn.Parameter(framework.empty(in_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights from the normal distribution of variance 1 and set the bias to 0."""
        nn.init.normal_(self.weight1)
        if self.weight2 is not None:
            nn.init.normal_(self.weight2)
        functional.zeros_(self.bias)

    def forward(self, graph: DGLGraph, feat: Tensor, feat_0: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the new features.

        ``feat_0`` are the features that the network's first layer got. ``edge_weight`` (num_edges,), positive, takes
        the place of the degrees, normalised as by :class:`EdgeWeightNorm`. Raises ``DGLError`` for nodes without
        in-edges, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        self.require_in_edges(adjacency)
        feat = functional.require_one_size(self, "feat", graph, feat, self._in_feats)
        functional.require_rows(self, "feat_0", feat_0, adjacency.num_dst, "nodes", self._in_feats)
        if edge_weight is not None:
            edge_weight = functional.checked_edge_weight(self, adjacency, edge_weight)
        initial, keep = feat_0 * self.alpha, 1 - self.alpha
        if self.weight2 is None:
            total = functional.walk(adjacency, feat, edge_weight, scale=keep, residual=initial)
            product = total @ self.weight1
        else:
            neighbours = functional.walk(adjacency, feat, edge_weight, scale=keep)
            total = neighbours + initial
            product = neighbours @ self.weight1 + initial @ self.weight2
            del neighbours
        del initial  # with the other one, two tensors less beside what follows
        result = (1 - self.beta) * total + self.beta * product
        if self.bias is not None:
            result = result + self.bias
        return result if self._activation is None else self._activation(result)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"in={self._in_feats}, alpha={self.alpha}, beta={self.beta}, activation={self._activation}"
