"""Views that are runs of elements: parts of a row, or a row in another shape. They are places, not operations."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def start_in_row(x: torch.Tensor, y: torch.Tensor) -> int | None:
    """Return where a row of ``y`` begins in that of ``x`` (rows, *feat), if ``y`` is a view with as many rows, whose
    elements follow each other in those of ``x``; else None. Rows may be apart. Neither needs to have values.
    """
    if y.untyped_storage()._cdata != x.untyped_storage()._cdata or y.dim() == 0 or y.shape[0] != x.shape[0]:
        return None
    alike = (x.stride(0) == y.stride(0) or len(x) == 1) and x.dtype == y.dtype
    whole = _follow(x.shape[1:], x.stride()[1:]) and _follow(y.shape[1:], y.stride()[1:])
    return int(y.storage_offset()) - int(x.storage_offset()) if alike and whole else None


def part_of_row(x: torch.Tensor, y: torch.Tensor) -> int | None:
    """Return where a row of ``y`` begins in that of ``x``, if all of it lies there; else None."""
    start = start_in_row(x, y)
    inside = start is not None and start >= 0 and start + y[:1].numel() <= x[:1].numel()
    return start if inside else None


def overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Return whether two tensors may share elements: parts of the same rows that lie apart do not."""
    if x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr():
        return False
    runs = x.dim() and y.dim() and all(_follow(z.shape[1:], z.stride()[1:]) for z in (x, y))
    if runs and x.shape[0] == y.shape[0] and x.stride(0) == y.stride(0):
        row = max(x.stride(0), 1)
        start, other = x.storage_offset() % row, y.storage_offset() % row
        return start < other + y[:1].numel() and other < start + x[:1].numel()
    return True


def _follow(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether elements lie one after the other, in their order."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
