"""16-bit floats in memory, to and from the float32 lanes that compute; vectors and scalars.

A CPU that does not convert float16 itself does it by operations on the bits. All ways give the same bits: values are
rounded to nearest, ties to even, subnormal numbers are kept, and NaN becomes quiet.
"""

from __future__ import annotations

from llvmlite import ir

from .target import converts_halves
from .types import I16, I32, constant, shape_of

_INFINITY = 0x7F800000
_QUIET = 0x400000


def widen(builder: ir.IRBuilder, value: ir.Value, dtype: str, lanes: int) -> ir.Value:
    """Convert 16-bit floats as loaded to float32; return wider values unchanged."""
    if dtype == "float16":
        if converts_halves():
            return builder.fpext(value, shape_of(ir.FloatType(), lanes))
        return _Bits(builder, lanes).widened(value)
    if dtype == "bfloat16":
        bits = builder.zext(value, shape_of(I32, lanes))
        return builder.bitcast(builder.shl(bits, constant(I32, 16, lanes)), shape_of(ir.FloatType(), lanes))
    return value


def narrow(builder: ir.IRBuilder, value: ir.Value, dtype: str, lanes: int) -> ir.Value:
    """Round float32 to the 16-bit floats that are stored; return values of wider dtypes unchanged."""
    if dtype == "float16":
        if converts_halves():
            return builder.fptrunc(value, shape_of(ir.HalfType(), lanes))
        return _Bits(builder, lanes).narrowed(value)
    if dtype == "bfloat16":
        bits = builder.bitcast(value, shape_of(I32, lanes))
        even = builder.and_(builder.lshr(bits, constant(I32, 16, lanes)), constant(I32, 1, lanes))
        rounded = builder.add(builder.add(bits, constant(I32, 0x7FFF, lanes)), even)
        quiet = builder.or_(bits, constant(I32, _QUIET, lanes))
        nan = builder.fcmp_unordered("uno", value, value)
        return builder.trunc(
            builder.lshr(builder.select(nan, quiet, rounded), constant(I32, 16, lanes)), shape_of(I16, lanes)
        )
    return value


class _Bits:
    """Converts between float16 (exponents of bias 15, 10 bits behind the point) and float32 (127, 23)."""

    def __init__(self, builder: ir.IRBuilder, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.single, self.bits = shape_of(ir.FloatType(), lanes), shape_of(I32, lanes)

    def word(self, value: int) -> ir.Constant:
        return constant(I32, value, self.lanes)

    def below(self, bits: ir.Value, bound: int) -> ir.Value:
        return self.builder.icmp_signed("<", bits, self.word(bound))

    def widened(self, value: ir.Value) -> ir.Value:
        builder = self.builder
        bits = builder.zext(builder.bitcast(value, shape_of(I16, self.lanes)), self.bits)
        size = builder.shl(builder.and_(bits, self.word(0x7FFF)), self.word(13))
        normal = builder.add(size, self.word((127 - 15) << 23))
        # m 2^-24 is 2^-14 (1 + m 2^-10) - 2^-14: numbers that are normal as float32.
        shifted = builder.bitcast(builder.add(size, self.word(113 << 23)), self.single)
        subnormal = builder.bitcast(builder.fsub(shifted, constant(ir.FloatType(), 2.0**-14, self.lanes)), self.bits)
        infinite = builder.or_(size, self.word(_INFINITY))
        nan = builder.or_(infinite, self.word(_QUIET))
        special = builder.select(self.below(size, 0x1F << 23 | 1), infinite, nan)
        finite = builder.select(self.below(size, 1 << 23), subnormal, normal)
        result = builder.select(self.below(size, 0x1F << 23), finite, special)
        sign = builder.shl(builder.and_(bits, self.word(0x8000)), self.word(16))
        return builder.bitcast(builder.or_(result, sign), self.single)

    def narrowed(self, value: ir.Value) -> ir.Value:
        builder = self.builder
        bits = builder.bitcast(value, self.bits)
        size = builder.and_(bits, self.word(0x7FFFFFFF))
        even = builder.and_(builder.lshr(size, self.word(13)), self.word(1))
        # A carry out of the digits raises the exponent, out of the largest number to infinity.
        carried = builder.add(builder.add(size, self.word(0xFFF - ((127 - 15) << 23))), even)
        normal = builder.lshr(carried, self.word(13))
        # The last digit of a float32 between 1/2 and 1 is 2^-24, as of a subnormal float16: the sum is rounded to it.
        half = constant(ir.FloatType(), 0.5, self.lanes)
        rounded = builder.bitcast(builder.fadd(builder.bitcast(size, self.single), half), self.bits)
        subnormal = builder.sub(rounded, self.word(0x3F000000))
        nan = builder.or_(builder.and_(builder.lshr(size, self.word(13)), self.word(0x3FF)), self.word(0x7E00))
        special = builder.select(self.below(size, _INFINITY + 1), self.word(0x7C00), nan)
        finite = builder.select(self.below(size, 113 << 23), subnormal, normal)
        result = builder.select(self.below(size, 143 << 23), finite, special)
        sign = builder.and_(builder.lshr(bits, self.word(16)), self.word(0x8000))
        halves = builder.trunc(builder.or_(result, sign), shape_of(I16, self.lanes))
        return builder.bitcast(halves, shape_of(ir.HalfType(), self.lanes))
