"""``dgl.backend``: reductions, indexing, shapes, sorting, and recording of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Tensor = torch.Tensor

__all__ = [
    "allclose",
    "argsort",
    "argtopk",
    "attach_grad",
    "backward",
    "boolean_mask",
    "cat",
    "clamp",
    "count_nonzero",
    "cumsum",
    "equal",
    "exp",
    "floor_div",
    "gather_row",
    "grad",
    "index_add_inplace",
    "inverse",
    "is_no_grad",
    "is_recording",
    "logical_and",
    "logical_not",
    "max",
    "mean",
    "min",
    "narrow_row",
    "no_grad",
    "nonzero_1d",
    "pack_padded_tensor",
    "pad_packed_tensor",
    "record_grad",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "repeat",
    "replace_inf_with_zero",
    "reshape",
    "scatter_row",
    "scatter_row_inplace",
    "slice_axis",
    "softmax",
    "sort_1d",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "sum",
    "swapaxes",
    "sync",
    "take",
    "topk",
    "unique",
    "unsqueeze",
]


# -- reductions --------------------------------------------------------------------------------------------------------
def sum(input: Tensor, dim: int, keepdims: bool = False) -> Tensor:
    """Sum over one axis."""
    return input.sum(dim, keepdim=keepdims)


def mean(input: Tensor, dim: int) -> Tensor:
    """Return the mean over one axis."""
    return input.mean(dim)


def max(input: Tensor, dim: int) -> Tensor:
    """Return the largest values along one axis."""
    return input.max(dim).values


def min(input: Tensor, dim: int) -> Tensor:
    """Return the smallest values along one axis."""
    return input.min(dim).values


def reduce_sum(input: Tensor) -> Tensor:
    """Sum all elements, shape ()."""
    return input.sum()


def reduce_mean(input: Tensor) -> Tensor:
    """Return the mean of all elements, shape ()."""
    return input.mean()


def reduce_max(input: Tensor) -> Tensor:
    """Return the largest element, shape ()."""
    return input.max()


def reduce_min(input: Tensor) -> Tensor:
    """Return the smallest element, shape ()."""
    return input.min()


def count_nonzero(input: Tensor) -> int:
    """Return how many elements are not 0."""
    return int(torch.count_nonzero(input))


def cumsum(input: Tensor, dim: int) -> Tensor:
    """Return running sums along one axis."""
    return input.cumsum(dim)


# -- element by element ------------------------------------------------------------------------------------------------
def exp(input: Tensor) -> Tensor:
    """Return e to the power of each element."""
    return input.exp()


def sqrt(input: Tensor) -> Tensor:
    """Return the square root of each element."""
    return input.sqrt()


def floor_div(in1: Tensor, in2: Any) -> Tensor:
    """Divide integers, towards negative infinity."""
    return in1 // in2


def clamp(data: Tensor, min_val: float, max_val: float) -> Tensor:
    """Return ``data`` with elements outside [min_val, max_val] at its ends."""
    return data.clamp(min_val, max_val)


def replace_inf_with_zero(x: Tensor) -> Tensor:
    """Return ``x`` with 0 in place of both infinities."""
    return x.masked_fill(x.isinf(), 0)


def equal(x: Tensor, y: Tensor) -> Tensor:
    """Return element by element whether two tensors are equal."""
    return x == y


def allclose(x: Tensor, y: Tensor, rtol: float = 1e-4, atol: float = 1e-4) -> bool:
    """Whether all elements of ``x`` and ``y`` are as close as the tolerances ask."""
    return torch.allclose(x, y, rtol=rtol, atol=atol)


def logical_not(input: Tensor) -> Tensor:
    """Return "not", bit by bit, which for booleans is the logical one."""
    return ~input


def logical_and(input1: Tensor, input2: Tensor) -> Tensor:
    """Return "and", bit by bit, which for booleans is the logical one."""
    return input1 & input2


def inverse(input: Tensor) -> Tensor:
    """Return the inverse of a square matrix."""
    return torch.linalg.inv(input)


def softmax(input: Tensor, dim: int = -1) -> Tensor:
    """Return the softmax along one axis."""
    return input.softmax(dim)


# -- order -------------------------------------------------------------------------------------------------------------
def argsort(input: Tensor, dim: int, descending: bool) -> Tensor:
    """Return the positions that sort one axis."""
    return input.argsort(dim, descending)


def topk(input: Tensor, k: int, dim: int, descending: bool = True) -> Tensor:
    """Return the ``k`` largest elements along one axis, largest first; with ``descending=False`` the smallest."""
    return input.topk(k, dim, largest=descending).values


def argtopk(input: Tensor, k: int, dim: int, descending: bool = True) -> Tensor:
    """Return the positions of what :func:`topk` returns."""
    return input.topk(k, dim, largest=descending).indices


def sort_1d(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return the elements in ascending order, and the position of each before."""
    values, positions = input.sort()
    return values, positions


