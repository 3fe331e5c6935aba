"""Conversion from and to torch's sparse tensors, sharing values, and structure where that is 32-bit.

Neither library looks at a structure again once it is made: as with torch's own, nobody may write to its indices.
torch is imported by the functions that need it: other backends do without.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from .base import take_rows
from .create import matrix_of, rows_of, spmatrix
from .matrix import SparseMatrix


def from_torch_sparse(torch_sparse_tensor: Any) -> SparseMatrix:
    """Make a matrix of a torch sparse tensor of layout COO, CSR or CSC; entries keep their order, repeated ones too.

    Raises DGLError: the layout is not one of these.
    """
    x = torch_sparse_tensor
    layout = str(getattr(x, "layout", "")).removeprefix("torch.")
    if layout == "sparse_coo":  # not coalesced, which indices() insists on
        return spmatrix(_ours(x._indices()), _ours(x._values()), tuple(x.shape[:2]))
    shape = tuple(x.shape[:2])
    if layout == "sparse_csr":
        adj = rows_of(_ours(x.crow_indices()), _ours(x.col_indices()), shape, copy=False)
        return matrix_of(adj, _ours(x.values()))
    if layout == "sparse_csc":
        adj = rows_of(_ours(x.ccol_indices()), _ours(x.row_indices()), shape[::-1], copy=False)
        return matrix_of(adj.reverse(), _ours(x.values()))
    raise DGLError(
        "expected a torch sparse tensor of layout COO, CSR or CSC, got "
        f"{getattr(x, 'layout', None) or type(x).__name__}"
    )


def to_torch_sparse_coo(spmat: SparseMatrix) -> Any:
    """Return the matrix as a torch sparse COO tensor, not coalesced, (num_rows, num_cols, *D)."""
    import torch

    parts = _theirs(spmat.indices()), _theirs(spmat.val)
    return torch.sparse_coo_tensor(*parts, _size(spmat), check_invariants=False)


def to_torch_sparse_csr(spmat: SparseMatrix) -> Any:
    """Return the matrix as a torch sparse CSR tensor; entries are ordered by row."""
    import torch

    return torch.sparse_csr_tensor(*_compressed(spmat, 1), _size(spmat), check_invariants=False)


def to_torch_sparse_csc(spmat: SparseMatrix) -> Any:
    """Return the matrix as a torch sparse CSC tensor; entries are ordered by column."""
    import torch

    return torch.sparse_csc_tensor(*_compressed(spmat, 0), _size(spmat), check_invariants=False)


def _ours(x: Any) -> Tensor:
    """Return a torch tensor as one of the active backend; its gradient stays behind where that is another."""
    return x if active.is_tensor(x) else active.from_numpy(x.numpy(force=True))


def _theirs(x: Tensor) -> Any:
    """Return a tensor of the active backend as torch's; its gradient stays behind where that is another."""
    import torch

    return x if isinstance(x, torch.Tensor) else torch.from_numpy(active.to_numpy(x))


def _size(spmat: SparseMatrix) -> tuple[int, ...]:
    return (*spmat.shape, *active.shape(spmat.val)[1:])


def _compressed(spmat: SparseMatrix, dim: int) -> tuple[Any, Any, Any]:
    stored, order = spmat.compressed(dim)
    val = spmat.val if order is None else take_rows(spmat.val, order.astype(np.int64), permutation=True)
    indptr, indices = (spmat.ids(array, copy=False) for array in (stored.indptr, stored.indices))
    return _theirs(indptr), _theirs(indices), _theirs(val)
