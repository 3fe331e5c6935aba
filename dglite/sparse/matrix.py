"""The class ``SparseMatrix``: attributes, conversions, and the operations of the other modules as methods."""

from __future__ import annotations

from typing import Any, Self, final, overload

import numpy as np

from .. import hints
from ..backend import Tensor, active
from ..graph.storage import canonical_device
from ..tables import html_card, html_table, html_text
from . import elementwise, products, reduction, select
from .base import UNCHANGED, MatrixBase, is_scalar, refuse_tensor, value_shape
from .duplicates import coalesce, has_duplicate

_SHOWN = 8
"""Entries that a notebook shows."""


@final
class SparseMatrix(MatrixBase):
    """A sparse matrix whose entries are numbers or vectors of one length; made by :func:`dglite.sparse.spmatrix`.

    Immutable; gradients flow to and through the values.

    Examples
    --------
    >>> import torch
    >>> from dglite.sparse import spmatrix
    >>> A = spmatrix(torch.tensor([[0, 1, 1], [1, 0, 2]]), torch.tensor([1.0, 2.0, 3.0]))
    >>> A.shape, A.nnz
    ((2, 3), 3)
    >>> A @ torch.ones(3)
    tensor([1., 5.])
    """

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError("a SparseMatrix is made by spmatrix, from_coo, from_csr, from_csc, diag or identity")

    def __repr__(self) -> str:
        more = f", val_size={value_shape(self.val)}" if value_shape(self.val) else ""
        parts = (
            "indices=" + str(self.indices()).replace("\n", "\n" + " " * 8) + ",",
            "values=" + str(self.val).replace("\n", "\n" + " " * 7) + ",",
            f"shape={self.shape}, nnz={self.nnz}{more})",
        )
        return "SparseMatrix(" + "\n".join(parts).replace("\n", "\n" + " " * 13)

    def _repr_html_(self) -> str:
        num_rows, num_cols = self.shape
        size = " x ".join(map(str, value_shape(self.val)))
        facts = [
            f"{num_rows:,} x {num_cols:,}",
            f"{self.nnz:,} entries",
            *([f"{self.nnz / (num_rows * num_cols):.2%} of all"] if num_rows and num_cols else []),
            f"{size} {active.dtype(self.val)}".strip() + (" each" if size else ""),
            str(self.device),
        ]
        row, col = (ids[:_SHOWN].tolist() for ids in self.row_col())
        values = [_short(value) for value in active.to_numpy(self.val[:_SHOWN])]
        table = html_table(("row", "column", "value"), zip(row, col, values, strict=True), numbers=[0, 1, 2])
        more = self.nnz - _SHOWN
        return html_card("Sparse matrix", facts, table, html_text(f"and {more:,} more") if more > 0 else "")

    # -- structure ----------------------------------------------------------------------------------------------
    @property
    def row(self) -> Tensor:
        """Row of each entry, (nnz,)."""
        return self.ids(self.row_col()[0])

    @property
    def col(self) -> Tensor:
        """Column of each entry, (nnz,)."""
        return self.ids(self.row_col()[1])

    def coo(self) -> tuple[Tensor, Tensor]:
        """Return row and column of each entry."""
        return self.row, self.col

    def indices(self) -> Tensor:
        """Return rows and columns of the entries as one tensor, (2, nnz)."""
        return self.ids(np.stack(self.row_col()))

    def csr(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return row pointers (num_rows + 1,), columns (nnz,), and the entry that each is; None where in order."""
        return self._compressed(1)

    def csc(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return column pointers (num_cols + 1,), rows (nnz,), and the entry that each is; None where in order."""
        return self._compressed(0)

    def _compressed(self, dim: int) -> tuple[Tensor, Tensor, Tensor | None]:
        stored, order = self.compressed(dim)
        return self.ids(stored.indptr), self.ids(stored.indices), None if order is None else self.ids(order)

    def to_dense(self) -> Tensor:
        """Return the dense matrix, (num_rows, num_cols, *D); entries that share a place are added up."""
        whole = coalesce(self)
        num_rows, num_cols = whole.shape
        row, col = (x.astype(np.int64) for x in whole.row_col())
        zeros = active.full((num_rows * num_cols, *value_shape(self.val)), 0, active.dtype(self.val), self.device)
        dense = active.put(zeros, row * num_cols + col, whole.val)
        return active.reshape(dense, (num_rows, num_cols, *value_shape(self.val)))

    def transpose(self) -> SparseMatrix:
        """Return the transpose, in O(1)."""
        return self.with_values(self._adj.reverse(), self._val)

    t = transpose

    @property
    def T(self) -> SparseMatrix:
        """The transpose, in O(1)."""
        return self.transpose()

    coalesce = coalesce
    has_duplicate = has_duplicate

    def is_diag(self) -> bool:
        """Whether all entries are on the diagonal."""
        return bool(np.array_equal(*self.row_col()))

    # -- dtype and device ---------------------------------------------------------------------------------------
    def to(self, device: Any = None, dtype: Any = None) -> Self:
        """Return the matrix with values of another dtype or on another device; itself when nothing changes."""
        val = self.val
        if device is not None:
            val = active.to_device(val, canonical_device(device))
        if dtype is not None:
            val = active.astype(val, str(dtype).rpartition(".")[2])
        return self if val is self.val else self.with_values(self._adj, val)

    def cuda(self) -> Self:
        """Return the matrix with its values on the GPU. Operations run on the CPU; move it back for them."""
        return self.to(device="cuda")

    def cpu(self) -> Self:
        """Return the matrix with its values on the CPU."""
        return self.to(device=active.cpu())

    def float(self) -> Self:
        """Return the matrix with float32 values."""
        return self.to(dtype="float32")

    def double(self) -> Self:
        """Return the matrix with float64 values."""
        return self.to(dtype="float64")

    def int(self) -> Self:
        """Return the matrix with int32 values."""
        return self.to(dtype="int32")

    def long(self) -> Self:
        """Return the matrix with int64 values."""
        return self.to(dtype="int64")

    # -- operations ---------------------------------------------------------------------------------------------
    neg = __neg__ = elementwise.neg
    inv = elementwise.inv

    def __add__(self, other: Any) -> SparseMatrix:
        refuse_tensor(other, "A.to_dense() + x is dense")
        return elementwise.add(self, other) if isinstance(other, MatrixBase) else NotImplemented  # type: ignore[return-value]

    def __sub__(self, other: Any) -> SparseMatrix:
        return elementwise.sub(self, other) if isinstance(other, MatrixBase) else NotImplemented  # type: ignore[return-value]

    def __mul__(self, other: Any) -> SparseMatrix:
        is_supported = is_scalar(other) or isinstance(other, MatrixBase)
        refuse_tensor(other, "A @ x is the product, dglite.sparse.val_like(A, A.val * x) scales the entries")
        return elementwise.mul(self, other) if is_supported else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseMatrix:
        is_supported = is_scalar(other) or isinstance(other, MatrixBase)
        return elementwise.div(self, other) if is_supported else NotImplemented

    def __pow__(self, other: Any) -> SparseMatrix:
        return elementwise.power(self, other) if is_scalar(other) else NotImplemented

    @overload
    def __matmul__(self, other: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self, other: MatrixBase) -> SparseMatrix: ...
    def __matmul__(self, other: Any) -> Any:
        return products.matmul(self, other)

    reduce = reduction.reduce
    sum = reduction.sum
    smax = reduction.smax
    smin = reduction.smin
    smean = reduction.smean
    sprod = reduction.sprod
    softmax = reduction.softmax

    index_select = select.index_select
    range_select = select.range_select
    sample = select.sample
    compact = select.compact


def _short(value: np.ndarray) -> str:
    text = np.array2string(value, precision=5, separator=", ", threshold=6, edgeitems=2, max_line_width=1000)
    return text if len(text) <= 50 else f"{text[:47]}..."


hints.refuse_assignments(SparseMatrix, ("val", "row", "col", "shape", "nnz", "dtype", "device", "T"), UNCHANGED)
