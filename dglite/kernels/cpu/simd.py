"""SIMD vectors for Numba: a value type ``Vec`` and the handful of intrinsics that kernels are rendered with.

A ``Vec`` of any power-of-two number of lanes is one LLVM vector; LLVM cuts it into the machine's registers, so a kernel
names a 64-lane accumulator once and it lives in eight AVX2 or four AVX-512 registers for the whole row. Ordinary
operators work on vectors and between a vector and a scalar (which is spread over the lanes), so the operator table's
source text runs on them unchanged.

Addresses are plain 64-bit integers. Loads and stores of 16-bit floats convert from and to float32 lanes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from ..render import ITEM_BYTES, compute_dtype

__all__ = ["STORAGE", "gather", "greater", "index_loader", "loader", "prefetch", "reduce_add", "reduce_max"]
__all__ += ["repeat_loader", "scatter", "select", "splat", "storer", "word"]

I64, I32, I16, I8 = (ir.IntType(bits) for bits in (64, 32, 16, 8))
_LANES = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "int32": I32, "int64": I64}
STORAGE = {**_LANES, "float16": ir.HalfType(), "bfloat16": I16}
"""How each dtype lies in memory."""
_BYTES = {**ITEM_BYTES, "int32": 4, "int64": 8}
_FLAGS = ("contract", "nsz")
"""Multiply and add may fuse; nothing else about the arithmetic is relaxed, NaN and infinity included."""


class Vec(types.Type):
    """Numba type of a vector of ``lanes`` values."""

    def __init__(self, dtype: str, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vec({dtype}, {lanes})")

    @property
    def llvm(self) -> ir.VectorType:
        """The LLVM type."""
        return ir.VectorType(_LANES[self.dtype], self.lanes)


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vec) -> None:
        super().__init__(dmm, fe_type, fe_type.llvm)


# -- operators ---------------------------------------------------------------------------------------------------------
def _spread(builder: ir.IRBuilder, value: ir.Value, vec: Vec) -> ir.Value:
    """Repeat a scalar over the lanes of ``vec``."""
    undefined = ir.Constant(vec.llvm, ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, vec.lanes), [0] * vec.lanes))


def _as_vec(context: Any, builder: ir.IRBuilder, value: ir.Value, ty: types.Type, vec: Vec) -> ir.Value:
    """Cast a scalar to the vector's lanes, or return the vector itself."""
    if isinstance(ty, Vec):
        return value
    return _spread(builder, context.cast(builder, value, ty, getattr(types, vec.dtype)), vec)


def _arithmetic(op: Callable[..., Any], instruction: str) -> None:
    @type_callable(op)
    def typing(context: Any) -> Any:
        def typer(left: types.Type, right: types.Type) -> types.Type | None:
            vecs = [arg for arg in (left, right) if isinstance(arg, Vec)]
            return vecs[0] if vecs and all(vec == vecs[0] for vec in vecs) else None

        return typer

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        left, right = (_as_vec(context, builder, v, t, sig.return_type) for v, t in zip(args, sig.args, strict=True))
        return getattr(builder, instruction)(left, right, flags=_FLAGS)

    for pair in ((Vec, Vec), (Vec, types.Number), (types.Number, Vec)):
        lower_builtin(op, *pair)(lower)


for _op, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv")):
    _arithmetic(_op, _instruction)


@type_callable(operator.neg)
def _type_neg(context: Any) -> Any:
    return lambda value: value if isinstance(value, Vec) else None


