"""Which of torch's functions change the recipe of a deferred tensor, and which answer without its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .protocols import Recipe

ORDINARY = (torch.Tensor, torch.nn.Parameter)


# -- shapes and dtypes, without values ---------------------------------------------------------------------------------
def _leaky_relu(recipe: Recipe, negative_slope: float = 0.01, inplace: bool = False) -> Recipe | None:
    return None if inplace else recipe.leaky_relu(float(negative_slope))


def _dropout(recipe: Recipe, p: float = 0.5, training: bool = True, inplace: bool = False) -> Recipe | None:
    if not training or p == 0:
        return recipe
    return None if inplace else recipe.dropout(p)


def _plus(recipe: Recipe, other: Any, *, alpha: float = 1, out: Any = None) -> Recipe | None:
    return recipe.plus(other) if alpha == 1 and out is None and type(other) in ORDINARY else None


SUMS = frozenset([torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__])
"""Sums of two tensors, in whichever order they are given."""


CHANGES: dict[Any, Callable[..., Recipe | None]] = {
    **dict.fromkeys(SUMS, _plus),
    torch.nn.functional.leaky_relu: _leaky_relu,
    torch.nn.functional.dropout: _dropout,
    torch.dropout: _dropout,
}
"""The recipe of what a function makes of a deferred tensor, None where it needs the values."""


FACTS = frozenset(
    [
        *(
            getattr(torch.Tensor, name).__get__
            for name in ("shape", "dtype", "device", "ndim", "requires_grad", "layout", "is_leaf", "is_cuda")
        ),
        torch.Tensor.size,
        torch.Tensor.dim,
        torch.Tensor.numel,
        torch.Tensor.nelement,
        torch.Tensor.is_floating_point,
        torch.is_floating_point,
        torch.Tensor.__len__,
    ]
)
"""What answers without values."""
