"""Counter-based random numbers: number ``n`` of stream ``i`` is a hash of key, ``i`` and ``n``; no state is stored.

So what row ``i`` draws does not depend on which thread handles it, nor on what other rows drew. The function is
SplitMix64 (Steele, Lea, Flood 2014), with the start of each stream hashed from the key and the stream's number.
"""

from __future__ import annotations

from llvmlite import ir

from ..lanes.types import I64, LANES, float64, int64, uint64
from ..lanes.values import intrinsic

_I128, _F64 = ir.IntType(128), LANES["float64"]
_GOLDEN, _FIRST, _SECOND = (I64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _mixed(builder: ir.IRBuilder, z: ir.Value) -> ir.Value:
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        z = builder.mul(builder.xor(z, builder.lshr(z, I64(shift))), factor)
    return builder.xor(z, builder.lshr(z, I64(31)))


def _number(builder: ir.IRBuilder, start: ir.Value, n: ir.Value) -> ir.Value:
    return _mixed(builder, builder.add(start, builder.mul(_GOLDEN, builder.add(n, I64(1)))))


@intrinsic(uint64, int64, int64)
def stream(builder: ir.IRBuilder, key: ir.Value, i: ir.Value) -> ir.Value:
    """Return the start of stream ``i`` under ``key``, an int64."""
    return _mixed(builder, builder.xor(key, _number(builder, I64(0), i)))


@intrinsic(uint64, uint64, int64)
def draw(builder: ir.IRBuilder, start: ir.Value, n: ir.Value) -> ir.Value:
    """Return number ``n`` of a stream: 64 random bits."""
    return _number(builder, start, n)


@intrinsic(int64, uint64, int64)
def below(builder: ir.IRBuilder, bits: ir.Value, bound: ir.Value) -> ir.Value:
    """Return a number in ``[0, bound)``, int64; uneven by no more than ``bound / 2**64``."""
    product = builder.mul(*(builder.zext(x, _I128) for x in (bits, bound)))
    return builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), I64)


@intrinsic(int64, uint64)
def fraction(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Return what :func:`unit` is made of, an int64: a number below 2**52, of 2**52."""
    return builder.lshr(bits, I64(12))


@intrinsic(float64, uint64)
def unit(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Return a float64 in the open interval (0, 1)."""
    # 52 bits and a half: with 53 the largest would round to 1.
    number = builder.uitofp(builder.lshr(bits, I64(12)), _F64)
    return builder.fmul(builder.fadd(number, ir.Constant(_F64, 0.5)), ir.Constant(_F64, 2.0**-52))


@intrinsic(int64, uint64)
def trailing_zeros(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Return the number of the lowest bit that is set, of 64 of which one is."""
    return builder.cttz(bits, ir.Constant(ir.IntType(1), 1))
