"""Graph convolution over a dense adjacency matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from ...backend import Tensor, framework
from ...errors import DGLError
from .. import functional
from ..base import Layer, nn

_NORMS = ("both", "right", "none")


@final
class DenseGraphConv(Layer):
    r""":class:`GraphConv` of a dense adjacency matrix, for small graphs without a graph object.

    Parameters
    ----------
    in_feats, out_feats
        Sizes of the last axis of input and output.
    norm
        ``"both"``, ``"right"`` or ``"none"``, as for :class:`GraphConv`.
    bias
        Whether a learned bias is added.
    activation
        Applied to the result.

    Shapes
    ------
    adj (num_dst, num_src), feat (num_src, in_feats) -> (num_dst, out_feats)
    """

    bias: Tensor | None

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        norm: str = "both",
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if norm not in _NORMS:
            raise DGLError(f"norm={norm!r} is not known; expected one of {', '.join(_NORMS)}")
        self._in_feats, self._out_feats, self._norm = in_feats, out_feats, norm
        self.weight = nn.Parameter(framework.empty(in_feats, out_feats))
        self.register_parameter("bias", nn.Parameter(framework.empty(out_feats)) if bias else None)
        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight from Glorot's uniform distribution and set the bias to 0."""
        functional.xavier_uniform_(self.weight)
        functional.zeros_(self.bias)

    def forward(self, adj: Tensor, feat: Tensor) -> Tensor:
        """Return the new features; ``adj[v, u]`` is the weight of an edge from u to v. Sums below 1 count as 1."""
        adj = functional.require_matrix(self, adj, feat)
        if self._norm == "both":
            feat = feat * adj.sum(0).clamp(min=1)[:, None] ** -0.5
        narrow_first = self._in_feats > self._out_feats
        result = adj @ (feat @ self.weight) if narrow_first else (adj @ feat) @ self.weight
        if self._norm != "none":
            result = result * adj.sum(1).clamp(min=1)[:, None] ** (-0.5 if self._norm == "both" else -1.0)
        if self.bias is not None:
            result = result + self.bias
        return result if self._activation is None else self._activation(result)
