"""Chebyshev's spectral convolution over a dense adjacency matrix."""

from __future__ import annotations

from typing import final

import numpy as np

from ...backend import Tensor, active, framework
from .. import functional
from ..base import Layer, nn


@final
class DenseChebConv(Layer):
    r""":class:`ChebConv` of a dense adjacency matrix, without an activation.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output.
    k
        How many polynomials there are.
    bias
        Whether a learned bias is added.

    Shapes
    ------
    adj (num_nodes, num_nodes), feat (num_nodes, in_feats) -> (num_nodes, out_feats)
    """

    bias: Tensor | None

    def __init__(self, in_feats: int, out_feats: int, k: int, bias: bool = True) -> None:
        super().__init__()
        self._in_feats, self._out_feats, self._k = in_feats, out_feats, k
        self.W = nn.Parameter(framework.empty(k, in_feats, out_feats))
        self.register_parameter("bias", nn.Parameter(framework.empty(out_feats)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights from Glorot's normal distribution with the gain of ReLU and set the bias to 0."""
        functional.zeros_(self.bias)
        for i in range(self._k):
            functional.xavier_normal_(self.W[i], nn.init.calculate_gain("relu"))

    def forward(self, adj: Tensor, feat: Tensor, lambda_max: Tensor | float | None = None) -> Tensor:
        """Return the new features; ``adj[v, u]`` is the weight of an edge from u to v.

        ``lambda_max`` is the largest eigenvalue of the normalised Laplacian, computed unless given.
        """
        adj = functional.require_matrix(self, adj, feat)
        root = adj.sum(1).clamp(min=1) ** -0.5
        eye = framework.eye(adj.shape[0], dtype=adj.dtype, device=adj.device)
        laplacian = eye - root[:, None] * adj * root
        if lambda_max is None:
            lambda_max = float(np.linalg.eigvals(active.to_numpy(active.detach(laplacian))).real.max())
        scaled = laplacian * (2 / lambda_max) - eye
        terms = [feat]
        for i in range(1, self._k):
            terms.append(scaled @ terms[-1] if i == 1 else 2 * (scaled @ terms[-1]) - terms[-2])
        flat = self.W.reshape(self._k * self._in_feats, self._out_feats)
        result = framework.cat(terms, 1) @ flat
        return result if self.bias is None else result + self.bias
