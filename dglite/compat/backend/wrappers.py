"""``dgl.backend``: functions that are one expression of torch, from one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..ndarray import NDArray

WRAPPERS: dict[str, tuple[Callable[..., Any], str]] = {
    # reductions
    "sum": (lambda input, dim, keepdims=False: input.sum(dim, keepdim=keepdims), "Sum over one axis."),
    "mean": (lambda input, dim: input.mean(dim), "Return the mean over one axis."),
    "max": (lambda input, dim: input.max(dim).values, "Return the largest values along one axis."),
    "min": (lambda input, dim: input.min(dim).values, "Return the smallest values along one axis."),
    "reduce_sum": (lambda input: input.sum(), "Sum all elements, shape ()."),
    "reduce_mean": (lambda input: input.mean(), "Return the mean of all elements, shape ()."),
    "reduce_max": (lambda input: input.max(), "Return the largest element, shape ()."),
    "reduce_min": (lambda input: input.min(), "Return the smallest element, shape ()."),
    "count_nonzero": (lambda input: int(torch.count_nonzero(input)), "Return how many elements are not 0."),
    "cumsum": (lambda input, dim: input.cumsum(dim), "Return running sums along one axis."),
    # element by element
    "exp": (lambda input: input.exp(), "Return e to the power of each element."),
    "sqrt": (lambda input: input.sqrt(), "Return the square root of each element."),
    "floor_div": (lambda in1, in2: in1 // in2, "Divide integers, towards negative infinity."),
    "clamp": (
        lambda data, min_val, max_val: data.clamp(min_val, max_val),
        "Return ``data`` with elements outside [min_val, max_val] at its ends.",
    ),
    "replace_inf_with_zero": (
        lambda x: x.masked_fill(x.isinf(), 0),
        "Return ``x`` with 0 in place of both infinities.",
    ),
    "equal": (lambda x, y: x == y, "Return element by element whether two tensors are equal."),
    "allclose": (
        lambda x, y, rtol=0.0001, atol=0.0001: torch.allclose(x, y, rtol=rtol, atol=atol),
        "Whether all elements of ``x`` and ``y`` are as close as the tolerances ask.",
    ),
    "logical_not": (lambda input: ~input, 'Return "not", bit by bit, which for booleans is the logical one.'),
    "logical_and": (
        lambda input1, input2: input1 & input2,
        'Return "and", bit by bit, which for booleans is the logical one.',
    ),
    "inverse": (lambda input: torch.linalg.inv(input), "Return the inverse of a square matrix."),
    "softmax": (lambda input, dim=-1: input.softmax(dim), "Return the softmax along one axis."),
    # order
    "argsort": (
        lambda input, dim, descending: input.argsort(dim, descending),
        "Return the positions that sort one axis.",
    ),
    "topk": (
        lambda input, k, dim, descending=True: input.topk(k, dim, largest=descending).values,
        "Return the ``k`` largest elements along one axis, largest first; with ``descending=False`` the smallest.",
    ),
    "argtopk": (
        lambda input, k, dim, descending=True: input.topk(k, dim, largest=descending).indices,
        "Return the positions of what :func:`topk` returns.",
    ),
    "nonzero_1d": (
        lambda input: input.nonzero().reshape(-1),
        "Return the positions of the elements of a vector that are not 0.",
    ),
    # rows and parts
    "gather_row": (
        lambda data, row_index: data.index_select(0, row_index.long()),
        "Return rows by number, (len(row_index), *feat).",
    ),
    "narrow_row": (
        lambda x, start, stop: x[start:stop],
        "Return rows ``start`` up to, not including, ``stop``, a view.",
    ),
    "boolean_mask": (lambda input, mask: input[mask.bool()], "Return the rows where ``mask`` is true, or not 0."),
    "scatter_row": (
        lambda data, row_index, value: data.index_copy(0, row_index.long(), value),
        "Return a copy of ``data`` in which rows ``row_index`` hold ``value``; differentiable.",
    ),
    "slice_axis": (
        lambda data, axis, begin, end: data.narrow(axis, begin, end - begin),
        "Return elements ``begin`` up to, not including, ``end`` of one axis, a view.",
    ),
    "split": (
        lambda input, sizes_or_sections, dim: torch.split(input, sizes_or_sections, dim),
        "Cut one axis into runs of the given sizes, or all of one size, the last one perhaps shorter; views.",
    ),
    "cat": (lambda seq, dim: torch.cat(tuple(seq), dim), "Join along an axis."),
    "stack": (lambda seq, dim: torch.stack(tuple(seq), dim), "Join along a new axis."),
    "repeat": (
        lambda input, repeats, dim: torch.repeat_interleave(input, repeats, dim),
        "Repeat each element of one axis, all as often or each its own number of times.",
    ),
    "squeeze": (lambda input, dim: input.squeeze(dim), "Drop an axis of length 1."),
    "unsqueeze": (lambda input, dim: input.unsqueeze(dim), "Put in an axis of length 1."),
    "reshape": (lambda input, shape: input.reshape(tuple(shape)), "Return the elements in another shape."),
    "swapaxes": (
        lambda input, axis1, axis2: input.transpose(axis1, axis2),
        "Return a view with two axes in each other's place.",
    ),
    # gradients
    "grad": (lambda x: x.grad, "Return the gradient of a tensor after :func:`backward`."),
    "is_no_grad": (
        lambda x: x.grad is None or not bool(x.grad.any()),
        "Whether a tensor has no gradient, or one of zeros.",
    ),
    "is_recording": (lambda: torch.is_grad_enabled(), "Whether operations are recorded for gradients now."),
    # facts
    "is_tensor": (lambda obj: isinstance(obj, torch.Tensor), "Whether ``obj`` is a tensor of the framework."),
    "shape": (lambda input: input.shape, "Return the shape."),
    "dtype": (lambda input: input.dtype, "Return the dtype, one of the values of ``data_type_dict``."),
    "ndim": (lambda input: input.dim(), "Return the number of axes."),
    "context": (lambda input: input.device, "Return the device."),
    "cpu": (lambda: torch.device("cpu"), "Return the device of the host."),
    "device_type": (lambda ctx: torch.device(ctx).type, 'Return the kind of a device: "cpu", "cuda", ...'),
    "device_id": (
        lambda ctx: torch.device(ctx).index or 0,
        "Return the number of a device among those of its kind; 0 where it has none.",
    ),
    "to_backend_ctx": (
        lambda dglctx: torch.device(str(dglctx) if dglctx.device_type != "cpu" else "cpu"),
        "Return the device that a ``dgl.ndarray`` context names.",
    ),
    "is_pinned": (lambda input: input.is_pinned(), "Whether the tensor lies in page-locked memory of the host."),
    # making
    "empty": (
        lambda shape, dtype, ctx: torch.empty(shape, dtype=dtype, device=ctx),
        "Return a tensor whose values are whatever lay in its memory.",
    ),
    "zeros": (lambda shape, dtype, ctx: torch.zeros(shape, dtype=dtype, device=ctx), "Return a tensor of zeros."),
    "zeros_like": (lambda input: torch.zeros_like(input), "Return zeros of the shape, dtype and device of ``input``."),
    "ones": (lambda shape, dtype, ctx: torch.ones(shape, dtype=dtype, device=ctx), "Return a tensor of ones."),
    "full_1d": (
        lambda length, fill_value, dtype, ctx: torch.full((length,), fill_value, dtype=dtype, device=ctx),
        "Return ``fill_value``, ``length`` times.",
    ),
    "arange": (
        lambda start, stop, dtype=torch.int64, ctx=None: torch.arange(start, stop, dtype=dtype, device=ctx),
        "Return the numbers from ``start`` up to, not including, ``stop``.",
    ),
    "uniform": (
        lambda shape, dtype, ctx, low, high: torch.empty(shape, dtype=dtype, device=ctx).uniform_(low, high),
        "Draw numbers uniformly from [low, high).",
    ),
    "randint": (
        lambda shape, dtype, ctx, low, high: torch.randint(low, high, tuple(shape), dtype=dtype, device=ctx),
        "Draw integers uniformly from low up to, not including, high.",
    ),
    "rand_shuffle": (lambda arr: arr[torch.randperm(len(arr), device=arr.device)], "Return the rows in random order."),
    "clone": (lambda input: input.clone(), "Return a copy, through which gradients flow."),
    # converting
    "astype": (lambda input, ty: input.to(ty), "Return the tensor with another dtype."),
    "as_scalar": (lambda data: data.item(), "Return the one value of a tensor as a Python number."),
    "asnumpy": (
        lambda input: (input.to_dense() if input.layout is not torch.strided else input).numpy(force=True),
        "Return the values as an array, without gradient; a sparse tensor is filled up. Shares memory on the CPU.",
    ),
    "copy_to": (
        lambda input, ctx, **kwargs: input.to(ctx, **kwargs),
        "Return the tensor on device ``ctx``; ``kwargs`` go to ``torch.Tensor.to``.",
    ),
    "zerocopy_to_numpy": (
        lambda input: input.detach().numpy(),
        "Return an array that shares the tensor's memory, which must be the host's.",
    ),
    "zerocopy_from_numpy": (
        lambda np_array: torch.as_tensor(np_array),
        "Return a tensor that shares the array's memory.",
    ),
    "zerocopy_to_dlpack": (
        lambda input: input.detach().contiguous().__dlpack__(),
        "Return a DLPack capsule that shares the tensor's memory; a tensor that is not contiguous is copied first.",
    ),
    "zerocopy_from_dlpack": (
        lambda dlpack_tensor: torch.from_dlpack(dlpack_tensor),
        "Return a tensor that shares the memory of a DLPack capsule, or of an object that gives one.",
    ),
    "zerocopy_to_dgl_ndarray": (
        lambda data: NDArray(data.detach().contiguous()),
        "Return a ``dgl.ndarray.NDArray`` that shares the tensor's memory.",
    ),
    "to_dgl_nd": (lambda data: NDArray(data.detach().contiguous()), "Return :func:`zerocopy_to_dgl_ndarray`."),
    "zerocopy_from_dgl_ndarray": (lambda data: data.data, "Return a tensor that shares the memory of an ``NDArray``."),
    "from_dgl_nd": (lambda data: data.data, "Return :func:`zerocopy_from_dgl_ndarray`."),
    "zerocopy_to_dgl_ndarray_for_write": (
        lambda input: NDArray(input.detach().contiguous()),
        "Return :func:`zerocopy_to_dgl_ndarray` of a tensor, to be written to.",
    ),
    # sparse matrices
    "get_preferred_sparse_format": (
        lambda: "coo",
        'Return the sparse format that ``sparse_matrix`` makes without copies: "coo".',
    ),
}
"""By name, the function and its docstring."""

__all__ = [*WRAPPERS]

for _name, (_function, _doc) in WRAPPERS.items():
    _function.__name__ = _function.__qualname__ = _name
    _function.__doc__ = _doc
    globals()[_name] = _function
