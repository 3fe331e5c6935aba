"""Views that are runs of elements: parts of a row, or a row in another shape. They are places, not operations."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def start_of(x: torch.Tensor, y: torch.Tensor) -> int | None:
    """Return where ``y`` begins in ``x``, if it is a view of elements that follow each other there; else None.

    ``x`` is contiguous; neither needs to have values.
    """
    if y.untyped_storage()._cdata != x.untyped_storage()._cdata or not _follow(y.shape, y.stride()):
        return None
    return int(y.storage_offset()) - int(x.storage_offset())


def start_in_row(x: torch.Tensor, y: torch.Tensor) -> int | None:
    """Return the same for rows of ``x`` (rows, *feat) and of ``y``, which has as many; rows may be apart."""
    if y.untyped_storage()._cdata != x.untyped_storage()._cdata or y.dim() == 0 or y.shape[0] != x.shape[0]:
        return None
    alike = x.stride(0) == y.stride(0) and x.dtype == y.dtype
    whole = _follow(x.shape[1:], x.stride()[1:]) and _follow(y.shape[1:], y.stride()[1:])
    return int(y.storage_offset()) - int(x.storage_offset()) if alike and whole else None


def overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Return whether two tensors may share elements: parts of the same rows that lie apart do not."""
    if x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr():
        return False
    if x.dim() == y.dim() == 2 and x.stride() == y.stride() and x.stride(1) == 1:
        start, other, row = x.storage_offset(), y.storage_offset(), max(x.stride(0), 1)
        start, other = start % row, other % row
        return start < other + y.shape[1] and other < start + x.shape[1]
    return True


def _follow(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether elements lie one after the other, in their order."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
