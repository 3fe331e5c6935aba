"""``torch.einsum``, ``bilinear`` and products of (rows, *, features) in vertex functions, row by row.

torch puts the operands' axes into another order, or multiplies (rows * n, features), in which rows are no vertices any
more.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_Operand = tuple[str, Tensor]
"""Labels of the axes, without that of the rows, and the tensor."""


class RowContractions(TorchFunctionMode):
    """Replaces contractions of tensors that ``has_rows`` tells, where each row is contracted by itself."""

    def __init__(self, has_rows: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self._has_rows = has_rows

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.einsum and not kwargs and isinstance(args[0], str):
            tensors = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
            parsed = self._parsed(_explicit(args[0].replace(" ", ""), list(tensors)), list(tensors))
            return func(*args) if parsed is None else _contracted(*parsed)
        if func in _BILINEAR and not kwargs and args[0].dim() == 2 and self._has_rows(args[0]):
            x, y, weight, bias = (*args, None)[:4]
            result = _contracted([("i", x), ("j", y)], [("kij", weight)], "k")
            return result if bias is None else result + bias
        if func in _PRODUCTS and len(args) > 1 and all(isinstance(x, Tensor) for x in args[:2]):
            return self._product(func, args, kwargs)
        if func is F.one_hot and self._has_rows(args[0]):
            number = kwargs.get("num_classes", args[1] if len(args) > 1 else -1)
            if number >= 0:
                return (args[0].unsqueeze(-1) == torch.arange(number)).long()
        return func(*args, **kwargs)

    def _product(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        """Multiply (rows, *, features) by a matrix, or a matrix by (rows, features, n), part by part of each row."""
        x, y = args[:2]
        if x.dim() > 2 and y.dim() == 2 and self._has_rows(x) and not self._has_rows(y):
            parts = [func(part, *args[1:], **kwargs) for part in x.flatten(1, -2).unbind(1)]
            return torch.cat(parts, 1).reshape(*x.shape[:-1], -1)
        if x.dim() > 2 and y.dim() == 1 and func is not F.linear and self._has_rows(x):
            return self._product(func, (x, y[:, None]), {}).squeeze(-1)
        if y.dim() == 3 and x.dim() == 2 and self._has_rows(y) and not self._has_rows(x):
            return self._product(torch.matmul, (y.mT, x.mT), {}).mT
        return func(*args, **kwargs)  # type: ignore[no-any-return]

    def _parsed(self, equation: str, tensors: list[Tensor]) -> tuple[list[_Operand], list[_Operand], str] | None:
        """Return operands with rows, those that all rows share, and the result's labels; None for what mixes rows."""
        inputs, arrow, output = equation.partition("->")
        labels = inputs.split(",")
        rows = [(axes, x) for axes, x in zip(labels, tensors, strict=False) if self._has_rows(x)]
        plain = (
            len(labels) == len(tensors) and "." not in equation and all(len({*axes}) == len(axes) for axes in labels)
        )
        if not rows or not arrow or not plain:
            return None
        first = rows[0][0][:1]
        shared = [(axes, x) for axes, x in zip(labels, tensors, strict=True) if not self._has_rows(x)]
        inside = [axes for axes, _ in rows] + [output]
        if any(axes[:1] != first or axes.count(first) != 1 for axes in inside) or any(
            first in axes for axes, _ in shared
        ):
            return None
        return [(axes[1:], x) for axes, x in rows], shared, output[1:]


def _explicit(equation: str, tensors: list[Tensor]) -> str:
    """Return an equation with a label for each axis of an ellipsis, and with its output."""
    inputs, arrow, output = equation.partition("->")
    operands = inputs.split(",")
    if len(operands) != len(tensors):
        return equation
    axes = [x.dim() - len(each) + 3 if "..." in each else 0 for each, x in zip(operands, tensors, strict=True)]
    free = [label for label in string.ascii_letters if label not in equation][: max(axes)]
    labels = [each.replace("...", "".join(free[len(free) - n :])) for each, n in zip(operands, axes, strict=True)]
    counts = Counter("".join(labels))
    alone = sorted(label for label, count in counts.items() if count == 1 and label not in free)
    result = output.replace("...", "".join(free)) if arrow else "".join([*free, *alone])
    return f"{','.join(labels)}->{result}"


_BILINEAR = (F.bilinear, torch.bilinear)
_PRODUCTS = (F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__)


def _contracted(rows: list[_Operand], shared: list[_Operand], output: str) -> Tensor:
    left = list[_Operand]()
    for labels, x in shared:
        for i, (row_labels, row) in enumerate(rows):
            others = "".join(axes for axes, _ in (*rows[:i], *rows[i + 1 :], *left)) + output
            if row_labels and all(label in labels and label not in others for label in row_labels):
                rows[i] = _multiplied(row_labels, row, labels, x)
                break
        else:
            left.append((labels, x))
    return _multiplied_and_summed(rows, left, output)


def _multiplied(row_labels: str, row: Tensor, labels: str, x: Tensor) -> _Operand:
    """Return a product of rows with a matrix: all axes of the rows are contracted."""
    rest = [label for label in labels if label not in row_labels]
    sizes = [x.shape[labels.index(label)] for label in rest]
    matrix = x.permute([labels.index(label) for label in (*row_labels, *rest)]).reshape(-1, math.prod(sizes))
    flat = row if row.dim() == 2 else row.reshape(len(row), -1)
    product = flat @ matrix
    return "".join(rest), product if len(rest) == 1 else product.reshape(len(row), *sizes)


def _multiplied_and_summed(rows: list[_Operand], shared: list[_Operand], output: str) -> Tensor:
    """Return the sum of products, with all operands in the axes of the result and of what is summed."""
    labels = "".join(axis_labels for axis_labels, _ in (*rows, *shared))
    summed = sorted({*labels} - {*output}, key=labels.index)
    axes = [*output, *summed]
    result: Tensor | None = None
    for operand_labels, x in (*rows, *shared):
        first = x.dim() - len(operand_labels)  # 1 where it has rows
        moved = x.permute(
            [*range(first), *(first + operand_labels.index(label) for label in axes if label in operand_labels)]
        )
        for i, label in enumerate(axes):
            moved = moved if label in operand_labels else moved.unsqueeze(first + i)
        result = moved if result is None else result * moved
    assert result is not None
    return result.sum([1 + len(output) + i for i in range(len(summed))]) if summed else result
