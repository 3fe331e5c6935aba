"""``dgl.backend``: making, inspecting and converting tensors, dtypes and devices."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..ndarray import Context, NDArray

__all__ = [
    "arange",
    "as_scalar",
    "asnumpy",
    "astype",
    "clone",
    "context",
    "copy_to",
    "cpu",
    "data_type_dict",
    "device_id",
    "device_type",
    "dtype",
    "empty",
    "from_dgl_nd",
    "full_1d",
    "get_preferred_sparse_format",
    "is_pinned",
    "is_tensor",
    "ndim",
    "ones",
    "rand_shuffle",
    "randint",
    "reverse_data_type_dict",
    "shape",
    "sparse_matrix",
    "sparse_matrix_indices",
    "tensor",
    "to_backend_ctx",
    "to_dgl_nd",
    "uniform",
    "zerocopy_from_dgl_ndarray",
    "zerocopy_from_dlpack",
    "zerocopy_from_numpy",
    "zerocopy_to_dgl_ndarray",
    "zerocopy_to_dgl_ndarray_for_write",
    "zerocopy_to_dlpack",
    "zerocopy_to_numpy",
    "zeros",
    "zeros_like",
]

Tensor = torch.Tensor

data_type_dict: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in "bfloat16 float16 float32 float64 uint8 int8 int16 int32 int64 bool".split()
}
"""The dtypes that DGL knows, by name; each is an attribute of ``dgl.backend``, too."""

reverse_data_type_dict = {dtype: name for name, dtype in data_type_dict.items()}


# -- facts -------------------------------------------------------------------------------------------------------------
def is_tensor(obj: object) -> bool:
    """Whether ``obj`` is a tensor of the framework."""
    return isinstance(obj, Tensor)


def shape(input: Tensor) -> tuple[int, ...]:
    """Return the shape."""
    return input.shape


def dtype(input: Tensor) -> torch.dtype:
    """Return the dtype, one of the values of ``data_type_dict``."""
    return input.dtype


def ndim(input: Tensor) -> int:
    """Return the number of axes."""
    return input.dim()


def context(input: Tensor) -> torch.device:
    """Return the device."""
    return input.device


def cpu() -> torch.device:
    """Return the device of the host."""
    return torch.device("cpu")


def device_type(ctx: Any) -> str:
    """Return the kind of a device: "cpu", "cuda", ..."""
    return torch.device(ctx).type


def device_id(ctx: Any) -> int:
    """Return the number of a device among those of its kind; 0 where it has none."""
    return torch.device(ctx).index or 0


def to_backend_ctx(dglctx: Context) -> torch.device:
    """Return the device that a ``dgl.ndarray`` context names."""
    return torch.device(str(dglctx)) if dglctx.device_type != "cpu" else cpu()


def is_pinned(input: Tensor) -> bool:
    """Whether the tensor lies in page-locked memory of the host."""
    return input.is_pinned()


# -- making ------------------------------------------------------------------------------------------------------------
def tensor(data: Any, dtype: torch.dtype | None = None) -> Tensor:
    """Return ``data`` as a tensor: itself where it is one of this dtype; one number gives shape (1,)."""
    if isinstance(data, numbers.Number):
        data = [data]
    if isinstance(data, list | tuple) and len(data) and isinstance(data[0], Tensor) and data[0].dim() == 0:
        data = torch.stack(list(data))
    return torch.as_tensor(data, dtype=dtype)


def empty(shape: Sequence[int], dtype: torch.dtype, ctx: Any) -> Tensor:
    """Return a tensor whose values are whatever lay in its memory."""
    return torch.empty(shape, dtype=dtype, device=ctx)


def zeros(shape: Sequence[int], dtype: torch.dtype, ctx: Any) -> Tensor:
    """Return a tensor of zeros."""
    return torch.zeros(shape, dtype=dtype, device=ctx)


def zeros_like(input: Tensor) -> Tensor:
    """Return zeros of the shape, dtype and device of ``input``."""
    return torch.zeros_like(input)


def ones(shape: Sequence[int], dtype: torch.dtype, ctx: Any) -> Tensor:
    """Return a tensor of ones."""
    return torch.ones(shape, dtype=dtype, device=ctx)


def full_1d(length: int, fill_value: float, dtype: torch.dtype, ctx: Any) -> Tensor:
    """Return ``fill_value``, ``length`` times."""
    return torch.full((length,), fill_value, dtype=dtype, device=ctx)


def arange(start: int, stop: int, dtype: torch.dtype = torch.int64, ctx: Any = None) -> Tensor:
    """Return the numbers from ``start`` up to, not including, ``stop``."""
    return torch.arange(start, stop, dtype=dtype, device=ctx)


def uniform(shape: Sequence[int], dtype: torch.dtype, ctx: Any, low: float, high: float) -> Tensor:
    """Draw numbers uniformly from [low, high)."""
    return torch.empty(shape, dtype=dtype, device=ctx).uniform_(low, high)


def randint(shape: Sequence[int], dtype: torch.dtype, ctx: Any, low: int, high: int) -> Tensor:
    """Draw integers uniformly from low up to, not including, high."""
    return torch.randint(low, high, tuple(shape), dtype=dtype, device=ctx)


def rand_shuffle(arr: Tensor) -> Tensor:
    """Return the rows in random order."""
    return arr[torch.randperm(len(arr), device=arr.device)]


def clone(input: Tensor) -> Tensor:
    """Return a copy, through which gradients flow."""
    return input.clone()


# -- converting --------------------------------------------------------------------------------------------------------
def astype(input: Tensor, ty: torch.dtype) -> Tensor:
    """Return the tensor with another dtype."""
    return input.to(ty)


def as_scalar(data: Tensor) -> Any:
    """Return the one value of a tensor as a Python number."""
    return data.item()


def asnumpy(input: Tensor) -> np.ndarray:
    """Return the values as an array, without gradient; a sparse tensor is filled up. Shares memory on the CPU."""
    return (input.to_dense() if input.layout is not torch.strided else input).numpy(force=True)


def copy_to(input: Tensor, ctx: Any, **kwargs: Any) -> Tensor:
    """Return the tensor on device ``ctx``; ``kwargs`` go to ``torch.Tensor.to``."""
    return input.to(ctx, **kwargs)


def zerocopy_to_numpy(input: Tensor) -> np.ndarray:
    """Return an array that shares the tensor's memory, which must be the host's."""
    return input.detach().numpy()


def zerocopy_from_numpy(np_array: np.ndarray) -> Tensor:
    """Return a tensor that shares the array's memory."""
    return torch.as_tensor(np_array)


