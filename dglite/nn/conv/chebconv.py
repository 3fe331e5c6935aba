"""Chebyshev's spectral convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from ...backend import Tensor, active, framework
from ...errors import DGLError
from ...graph import DGLGraph
from ...readout import broadcast_nodes
from .. import functional
from ..base import Layer, nn


@final
class ChebConv(Layer):
    r"""Spectral convolution of Defferrard et al., "Convolutional neural networks on graphs with fast localized spectral
    filtering", 2016.

    .. math:: H' = \sigma\Big(\sum_{i=0}^{K-1} T_i(\hat L) H\, W_i + b\Big), \quad
              \hat L = \frac{2}{\lambda_{max}} (I - D^{-1/2} A D^{-1/2}) - I

    with the polynomials :math:`T_0 = 1`, :math:`T_1 = x`, :math:`T_i = 2 x T_{i-1} - T_{i-2}`. Each step along edges is
    one kernel, its normalisation inside. Degrees are in-degrees, 0 counting as 1.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output.
    k
        :math:`K`, how many polynomials there are.
    activation
        Applied to the result; ReLU unless given, None for none.
    bias
        Whether :math:`b` is learned.

    Shapes
    ------
    feat (num_nodes, in_feats) -> (num_nodes, out_feats)
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        k: int,
        activation: Callable[[Tensor], Tensor] | None = nn.functional.relu,
        bias: bool = True,
    ) -> None:
        super().__init__()
        functional.require_sizes(self, least=1, k=k)
        self._k, self._in_feats, self._out_feats = k, in_feats, out_feats
        self.activation = activation
        self.linear = nn.Linear(k * in_feats, out_feats, bias)

    def forward(self, graph: DGLGraph, feat: Tensor, lambda_max: Tensor | Sequence[float] | None = None) -> Tensor:
        r"""Return the new features.

        ``lambda_max`` is the largest eigenvalue of each batched graph's normalised Laplacian, as
        :func:`dglite.laplacian_lambda_max` gives it, (batch_size,) or (batch_size, 1); 2, its bound, unless given.
        Raises ``DGLError`` for another number of eigenvalues, wrong widths and numbers of rows.
        """
        adjacency = functional.adjacency_of(graph)
        feat = functional.require_one_size(self, "feat", graph, feat, self._in_feats)
        stretch = 1.0 if lambda_max is None else self._stretch(graph, feat, lambda_max)
        whole = not functional.is_plain(self.linear)
        before, last, terms = feat, feat, [feat]
        result: Any = None if whole else self._term(0, feat)
        for i in range(1, self._k):
            # L^ x = stretch (x - P x) - x, of which the first term is all there is at a stretch of 1.
            moved = functional.walk(adjacency, last, scale=-1.0)
            if lambda_max is not None:
                moved = moved * stretch + last * (stretch - 1)
            before, last = last, moved if i == 1 else 2 * moved - before
            if whole:
                terms.append(last)
            else:
                result += self._term(i, last)  # nothing is joined, and a product keeps no result
        result = self.linear(framework.cat(terms, -1)) if whole else result
        return result if self.activation is None else self.activation(result)

    def _term(self, i: int, x: Tensor) -> Tensor:
        """Return what polynomial ``i`` adds to the result; the bias is in the first."""
        columns = self.linear.weight[:, i * self._in_feats : (i + 1) * self._in_feats]
        return nn.functional.linear(x, columns, None if i else self.linear.bias)

    def _stretch(self, graph: DGLGraph, feat: Tensor, lambda_max: Tensor | Sequence[float]) -> Tensor:
        """Return 2 / lambda_max of each node's graph, (num_nodes, 1)."""
        if isinstance(lambda_max, str):
            raise DGLError(f"ChebConv: lambda_max must be numbers, one for each batched graph, got {lambda_max!r:.60}")
        largest: Any = (
            lambda_max if active.is_tensor(lambda_max) else framework.tensor(list(lambda_max), dtype=feat.dtype)
        )
        if largest.numel() != graph.batch_size:
            raise DGLError(
                f"ChebConv: lambda_max has shape {tuple(largest.shape)}; expected a number for each of the "
                f"{graph.batch_size} batched graphs"
            )
        largest = active.astype(active.to_device(largest, active.device(feat), non_blocking=True), active.dtype(feat))
        functional.batch_sizes(self, graph, feat)
        return broadcast_nodes(graph, 2.0 / largest.reshape(-1, 1))
