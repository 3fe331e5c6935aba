"""Gradients of a session's tensors, added up as in :mod:`...execution.products`."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ....kernels.cpu.dynamic.kernels import MOST_ROWS
from ...execution.products import GradientSums


class SessionGradients(GradientSums):
    """Gradients by the ids of tensors; the products of a weight in all batches are one product."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(MOST_ROWS["outer"], device)
        self._products: dict[int, tuple[Tensor, list[Tensor], list[Tensor]]] = {}

    def add_product(self, weight: Tensor, x: Tensor, y: Tensor) -> None:
        """Add the gradient ``x.T @ y``, for x (n, height), y (n, width)."""
        _, left, right = self._products.setdefault(id(weight), (weight, [], []))
        left.append(x)
        right.append(y)

    def finish(self) -> dict[int, Tensor]:
        """Return the gradients."""
        together = {
            number: (weight, [x[0] if len(x) == 1 else torch.cat(x) for x in sides])
            for number, (weight, *sides) in self._products.items()
        }
        for number, (weight, rows) in together.items():
            places = [word for x in rows for word in (x.data_ptr(), x.stride(0) * x.element_size())]
            self.add_rows(number, weight, "outer", len(rows[0]), places, partial(_rows, rows))
        return super().finish()


def _rows(rows: list[Tensor], height: int, width: int) -> list[Tensor]:
    """Return rows of this height and width: they have them."""
    return rows