@lower_builtin(operator.neg, Vec)
def _lower_neg(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
    return builder.fneg(args[0])


# -- memory ------------------------------------------------------------------------------------------------------------
def _pointer(builder: ir.IRBuilder, address: ir.Value, pointee: ir.Type) -> ir.Value:
    return builder.inttoptr(address, pointee.as_pointer())


def _widen(builder: ir.IRBuilder, value: ir.Value, dtype: str, lanes: int) -> ir.Value:
    """Convert 16-bit floats as loaded to float32."""
    if dtype == "float16":
        return builder.fpext(value, _shape(ir.FloatType(), lanes))
    if dtype == "bfloat16":
        bits = builder.zext(value, _shape(I32, lanes))
        return builder.bitcast(builder.shl(bits, _constant(I32, 16, lanes)), _shape(ir.FloatType(), lanes))
    return value


def _narrow(builder: ir.IRBuilder, value: ir.Value, dtype: str, lanes: int) -> ir.Value:
    """Round float32 to the 16-bit float that is stored (to nearest, ties to even)."""
    if dtype == "float16":
        return builder.fptrunc(value, _shape(ir.HalfType(), lanes))
    if dtype == "bfloat16":
        bits = builder.bitcast(value, _shape(I32, lanes))
        even = builder.and_(builder.lshr(bits, _constant(I32, 16, lanes)), _constant(I32, 1, lanes))
        rounded = builder.add(builder.add(bits, _constant(I32, 0x7FFF, lanes)), even)
        quiet = builder.or_(bits, _constant(I32, 0x400000, lanes))
        nan = builder.fcmp_unordered("uno", value, value)
        return builder.trunc(builder.lshr(builder.select(nan, quiet, rounded), _constant(I32, 16, lanes)), _shape(I16, lanes))
    return value


def _shape(element: ir.Type, lanes: int) -> ir.Type:
    return element if lanes == 1 else ir.VectorType(element, lanes)


def _constant(element: ir.Type, value: float, lanes: int) -> ir.Constant:
    return ir.Constant(element, value) if lanes == 1 else ir.Constant(ir.VectorType(element, lanes), [value] * lanes)


def _value_type(dtype: str, lanes: int) -> types.Type:
    return getattr(types, dtype) if lanes == 1 else Vec(dtype, lanes)


@lru_cache(maxsize=None)
def loader(dtype: str, lanes: int) -> Any:
    """Return ``load(address)``: ``lanes`` consecutive values of ``dtype`` as a vector, or as a scalar for one lane."""
    result = _value_type(compute_dtype(dtype), lanes)

    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            value = builder.load(_pointer(builder, args[0], _shape(STORAGE[dtype], lanes)), align=_BYTES[dtype])
            return _widen(builder, value, dtype, lanes)

        return result(types.int64), codegen

    return load


@lru_cache(maxsize=None)
def repeat_loader(dtype: str, lanes: int, repeat: int) -> Any:
    """Return ``load(address)``: ``lanes / repeat`` consecutive values, each standing in ``repeat`` neighbouring lanes."""
    result, count = Vec(compute_dtype(dtype), lanes), lanes // repeat

    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            value = builder.load(_pointer(builder, args[0], _shape(STORAGE[dtype], count)), align=_BYTES[dtype])
            value = _widen(builder, value, dtype, count)
            if count == 1:
                return _spread(builder, value, result)
            order = ir.Constant(ir.VectorType(I32, lanes), [lane // repeat for lane in range(lanes)])
            return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)

        return result(types.int64), codegen

    return load


@lru_cache(maxsize=None)
def storer(dtype: str, lanes: int) -> Any:
    """Return ``store(address, value)``, the counterpart of :func:`loader`."""

    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        expected = _value_type(compute_dtype(dtype), lanes)

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            value = args[1]
            if isinstance(expected, Vec):
                value = _as_vec(context, builder, value, sig.args[1], expected)
            else:
                value = context.cast(builder, value, sig.args[1], expected)
            value = _narrow(builder, value, dtype, lanes)
            builder.store(value, _pointer(builder, args[0], value.type), align=_BYTES[dtype])
            return context.get_dummy_value()

        return types.void(types.int64, value), codegen

    return store


@lru_cache(maxsize=None)
def index_loader(dtype: str) -> Any:
    """Return ``index(address, i)``: the ``i``-th id or pointer of an int32 or int64 array, as int64."""

    @intrinsic
    def index(typingctx: Any, address: Any, i: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            pointer = _pointer(builder, args[0], _LANES[dtype])
            value = builder.load(builder.gep(pointer, [args[1]]))
            return builder.sext(value, I64) if dtype == "int32" else value

        return types.int64(types.int64, types.int64), codegen

    return index


word = index_loader("int64")


@lru_cache(maxsize=None)
def edge_index_loader(dtype: str) -> Any:
    """Return ``edge_index(address, j)``: the edge id of entry ``j``; ``j`` itself when there is no array (address 0)."""

    @intrinsic
    def edge_index(typingctx: Any, address: Any, j: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            before = builder.basic_block
            with builder.if_then(builder.icmp_signed("!=", args[0], I64(0))):
                value = builder.load(builder.gep(_pointer(builder, args[0], _LANES[dtype]), [args[1]]))
                value = builder.sext(value, I64) if dtype == "int32" else value
                loaded = builder.basic_block
            edge = builder.phi(I64)
            edge.add_incoming(args[1], before)
            edge.add_incoming(value, loaded)
            return edge

        return types.int64(types.int64, types.int64), codegen

    return edge_index


@lru_cache(maxsize=None)
def ahead_loader(dtype: str, distance: int) -> Any:
    """Return ``index_ahead(address, j, count)``: the id ``distance`` entries after ``j``, or the last one."""

    @intrinsic
    def index_ahead(typingctx: Any, address: Any, j: Any, count: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            ahead, final = builder.add(args[1], I64(distance)), builder.sub(args[2], I64(1))
            at = builder.select(builder.icmp_signed("<", ahead, final), ahead, final)
            value = builder.load(builder.gep(_pointer(builder, args[0], _LANES[dtype]), [at]))
            return builder.sext(value, I64) if dtype == "int32" else value

        return types.int64(types.int64, types.int64, types.int64), codegen

    return index_ahead


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Ask for the cache line at ``address`` ahead of its use."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        pointer = _pointer(builder, args[0], I8)
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


# -- lanes -------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=None)
def splat(dtype: str, lanes: int) -> Any:
    """Return ``splat(scalar)``: the scalar in every lane (a plain scalar for one lane)."""
    result = _value_type(dtype, lanes)

    @intrinsic
    def spread(typingctx: Any, scalar: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            if not isinstance(result, Vec):
                return context.cast(builder, args[0], sig.args[0], result)
            return _as_vec(context, builder, args[0], sig.args[0], result)

        return result(scalar), codegen

    return spread


@lru_cache(maxsize=None)
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


def _reduction(name: str) -> Any:
    @intrinsic
    def reduce(typingctx: Any, vec: Any) -> Any:
        if not isinstance(vec, Vec):
            return vec(vec), lambda context, builder, sig, args: args[0]
        scalar = getattr(types, vec.dtype)

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            element, suffix = _LANES[vec.dtype], f"v{vec.lanes}f{8 * _BYTES[vec.dtype]}"
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
