"""Counter-based random numbers: number ``n`` of stream ``i`` is a hash of key, ``i`` and ``n``; no state is stored.

So what row ``i`` draws does not depend on which thread handles it, nor on what other rows drew. The function is
SplitMix64 (Steele, Lea, Flood 2014), with the start of each stream hashed from the key and the stream's number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..compile.cached import njit
from ..lanes.vec import I64

__all__ = ["below", "draw", "fraction", "stream", "trailing_zeros", "unit"]

_I128 = ir.IntType(128)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

_jit = njit(nogil=True, inline="always")


@intrinsic
def _high_product(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two unsigned numbers."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        product = builder.mul(builder.zext(args[0], _I128), builder.zext(args[1], _I128))
        return builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), I64)

    return types.int64(types.uint64, types.uint64), codegen


@intrinsic
def trailing_zeros(typingctx: Any, bits: Any) -> Any:
    """Return the number of the lowest bit that is set, of 64 of which one is."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@_jit
def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@_jit
def stream(key: Any, i: Any) -> Any:
    """Return the start of stream ``i`` under ``key``, an int64."""
    return _mix(np.uint64(key) ^ _mix(_GOLDEN * (np.uint64(i) + np.uint64(1))))


@_jit
def draw(start: Any, n: Any) -> Any:
    """Return number ``n`` of a stream: 64 random bits."""
    return _mix(start + _GOLDEN * (np.uint64(n) + np.uint64(1)))


@_jit
def below(bits: Any, bound: Any) -> Any:
    """Return a number in ``[0, bound)``, int64; uneven by no more than ``bound / 2**64``."""
    return _high_product(bits, np.uint64(bound))


@_jit
def fraction(bits: Any) -> Any:
    """Return what :func:`unit` is made of, an int64: a number below 2**52, of 2**52."""
    return np.int64(bits >> np.uint64(12))


@_jit
def unit(bits: Any) -> Any:
    """Return a float64 in the open interval (0, 1)."""
    # 52 bits and a half: with 53 the largest would round to 1.
    return (np.float64(fraction(bits)) + 0.5) * 2.220446049250313e-16
