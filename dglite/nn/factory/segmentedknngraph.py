"""Nearest-neighbour graphs of several point sets of different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from ...backend import Tensor
from ...graph import DGLGraph
from ...transforms import segmented_knn_graph
from ..base import Layer


@final
class SegmentedKNNGraph(Layer):
    """Makes graphs in which the predecessors of each point are its ``k`` nearest: see
    :func:`dglite.segmented_knn_graph`.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(
        self,
        x: Tensor,
        segs: Sequence[int] | Tensor,
        algorithm: str = "bruteforce-blas",
        dist: str = "euclidean",
        exclude_self: bool = False,
    ) -> DGLGraph:
        """Return a batch of graphs: of the first ``segs[0]`` points (points, dimensions), the next ``segs[1]``, ..."""
        return segmented_knn_graph(x, self.k, segs, algorithm=algorithm, dist=dist, exclude_self=exclude_self)

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"k={self.k}"
