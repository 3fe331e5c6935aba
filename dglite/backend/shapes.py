"""Products, shapes and indexing of the tape's tensors: the second half of :mod:`.operations`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .autograd import Tensor, apply, as_array
from .library import not_torchs
from .operations import attach, method, promoted


# -- products ----------------------------------------------------------------------------------------------------------
@method("matmul", "mm", "bmm", "__matmul__")
def matmul(x: Any, y: Any) -> Any:
    """Return the product of matrices; a tensor with one axis is a row on the left, a column on the right."""
    if not issubclass(type(y), Tensor | np.ndarray):
        not_torchs(y)
        return NotImplemented
    left, right = (v if isinstance(v, Tensor) else Tensor(v) for v in (x, y))
    wide = unsqueeze(left, 0) if left.ndim == 1 else left, unsqueeze(right, 1) if right.ndim == 1 else right
    result = apply("matmul", *promoted(*wide))
    result = squeeze(result, -1) if right.ndim == 1 else result
    return squeeze(result, -1 if right.ndim == 1 else -2) if left.ndim == 1 else result


attach("__rmatmul__", lambda self, other: matmul(Tensor(other), self))


# -- shapes ------------------------------------------------------------------------------------------------------------
def _sizes(args: Sequence[Any]) -> tuple[int, ...]:
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else tuple(args)


@method("reshape", "view")
def reshape(x: Tensor, *shape: Any) -> Tensor:
    """Return x with another shape; a view where it can be."""
    return x._viewing(apply("reshape", x, shape=_sizes(shape)))


@method()
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return x with the axes from ``start_dim`` to ``end_dim`` merged."""
    first, last = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@method()
def squeeze(x: Tensor, dim: int | None = None) -> Tensor:
    """Return x without axis ``dim``, where that has length 1, or without all such axes."""
    drop = range(x.ndim) if dim is None else (dim % max(x.ndim, 1),)
    return reshape(x, tuple(size for axis, size in enumerate(x.shape) if axis not in drop or size != 1))


@method()
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """Return x with a new axis of length 1."""
    place = dim % (x.ndim + 1)
    return reshape(x, (*x.shape[:place], 1, *x.shape[place:]))


@method()
def permute(x: Tensor, *axes: Any) -> Tensor:
    """Return x with its axes in another order."""
    return x._viewing(apply("permute", x, axes=_sizes(axes)))


@method("transpose", "swapaxes")
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return x with two axes exchanged."""
    axes = list(range(x.ndim))
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return permute(x, axes)


@method()
def t(x: Tensor) -> Tensor:
    """Return x with its axes in reverse order."""
    return permute(x, tuple(reversed(range(x.ndim))))


attach("T", property(t))
attach("mT", property(lambda self: transpose(self, -1, -2)))


@method("expand", "broadcast_to")
def expand(x: Tensor, *shape: Any) -> Tensor:
    """Return x stretched to ``shape``, in which -1 keeps an axis as it is."""
    sizes = _sizes(shape)
    padded = (1,) * (len(sizes) - x.ndim) + x.shape
    return apply("broadcast_to", x, shape=tuple(a if b == -1 else b for a, b in zip(padded, sizes, strict=True)))


@method()
def index_select(x: Tensor, dim: int, index: Any) -> Tensor:
    """Return the slices ``index`` along an axis."""
    return x[(slice(None),) * (dim % x.ndim) + (as_array(index),)] if dim else apply("take", x, rows=as_array(index))


@method()
def gather(x: Tensor, dim: int, index: Any) -> Tensor:
    """Return ``out[i][j] = x[i][index[i][j]]`` (for the second axis)."""
    return apply("pick", x, indices=as_array(index), axis=dim)


@method()
def split(x: Tensor, size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Cut an axis into runs of ``size``, or of these sizes."""
    length = x.shape[dim]
    sizes = size if isinstance(size, list | tuple) else [min(size, length - at) for at in range(0, length, size)]
    ends = np.cumsum(sizes).tolist()
    lead = (slice(None),) * (dim % x.ndim)
    return tuple(x[(*lead, slice(end - count, end))] for end, count in zip(ends, sizes, strict=True))


@method()
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Cut an axis into at most ``chunks`` equal runs."""
    return split(x, max(-(-x.shape[dim] // chunks), 1), dim)


@method()
def nonzero(x: Tensor) -> Tensor:
    """Return the places of elements other than 0, one per row."""
    return Tensor(np.stack(np.nonzero(x.data), axis=1))
