"""Products of the rows of a batch with a matrix, and gradients of matrices: of few rows by kernels, see
:mod:`...execution.products` for those of many.

A GEMM copies the matrix into another order first, which few rows do not repay: levels near the roots of trees, the ends
of the longest sentences, and everything where batches are small.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ....kernels.cpu.dynamic.kernels import MOST_ROWS, SET, matrix_kernel
from ....kernels.cpu.run.launch import launch, num_threads
from ...execution.memory import empty
from ...execution.products import add_rows, multiply
from ..recording.kinds import DTYPES


class MatrixProduct:
    """Products ``x @ matrix``: of few rows by a kernel that reads the matrix as it lies, of more as of many rows."""

    def __init__(self, matrix: Tensor) -> None:
        stored = matrix if matrix.stride(1) == 1 else matrix.t()
        form, self._matrix, self._shape = "sums" if stored is matrix else "dots", matrix, tuple(stored.shape)
        self._kernel = matrix_kernel(form, DTYPES[matrix.dtype])
        self._place = stored.data_ptr(), stored.stride(0) * stored.element_size()
        self._most = MOST_ROWS[form] if stored.stride(1) == 1 else 0

    def multiply(self, x: Tensor, y: Tensor, added: Tensor | None = None) -> None:
        """Set ``y`` (rows, columns) to ``x @ matrix``, plus a vector, or rows such as those of ``y`` itself."""
        if x.shape[0] > self._most:
            multiply(x, self._matrix, y, added)
            return
        item = x.element_size()
        if added is not None and added.stride(-1) != 1:
            added = added.contiguous()
        start = (0, 0) if added is None else (added.data_ptr(), added.stride(0) * item if added.dim() == 2 else 0)
        places = x.data_ptr(), x.stride(0) * item, *self._place, y.data_ptr(), y.stride(0) * item
        _launch(self._kernel, (x.shape[0], *self._shape), places, start)


def _outer(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x.T @ y`` for x (rows, height), y (rows, width)."""
    (rows, height), width, item = x.shape, y.shape[1], x.element_size()
    result = empty((height, width), x.dtype)
    if rows > MOST_ROWS["outer"] or x.stride(1) != 1 or y.stride(1) != 1:
        add_rows(x, y, result, False)
        return result
    places = x.data_ptr(), x.stride(0) * item, result.data_ptr(), width * item, y.data_ptr(), y.stride(0) * item
    dtype = DTYPES[x.dtype]
    _launch(matrix_kernel("outer", dtype), (rows, height, width), places, (SET[dtype],))
    return result


def _launch(kernel: int, sizes: tuple[int, ...], places: tuple[int, ...], last: tuple[int, ...]) -> None:
    rows, height, width = sizes
    threads = num_threads((4 + rows) * height * width // 2, torch.get_num_threads())
    launch(kernel, (0, *sizes, *places, *last), threads, threads)


class GradientSums:
    """Sums up what each parameter gets, at the end of the backward sweep; products of one weight are one GEMM."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[Tensor, Tensor]] = {}
        self._rows: dict[int, tuple[Tensor, list[Tensor], list[Tensor]]] = {}

    def add(self, parameter: Tensor, grad: Tensor) -> None:
        """Add a gradient."""
        entry = self._sums.get(id(parameter))
        self._sums[id(parameter)] = parameter, (grad if entry is None else entry[1] + grad)

    def add_product(self, weight: Tensor, x: Tensor, y: Tensor) -> None:
        """Add the gradient ``x.T @ y``, for x (n, height), y (n, width)."""
        _, left, right = self._rows.setdefault(id(weight), (weight, [], []))
        left.append(x)
        right.append(y)

    def finish(self) -> list[tuple[Tensor, Tensor]]:
        """Return each parameter and its gradient."""
        for weight, left, right in self._rows.values():
            self.add(weight, _outer(_together(left), _together(right)))
        return list(self._sums.values())


def _together(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
