"""A linear layer and dropout for dense and sparse features."""

from __future__ import annotations

from typing import Any, final

from ..backend import Tensor, active
from ..ops.dropout import dropout
from .base import nn, refuse_script
from .sparsefeatures import Features, SparseFeatures, as_features

_linear = nn.functional.linear


@final
class SparseLinear(nn.Linear):
    r"""``torch.nn.Linear`` of which the input may be sparse: ``x W^T + b``, with the same parameters.

    Shapes
    ------
    dense (\*, in_features) -> (\*, out_features); sparse (rows, in_features) -> (rows, out_features)

    Raises ``DGLError`` for sparse features of another width, or whose values are not of the weight's dtype.
    """

    __prepare_scriptable__ = refuse_script

    def forward(self, x: Any) -> Tensor:
        """Return the product, dense whatever ``x`` is."""
        x = as_features(x)
        if not isinstance(x, SparseFeatures):
            return _linear(x, self.weight, self.bias)
        result = x.matmul(self.weight.t())
        return result if self.bias is None else result + self.bias


@final
class FeatureDropout(nn.Dropout):
    """``torch.nn.Dropout`` for features that may be sparse.

    Of sparse features the stored values are dropped and scaled, which is the same: the other entries are 0 anyway. The
    cost is that of the stored values alone. The random numbers are not those that ``torch.nn.Dropout`` draws.
    """

    __prepare_scriptable__ = refuse_script

    def forward(self, x: Any) -> Features:  # type: ignore[override]
        """Return the features with some of them 0, those left scaled by ``1 / (1 - p)``; in evaluation, as they are."""
        x = as_features(x)
        if not self.training or self.p == 0.0:
            return x
        if isinstance(x, SparseFeatures):
            return x.with_values(active.dropout(x.values, self.p))
        return x.mul_(active.dropout_mask(x, self.p)) if self.inplace else dropout(x, self.p)
