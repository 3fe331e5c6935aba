"""Operations across the lanes of a vector: broadcast, compare, select, reduce."""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from .types import BYTES, NUMBERS, Mask, Type, Vec, boolean, value_type
from .values import Intrinsic, Value, call_external, intrinsic


@cache
def splat(dtype: str, lanes: int) -> Intrinsic:
    """Return ``splat(scalar)``: the scalar in every lane (a plain scalar for one lane)."""
    result = value_type(dtype, lanes)
    return intrinsic(result, result)(lambda builder, spread: spread)


def _mask_of(kind: Type) -> Type:
    return Mask(kind.dtype, kind.lanes) if isinstance(kind, Vec) else boolean


@Intrinsic
def greater(builder: ir.IRBuilder, left: Value, right: Value) -> Value:
    """Lanes where ``left > right``, or where ``left`` is NaN, so that a maximum keeps a NaN as torch does."""
    above = builder.fcmp_ordered(">", left.ir, right.ir)
    return Value(_mask_of(left.type), builder.or_(above, builder.fcmp_unordered("uno", left.ir, left.ir)))


@Intrinsic
def differs(builder: ir.IRBuilder, left: Value, right: Value) -> Value:
    """Lanes of other bits: one NaN is the same as itself."""
    vec = left.type if isinstance(left.type, Vec) else None
    bits = ir.IntType(8 * BYTES[vec.dtype if vec else left.type.name])
    kind = ir.VectorType(bits, vec.lanes) if vec else bits
    words = (builder.bitcast(x.ir, kind) for x in (left, right))
    return Value(_mask_of(left.type), builder.icmp_unsigned("!=", *words))


@Intrinsic
def select(builder: ir.IRBuilder, mask: Value, yes: Value, no: Value) -> Value:
    """Lanes of ``yes`` where the mask holds, of ``no`` elsewhere."""
    return Value(yes.type, builder.select(mask.ir, yes.ir, no.ir))


def _reduction(name: str) -> Intrinsic:
    def reduce(builder: ir.IRBuilder, x: Value) -> Value:
        vec = x.type
        if not isinstance(vec, Vec):
            return x
        scalar, sums = NUMBERS[vec.dtype], name == "fadd"
        start = [ir.Constant(scalar.llvm, -0.0)] if sums else []
        name_of = f"llvm.vector.reduce.{name}.v{vec.lanes}f{8 * BYTES[vec.dtype]}"
        flags = ("reassoc",) if sums else ()
        return Value(scalar, call_external(builder, name_of, scalar.llvm, [*start, x.ir], flags))

    return Intrinsic(reduce)


reduce_add = _reduction("fadd")
"""``reduce_add(vec)``: the sum of the lanes."""
reduce_max = _reduction("fmax")
"""``reduce_max(vec)``: the largest lane."""
