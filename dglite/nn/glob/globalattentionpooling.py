"""Global attention pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ...backend import Tensor
from ...errors import DGLError
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer


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
