"""``dgl.backend``: making, inspecting and converting tensors, dtypes and devices."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["data_type_dict", "reverse_data_type_dict", "sparse_matrix", "sparse_matrix_indices", "tensor"]

Tensor = torch.Tensor

data_type_dict: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in "bfloat16 float16 float32 float64 uint8 int8 int16 int32 int64 bool".split()
}
"""The dtypes that DGL knows, by name; each is an attribute of ``dgl.backend``, too."""

reverse_data_type_dict = {dtype: name for name, dtype in data_type_dict.items()}


# -- making ------------------------------------------------------------------------------------------------------------
def tensor(data: Any, dtype: torch.dtype | None = None) -> Tensor:
    """Return ``data`` as a tensor: itself where it is one of this dtype; one number gives shape (1,)."""
    if isinstance(data, numbers.Number):
        data = [data]
    if isinstance(data, list | tuple) and len(data) and isinstance(data[0], Tensor) and data[0].dim() == 0:
        data = torch.stack(list(data))
    return torch.as_tensor(data, dtype=dtype)


# -- sparse matrices ---------------------------------------------------------------------------------------------------
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
