"""Compiled kernels of softmax and losses over rows (see :mod:`...render.rowwise`), and of sums of losses."""

from __future__ import annotations

from functools import lru_cache

from ...render.rowwise import rowwise_source
from ..compile.cached import cfunc
from ..compile.jit import block_lanes, compile_kernel
from ..lanes.simd import loader, storer, word

__all__ = ["CLEAR", "TOTALS", "rowwise_kernel"]


@lru_cache(maxsize=64)
def rowwise_kernel(form: str, gradient: bool, dtype: str) -> int:
    """Return the address of the kernel of a form, or of its gradient."""
    return compile_kernel("rowwise", rowwise_source(form, gradient, dtype, block_lanes(dtype) // 8))


_load4, _store4 = loader("float32", 1), storer("float32", 1)
_load8, _store8 = loader("float64", 1), storer("float64", 1)


@cfunc("void(int64, int64, int64)")
def _clear(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Set memory to 0. Words: 1 address, 2 bytes, a multiple of 8."""
    if task < 0:
        return
    address, count = word(args, 1), word(args, 2) // 8
    for i in range(count * task // num_tasks, count * (task + 1) // num_tasks):
        _store8(address + 8 * i, 0.0)


@cfunc("void(int64, int64, int64)")
def _totals(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Sum up losses, and start their gradients. Words: 1 address of the sum, float64, to which it is added, 2 number of
    losses, 3 bytes of one, 4 and 5 addresses of lists: of the losses, and of their gradients, to which 1 is added."""
    if task < 0:
        return
    total, single = _load8(word(args, 1)), word(args, 3) == 4
    for i in range(word(args, 2)):
        value, grad = word(word(args, 4), i), word(word(args, 5), i)
        if single:
            total += _load4(value)
            _store4(grad, _load4(grad) + 1.0)
        else:
            total += _load8(value)
            _store8(grad, _load8(grad) + 1.0)
    _store8(word(args, 1), total)


CLEAR, TOTALS = _clear.address, _totals.address
