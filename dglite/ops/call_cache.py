"""A cache of g-SpMM calls: one that differs from an earlier one in nothing but addresses goes straight to its kernel.

Checks and the choice of a kernel take twice as long as the rest of a small call. Both depend on the relation and on the
operands' shapes and dtypes alone, so their results are cached with the relation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..backend import Tensor, active
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key
from .biases import scaled_rows

CALLS: CacheKey[dict[Any, Any]] = cache_key("calls", "kernels and plans of earlier calls, by shapes and dtypes")
MAX_CALLS = 64
"""Calls that are cached for a relation; layers need a few each."""
Run = Callable[[Sequence[int], int], None]
"""Runs a kernel on the addresses of the operands and of the result."""


class Scaling(NamedTuple):
    """Scaling before a kernel: operand ``slot``, (rows, width), is replaced by a copy times operand ``factor``."""

    slot: int
    factor: int
    shape: tuple[int, int]

    def __call__(self, operands: Sequence[Tensor], addresses: list[int]) -> Tensor:
        """Put the address of the copy into ``addresses``; return it, as it must live as long as it is read."""
        copy = scaled_rows(operands[self.slot], self.shape, addresses[self.slot], addresses[self.factor])
        addresses[self.slot] = active.address(copy)
        return copy


def lookup(adj: Adjacency, key: Any) -> Any:
    """Return the value that :func:`store` cached for a relation under ``key``, or None."""
    calls = adj.cache.get(CALLS)
    return None if calls is None else calls.get(key)


def store(adj: Adjacency, key: Any, value: Any) -> None:
    """Cache a value for calls on a relation; ``key`` holds everything that the value depends on."""
    calls = adj.cache.setdefault(CALLS, {})
    if len(calls) >= MAX_CALLS:
        calls.clear()
    calls[key] = value


def run_cached(adj: Adjacency, reduction: tuple[Any, ...], operands: Sequence[Tensor]) -> Tensor | None:
    """Run the cached kernel of ``reduction``; None if there is none, or a gradient is to be recorded."""
    plain = active.plain(operands) if CALLS in adj.cache else None
    if plain is None:
        return None
    signature, addresses = plain
    cached: tuple[Run, tuple[int, ...], Scaling | None] | None = lookup(adj, (reduction, signature))
    if cached is None:
        return None
    run, shape, scaling = cached
    out = active.new_empty(operands[0], shape)
    copy = None if scaling is None else scaling(operands, addresses)
    run(addresses, active.address(out))
    del copy  # the kernel has read it
    return out


def cache_kernel(
    adj: Adjacency,
    reduction: tuple[Any, ...],
    operands: Sequence[Tensor],
    run: Run,
    shape: tuple[int, ...],
    scaling: Scaling | None,
) -> None:
    """Cache a reduction whose kernel was chosen by the relation, shapes and dtypes alone.

    ``run`` runs it, ``shape`` is the result's, ``scaling`` is applied to an operand before.
    """
    plain = active.plain(operands)
    if plain is not None:
        store(adj, (reduction, plain[0]), (run, shape, scaling))
