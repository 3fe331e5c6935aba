"""Distances of points."""

from __future__ import annotations

from ...backend import Tensor


def pairwise_squared_distance(x: Tensor) -> Tensor:
    r"""Return the squares of the distances between all points: (\*, points, dimensions) -> (\*, points, points).

    One product of matrices: squares of very small distances may come out below 0.
    """
    squares = (x * x).sum(-1, keepdim=True)
    return squares + squares.transpose(-1, -2) - 2 * (x @ x.transpose(-1, -2))
