"""Operations on stacked tensors that have kernels: what the words of each kernel are, for any batch of theirs.

Lazy batching runs them between its steps, and persistent processors as instructions of a script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ....kernels.cpu.dynamic.kernels import matrix_kernel, rowwise_kernel, step_kernel
from ....kernels.cpu.dynamic.program import BATCH_WORDS
from ....kernels.render.rows import StepSpec
from ....kernels.render.rowwise import LABELLED
from ..recording.kinds import DTYPES, TensorKind
from .matrices import TorchCall, WeightProduct

Word = int | tuple[int, int, int]
"""A word of all batches; or a number, what is added to it for each node before a batch's first one, and for each of the
batch's."""


class StackedRows(NamedTuple):
    """Rows of an operand of a batch: of what kind, address and distance."""

    kind: TensorKind
    address: int
    distance: int


class HostKernels:
    """Kernels of the CPU, by their addresses."""

    rowwise, matrix = staticmethod(rowwise_kernel), staticmethod(matrix_kernel)

    def product(self, product: WeightProduct, forms: Sequence[str], dtype: str) -> list[int]:
        """Return the operations that multiply by a product's weight."""
        return [matrix_kernel(form, dtype) for form in forms]

    def step(self, spec: StepSpec, late: bool = True) -> int:
        """Return the operation of formulas, of an update unless it is not ``late``."""
        return step_kernel(spec)


def has_kernel(matrices: TorchCall) -> bool:
    """Whether there is a kernel for an operation."""
    operand, *labels = matrices.kinds
    if isinstance(matrices, WeightProduct):
        return matrices.stored.stride(1) == 1 and (matrices.bias is None or matrices.bias.stride() == (1,))
    return matrices.form is not None and operand.dtype in DTYPES and all(x.dtype.itemsize == 8 for x in labels)


def words_of(
    matrices: TorchCall,
    inputs: Sequence[StackedRows],
    start: int,
    shift: int,
    adds: bool,
    machine: HostKernels,
    error: int,
) -> tuple[int, list[list[Word]]]:
    """Return the work for each node of an operation that has a kernel, and the kernel's words in both directions.

    Results begin at ``start``; ``shift`` leads to gradients. The gradient of the first input is set, or added to what
    is there. Errors are reported at the address ``error``.
    """
    operand, *others = inputs
    kind, dtype, nbytes = operand.kind, DTYPES[operand.kind.dtype], matrices.results[0].nbytes
    features, rows = kind.shape[-1], kind.numel // kind.shape[-1]
    x, x_grad = (operand.address, operand.distance, 0), (operand.address + shift, operand.distance, 0)
    y, y_grad = (start, nbytes, 0), (start + shift, nbytes, 0)
    # Values of several rows lie one after the other, so their rows do, too.
    x_row, y_row = operand.distance if rows == 1 else features * kind.item, nbytes // rows
    count: Word = 0, 0, rows
    if isinstance(matrices, WeightProduct):
        stored = matrices.stored
        multiply, back = machine.product(matrices, matrices.forms, dtype)
        bias = 0 if matrices.bias is None else matrices.bias.data_ptr()
        matrix = stored.data_ptr(), stored.stride(0) * kind.item
        forward = [multiply, count, *stored.shape, x, x_row, *matrix, y, y_row, bias, 0]
        backward = [back, count, *stored.shape, y_grad, y_row, *matrix, x_grad, x_row, x_grad if adds else 0, x_row]
        return rows * stored.numel(), [forward, backward]
    assert matrices.form is not None
    labels: list[Word] = [0, 0]
    if matrices.form in LABELLED:
        labels = [(others[0].address, others[0].distance, 0), others[0].distance if rows == 1 else 8]
    both = [count, features, x, x_row, *labels, y, y_row, y_grad, y_row, x_grad, x_row, int(adds), error]
    return 8 * rows * features, [[machine.rowwise(matrices.form, back, dtype), *both] for back in (False, True)]


def batch_words(
    columns: Mapping[int, Sequence[Sequence[Word]]], kinds: np.ndarray, ranks: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Return the words of batches in both directions, (2, batches, ``BATCH_WORDS``), 0 for signatures without words.

    ``columns`` has the words of each signature in both directions; of batches ``kinds`` are the signatures, ``ranks``
    those of the first nodes, ``counts`` how many nodes there are.
    """
    table = np.zeros((2, int(kinds.max(initial=-1)) + 1, 3, BATCH_WORDS), np.int64)
    for number, both in columns.items():
        for direction, words in enumerate(both):
            parts = [word if isinstance(word, tuple) else (word, 0, 0) for word in words]
            table[direction, number, :, : len(parts)] = list(zip(*parts, strict=True))
    fixed, of_rank, of_count = (table[:, kinds, i] for i in range(3))
    return np.ascontiguousarray(fixed + of_rank * ranks[:, None] + of_count * counts[:, None])
