"""Arguments of torch functions that are called again with other tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .ir import (
    Domain,
    Node,
)

__all__ = ["batch_filler", "filler"]


def filler(flat: list, spec: Any, indices: list[int | None]) -> Any:
    """Return what puts the tensors that ``resolve`` finds by number in the places of those that were seen."""
    kept = [None if isinstance(x, torch.Tensor) else x for x in flat]
    at = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]

    def arguments(resolve: Callable[[int], torch.Tensor]) -> Any:
        filled = list(kept)
        for i, index in zip(at, indices, strict=True):
            filled[i] = resolve(index)  # type: ignore[arg-type,call-overload]
        return pytree.tree_unflatten(filled, spec)

    return arguments


def batch_filler(flat: list, spec: Any, nodes: list[Node], rows: int) -> Any:
    """Return what puts batches of rows in the places of made-up ones, and their number where that was given."""
    kept = [None if isinstance(x, torch.Tensor) else x for x in flat]
    at = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]
    counts = [i for i, x in enumerate(flat) if isinstance(x, int) and not isinstance(x, bool) and x == rows]
    shapes = [None if node.domain is Domain.SHARED else node.shape for node in nodes]

    def arguments(values: Sequence[torch.Tensor], num_rows: int) -> Any:
        filled = list(kept)
        for i in counts:
            filled[i] = num_rows
        for i, x, shape in zip(at, values, shapes, strict=True):
            filled[i] = x if shape is None else x.reshape(num_rows, *shape)
        return pytree.tree_unflatten(filled, spec)

    return arguments
