"""Multi-head attention with a bias for each pair of nodes."""

from __future__ import annotations

from typing import Any, final

from ...backend import Tensor, active, framework
from .. import functional
from ..base import TorchLayer, nn

_EMPTY_ROWS_ARE_NAN = active.name == "torch" and framework.__version__ < "2.5"
"""Whether torch's attention, by which rows that may read nothing are 0, gives NaN for them."""


@final
class BiasedMHA(TorchLayer):
    r"""Attention whose scores are biased by the structure, of Ying et al., "Do transformers really perform bad for
    graph representation?", 2021.

    .. math:: \mathrm{out}\big(\mathrm{softmax}(Q K^T / \sqrt d \circ b)\, V\big), \quad \circ \in \{+, \cdot\}

    Added biases go into torch's ``scaled_dot_product_attention`` where it has a kernel for them. A node whose row is
    masked everywhere reads 0, where DGL gives NaN. It needs torch.

    Parameters
    ----------
    feat_size
        Size of the features, a multiple of ``num_heads``.
    num_heads
        Number of heads.
    bias
        Whether the projections have a bias of their own.
    attn_bias_type
        ``"add"``; anything else multiplies.
    attn_drop
        Dropout of the weights.

    Shapes
    ------
    ndata (batch_size, N, feat_size), attn_bias (batch_size, N, N, num_heads), attn_mask (batch_size, N, N)
    -> (batch_size, N, feat_size)
    """

    def __init__(
        self, feat_size: int, num_heads: int, bias: bool = True, attn_bias_type: str = "add", attn_drop: float = 0.1
    ) -> None:
        super().__init__()
        functional.require_multiple(self, "feat_size", feat_size, num_heads=num_heads)
        self.feat_size, self.num_heads, self.head_dim = feat_size, num_heads, feat_size // num_heads
        self.attn_bias_type = attn_bias_type
        self.q_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.k_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.v_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.out_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.dropout = nn.Dropout(p=attn_drop)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices from Glorot's uniform distribution, for q, k and v with a gain of 1 / sqrt(2)."""
        for project in (self.q_proj, self.k_proj, self.v_proj):
            functional.xavier_uniform_(project.weight, gain=2**-0.5)
        functional.xavier_uniform_(self.out_proj.weight)
        functional.zeros_(self.out_proj.bias)

    def forward(self, ndata: Tensor, attn_bias: Tensor | None = None, attn_mask: Tensor | None = None) -> Tensor:
        """Return the new features.

        ``attn_mask`` is true, or not 0, where the node of the row must not read the node of the column. Raises
        ``DGLError`` for other shapes.
        """
        functional.require_dense_batch(self, "ndata", ndata, self.feat_size)
        batch, count, _ = ndata.shape
        if attn_bias is not None:
            functional.require_pairs(self, "attn_bias", attn_bias, (batch, count, count, self.num_heads))
            attn_bias = attn_bias.permute(0, 3, 1, 2)
        if attn_mask is not None:
            functional.require_pairs(self, "attn_mask", attn_mask, (batch, count, count))
            attn_mask = attn_mask.bool()[:, None]
        query, key, value = (
            functional.by_head(project(ndata), self.num_heads).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self._is_one_kernel(query, attn_bias):
            attended = self._at_once(query, key, value, attn_bias, attn_mask)
        else:
            attended = self._by_steps(query, key, value, attn_bias, attn_mask)
        return self.out_proj(attended.transpose(1, 2).reshape(batch, count, self.feat_size))

    def _is_one_kernel(self, query: Tensor, bias: Tensor | None) -> bool:
        """Whether torch has a kernel: on a CPU only where a bias wants no gradient and no weight is dropped."""
        if bias is None or self.attn_bias_type != "add":
            return bias is None
        return not active.on_cpu(query) or not (active.requires_grad(bias) or (self.training and self.dropout.p))

    def _at_once(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        """Attend by one kernel of torch's, to which a bias is a mask."""
        if bias is None:
            allowed = None if mask is None else ~mask
        else:
            bias = bias.to(query.dtype).contiguous()  # torch reads a mask row by row
            allowed = bias if mask is None else bias.masked_fill(mask, -float("inf"))
        dropout = self.dropout.p if self.training else 0.0
        attend = nn.functional.scaled_dot_product_attention
        if allowed is None or not _EMPTY_ROWS_ARE_NAN:
            return attend(query, key, value, attn_mask=allowed, dropout_p=dropout)
        masked = (~allowed if bias is None else allowed == -float("inf")).all(-1, keepdim=True)
        allowed = allowed.masked_fill(masked, bias is None)  # these rows read something, and are cleared
        return attend(query, key, value, attn_mask=allowed, dropout_p=dropout).masked_fill(masked, 0.0)

    def _by_steps(self, query: Tensor, key: Tensor, value: Tensor, bias: Any, mask: Tensor | None) -> Tensor:
        """Attend by products, with fewer passes over the scores than torch's own steps take."""
        scale, heads = self.head_dim**-0.5, query.shape[:2]
        if self.attn_bias_type == "add":
            rows, columns = query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
            bias = bias.flatten(0, 1).to(query.dtype)
            scores = framework.baddbmm(bias, rows, columns, alpha=scale).unflatten(0, heads)
        else:
            scores = (query * scale) @ key.transpose(-1, -2) * bias
        if mask is None:
            weights = framework.softmax(scores, -1)
        else:
            # The second fill is for rows that are masked everywhere, whose softmax is NaN.
            weights = framework.softmax(scores.masked_fill(mask, -float("inf")), -1).masked_fill(mask, 0.0)
        return self.dropout(weights).to(value.dtype) @ value
