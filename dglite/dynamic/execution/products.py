"""Products of many rows with a matrix, and of rows with rows: by our kernels where they are faster, else by torch.

Gradients of what all rows share, vertices or lazy batches, are sums of such products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from ...backend import active
from ...kernels import compiled
from ..program.layout import DTYPES
from .memory import empty


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


class GradientSums:
    """The gradients of shared tensors by number, or by id: sums of terms, and of products and totals of rows.

    See docs/decisions/0267-gradient-sums-are-one-class-runners-stay-three.md.
    """

    def __init__(self, most_rows: int, device: torch.device) -> None:
        """On the CPU, products of at most ``most_rows`` rows are kernels, which run together in the end."""
        self._most_rows, self._device = most_rows if device.type == "cpu" else -1, device
        self._kernels = compiled("dynamic.kernels")
        self._terms, self._sums = dict[int, Tensor](), dict[int, Tensor]()
        self._words, self._work = list[tuple[int, ...]](), 0
        self._products: dict[int, tuple[Tensor, list[Tensor], list[Tensor]]] = {}

    def add(self, number: int, term: Tensor) -> None:
        """Add a gradient, which may be sparse."""
        total = self._terms.get(number)
        self._terms[number] = term if total is None else term + total

    def add_product(self, weight: Tensor, x: Tensor, y: Tensor) -> None:
        """Add ``x.T @ y``, for x (n, height), y (n, width), to the gradient of the id of ``weight``.

        All that are added are one product.
        """
        _, left, right = self._products.setdefault(id(weight), (weight, [], []))
        left.append(x)
        right.append(y)

    def add_rows(
        self,
        number: int,
        like: Tensor,
        form: str,
        count: int,
        places: Sequence[int],
        rows: Callable[[int, int], Sequence[Tensor]],
    ) -> None:
        """Add ``x.T @ y`` for x (count, height), y (count, width), or, of form ``totals``, the sum of the rows of y.

        ``places`` are addresses and row strides of x and y, which ``rows(height, width)`` returns as tensors. The
        gradient is like ``like``. Of one gradient, parts of many rows come before those of few.
        """
        total, (x, x_row, y, y_row) = self._sums.get(number), places
        result = self._sums[number] = empty(like.shape, like.dtype, self._device) if total is None else total
        into = result if form == "outer" else result.view(1, -1)
        height, width = into.shape
        if count <= self._most_rows:
            kernels, dtype = self._kernels, DTYPES[into.dtype]
            place = x, x_row, into.data_ptr(), width * into.element_size(), y, y_row
            scales = (kernels.SET if total is None else kernels.ADD)[dtype]
            self._words.append((kernels.matrix_kernel(form, dtype), count, height, width, *place, scales))
            self._work += count * height * width
            return
        left, right = rows(height, width)
        if form == "outer":
            add_rows(left, right, into, total is not None)
        elif total is None:
            into[0].copy_(active.sum(right, 0))
        else:
            into[0].add_(active.sum(right, 0))

    def finish(self) -> dict[int, Tensor]:
        """Return the gradients."""
        read = list[list[Tensor]]()  # kept, as kernels read them below
        for number, (weight, *sides) in self._products.items():
            read.append([rows[0] if len(rows) == 1 else torch.cat(rows) for rows in sides])
            words = [word for x in read[-1] for word in _place(x)]
            self.add_rows(number, weight, "outer", len(read[-1][0]), words, lambda *_: read[-1])
        if self._words:
            table, size = np.array(self._words, np.int64), len(self._words[0])
            starts, threads = np.arange(0, table.size, size), torch.get_num_threads()
            places = table.ctypes.data, starts.ctypes.data
            self._kernels.run_steps(*places, 0, len(table), self._work, threads)
        for number, term in self._terms.items():
            self._sums[number] = self._sums[number] + term if number in self._sums else term
        return self._sums
