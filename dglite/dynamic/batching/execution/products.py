"""Gradients of weights from the rows of all batches: few by a kernel, many as in :mod:`...execution.products`."""

from __future__ import annotations

import torch
from torch import Tensor

from ....kernels.cpu.dynamic.kernels import MOST_ROWS, SET, matrix_kernel
from ....kernels.cpu.run.launch import launch, num_threads
from ...execution.memory import empty
from ...execution.products import add_rows
from ..recording.kinds import DTYPES


def _outer(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x.T @ y`` for x (rows, height), y (rows, width)."""
    (rows, height), width, item = x.shape, y.shape[1], x.element_size()
    result = empty((height, width), x.dtype, x.device)
    if not x.is_cpu or rows > MOST_ROWS["outer"] or x.stride(1) != 1 or y.stride(1) != 1:
        add_rows(x, y, result, False)
        return result
    places = x.data_ptr(), x.stride(0) * item, result.data_ptr(), width * item, y.data_ptr(), y.stride(0) * item
    dtype = DTYPES[x.dtype]
    threads = num_threads((4 + rows) * height * width // 2, torch.get_num_threads())
    launch(matrix_kernel("outer", dtype), (0, rows, height, width, *places, SET[dtype]), threads, threads)
    return result


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
