"""Biases from the edges along shortest paths."""

from __future__ import annotations

from typing import final

from ...backend import Tensor, active, framework
from ...errors import DGLError
from .. import functional
from ..base import TorchLayer, nn


@final
class PathEncoder(TorchLayer):
    r"""Edge encoding of Ying et al., "Do transformers really perform bad for graph representation?", 2021.

    .. math:: b_{ij} = \frac{1}{d_{ij}} \sum_{n} x_{e_n} \cdot w_n, \quad
              e_1, e_2, \dots \text{ the edges of a shortest path from i to j}

    Distances below 1, and those of nodes that no path joins, count as 1. It needs torch.

    Parameters
    ----------
    max_len
        The longest path, and distance; longer ones count as this long.
    feat_dim
        Size of the edges' features.
    num_heads
        How many biases there are for a pair.

    Shapes
    ------
    dist (batch_size, N, N) integers, path_data (batch_size, N, N, max_len, feat_dim), 0 behind a path's end
    -> (batch_size, N, N, num_heads)
    """

    def __init__(self, max_len: int, feat_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        self.max_len, self.feat_dim, self.num_heads = max_len, feat_dim, num_heads
        self.embedding_table = nn.Embedding(max_len * num_heads, feat_dim)

    def forward(self, dist: Tensor, path_data: Tensor) -> Tensor:
        """Return the biases. Raises ``DGLError`` for other shapes."""
        if not active.is_tensor(dist):
            kind = type(dist).__name__
            raise DGLError(f"PathEncoder: dist must be a tensor (batch_size, N, N) of path lengths, got {kind}")
        if dist.ndim != 3 or dist.shape[1] != dist.shape[2]:
            raise DGLError(f"PathEncoder: dist has shape {tuple(dist.shape)}; expected (batch_size, N, N)")
        functional.require_pairs(self, "path_data", path_data, (*dist.shape, self.max_len, self.feat_dim))
        functional.compute_weights(self.embedding_table, dist)
        vectors = self.embedding_table.weight.reshape(self.max_len, self.num_heads, self.feat_dim)
        total = framework.einsum("bxyld,lhd->bxyh", path_data, vectors)
        return total / dist.clamp(1, self.max_len)[..., None]