def unique(input: Tensor, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Return the distinct elements in ascending order, then where each element went and how often each came if asked.

    Booleans count as int8.
    """
    if input.dtype is torch.bool:
        input = input.to(torch.int8)
    return torch.unique(input, return_inverse=return_inverse, return_counts=return_counts)


def nonzero_1d(input: Tensor) -> Tensor:
    """Return the positions of the elements of a vector that are not 0."""
    return input.nonzero().reshape(-1)


# -- rows and parts ----------------------------------------------------------------------------------------------------
def gather_row(data: Tensor, row_index: Tensor) -> Tensor:
    """Return rows by number, (len(row_index), *feat)."""
    return data.index_select(0, row_index.long())


def narrow_row(x: Tensor, start: int, stop: int) -> Tensor:
    """Return rows ``start`` up to, not including, ``stop``, a view."""
    return x[start:stop]


def boolean_mask(input: Tensor, mask: Tensor) -> Tensor:
    """Return the rows where ``mask`` is true, or not 0."""
    return input[mask.bool()]


def scatter_row(data: Tensor, row_index: Tensor, value: Tensor) -> Tensor:
    """Return a copy of ``data`` in which rows ``row_index`` hold ``value``; differentiable."""
    return data.index_copy(0, row_index.long(), value)


def scatter_row_inplace(data: Tensor, row_index: Tensor, value: Tensor) -> None:
    """Write ``value`` into rows ``row_index`` of ``data`` itself."""
    data[row_index.long()] = value


def index_add_inplace(data: Tensor, row_idx: Tensor, value: Tensor) -> None:
    """Add ``value`` to rows ``row_idx`` of ``data`` itself; what goes to one row adds up."""
    data.index_add_(0, row_idx, value)


def slice_axis(data: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """Return elements ``begin`` up to, not including, ``end`` of one axis, a view."""
    return data.narrow(axis, begin, end - begin)


def take(data: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Return elements of one axis by number; the axes of ``indices`` stand in place of it."""
    dim = dim % data.dim()
    rows = data.index_select(dim, indices.reshape(-1))
    return rows.reshape(*data.shape[:dim], *indices.shape, *data.shape[dim + 1 :])


def split(input: Tensor, sizes_or_sections: int | Sequence[int], dim: int) -> Sequence[Tensor]:
    """Cut one axis into runs of the given sizes, or all of one size, the last one perhaps shorter; views."""
    return torch.split(input, sizes_or_sections, dim)  # type: ignore[arg-type, no-untyped-call]


def cat(seq: Sequence[Tensor], dim: int) -> Tensor:
    """Join along an axis."""
    return torch.cat(tuple(seq), dim)


def stack(seq: Sequence[Tensor], dim: int) -> Tensor:
    """Join along a new axis."""
    return torch.stack(tuple(seq), dim)


def repeat(input: Tensor, repeats: int | Tensor, dim: int) -> Tensor:
    """Repeat each element of one axis, all as often or each its own number of times."""
    return torch.repeat_interleave(input, repeats, dim)  # type: ignore[arg-type]


def squeeze(input: Tensor, dim: int) -> Tensor:
    """Drop an axis of length 1."""
    return input.squeeze(dim)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Put in an axis of length 1."""
    return input.unsqueeze(dim)


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the elements in another shape."""
    return input.reshape(tuple(shape))


def swapaxes(input: Tensor, axis1: int, axis2: int) -> Tensor:
    """Return a view with two axes in each other's place."""
    return input.transpose(axis1, axis2)


def pad_packed_tensor(input: Tensor, lengths: Any, value: float, l_min: int | None = None) -> Tensor:
    """Return runs of rows, (sum(lengths), *feat), side by side: (len(lengths), longest, *feat), filled up by ``value``.

    With ``l_min`` the second axis is at least so long.
    """
    mask = _within(lengths, input.device, l_min or 0)
    padded = input.new_full((*mask.shape, *input.shape[1:]), value)
    return padded.masked_scatter(mask.reshape(*mask.shape, *(1,) * (input.dim() - 1)), input)


def pack_padded_tensor(input: Tensor, lengths: Any) -> Tensor:
    """Return the first ``lengths[i]`` rows of each ``input[i]``, one after the other; undoes the padding."""
    mask = _within(lengths, input.device, input.shape[1])
    return input[mask]


def _within(lengths: Any, device: torch.device, shortest: int) -> Tensor:
    """Return which places of (len(lengths), longest) lie within the lengths."""
    sizes = torch.as_tensor(lengths, device=device)
    longest = int(sizes.max()) if len(sizes) else 0
    longest = longest if longest > shortest else shortest
    return torch.arange(longest, device=device) < sizes[:, None]


# -- gradients ---------------------------------------------------------------------------------------------------------
def attach_grad(x: Tensor) -> Tensor:
    """Start recording gradients for ``x``, dropping what it has; a result of recorded operations becomes a leaf."""
    if not x.is_leaf:
        return x.detach().requires_grad_()
    if x.grad is not None:
        x.grad.zero_()
    return x.requires_grad_()


def backward(x: Tensor, head_gradient: Tensor | None = None) -> None:
    """Compute gradients of ``x``, or of its product with ``head_gradient``, summed. It may be (1,) for a number."""
    if head_gradient is None:
        head_gradient = torch.ones_like(x)
    elif head_gradient.shape == (1,):
        head_gradient = head_gradient.reshape(x.shape)
    x.backward(head_gradient)


def grad(x: Tensor) -> Tensor | None:
    """Return the gradient of a tensor after :func:`backward`."""
    return x.grad


def is_no_grad(x: Tensor) -> bool:
    """Whether a tensor has no gradient, or one of zeros."""
    return x.grad is None or not bool(x.grad.any())


def is_recording() -> bool:
    """Whether operations are recorded for gradients now."""
    return torch.is_grad_enabled()


class record_grad:
    """Does nothing but mark where gradients are wanted: torch records them anyway."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


no_grad = torch.no_grad


def sync() -> None:
    """Wait until what was asked of the accelerator is done; on the CPU there is nothing to wait for."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
