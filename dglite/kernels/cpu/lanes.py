"""Operations across and inside the lanes of a vector: spread, compare, select, exponential, reductions."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from .vec import BYTES, FLAGS, I32, I64, LANES, Vec, as_vec, constant, shape_of, value_type

__all__ = ["exp", "greater", "reduce_add", "reduce_max", "select", "splat"]


@cache
def splat(dtype: str, lanes: int) -> Any:
    """Return ``splat(scalar)``: the scalar in every lane (a plain scalar for one lane)."""
    result = value_type(dtype, lanes)

    @intrinsic
    def spread(typingctx: Any, scalar: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            if not isinstance(result, Vec):
                return context.cast(builder, args[0], sig.args[0], result)
            return as_vec(context, builder, args[0], sig.args[0], result)

        return result(scalar), codegen

    return spread


@cache
def _mask_type(lanes: int) -> types.Type:
    return types.boolean if lanes == 1 else Mask(lanes)


class Mask(types.Type):
    """Numba type of ``lanes`` truth values."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Mask({lanes})")


@register_model(Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Mask) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(ir.IntType(1), fe_type.lanes))


@intrinsic
def greater(typingctx: Any, left: Any, right: Any) -> Any:
    """Lanes where ``left > right``, or where ``left`` is NaN, so that a maximum keeps a NaN as torch does."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        above = builder.fcmp_ordered(">", *args)
        return builder.or_(above, builder.fcmp_unordered("uno", args[0], args[0]))

    return _mask_type(left.lanes if isinstance(left, Vec) else 1)(left, right), codegen


@intrinsic
def select(typingctx: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Lanes of ``yes`` where the mask holds, of ``no`` elsewhere."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.select(*args)

    return yes(mask, yes, no), codegen


@intrinsic
def exp(typingctx: Any, x: Any) -> Any:
    """e^x in every lane, to about one unit in the last place; infinity, zero and NaN as the C library gives them.

    x = n ln 2 + r with |r| <= ln 2 / 2, where the Taylor series to the 7th (float32) or 13th (float64) power leaves a
    remainder below half a unit; 2^n is multiplied on in two halves, so that subnormal results are right.
    """
    lanes, dtype = (x.lanes, x.dtype) if isinstance(x, Vec) else (1, str(x))
    element, bits, mantissa, degree, low, high, ln2_high = (
        (ir.FloatType(), I32, 23, 7, -104.0, 89.0, 0.693359375)
        if dtype == "float32"
        else (ir.DoubleType(), I64, 52, 13, -746.0, 710.0, 0.693145751953125)
    )
    kind, whole = shape_of(element, lanes), shape_of(bits, lanes)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        def number(value: float) -> ir.Constant:
            return constant(element, value, lanes)

        def times_plus(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
            return builder.fadd(builder.fmul(a, b, flags=FLAGS), c, flags=FLAGS)

        value = args[0]
        value = builder.select(builder.fcmp_ordered("<", value, number(low)), number(low), value)
        value = builder.select(builder.fcmp_ordered(">", value, number(high)), number(high), value)
        suffix = f"{f'v{lanes}' if lanes > 1 else ''}f{8 * BYTES[dtype]}"
        rint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), f"llvm.rint.{suffix}")
        n = builder.call(rint, [builder.fmul(value, number(1 / math.log(2)))])
        r = times_plus(n, number(-ln2_high), value)
        r = times_plus(n, number(-float(Decimal(2).ln() - Decimal(ln2_high))), r)
        result = number(1 / math.factorial(degree))
        for power in reversed(range(degree)):
            result = times_plus(result, r, number(1 / math.factorial(power)))
        exponent = builder.fptosi(n, whole)
        half = builder.ashr(exponent, constant(bits, 1, lanes))
        bias, shift = (
            constant(bits, (1 << (8 * BYTES[dtype] - mantissa - 2)) - 1, lanes),
            constant(bits, mantissa, lanes),
        )
        for part in (half, builder.sub(exponent, half)):
            scale = builder.bitcast(builder.shl(builder.add(part, bias), shift), kind)
            result = builder.fmul(result, scale)
        return result

    return x(x), codegen


def _reduction(name: str) -> Any:
    @intrinsic
    def reduce(typingctx: Any, vec: Any) -> Any:
        if not isinstance(vec, Vec):
            return vec(vec), lambda context, builder, sig, args: args[0]
        scalar = getattr(types, vec.dtype)

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            element, suffix = LANES[vec.dtype], f"v{vec.lanes}f{8 * BYTES[vec.dtype]}"
            start = [ir.Constant(element, -0.0)] if name == "fadd" else []
            kind = ir.FunctionType(element, [value.type for value in start] + [vec.llvm])
            function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.{name}.{suffix}")
            return builder.call(function, [*start, args[0]], fastmath=("reassoc",) if name == "fadd" else ())

        return scalar(vec), codegen

    return reduce


reduce_add = _reduction("fadd")
"""``reduce_add(vec)``: the sum of the lanes."""
reduce_max = _reduction("fmax")
"""``reduce_max(vec)``: the largest lane."""
