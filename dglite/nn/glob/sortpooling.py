"""Sort pooling."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...errors import DGLError
from ...graph import DGLGraph
from .. import functional
from ..base import Layer


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
