"""Sparse feature matrices, such as bags of words.

A product with a dense matrix is a g-SpMM over the relation from columns to rows, so it costs what the stored entries
cost, forward and backward, and the dense matrix of features is never made.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import Tensor, active, admit
from ..errors import DGLError
from ..expr import Expr, Operand, Side
from ..ops import core
from ..ops.operands import FLOATS
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key, variant
from ..structure.parse import is_scipy

_WEIGHTED: Expr = Operand(Side.U, 0) * Operand(Side.E, 1)


class SparseFeatures:
    """A matrix (rows, columns) with stored ``values``, one per edge of ``structure``, from columns to rows.

    Layers accept any SciPy sparse matrix and torch's CSR and COO tensors and make this of them; to make it once, before
    training, saves them looking whether the matrix has changed. Entries stored twice add up. Its values may require a
    gradient. ``x @ w`` is the product with a dense matrix, ``x[:n]`` the first rows.

    >>> import scipy.sparse
    >>> x = SparseFeatures(scipy.sparse.random_array((5, 100), density=0.1, dtype="float32"))
    >>> (x @ torch.ones(100, 3)).shape
    torch.Size([5, 3])
    """

    __slots__ = ("structure", "values")
    ndim = 2

    def __init__(self, matrix: Any) -> None:
        """Take over a SciPy or torch sparse matrix; raises :class:`DGLError` for another, or for wrong values."""
        if active.is_tensor(matrix) and active.is_sparse(matrix):
            self.structure, self.values = _from_tensor(matrix)
        elif is_scipy(matrix):
            self.structure, self.values = _from_scipy(matrix)
        else:
            raise DGLError(
                f"got {type(matrix).__name__}; expected a SciPy sparse matrix or a torch sparse tensor (a dense tensor "
                "becomes one by x.to_sparse_csr())"
            )
        if active.dtype(self.values) not in FLOATS:
            raise DGLError(
                f"sparse features have values of dtype {active.dtype(self.values)}; expected one "
                f"of {', '.join(FLOATS)}: convert them, as in matrix.astype('float32') or tensor.float()"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.structure.num_dst, self.structure.num_src

    @property
    def dtype(self) -> Any:
        """dtype of the values."""
        return self.values.dtype

    def __repr__(self) -> str:
        return f"SparseFeatures(shape={self.shape}, stored={len(self.values)}, dtype={self.dtype})"

    def with_values(self, values: Tensor) -> SparseFeatures:
        """Return the matrix with other values in the same places, in the same order."""
        matrix = object.__new__(SparseFeatures)
        matrix.structure, matrix.values = self.structure, values
        return matrix

    def to(self, device: Any) -> SparseFeatures:
        """Return the matrix with its values on ``device``, as a tensor's ``to`` does; the structure follows in use."""
        return self.with_values(self.values.to(device))

    def __getitem__(self, rows: slice) -> SparseFeatures:
        """Return the first rows, ``x[:n]``: those of the destination nodes of a block."""
        if not isinstance(rows, slice) or rows.start or rows.step not in (None, 1) or (rows.stop or 0) < 0:
            raise DGLError(f"sparse features give only their first rows, x[:n]; got x[{rows}]")
        if rows.stop is None or rows.stop >= self.structure.num_dst:
            return self
        structure, entries = _first_rows(self.structure, rows.stop)
        values = self.values[: structure.num_edges] if entries is None else core.take_rows(self.values, entries)
        first = self.with_values(values)
        first.structure = structure
        return first

    def matmul(self, weight: Tensor) -> Tensor:
        """Return the product with ``weight`` (columns, width), (rows, width), in one kernel."""
        rows, columns = self.shape
        if weight.ndim != 2 or weight.shape[0] != columns:
            raise DGLError(
                f"features of shape ({rows}, {columns}) cannot be multiplied by a matrix of shape "
                f"{tuple(weight.shape)}; expected {columns} rows: construct the layer with in_feats={columns}"
            )
        return core.spmm(self.structure, _WEIGHTED, Reducer.SUM, (weight, self.values))

    __matmul__ = matmul


Features = Tensor | SparseFeatures
"""What layers compute on."""


