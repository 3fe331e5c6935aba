"""Pooling of each graph's nodes: sums, means, maxima, sorted, weighted and by attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor
from ...errors import DGLError
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer, nn


class _NodePooling(Layer):
    """Base of the layers that reduce the features of each graph's nodes."""

    reducer: Reducer
    """How a graph's nodes are reduced."""

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        """Return a row for each graph. Raises ``DGLError`` for another number of rows and several node types."""
        members = functional.graph_members(functional.batch_sizes(self, graph, feat), feat)
        return functional.pooled(members, feat, self.reducer)


@final
class AvgPooling(_NodePooling):
    r"""The mean of the features of each graph's nodes, one kernel.

    .. math:: r = \frac{1}{N} \sum_i x_i

    A graph without nodes has 0. Nodes are of one type.

    Shapes
    ------
    feat (num_nodes, \*feat) -> (batch_size, \*feat)
    """

    reducer = Reducer.MEAN


@final
class MaxPooling(_NodePooling):
    r"""The maximum, element by element, of the features of each graph's nodes, one kernel.

    .. math:: r = \max_i x_i

    A graph without nodes has 0. Nodes are of one type.

    Shapes
    ------
    feat (num_nodes, \*feat) -> (batch_size, \*feat)
    """

    reducer = Reducer.MAX


@final
class SumPooling(_NodePooling):
    r"""The sum of the features of each graph's nodes, one kernel.

    .. math:: r = \sum_i x_i

    A graph without nodes has 0. Nodes are of one type.

    Shapes
    ------
    feat (num_nodes, \*feat) -> (batch_size, \*feat)
    """

    reducer = Reducer.SUM


@final
class SortPooling(Layer):
    r"""Sort pooling of Zhang et al., "An end-to-end deep learning architecture for graph classification", 2018.

    Each node's features are sorted, ascending; the ``k`` nodes of a graph whose largest feature is largest stand one
    after the other. A graph of fewer nodes is filled up with 0. Nodes are of one type.

    Shapes
    ------
    feat (num_nodes, d) -> (batch_size, k * d)
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        """Return a row for each graph. Raises ``DGLError`` for features that are no matrix, with a row per node."""
        sizes = functional.batch_sizes(self, graph, feat)
        if feat.ndim != 2:
            raise DGLError(f"SortPooling: feat has shape {tuple(feat.shape)}; expected (num_nodes, d)")
        rows = functional.top_rows(graph, sizes, feat.sort(dim=-1)[0], self.k)
        return rows.reshape(rows.shape[0], self.k * feat.shape[1])

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"k={self.k}"


@final
class WeightAndSum(Layer):
    r"""The sum of each graph's nodes, weighted by a gate that is learned.

    .. math:: r = \sum_i \sigma(W x_i + b)\, x_i

    Weights and sum are one kernel. A graph without nodes has 0. Nodes are of one type.

    Parameters
    ----------
    in_feats
        Size of the last axis of the features.

    Shapes
    ------
    feats (num_nodes, in_feats) -> (batch_size, in_feats)
    """

    def __init__(self, in_feats: int) -> None:
        super().__init__()
        self.in_feats = in_feats
        self.atom_weighting = nn.Sequential(nn.Linear(in_feats, 1), nn.Sigmoid())

    def forward(self, g: DGLGraph, feats: Tensor) -> Tensor:
        """Return a row for each graph. Raises ``DGLError`` for another number of rows, width or node types."""
        members = functional.graph_members(functional.batch_sizes(self, g, feats), feats)
        functional.require_width(self, "feats", feats, self.in_feats)
        return functional.pooled(members, feats, Reducer.SUM, self.atom_weighting(feats))


@final
class GlobalAttentionPooling(Layer):
    r"""Attention over each graph's nodes, of Li et al., "Gated graph sequence neural networks", 2016.

    .. math:: r = \sum_i \mathrm{softmax}_i\big(f_{gate}(x_i)\big)\, f_{feat}(x_i)

    A graph without nodes has 0. Nodes are of one type.

    Parameters
    ----------
    gate_nn
        :math:`f_{gate}`, which makes one number of each node's features.
    feat_nn
        :math:`f_{feat}`; without it the features themselves are added up.

    Shapes
    ------
    feat (num_nodes, in_feats) -> (batch_size, out_feats), where ``feat_nn`` makes out_feats of in_feats
    """

    def __init__(self, gate_nn: Callable[[Tensor], Tensor], feat_nn: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        functional.require_module(self, "gate_nn", gate_nn, "torch.nn.Linear(feats, 1)")
        self.gate_nn = gate_nn
        self.feat_nn = feat_nn

    def forward(self, graph: DGLGraph, feat: Tensor, get_attention: bool = False) -> Any:
        """Return a row for each graph; with ``get_attention`` also the weights, (num_nodes, 1).

        Raises ``DGLError`` for another number of rows, several node types, and a gate of another shape.
        """
        members = functional.graph_members(functional.batch_sizes(self, graph, feat), feat)
        gate = self.gate_nn(feat)
        if gate.ndim != feat.ndim or gate.shape[-1] != 1:
            raise DGLError(
                f"GlobalAttentionPooling: gate_nn made {tuple(gate.shape)} of features of shape {tuple(feat.shape)}; "
                f"expected {(*feat.shape[:-1], 1)}, one number for each row"
            )
        weights = functional.graph_softmax(members, gate)
        values = feat if self.feat_nn is None else self.feat_nn(feat)
        result = functional.pooled(members, values, Reducer.SUM, weights)
        return (result, weights) if get_attention else result
