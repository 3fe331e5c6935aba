"""SIMD vectors for Numba: a value type ``Vec`` and the handful of intrinsics that kernels are rendered with.

A ``Vec`` of any power-of-two number of lanes is one LLVM vector; LLVM cuts it into the machine's registers, so a kernel
names a 64-lane accumulator once and it lives in eight AVX2 or four AVX-512 registers for the whole row. Ordinary
operators work on vectors and between a vector and a scalar (which is spread over the lanes), so the operator table's
source text runs on them unchanged.

Addresses are plain 64-bit integers. Loads and stores of 16-bit floats convert from and to float32 lanes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from ..render import ITEM_BYTES, compute_dtype

__all__ = [
    "STORAGE",
    "ahead_loader",
    "edge_ahead_loader",
    "edge_gather",
    "edge_index_loader",
    "edge_scatter",
    "exp",
    "greater",
    "index_loader",
    "loader",
    "prefetch",
    "reduce_add",
    "reduce_max",
    "repeat_loader",
    "select",
    "splat",
    "storer",
    "word",
]

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


for _op, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
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
        return builder.trunc(
            builder.lshr(builder.select(nan, quiet, rounded), _constant(I32, 16, lanes)), _shape(I16, lanes)
        )
    return value


def _shape(element: ir.Type, lanes: int) -> ir.Type:
    return element if lanes == 1 else ir.VectorType(element, lanes)


def _constant(element: ir.Type, value: float, lanes: int) -> ir.Constant:
    return ir.Constant(element, value) if lanes == 1 else ir.Constant(ir.VectorType(element, lanes), [value] * lanes)


def _value_type(dtype: str, lanes: int) -> types.Type:
    return getattr(types, dtype) if lanes == 1 else Vec(dtype, lanes)


@cache
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


@cache
def repeat_loader(dtype: str, lanes: int, repeat: int) -> Any:
    """Return ``load(address)``: ``lanes / repeat`` consecutive values, each in ``repeat`` neighbouring lanes."""
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


@cache
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


@cache
def index_loader(dtype: str) -> Any:
    """Return ``index(address, i)``: the ``i``-th id or pointer of an int32 or int64 array, as int64."""

    @intrinsic
    def index(typingctx: Any, address: Any, i: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            return _index(builder, args[0], args[1], dtype)

        return types.int64(types.int64, types.int64), codegen

    return index


word = index_loader("int64")


@cache
def ahead_loader(dtype: str, distance: int) -> Any:
    """Return ``index_ahead(address, j, count)``: the id ``distance`` entries after ``j``, or the last one."""

    @intrinsic
    def index_ahead(typingctx: Any, address: Any, j: Any, count: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            return _index(builder, args[0], _ahead(builder, args[1], args[2], distance), dtype)

        return types.int64(types.int64, types.int64, types.int64), codegen

    return index_ahead


@cache
def edge_index_loader(dtype: str) -> Any:
    """Return ``edge_index(address, j)``: the edge id of entry ``j``; ``j`` itself without an array (address 0)."""

    @intrinsic
    def edge_index(typingctx: Any, address: Any, j: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            return _edge_index(builder, args[0], args[1], dtype)

        return types.int64(types.int64, types.int64), codegen

    return edge_index


@cache
def edge_ahead_loader(dtype: str, distance: int) -> Any:
    """Return ``edge_ahead(address, j, count)``: the edge id ``distance`` entries after ``j``, or the last one's."""

    @intrinsic
    def edge_ahead(typingctx: Any, address: Any, j: Any, count: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            return _edge_index(builder, args[0], _ahead(builder, args[1], args[2], distance), dtype)

        return types.int64(types.int64, types.int64, types.int64), codegen

    return edge_ahead


def _index(builder: ir.IRBuilder, address: ir.Value, i: ir.Value, dtype: str) -> ir.Value:
    value = builder.load(builder.gep(_pointer(builder, address, _LANES[dtype]), [i]))
    return builder.sext(value, I64) if dtype == "int32" else value


def _ahead(builder: ir.IRBuilder, j: ir.Value, count: ir.Value, distance: int) -> ir.Value:
    ahead, final = builder.add(j, I64(distance)), builder.sub(count, I64(1))
    return builder.select(builder.icmp_signed("<", ahead, final), ahead, final)


def _edge_index(builder: ir.IRBuilder, address: ir.Value, j: ir.Value, dtype: str) -> ir.Value:
    before = builder.basic_block
    with builder.if_then(builder.icmp_signed("!=", address, I64(0))):
        loaded = _index(builder, address, j, dtype)
        block = builder.basic_block
    edge = builder.phi(I64)
    edge.add_incoming(j, before)
    edge.add_incoming(loaded, block)
    return edge


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
@cache
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
    kind, whole = _shape(element, lanes), _shape(bits, lanes)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        def number(value: float) -> ir.Constant:
            return _constant(element, value, lanes)

        def times_plus(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
            return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)

        value = args[0]
        value = builder.select(builder.fcmp_ordered("<", value, number(low)), number(low), value)
        value = builder.select(builder.fcmp_ordered(">", value, number(high)), number(high), value)
        suffix = f"{f'v{lanes}' if lanes > 1 else ''}f{8 * _BYTES[dtype]}"
        rint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), f"llvm.rint.{suffix}")
        n = builder.call(rint, [builder.fmul(value, number(1 / math.log(2)))])
        r = times_plus(n, number(-ln2_high), value)
        r = times_plus(n, number(-float(Decimal(2).ln() - Decimal(ln2_high))), r)
        result = number(1 / math.factorial(degree))
        for power in reversed(range(degree)):
            result = times_plus(result, r, number(1 / math.factorial(power)))
        exponent = builder.fptosi(n, whole)
        half = builder.ashr(exponent, _constant(bits, 1, lanes))
        bias, shift = (
            _constant(bits, (1 << (8 * _BYTES[dtype] - mantissa - 2)) - 1, lanes),
            _constant(bits, mantissa, lanes),
        )
        for part in (half, builder.sub(exponent, half)):
            scale = builder.bitcast(builder.shl(builder.add(part, bias), shift), kind)
            result = builder.fmul(result, scale)
        return result

    return x(x), codegen


