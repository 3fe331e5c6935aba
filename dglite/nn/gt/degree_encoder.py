"""Learned embeddings of node degrees."""

from __future__ import annotations

from typing import final

from ...backend import Tensor
from ...errors import DGLError
from ..base import Layer, nn


@final
class DegreeEncoder(Layer):
    """A learned vector for each degree, of Ying et al., "Do transformers really perform bad for graph
    representation?", 2021.

    Degree 0, which also pads, has 0 and is not trained; degrees beyond ``max_degree`` have the vector of that.

    Parameters
    ----------
    max_degree
        The largest degree with a vector of its own.
    embedding_dim
        Size of the vectors.
    direction
        ``"in"`` or ``"out"``, one table; ``"both"``, the sum of a vector for each. Another raises ``ValueError``.

    Shapes
    ------
    degrees (batch_size, N), for ``"both"`` (2, batch_size, N), integers -> (batch_size, N, embedding_dim)
    """

    def __init__(self, max_degree: int, embedding_dim: int, direction: str = "both") -> None:
        super().__init__()
        if direction not in ("in", "out", "both"):
            raise ValueError(f"DegreeEncoder: direction={direction!r} is not known; expected 'in', 'out' or 'both'")
        self.max_degree, self.direction = max_degree, direction
        if direction == "both":
            self.encoder1 = nn.Embedding(max_degree + 1, embedding_dim, padding_idx=0)
            self.encoder2 = nn.Embedding(max_degree + 1, embedding_dim, padding_idx=0)
        else:
            self.encoder = nn.Embedding(max_degree + 1, embedding_dim, padding_idx=0)

    def forward(self, degrees: Tensor) -> Tensor:
        """Return the vectors. Raises ``DGLError`` for degrees of another shape."""
        both = self.direction == "both"
        if degrees.ndim != 2 + both or (both and degrees.shape[0] != 2):
            expected = "(2, batch_size, N)" if both else "(batch_size, N)"
            raise DGLError(
                f"DegreeEncoder: degrees has shape {tuple(degrees.shape)}; expected {expected} for "
                f"direction={self.direction!r}"
            )
        degrees = degrees.clamp(0, self.max_degree)
        return self.encoder1(degrees[0]) + self.encoder2(degrees[1]) if both else self.encoder(degrees)
