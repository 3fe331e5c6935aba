"""``dgl.backend``: reductions, indexing, shapes, sorting, and recording of gradients."""

from __future__ import annotations

from typing import Any

import torch

__all__ = [
    "attach_grad",
    "backward",
    "index_add_inplace",
    "no_grad",
    "pack_padded_tensor",
    "pad_packed_tensor",
    "record_grad",
    "scatter_row_inplace",
    "sort_1d",
    "sync",
    "take",
    "unique",
]

Tensor = torch.Tensor


# -- order -------------------------------------------------------------------------------------------------------------
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


# -- rows and parts ----------------------------------------------------------------------------------------------------
def scatter_row_inplace(data: Tensor, row_index: Tensor, value: Tensor) -> None:
    """Write ``value`` into rows ``row_index`` of ``data`` itself."""
    data[row_index.long()] = value


def index_add_inplace(data: Tensor, row_idx: Tensor, value: Tensor) -> None:
    """Add ``value`` to rows ``row_idx`` of ``data`` itself; what goes to one row adds up."""
    data.index_add_(0, row_idx, value)


def take(data: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Return elements of one axis by number; the axes of ``indices`` stand in place of it."""
    dim = dim % data.dim()
    rows = data.index_select(dim, indices.reshape(-1))
    return rows.reshape(*data.shape[:dim], *indices.shape, *data.shape[dim + 1 :])


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


class record_grad:
    """Does nothing but mark where gradients are wanted: torch records them anyway."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


no_grad = torch.no_grad


def sync() -> None:
    """Wait until what was asked of the accelerator is done; on the CPU there is nothing to wait for."""
    accelerator = getattr(torch, "accelerator", torch.cuda)  # torch 2.4 has none
    if accelerator.is_available():
        accelerator.synchronize()
