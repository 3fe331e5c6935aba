"""Max of each graph's nodes."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from ...opspec import Reducer
from .. import functional
from ..base import Layer


@final
class MaxPooling(Layer):
    r"""The maximum, element by element, of the features of each graph's nodes, one kernel.

    .. math:: r = \max_i x_i

    A graph without nodes has 0. Nodes are of one type.

    Shapes
    ------
    feat (num_nodes, \*feat) -> (batch_size, \*feat)
    """

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        """Return a row for each graph. Raises ``DGLError`` for another number of rows and several node types."""
        members = functional.graph_members(functional.batch_sizes(self, graph, feat), feat)
        return functional.pooled(members, feat, Reducer.MAX)
