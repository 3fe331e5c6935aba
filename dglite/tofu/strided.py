"""``as_strided`` as views that say what they do: reshape, narrow, select and permute.

Autograd writes the gradient of an in-place operator on a view by ``as_strided``, which names places in memory. How a
tensor is split says nothing of those; where the places are rows of dimensions, the same view is written by dimensions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch

View = Callable[[torch.Tensor], torch.Tensor]


def strided_view(
    base: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> View | None:
    """Return ``as_strided`` of a dense tensor as a function of views of it, None where that cannot be written.

    The memory is seen as dimensions that end where the strides say: strides 32, 8 and 1 in 128 elements are a tensor of
    4 x 4 x 8, of each dimension of which a range is read.
    """
    order = sorted(range(base.dim()), key=lambda d: (base.stride(d), base.size(d)), reverse=True)
    dense = base.permute(order) if base.dim() else base
    axes = sorted((d for d in range(len(size)) if size[d] != 1), key=lambda d: -stride[d])
    strides = [stride[d] for d in axes]
    if not base.numel() or not dense.is_contiguous() or 0 in strides or 0 in size:
        return None
    bounds = [base.numel(), *strides, 1]
    if any(outer % inner for outer, inner in itertools.pairwise(bounds)):
        return None
    shape = [outer // inner for outer, inner in itertools.pairwise(bounds)]
    offset = (base.storage_offset() if storage_offset is None else storage_offset) - base.storage_offset()
    starts = [offset // inner % count for inner, count in zip(bounds[1:], shape, strict=True)]
    # the first dimension is what lies before the largest stride's rows
    lengths = [*(size[d] for d in axes), 1]
    if any(start + n > count for start, n, count in zip(starts, lengths, shape, strict=True)):
        return None
    places = [axes.index(d) for d in range(len(size)) if d in axes]

    def view(x: torch.Tensor) -> torch.Tensor:
        if order != list(range(len(order))):
            x = x.permute(order)
        if list(x.shape) != shape[:-1] or shape[-1] != 1:
            x = x.view(shape)
            x = x.select(-1, starts[-1])
        for d, (start, n) in enumerate(zip(starts[:-1], lengths[:-1], strict=True)):
            if n != shape[d]:
                x = x.narrow(d, start, n)
        if places != list(range(len(places))):
            x = x.permute(places)
        return x if list(x.shape) == list(size) else x.view(list(size))

    return view if math.prod(size) <= base.numel() else None