@cache
def edge_gather(dtype: str, index: str, lanes: int) -> Any:
    """Return ``gather(address, edge_ids, j)``: the values of the edges of entries ``j`` to ``j + lanes - 1``."""
    result = _value_type(compute_dtype(dtype), lanes)

    @intrinsic
    def gather(typingctx: Any, address: Any, edge_ids: Any, j: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            stored = ir.VectorType(STORAGE[dtype], lanes)
            in_order = builder.icmp_signed("==", args[1], I64(0))
            with builder.if_else(in_order) as (then, otherwise):
                with then:
                    pointer = builder.gep(_pointer(builder, args[0], STORAGE[dtype]), [args[2]])
                    run = builder.load(builder.bitcast(pointer, stored.as_pointer()), align=_BYTES[dtype])
                    run_block = builder.basic_block
                with otherwise:
                    picked: ir.Value = ir.Constant(stored, ir.Undefined)
                    for lane in range(lanes):
                        pointer = _edge_pointer(builder, args, lane, dtype, index)
                        picked = builder.insert_element(picked, builder.load(pointer), I32(lane))
                    picked_block = builder.basic_block
            value = builder.phi(stored)
            value.add_incoming(run, run_block)
            value.add_incoming(picked, picked_block)
            return _widen(builder, value, dtype, lanes)

        return result(types.int64, types.int64, types.int64), codegen

    return gather


@cache
def edge_scatter(dtype: str, index: str, lanes: int) -> Any:
    """Return ``scatter(address, edge_ids, j, value)``, the counterpart of :func:`edge_gather`."""

    @intrinsic
    def scatter(typingctx: Any, address: Any, edge_ids: Any, j: Any, value: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            narrow = _narrow(builder, args[3], dtype, lanes)
            in_order = builder.icmp_signed("==", args[1], I64(0))
            with builder.if_else(in_order) as (then, otherwise):
                with then:
                    pointer = builder.gep(_pointer(builder, args[0], STORAGE[dtype]), [args[2]])
                    builder.store(narrow, builder.bitcast(pointer, narrow.type.as_pointer()), align=_BYTES[dtype])
                with otherwise:
                    for lane in range(lanes):
                        pointer = _edge_pointer(builder, args, lane, dtype, index)
                        builder.store(builder.extract_element(narrow, I32(lane)), pointer)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, value), codegen

    return scatter


def _edge_pointer(builder: ir.IRBuilder, args: tuple[ir.Value, ...], lane: int, dtype: str, index: str) -> ir.Value:
    edge = _index(builder, args[1], builder.add(args[2], I64(lane)), index)
    return builder.gep(_pointer(builder, args[0], STORAGE[dtype]), [edge])


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
