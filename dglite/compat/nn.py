"""Helpers of DGL's layers that dglite's own layers do not need, and what scripts import from the layers' modules."""

from __future__ import annotations

import torch

from ..errors import DGLError
from ..nn.hetero.heterographconv import get_aggregate_fn
from ..ops import edge_softmax
from .utils import expand_as_pair

__all__ = [
    "DGLError",
    "Identity",
    "bmm_maybe_select",
    "edge_softmax",
    "expand_as_pair",
    "get_aggregate_fn",
    "matmul_maybe_select",
]

Identity = torch.nn.Identity


def matmul_maybe_select(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Return ``A @ B``, (..., D2); integers ``A`` are numbers of rows of ``B``, (D1, D2), as if they were one-hot."""
    if A.dtype is torch.int64 and A.dim() == 1:
        return B.index_select(0, A)
    return A @ B


def bmm_maybe_select(A: torch.Tensor, B: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return row i of ``A``, (N, D1), times matrix ``index[i]`` of ``B``, (R, D1, D2), to (N, D2).

    Integers ``A``, (N,), are numbers of rows of those matrices, as if they were one-hot.
    """
    if A.dtype is torch.int64 and A.dim() == 1:
        return B[index, A]
    return torch.bmm(A.unsqueeze(1), B.index_select(0, index)).squeeze(1)
