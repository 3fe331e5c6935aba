"""Functions of layers, under torch's names. Those of one tensor are its methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import DGLError
from ....formulas import FORMULAS
from ...autograd import Tensor, apply, as_array
from ...library import library
from ...operations import functions, overridable

__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "dropout_mask",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "softmax",
]


globals().update({_name: functions[_name] for _name in FORMULAS if _name in functions})
__all__ += [_name for _name in FORMULAS if _name in functions]
softmax, log_softmax = functions["softmax"], functions["log_softmax"]


def _linear(input: Any, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""Return ``input @ weight.T + bias``, (\*, out_features)."""
    return apply("linear", input, weight) if bias is None else apply("linear", input, weight, bias)


linear = overridable(_linear, "linear")


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Return the input with elements set to 0 with probability ``p``, the others divided by ``1 - p``."""
    return input * dropout_mask(input, p) if training and p else input  # type: ignore[operator,no-any-return]


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """Return 0 with probability ``p``, else ``1 / (1 - p)``, for every element."""
    keep = library.uniform(like.shape) >= p
    return Tensor(keep * like.dtype.type(1 / (1 - p) if p < 1 else 0))


def cross_entropy(input: Tensor, target: Any) -> Tensor:
    """Return the mean of -log softmax(input)[target] over rows; ``input`` (rows, classes), ``target`` (rows,) integers.

    Raises ``DGLError``: shapes do not fit, or a target is no integer or no class.
    """
    target = as_array(target)
    if input.ndim != 2 or target.shape != input.shape[:1] or target.dtype.kind not in "iu":
        raise DGLError(
            f"got logits of shape {input.shape} and targets {target.dtype} of shape {target.shape}; expected "
            "(rows, classes) and as many integers as rows"
        )
    if target.size and not 0 <= target.min() <= target.max() < input.shape[1]:
        raise DGLError(f"got target {target.max()} or {target.min()} for {input.shape[1]} classes; they count from 0")
    return apply("cross_entropy", input, target=target)


def nll_loss(input: Tensor, target: Any) -> Tensor:
    """Return the mean of ``-input[row, target[row]]``, of logarithms of probabilities."""
    picked = apply("pick", input, indices=as_array(target)[:, None], axis=1)
    return -picked.mean()  # type: ignore[attr-defined,no-any-return]


def mse_loss(input: Tensor, target: Any) -> Tensor:
    """Return the mean of squared differences."""
    apart = input - target  # type: ignore[operator]
    return (apart * apart).mean()  # type: ignore[no-any-return]


def binary_cross_entropy_with_logits(input: Tensor, target: Any) -> Tensor:
    """Return the mean of -log of the probability that a sigmoid gives to each target, 0 or 1."""
    return (input.softplus() - input * target).mean()  # type: ignore[attr-defined,operator,no-any-return]


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Return the input divided by its p-norm along an axis, or by ``eps`` where that is smaller."""
    size = input.norm(p, dim, keepdim=True)  # type: ignore[attr-defined]
    return input / size.clamp(min=eps)  # type: ignore[operator,no-any-return]


def one_hot(target: Any, num_classes: int) -> Tensor:
    """Return 1 at each target and 0 elsewhere, int64 (\\*, num_classes)."""
    target = as_array(target)
    return Tensor((target[..., None] == np.arange(num_classes, like=target)).astype(np.int64))
