"""Products of few rows with a matrix, and gradients of matrices from few rows, by kernels; torch does those of many.

A GEMM copies the matrix into another order first, which few rows do not repay: levels near the roots of trees, the ends
of the longest sentences, and everything where batches are small.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...kernels.cpu import product
from ...kernels.cpu.launch import launch, num_threads
from .arena import empty
from .signatures import DTYPES

__all__ = ["FewRows", "outer"]


class FewRows:
    """Products ``x @ matrix`` of no more than ``most`` rows; 0 where the matrix is not one that kernels take."""

    def __init__(self, matrix: Tensor) -> None:
        stored = matrix if matrix.stride(1) == 1 else matrix.t()
        turned, (height, width) = stored is not matrix, stored.shape
        kernel = product.product_kernel(DTYPES[matrix.dtype], width, turned) if stored.stride(1) == 1 else 0
        self._kernel, self._matrix = kernel, (height, width)
        self._place = stored.data_ptr(), stored.stride(0) * stored.element_size()
        self.most = 0 if not kernel else product.MOST_ROWS_TURNED if turned else product.MOST_ROWS

    def multiply(self, x: Tensor, y: Tensor, added: Tensor | None = None) -> None:
        """Set ``y`` (rows, columns) to ``x @ matrix``, plus a vector, or rows such as those of ``y`` itself."""
        count, (height, width), item = x.shape[0], self._matrix, x.element_size()
        base = (0, 0) if added is None else (added.data_ptr(), added.stride(0) * item if added.dim() == 2 else 0)
        threads = num_threads((4 + count) * height * width // 2, torch.get_num_threads())
        places = x.data_ptr(), x.stride(0) * item, *self._place, y.data_ptr(), y.stride(0) * item
        launch(self._kernel, (0, count, height, width, *places, *base), threads, threads)


def outer(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x.T @ y`` for x (rows, height), y (rows, width)."""
    (rows, height), width, item = x.shape, y.shape[1], x.element_size()
    result = empty((height, width), x.dtype)
    kernel = product.outer_kernel(DTYPES[x.dtype], width) if rows <= product.MOST_ROWS_OUTER else 0
    if not kernel or x.stride(1) != 1 or y.stride(1) != 1:
        return torch.mm(x.t(), y, out=result)
    threads = num_threads((4 + rows) * height * width // 2, torch.get_num_threads())
    places = x.data_ptr(), x.stride(0) * item, result.data_ptr(), width * item, y.data_ptr(), y.stride(0) * item
    launch(kernel, (0, rows, height, width, *places, 0), threads, threads)
    return result