def as_features(x: Any) -> Features:
    """Return what a layer was given as a dense tensor or as ``SparseFeatures``.

    The structure of a matrix is converted once and kept as long as the matrix lives. Index arrays are compared each
    time and values read afresh, so a matrix that was written to is never taken for what it was. Formats of SciPy other
    than CSR are converted each time.
    """
    if active.is_tensor(x):
        return SparseFeatures(x) if active.is_sparse(x) else x
    if isinstance(x, SparseFeatures):
        return x
    if isinstance(x, np.ndarray):
        return active.asarray(x)
    if is_scipy(x):
        return SparseFeatures(x)
    admitted = admit(x, "the features")
    return x if admitted is None else admitted


# -- from other libraries ----------------------------------------------------------------------------------------------
_FIRST_ROWS: CacheKey[tuple[Adjacency, np.ndarray | None]] = cache_key(
    "first rows", "the first rows of a sparse matrix, and the entries in them"
)
_KNOWN: dict[int, tuple[weakref.ref, Adjacency]] = {}
"""Structures of living matrices, by the matrix's identity."""


def _structure(matrix: Any, same: Callable[[Adjacency], bool], make: Callable[[], Adjacency]) -> Adjacency:
    key = id(matrix)
    entry = _KNOWN.get(key)
    if entry is not None and entry[0]() is matrix and same(entry[1]):
        return entry[1]
    structure = make()
    _KNOWN[key] = weakref.ref(matrix, lambda dead: _forget(key, dead)), structure
    return structure


def _forget(key: int, dead: weakref.ref) -> None:
    """Drop a dead matrix's structure, unless another matrix has come to have its identity."""
    entry = _KNOWN.get(key)
    if entry is not None and entry[0] is dead:
        _KNOWN.pop(key, None)


def _from_rows(
    matrix: Any, shape: tuple[int, int], indptr: np.ndarray, indices: np.ndarray, num_entries: int
) -> Adjacency:
    rows, columns = shape
    indices = indices[:num_entries]

    def same(structure: Adjacency) -> bool:
        csc = structure.csc()
        return (
            (structure.num_dst, structure.num_src) == (rows, columns)
            and np.array_equal(csc.indptr, indptr)
            and np.array_equal(csc.indices, indices)
        )

    return _structure(matrix, same, lambda: Adjacency.from_csc(columns, rows, indptr, indices))


def _from_scipy(matrix: Any) -> tuple[Adjacency, Tensor]:
    if matrix.ndim != 2:
        raise DGLError(f"sparse features have shape {matrix.shape}; expected (rows, columns)")
    stored = matrix if matrix.format == "csr" else matrix.tocsr()
    count = int(stored.indptr[-1])
    structure = _from_rows(matrix, stored.shape, stored.indptr, stored.indices, count)
    data = stored.data[:count]
    return structure, active.from_numpy(data if data.flags.writeable else data.copy())


def _from_tensor(matrix: Tensor) -> tuple[Adjacency, Tensor]:
    layout, first, second, values = active.sparse_parts(matrix)
    rows, columns = active.shape(matrix)
    if layout == "csr":
        return _from_rows(matrix, (rows, columns), first, second, len(second)), values
    dst, src = first, second

    def same(structure: Adjacency) -> bool:
        ends = structure.endpoints()
        return (
            (structure.num_dst, structure.num_src) == (rows, columns)
            and np.array_equal(ends[0], src)
            and np.array_equal(ends[1], dst)
        )

    structure = _structure(matrix, same, lambda: Adjacency.from_coo(columns, rows, src, dst))
    return structure, values


def _first_rows(structure: Adjacency, count: int) -> tuple[Adjacency, np.ndarray | None]:
    """Return the first ``count`` rows as a relation, and the entries in it, None where these are the first ones."""
    key = variant(_FIRST_ROWS, count)
    rows = structure.cache.get(key)
    if rows is None:
        csc = structure.csc()
        last = int(csc.indptr[count])
        part = Adjacency.from_csc(structure.num_src, count, csc.indptr[: count + 1], csc.indices[:last])
        entries = None if csc.edge_ids is None else csc.edge_ids[:last].astype(np.int64)
        rows = structure.cache.setdefault(key, (part, entries))
    return rows
