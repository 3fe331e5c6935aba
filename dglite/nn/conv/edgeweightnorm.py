"""Normalisation of edge weights."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...errors import DGLError
from ...graph import DGLGraph
from .. import functional
from ..base import Layer


@final
class EdgeWeightNorm(Layer):
    r"""Divide edge weights by the weighted degrees of their ends, for a :class:`GraphConv` with ``norm="none"``.

    ``"both"`` gives :math:`w_{uv} / \sqrt{d_u d_v}`, where :math:`d_u` sums the weights of u's out-edges and
    :math:`d_v` those of v's in-edges; ``"right"`` gives :math:`w_{uv} / d_v`; ``"none"`` changes nothing. ``eps`` is
    added to the sums.
    """

    def __init__(self, norm: str = "both", eps: float = 0.0) -> None:
        super().__init__()
        if norm not in ("both", "right", "none"):
            raise DGLError(f"norm={norm!r} is not known; expected one of both, right, none")
        self._norm = norm
        self._eps = eps

    def forward(self, graph: DGLGraph, edge_weight: Tensor) -> Tensor:
        """Return the normalised weights, shape (num_edges,) as given.

        Raises ``DGLError`` for weights that are not one number per edge and, with ``"both"``, not positive.
        """
        return functional.checked_edge_weight(self, functional.adjacency_of(graph), edge_weight, self._norm, self._eps)
