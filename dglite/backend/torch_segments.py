"""Products of segments of rows, each with its own matrix, by torch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from .torch_plain import needs_operator


def segment_mm(x: torch.Tensor, matrices: torch.Tensor, offsets: np.ndarray) -> torch.Tensor:
    """Return the product of each segment of rows with its matrix."""
    if needs_operator((x, matrices)):
        parts = [
            torch.matmul(rows.movedim(0, -2), matrix).movedim(-2, 0)
            for rows, matrix in zip(x.split(np.diff(offsets).tolist()), matrices, strict=True)
        ]
        return torch.cat(parts) if parts else x.new_zeros(*x.shape[:-1], matrices.shape[-1])
    out = x.new_empty(*x.shape[:-1], matrices.shape[-1])
    for r, begin, end in _segments(offsets):
        if x.dim() == 2:
            torch.mm(x[begin:end], matrices[r], out=out[begin:end])
        else:  # a product for each of the batch, over all rows
            out[begin:end] = torch.matmul(x[begin:end].movedim(0, -2), matrices[r]).movedim(-2, 0)
    return out


def segment_outer(x: torch.Tensor, y: torch.Tensor, offsets: np.ndarray) -> torch.Tensor:
    """Return the product of each segment of ``x``, transposed, with the same segment of ``y``."""
    if needs_operator((x, y)):
        sizes = np.diff(offsets).tolist()
        pairs = zip(x.split(sizes), y.split(sizes), strict=True)
        parts = [torch.matmul(left.movedim(0, -1), right.movedim(0, -2)) for left, right in pairs]
        return torch.stack(parts) if parts else x.new_zeros(0, *x.shape[1:], y.shape[-1])
    out = x.new_zeros(len(offsets) - 1, *x.shape[1:], y.shape[-1])
    for r, begin, end in _segments(offsets):
        torch.matmul(x[begin:end].movedim(0, -1), y[begin:end].movedim(0, -2), out=out[r])
    return out


def _segments(offsets: np.ndarray) -> Iterable[tuple[int, int, int]]:
    """Return (number, begin, end) of the segments that are not empty."""
    used = np.flatnonzero(np.diff(offsets))
    return zip(used.tolist(), offsets[used].tolist(), offsets[used + 1].tolist(), strict=True)
