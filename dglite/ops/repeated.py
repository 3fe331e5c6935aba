"""g-SpMM once more: a call that differs from an earlier one in nothing but addresses goes straight to its kernel.

Checks and the choice of a kernel take twice as long as the rest of a small call. Both depend on the relation and on the
operands' shapes and dtypes alone, so what they have found is kept with the relation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..backend import Tensor, active
from ..expr import Expr
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from .devices import HOST

__all__ = ["remember", "repeated"]

MOST_KEPT = 64
"""Calls that are kept with a relation; layers need a few."""
Kept = dict[tuple[Expr, Reducer, Any], tuple[Callable[[Sequence[int], int], None], tuple[int, ...]]]
"""What runs the kernel, and the shape of its result."""


def repeated(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> Tensor | None:
    """Return the reduction where such a call was kept; None where there is none, or a gradient is to be recorded."""
    kept: Kept | None = adj.cache.get("repeated sums")
    plain = None if kept is None else active.plain(operands)
    if plain is None:
        return None
    signature, addresses = plain
    found = kept.get((expr, reducer, signature))  # type: ignore[union-attr]
    if found is None:
        return None
    run, shape = found
    out = active.new_empty(operands[0], shape)
    run(addresses, active.address(out))
    return out


def remember(
    adj: Adjacency, what: tuple[Expr, Reducer], operands: Sequence[Tensor], kernel: Any, structure: Any
) -> None:
    """Keep a call whose kernel was chosen by the relation, shapes and dtypes alone."""
    plain = active.plain(operands)
    if plain is not None:
        kept: Kept = adj.cache.setdefault("repeated sums", {})
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[*what, plain[0]] = kernel.bound_to(structure, lambda: HOST.worker), (adj.num_dst, *kernel.layout.shape)
