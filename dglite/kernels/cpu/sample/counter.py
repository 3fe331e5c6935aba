"""Counter-based random numbers: number ``n`` of stream ``i`` is a hash of key, ``i`` and ``n``; no state is stored.

So what row ``i`` draws does not depend on which thread handles it, nor on what other rows drew. The function is
SplitMix64 (Steele, Lea, Flood 2014), with the start of each stream hashed from the key and the stream's number.

All are intrinsics: Numba, which inlines functions before it types them, takes a tenth of a second for each call of one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..lanes.vec import I64, LANES

_I128, _F64 = ir.IntType(128), LANES["float64"]
_GOLDEN, _FIRST, _SECOND = (I64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _mixed(builder: ir.IRBuilder, z: ir.Value) -> ir.Value:
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        z = builder.mul(builder.xor(z, builder.lshr(z, I64(shift))), factor)
    return builder.xor(z, builder.lshr(z, I64(31)))


def _number(builder: ir.IRBuilder, start: ir.Value, n: ir.Value) -> ir.Value:
    return _mixed(builder, builder.add(start, builder.mul(_GOLDEN, builder.add(n, I64(1)))))


@intrinsic
def stream(typingctx: Any, key: Any, i: Any) -> Any:
    """Return the start of stream ``i`` under ``key``, an int64."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return _mixed(builder, builder.xor(args[0], _number(builder, I64(0), args[1])))

    return types.uint64(types.int64, types.int64), codegen


@intrinsic
def draw(typingctx: Any, start: Any, n: Any) -> Any:
    """Return number ``n`` of a stream: 64 random bits."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return _number(builder, *args)

    return types.uint64(types.uint64, types.int64), codegen


@intrinsic
def below(typingctx: Any, bits: Any, bound: Any) -> Any:
    """Return a number in ``[0, bound)``, int64; uneven by no more than ``bound / 2**64``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        product = builder.mul(*(builder.zext(x, _I128) for x in args))
        return builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), I64)

    return types.int64(types.uint64, types.int64), codegen


@intrinsic
def fraction(typingctx: Any, bits: Any) -> Any:
    """Return what :func:`unit` is made of, an int64: a number below 2**52, of 2**52."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.lshr(args[0], I64(12))

    return types.int64(types.uint64), codegen


@intrinsic
def unit(typingctx: Any, bits: Any) -> Any:
    """Return a float64 in the open interval (0, 1)."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        # 52 bits and a half: with 53 the largest would round to 1.
        number = builder.uitofp(builder.lshr(args[0], I64(12)), _F64)
        return builder.fmul(builder.fadd(number, ir.Constant(_F64, 0.5)), ir.Constant(_F64, 2.0**-52))

    return types.float64(types.uint64), codegen


@intrinsic
def trailing_zeros(typingctx: Any, bits: Any) -> Any:
    """Return the number of the lowest bit that is set, of 64 of which one is."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen
