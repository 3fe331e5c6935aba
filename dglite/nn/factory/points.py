"""Layers that make graphs of points: nearest neighbours, and neighbours within a radius."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ...arguments import explained
from ...backend import Tensor
from ...graph import DGLGraph
from ...transforms import knn_graph, radius_graph, segmented_knn_graph
from ..base import Layer


class _NearestNeighbours(Layer):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"k={self.k}"


@final
class KNNGraph(_NearestNeighbours):
    """Makes the graph in which the predecessors of each point are its ``k`` nearest: :func:`dglite.knn_graph`."""

    def forward(
        self, x: Tensor, algorithm: str = "bruteforce-blas", dist: str = "euclidean", exclude_self: bool = False
    ) -> DGLGraph:
        """Return the graph of points (points, dimensions), or a batch of those of (sets, points, dimensions)."""
        return knn_graph(x, self.k, algorithm=algorithm, dist=dist, exclude_self=exclude_self)


@final
class SegmentedKNNGraph(_NearestNeighbours):
    """Makes graphs in which the predecessors of each point are its ``k`` nearest: see
    :func:`dglite.segmented_knn_graph`.
    """

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


@final
class RadiusGraph(Layer):
    """Makes the graph of points no further from each other than ``r``: :func:`dglite.radius_graph`."""

    def __init__(
        self, r: float, p: float = 2, self_loop: bool = False, compute_mode: str = "donot_use_mm_for_euclid_dist"
    ) -> None:
        super().__init__()
        self.r, self.p, self.self_loop, self.compute_mode = r, p, self_loop, compute_mode

    def forward(self, x: Tensor, get_distances: bool = False) -> Any:
        """Return the graph of points (points, dimensions), with ``get_distances`` also those of its edges."""
        return radius_graph(x, self.r, self.p, self.self_loop, self.compute_mode, get_distances)  # type: ignore[call-overload]

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"r={self.r}, p={self.p}"


@explained
def pairwise_squared_distance(x: Tensor) -> Tensor:
    r"""Return the squares of the distances between all points: (\*, points, dimensions) -> (\*, points, points).

    One product of matrices: squares of very small distances may come out below 0.
    """
    squares = (x * x).sum(-1, keepdim=True)
    return squares + squares.transpose(-1, -2) - 2 * (x @ x.transpose(-1, -2))
