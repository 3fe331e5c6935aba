"""Exchange with torch's own sparse tensors, by copying structure and sharing values."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import DGLError
from .base import taken
from .create import from_csc, from_csr, spmatrix
from .matrix import SparseMatrix

__all__ = ["from_torch_sparse", "to_torch_sparse_coo", "to_torch_sparse_csc", "to_torch_sparse_csr"]


def from_torch_sparse(torch_sparse_tensor: torch.Tensor) -> SparseMatrix:
    """Make a matrix of a torch sparse tensor of layout COO, CSR or CSC; entries keep their order, repeated ones too.

    Raises
    ------
    DGLError
        The layout is another one.
    """
    x = torch_sparse_tensor
    layout = getattr(x, "layout", None)
    if layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        num_rows, num_cols = x.shape[:2]
    if layout is torch.sparse_coo:
        return spmatrix(x._indices(), x._values(), (num_rows, num_cols))  # not coalesced, which indices() insists on
    if layout is torch.sparse_csr:
        return from_csr(x.crow_indices(), x.col_indices(), x.values(), (num_rows, num_cols))
    if layout is torch.sparse_csc:
        return from_csc(x.ccol_indices(), x.row_indices(), x.values(), (num_rows, num_cols))
    raise DGLError(f"expected a torch sparse tensor of layout COO, CSR or CSC, got {layout or type(x).__name__}")


def to_torch_sparse_coo(spmat: SparseMatrix) -> torch.Tensor:
    """Return the matrix as a torch sparse COO tensor, not coalesced, (num_rows, num_cols, *D)."""
    return torch.sparse_coo_tensor(spmat.indices(), spmat.val, _size(spmat), check_invariants=False)


def to_torch_sparse_csr(spmat: SparseMatrix) -> torch.Tensor:
    """Return the matrix as a torch sparse CSR tensor; entries are ordered by row."""
    return torch.sparse_csr_tensor(*_compressed(spmat, 1), _size(spmat), check_invariants=False)


def to_torch_sparse_csc(spmat: SparseMatrix) -> torch.Tensor:
    """Return the matrix as a torch sparse CSC tensor; entries are ordered by column."""
    return torch.sparse_csc_tensor(*_compressed(spmat, 0), _size(spmat), check_invariants=False)


def _size(spmat: SparseMatrix) -> tuple[int, ...]:
    return (*spmat.shape, *spmat.val.shape[1:])


def _compressed(spmat: SparseMatrix, dim: int) -> tuple[Any, Any, Any]:
    indptr, indices, order = spmat.csr() if dim == 1 else spmat.csc()
    val = spmat.val if order is None else taken(spmat.val, order.cpu().long().numpy(), permutation=True)
    return indptr, indices, val