def zerocopy_to_dlpack(input: Tensor) -> Any:
    """Return a DLPack capsule that shares the tensor's memory; a tensor that is not contiguous is copied first."""
    return input.detach().contiguous().__dlpack__()


def zerocopy_from_dlpack(dlpack_tensor: Any) -> Tensor:
    """Return a tensor that shares the memory of a DLPack capsule, or of an object that gives one."""
    return torch.from_dlpack(dlpack_tensor)


def zerocopy_to_dgl_ndarray(data: Tensor) -> NDArray:
    """Return a ``dgl.ndarray.NDArray`` that shares the tensor's memory."""
    return NDArray(data.detach().contiguous())


def zerocopy_from_dgl_ndarray(data: NDArray) -> Tensor:
    """Return a tensor that shares the memory of a ``dgl.ndarray.NDArray``."""
    shared: Tensor = data.data
    return shared


def zerocopy_to_dgl_ndarray_for_write(input: Tensor) -> NDArray:
    """Return :func:`zerocopy_to_dgl_ndarray` of a tensor, to be written to."""
    return zerocopy_to_dgl_ndarray(input)


to_dgl_nd, from_dgl_nd = zerocopy_to_dgl_ndarray, zerocopy_from_dgl_ndarray


# -- sparse matrices ---------------------------------------------------------------------------------------------------
def get_preferred_sparse_format() -> str:
    """Return the sparse format that ``sparse_matrix`` makes without copies: "coo"."""
    return "coo"


def sparse_matrix(
    data: Tensor, index: tuple[Any, ...], shape: Sequence[int], force_format: bool = False
) -> tuple[Tensor, None]:
    """Return a sparse tensor of values ``data``, (nnz,), and None: entries keep their order.

    ``index`` is ``("coo", coordinates)`` with coordinates (2, nnz), or ``("csr", indices, indptr)``, which becomes COO
    unless ``force_format``. Raises ``TypeError`` for another format.
    """
    if index[0] == "coo":
        return torch.sparse_coo_tensor(index[1].long(), data, tuple(shape), check_invariants=False), None
    if index[0] != "csr":
        raise TypeError(f"unknown sparse format {index[0]!r}; expected 'coo' or 'csr'")
    indices, indptr = index[1], index[2]
    if force_format:
        return torch.sparse_csr_tensor(indptr, indices, data, tuple(shape), check_invariants=False), None
    rows = torch.repeat_interleave(torch.arange(len(indptr) - 1, device=indptr.device), indptr.diff())
    return torch.sparse_coo_tensor(
        torch.stack([rows, indices.long()]), data, tuple(shape), check_invariants=False
    ), None


def sparse_matrix_indices(spmat: Tensor) -> tuple[Any, ...]:
    """Return what ``sparse_matrix`` takes as ``index``: ``("coo", coordinates)`` or ``("csr", indices, indptr)``."""
    if spmat.layout is torch.sparse_csr:
        return "csr", spmat.col_indices(), spmat.crow_indices()
    return "coo", spmat._indices()
