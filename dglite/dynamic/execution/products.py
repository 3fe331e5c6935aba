"""Products of many rows with a matrix, and of rows with rows: by our kernels where they are faster, else by torch."""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from ...kernels import compiled
from ..program.layout import DTYPES


def multiply(x: Tensor, matrix: Tensor, out: Tensor, start: Tensor | None = None) -> None:
    """Set ``out`` to ``x @ matrix``, plus a vector or rows, which may be those of ``out`` itself."""
    turned, kernels = matrix.stride(1) != 1, _kernels(matrix, x, out)
    if kernels is None or (turned and matrix.stride(0) != 1):
        torch.mm(x, matrix, out=out) if start is None else torch.addmm(start, x, matrix, out=out)
        return
    if start is not None and start.stride(-1) != 1:
        start = start.contiguous()
    weight = _place(matrix.t() if turned else matrix)
    places = _place(x), weight, (0, 0) if start is None else _place(start), _place(out)
    shape = (*x.shape, out.shape[1])
    kernels.product(DTYPES[x.dtype], shape, places, False, torch.get_num_threads(), turned)


def add_rows(x: Tensor, y: Tensor, out: Tensor, adds: bool) -> None:
    """Set ``out`` to ``x.T @ y``, or add that to it, for x (rows, height), y (rows, width)."""
    kernels = _kernels(out, x, y) if out.is_contiguous() else None
    if kernels is None:
        out.addmm_(x.t(), y, beta=int(adds))
        return
    operands, shape = (_place(y), (0, 0), _place(x), (0, 0)), (*x.shape, y.shape[1])
    results = (0, 0), _place(out), (0, 0)
    kernels.gradients(DTYPES[x.dtype], shape, operands, results, torch.get_num_threads(), adds)


def _kernels(matrix: Tensor, *rows: Tensor) -> ModuleType | None:
    """Return the kernels where they are faster with a matrix of this shape and read such rows."""
    if not matrix.is_cpu:
        return None
    kernels = compiled("rows.products")
    if kernels.is_faster(DTYPES.get(matrix.dtype), *matrix.shape) and all(
        x.stride(1) == 1 and x.dtype is matrix.dtype for x in rows
    ):
        return kernels
    return None


def _place(x: Tensor) -> tuple[int, int]:
    """Return the address, and the bytes from row to row, 0 for a vector."""
    return x.data_ptr(), x.stride(0) * x.element_size() if x.dim() == 2 else 0
