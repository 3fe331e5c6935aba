"""Views of recorded tensors: what a base becomes when something is written through one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from ..errors import DGLError
from .symbolic import shapes_of

aten = torch.ops.aten

SAME_ORDER = {aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default}
SAME_ORDER |= {aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims}
"""Views of all elements, in their order."""


@dataclass(slots=True)
class RecordedView:
    """How a tensor looks at another: ``func(base, *rest)[index]``, or the same if there is no ``func``."""

    base: torch.Tensor
    source: Node
    func: Any
    rest: tuple[Any, ...]
    kwargs: dict[str, Any]
    index: int | None
    values: Any

    def base_with(self, new: Node, source: Node, emit: Callable[..., Node]) -> Node:
        """Return the base ``source`` with the view replaced: of slices exactly, of whole views by their inverse.

        Raises DGLError for views that cannot be written through.
        """
        func, value, shape = self.func, shapes_of(self.base), list(self.base.shape)
        if func is None:
            return new
        if func is aten.slice.Tensor:
            return emit(aten.slice_scatter.default, (source, new, *self.rest), self.kwargs, value)
        if func is aten.select.int:
            return emit(aten.select_scatter.default, (source, new, *self.rest), self.kwargs, value)
        if func in SAME_ORDER:
            return emit(aten.view.default, (new, shape), {}, value)
        if func is aten.permute.default:
            order = [d % len(shape) for d in self.rest[0]]
            return emit(aten.permute.default, (new, [order.index(d) for d in range(len(shape))]), {}, value)
        raise DGLError(f"an in-place operator writes through the view {func}: clone it, or write out of place")


def unpermuted(node: Node, order: Sequence[int]) -> Node | None:
    """Return what is permuted back by ``order``, or None: the gradient of a linear layer does so with its weight."""
    if node.target is not aten.permute.default:
        return None
    before: Any
    there: Any
    before, there = node.args
    return before if all(there[b] % len(there) == i for i, b in enumerate(order)) else None
