"""The base of sparse matrices: an immutable structure, and one value per entry."""

from __future__ import annotations

from numbers import Number
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .. import hints
from ..backend import Tensor, active, admitted
from ..errors import DGLError
from ..ops import core
from ..ops.operands import FLOATS
from ..structure import Adjacency, Compressed

UNCHANGED = (
    "a sparse matrix is not changed: dglite.sparse.val_like(A, values) returns one with other values, "
    "dglite.sparse.spmatrix(indices, values) one with other entries"
)


def refuse_tensor(other: Any, hint: str) -> None:
    """Raise ``TypeError``, ending with ``hint``, where the other operand is a tensor of one axis or more."""
    if active.is_tensor(other) and not is_scalar(other):
        raise TypeError(f"a sparse matrix meets a tensor of shape {tuple(active.shape(other))}; {hint}")


def is_scalar(x: Any) -> bool:
    """Whether ``x`` is a number or a tensor without axes."""
    return isinstance(x, Number) or (active.is_tensor(x) and len(active.shape(x)) == 0)


def is_float(x: Tensor) -> bool:
    """Whether the kernels take values of this dtype, and gradients exist."""
    return active.dtype(x) in FLOATS


def take_rows(x: Tensor, rows: np.ndarray, permutation: bool = False) -> Tensor:
    """Return ``x[rows]``; with ``permutation`` every row occurs once."""
    return core.take_rows(x, rows, permutation) if is_float(x) else active.take(x, rows)


def value_shape(x: Tensor) -> tuple[int, ...]:
    """Return the shape of one value: () or (D,)."""
    return tuple(active.shape(x)[1:])


class MatrixBase:
    """A sparse matrix of shape (num_rows, num_cols): entry i is ``val[i]`` at (``row[i]``, ``col[i]``).

    The structure is a relation from columns to rows, so that a product with dense features sums over in-edges.
    Entries keep the order in which they were given; several may share a place, and then add up.
    """

    __slots__ = ("_adj", "_val")

    _adj: Adjacency
    _val: Tensor

    def with_values(self, adj: Adjacency, val: Tensor) -> Self:
        """Return a matrix of another structure and other values."""
        result = object.__new__(type(self))
        result._adj, result._val = adj, val
        return result

    def like(self, val: Tensor) -> Self:
        """Return a matrix with the same indices and other values, (nnz,) or (nnz, D), after checking them."""
        return self.with_values(self._adj, checked_values(val, self._adj.num_edges))

    def from_row_col(self, row: np.ndarray, col: np.ndarray, val: Tensor, shape: tuple[int, int] | None = None) -> Self:
        """Return a matrix with values at other indices, which are valid; of this matrix's shape by default."""
        num_rows, num_cols = self.shape if shape is None else shape
        adj = Adjacency.from_coo(num_cols, num_rows, col, row, self._adj.idtype, validate=False)
        return self.with_values(adj, val)

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("a sparse matrix has .val, .row, .col, .shape, .T and .to_dense()")

        __setitem__ = __delitem__ = hints.no_assignment(UNCHANGED)

        def __getitem__(self, key: Any) -> Any:
            raise TypeError(
                f"A[{key!r:.30}]: a sparse matrix is not indexed; A.to_dense() is, A.index_select(0, ids) takes rows, "
                "A.range_select(0, slice(0, 5)) a range of them"
            )

    # -- facts --------------------------------------------------------------------------------------------------
    @property
    def val(self) -> Tensor:
        """Values of the entries, (nnz,) or (nnz, D)."""
        return self._val

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._adj.num_dst, self._adj.num_src

    @property
    def nnz(self) -> int:
        """Number of entries, zeros and repeated indices among them."""
        return self._adj.num_edges

    @property
    def dtype(self) -> Any:
        """The values' dtype."""
        return self._val.dtype

    @property
    def device(self) -> Any:
        """The values' device; structure stays on the host."""
        return active.device(self._val)

    # -- structure ----------------------------------------------------------------------------------------------
    def row_col(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (row, column) of each entry as arrays, which may be shared: do not write to them."""
        col, row = self._adj.endpoints()
        return row, col

    def along(self, dim: int) -> Adjacency:
        """Return the structure in which the entries of one row (``dim`` 1) or column (0) share a destination."""
        if dim not in (0, 1):
            raise DGLError(f"dim={dim!r} is not understood; expected 0 (columns) or 1 (rows)")
        return self._adj if dim == 1 else self._adj.reverse()

    def compressed(self, dim: int) -> tuple[Compressed, np.ndarray | None]:
        """Return the structure by rows (``dim`` 1) or columns (0), and the entry that each is; None where in order."""
        stored = self.along(dim).csc()
        ids = stored.edge_ids
        return stored, None if ids is None or (ids[1:] > ids[:-1]).all() else ids

    def ids(self, array: np.ndarray, copy: bool = True) -> Tensor:
        """Return indices as a tensor of the dtype in which they were given; a copy, since users may write to it."""
        with_values = array.astype(self._adj.idtype, copy=copy)
        return active.from_numpy(with_values, None if active.on_cpu(self._val) else self.device)


def checked_values(val: Any, nnz: int) -> Tensor:
    """Return ``val`` if it can be the values of ``nnz`` entries.

    Raises ``DGLError``: it is no tensor, has more than two axes, or another length.
    """
    val = admitted(val, "the argument with values")
    if not active.is_tensor(val):
        raise DGLError(f"values must be a tensor, got {type(val).__name__}")
    shape = active.shape(val)
    if len(shape) not in (1, 2) or shape[0] != nnz:
        raise DGLError(f"values have shape {tuple(shape)}; expected ({nnz},) or ({nnz}, D), one for each entry")
    return val
