"""A cache of operations: a call that differs from an earlier one in nothing but addresses goes straight to its kernel.

Checks and the choice of a kernel take twice as long as the rest of a small call. Both depend on the relation and on the
operands' shapes and dtypes alone, so their results are cached with the relation. Where a gradient is recorded, the
checks alone are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..backend import DifferentiableOp, Tensor, active
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key
from .biases import scaled_rows

CALLS: CacheKey[dict[Any, Any]] = cache_key("calls", "kernels and plans of earlier calls, by shapes and dtypes")
MAX_CALLS = 128
"""Calls that are cached for a relation; layers need a few each."""
Run = Callable[..., None]
"""Runs a kernel on the addresses of the operands, of the result, and of what it writes besides."""


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


def run_cached(adj: Adjacency, operation: tuple[Any, ...], operands: Sequence[Tensor], aux: int = 0) -> Tensor | None:
    """Run or record ``operation`` as an earlier call on equal shapes did; None if there was none.

    ``aux`` is the address that a kernel writes more to, such as an argmax.
    """
    plain = active.plain(operands) if CALLS in adj.cache else None
    if plain is None:
        return None
    signature, addresses = plain
    call: CachedCall | None = lookup(adj, (operation, signature))
    return None if call is None else call(adj, operands, addresses, aux)


class CachedCall(Protocol):
    """What :func:`run_cached` runs: an operation on operands of known shapes. It does not hold the relation."""

    def __call__(self, adj: Adjacency, operands: Sequence[Tensor], addresses: list[int], aux: int) -> Tensor:
        """Return the result; ``addresses`` are the operands'."""


def cache_kernel(
    adj: Adjacency,
    operation: tuple[Any, ...],
    operands: Sequence[Tensor],
    run: Run,
    shape: tuple[int, ...],
    scaling: Scaling | None = None,
) -> None:
    """Cache an operation whose kernel was chosen by the relation, shapes and dtypes alone.

    ``run`` runs it, ``shape`` is the result's, ``scaling`` is applied to an operand before.
    """

    def call(adj: Adjacency, operands: Sequence[Tensor], addresses: list[int], aux: int) -> Tensor:
        out = active.new_empty(operands[0], shape)
        copy = None if scaling is None else scaling(operands, addresses)
        run(addresses, active.address(out), aux)
        del copy  # the kernel has read it
        return out

    _cache(adj, operation, operands, call)


def cache_recorded(
    adj: Adjacency,
    operation: tuple[Any, ...],
    operands: Sequence[Tensor],
    make: Callable[[Adjacency], DifferentiableOp],
) -> None:
    """Cache that ``operation`` on such operands is recorded as what ``make`` makes: nothing is checked again."""
    _cache(adj, operation, operands, lambda adj, operands, addresses, aux: active.apply(make(adj), *operands))


def _cache(adj: Adjacency, operation: tuple[Any, ...], operands: Sequence[Tensor], call: CachedCall) -> None:
    plain = active.plain(operands)
    if plain is not None:
        store(adj, (operation, plain[0]), call)
