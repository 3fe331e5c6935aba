"""Graphs of neighbours within a radius."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor
from ...transforms import radius_graph
from ..base import Layer


@final
class RadiusGraph(Layer):
    """Makes the graph of points no further from each other than ``r``: :func:`dglite.radius_graph`."""

    def __init__(
        self,
        r: float,
        p: float = 2,
        self_loop: bool = False,
        compute_mode: str = "donot_use_mm_for_euclid_dist",
    ) -> None:
        super().__init__()
        self.r, self.p, self.self_loop, self.compute_mode = r, p, self_loop, compute_mode

    def forward(self, x: Tensor, get_distances: bool = False) -> Any:
        """Return the graph of points (points, dimensions), with ``get_distances`` also those of its edges."""
        return radius_graph(x, self.r, self.p, self.self_loop, self.compute_mode, get_distances)  # type: ignore[call-overload]

    def extra_repr(self) -> str:
        """Describe the layer when a model is printed."""
        return f"r={self.r}, p={self.p}"
