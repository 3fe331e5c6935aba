"""Graphs of nearest neighbours."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from ...transforms import knn_graph
from ..base import Layer


@final
class KNNGraph(Layer):
    """Makes the graph in which the predecessors of each point are its ``k`` nearest: :func:`dglite.knn_graph`."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(
        self, x: Tensor, algorithm: str = "bruteforce-blas", dist: str = "euclidean", exclude_self: bool = False
    ) -> DGLGraph:
        """Return the graph of points (points, dimensions), or a batch of those of (sets, points, dimensions)."""
        return knn_graph(x, self.k, algorithm=algorithm, dist=dist, exclude_self=exclude_self)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"k={self.k}"
