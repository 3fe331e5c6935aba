"""Operations across the lanes of a vector: broadcast, compare, select, reduce."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from .vec import BYTES, LANES, Vec, as_vec, value_type


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


class Mask(types.Type):
    """Numba type of a boolean for each lane of a vector of ``dtype``."""

    def __init__(self, dtype: str, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Mask({dtype}, {lanes})")


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

    result = Mask(left.dtype, left.lanes) if isinstance(left, Vec) else types.boolean
    return result(left, right), codegen


@intrinsic
def differs(typingctx: Any, left: Any, right: Any) -> Any:
    """Lanes of other bits: one NaN is the same as itself."""
    result = Mask(left.dtype, left.lanes) if isinstance(left, Vec) else types.boolean
    bits = ir.IntType(8 * BYTES[left.dtype if isinstance(left, Vec) else left.name])

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.VectorType(bits, left.lanes) if isinstance(left, Vec) else bits
        return builder.icmp_unsigned("!=", *(builder.bitcast(x, kind) for x in args))

    return result(left, right), codegen


@intrinsic
def select(typingctx: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Lanes of ``yes`` where the mask holds, of ``no`` elsewhere."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.select(*args)

    return yes(mask, yes, no), codegen


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
