"""``Vec``: a Numba type for SIMD vectors, with arithmetic.

A ``Vec`` of any power-of-two number of lanes is one LLVM vector; LLVM cuts it into the machine's registers, so a kernel
names a 64-lane accumulator once and it lives in eight AVX2 or four AVX-512 registers for the whole row. Ordinary
operators work on vectors and between a vector and a scalar (which is spread over the lanes), so the operator table's
source text runs on them unchanged.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, models, register_model, type_callable

from ...spec import ITEM_BYTES

I64, I32, I16, I8 = (ir.IntType(bits) for bits in (64, 32, 16, 8))
LANES = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "int32": I32, "int64": I64}
STORAGE = {**LANES, "float16": ir.HalfType(), "bfloat16": I16}
"""How each dtype lies in memory."""
BYTES = {**ITEM_BYTES, "int32": 4, "int64": 8}


class Vec(types.Type):
    """Numba type of a vector of ``lanes`` values."""

    def __init__(self, dtype: str, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vec({dtype}, {lanes})")

    @property
    def llvm(self) -> ir.VectorType:
        """The LLVM type."""
        return ir.VectorType(LANES[self.dtype], self.lanes)


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vec) -> None:
        super().__init__(dmm, fe_type, fe_type.llvm)


# -- operators ---------------------------------------------------------------------------------------------------------
def spread_scalar(builder: ir.IRBuilder, value: ir.Value, vec: Vec) -> ir.Value:
    """Repeat a scalar over the lanes of ``vec``."""
    undefined = ir.Constant(vec.llvm, ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, vec.lanes), [0] * vec.lanes))


def as_vec(context: Any, builder: ir.IRBuilder, value: ir.Value, ty: types.Type, vec: Vec) -> ir.Value:
    """Cast a scalar to the vector's lanes, or return the vector itself."""
    if isinstance(ty, Vec):
        return value
    return spread_scalar(builder, context.cast(builder, value, ty, getattr(types, vec.dtype)), vec)


def _arithmetic(op: Callable[..., Any], instruction: str) -> None:
    @type_callable(op)
    def typing(context: Any) -> Any:
        def typer(left: types.Type, right: types.Type) -> types.Type | None:
            vecs = [arg for arg in (left, right) if isinstance(arg, Vec)]
            return vecs[0] if vecs and all(vec == vecs[0] for vec in vecs) else None

        return typer

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        left, right = (as_vec(context, builder, v, t, sig.return_type) for v, t in zip(args, sig.args, strict=True))
        return getattr(builder, instruction)(left, right)

    for pair in ((Vec, Vec), (Vec, types.Number), (types.Number, Vec)):
        lower_builtin(op, *pair)(lower)


ARITHMETIC = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}
"""The LLVM instruction of each operator on vectors."""
for _op, _instruction in ARITHMETIC.items():
    _arithmetic(_op, _instruction)


@type_callable(operator.neg)
def _type_neg(context: Any) -> Any:
    return lambda value: value if isinstance(value, Vec) else None


@lower_builtin(operator.neg, Vec)
def _lower_neg(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
    return builder.fneg(args[0])


def shape_of(element: ir.Type, lanes: int) -> ir.Type:
    return element if lanes == 1 else ir.VectorType(element, lanes)


def multiply_add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return a * b + c, rounded once where the CPU has an instruction for that.

    Left to LLVM (by the flag ``contract``), it would depend on the code around which products are rounded.
    """
    kind = a.type
    suffix = f"v{kind.count}{kind.element.intrinsic_name}" if isinstance(kind, ir.VectorType) else kind.intrinsic_name
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.{suffix}"
    )
    return builder.call(function, [a, b, c])


def constant(element: ir.Type, value: float, lanes: int) -> ir.Constant:
    return ir.Constant(element, value) if lanes == 1 else ir.Constant(ir.VectorType(element, lanes), [value] * lanes)


def value_type(dtype: str, lanes: int) -> types.Type:
    return getattr(types, dtype) if lanes == 1 else Vec(dtype, lanes)
