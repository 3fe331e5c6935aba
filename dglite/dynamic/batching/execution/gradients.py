"""Gradients of parameters, put together at the end of the backward sweep."""

from __future__ import annotations

import torch
from torch import Tensor

from .few import outer

__all__ = ["GradientSums"]

InputsAndGradients = tuple[Tensor, Tensor]
"""Inputs (n, features) of a product and the gradients (n, columns) of its results."""


class GradientSums:
    """Sums up what each parameter gets; products of one weight are one GEMM."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[Tensor, Tensor]] = {}
        self._rows: dict[tuple[int, bool], tuple[Tensor, list[InputsAndGradients]]] = {}
        self._biases: dict[int, tuple[Tensor, list[Tensor]]] = {}

    def add(self, parameter: Tensor, grad: Tensor) -> None:
        """Add a gradient."""
        known = self._sums.get(id(parameter))
        self._sums[id(parameter)] = parameter, (grad if known is None else known[1] + grad)

    def product(self, weight: Tensor, bias: Tensor | None, rows: InputsAndGradients, turned: bool = False) -> None:
        """Note the inputs and the gradients of a product; ``turned`` weights are (features, columns)."""
        if weight.requires_grad:
            self._rows.setdefault((id(weight), turned), (weight, []))[1].append(rows)
        if bias is not None and bias.requires_grad:
            self._biases.setdefault(id(bias), (bias, []))[1].append(rows[1])

    @torch.no_grad()
    def finish(self) -> list[tuple[Tensor, Tensor]]:
        """Return each parameter and its gradient."""
        for (_, turned), (weight, rows) in self._rows.items():
            x, grad = _together([x for x, _ in rows]), _together([g for _, g in rows])
            self.add(weight, outer(x, grad) if turned else outer(grad, x))
        for bias, grads in self._biases.values():
            for grad in grads:
                self.add(bias, grad.sum(0))
        return list(self._sums.values())


def _together(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
