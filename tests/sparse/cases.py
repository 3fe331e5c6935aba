"""Sparse matrices of every sort beside their dense counterparts."""

from __future__ import annotations

import torch

from dglite.sparse import SparseMatrix, spmatrix

CASES = {
    "plain": ([[0, 2, 1, 2], [1, 0, 1, 3]], (3, 4)),
    "duplicates": ([[0, 2, 0, 2, 2, 0], [1, 0, 1, 3, 0, 1]], (3, 4)),
    "empty rows and columns": ([[4, 0, 4], [0, 2, 5]], (6, 7)),
    "no entries": ([[], []], (3, 4)),
    "nothing": ([[], []], (0, 0)),
    "one row": ([[0, 0], [2, 0]], (1, 3)),
    "one column": ([[3, 0, 3], [0, 0, 0]], (4, 1)),
    "many empty": ([[90, 3, 90, 90], [1, 0, 1, 0]], (99, 3)),
    "dense": ([[0, 0, 1, 1], [0, 1, 0, 1]], (2, 2)),
}


def matrix(name: str, values: tuple[int, ...] = (), dtype=torch.float64, ids=torch.int64, grad=False) -> SparseMatrix:
    """Return the case ``name`` with random values that differ, of shape ``values`` each."""
    places, shape = CASES[name]
    indices = torch.tensor(places, dtype=ids).reshape(2, -1)
    count = indices.shape[1]
    if dtype.is_floating_point:
        val = (torch.rand(count, *values, dtype=torch.float64) + 0.5).to(dtype).requires_grad_(grad)
    else:
        val = torch.randint(1, 9, (count, *values)).to(dtype)
    return spmatrix(indices, val, shape)


def dense(A: SparseMatrix, val: torch.Tensor | None = None) -> torch.Tensor:
    """Return the dense matrix, by torch, with other values perhaps; repeated places add up."""
    val = A.val if val is None else val
    zeros = torch.zeros(*A.shape, *val.shape[1:], dtype=val.dtype)
    return zeros.index_put((A.row.long(), A.col.long()), val, accumulate=True)


def places(A: SparseMatrix) -> list[list[int]]:
    """Return rows and columns as lists."""
    return [A.row.tolist(), A.col.tolist()]
