"""Scores of edges from the features of their ends."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, framework
from ...errors import DGLError
from ..base import Layer, nn

_OPERATIONS = ("dot", "cos", "ele", "cat")


@final
class EdgePredictor(Layer):
    r"""Score or features of pairs of nodes, made of the features of both.

    Parameters
    ----------
    op
        ``"dot"``, the product of both; ``"cos"``, the cosine between them; ``"ele"``, their products element by
        element; ``"cat"``, one after the other.
    in_feats, out_feats
        With both, a linear layer makes ``out_feats`` numbers of that.
    bias
        Whether that layer has a bias.

    Shapes
    ------
    h_src (pairs, in_feats), h_dst (pairs, in_feats) -> (pairs, out_feats); without a layer (pairs, 1) for ``"dot"``
    and ``"cos"``, (pairs, in_feats) for ``"ele"``, (pairs, 2 * in_feats) for ``"cat"``
    """

    def __init__(self, op: str, in_feats: int | None = None, out_feats: int | None = None, bias: bool = False) -> None:
        super().__init__()
        if op not in _OPERATIONS:
            raise DGLError(f"EdgePredictor: op={op!r} is not known; expected one of {_OPERATIONS}")
        self.op = op
        self.linear: Any = None
        if in_feats is not None and out_feats is not None:
            width = {"dot": 1, "cos": 1, "ele": in_feats, "cat": 2 * in_feats}[op]
            self.linear = nn.Linear(width, out_feats, bias=bias)

    def reset_parameters(self) -> None:
        """Draw the linear layer again, as it does itself."""
        if self.linear is not None:
            self.linear.reset_parameters()

    def forward(self, h_src: Tensor, h_dst: Tensor) -> Tensor:
        """Return a row for each pair. Raises ``DGLError`` unless both inputs are matrices with as many rows."""
        same = h_src.shape[-1:] == h_dst.shape[-1:] or self.op == "cat"
        if h_src.ndim != 2 or h_dst.ndim != 2 or h_src.shape[0] != h_dst.shape[0] or not same:
            raise DGLError(
                f"EdgePredictor: h_src has shape {tuple(h_src.shape)} and h_dst {tuple(h_dst.shape)}; expected "
                "(pairs, in_feats) both"
            )
        if self.op == "cat":
            result = framework.cat([h_src, h_dst], -1)
        else:
            if self.op == "cos":
                h_src, h_dst = (nn.functional.normalize(h, dim=-1, eps=1e-8) for h in (h_src, h_dst))
            result = h_src * h_dst
            if self.op != "ele":
                result = result.sum(-1, keepdim=True)
        return result if self.linear is None else self.linear(result)
