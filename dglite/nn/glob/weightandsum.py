"""Weighted sum of each graph's nodes."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer, nn


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
