"""Helpers of kernels that work on tiles: stack memory, sums over groups of lanes, transposition."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .vec import BYTES, I8, I32, I64, LANES, Vec, constant, shape_of, value_type


@cache
def scratch(size: int) -> Any:
    """Return ``memory()``: the address of ``size`` bytes on the stack, at a multiple of 64, undefined at first.

    Each place where it is written in a kernel has its own bytes, for the length of the call.
    """

    @intrinsic
    def memory(typingctx: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            # Not cgutils.alloca_once: it fills with zeros, which LLVM takes apart byte by byte, at length.
            with builder.goto_entry_block():
                place = builder.alloca(ir.ArrayType(I8, size))
            place.align = 64
            return builder.ptrtoint(place, I64)

        return types.int64(), codegen

    return memory


@intrinsic
def steep(typingctx: Any, value: Any, slope: Any) -> Any:
    """Slope of the leaky ReLU in every lane: 1 where ``value`` is positive or NaN, ``slope`` elsewhere."""
    element, lanes = (LANES[value.dtype], value.lanes) if isinstance(value, Vec) else (LANES[str(value)], 1)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        positive = builder.fcmp_unordered(">", args[0], constant(element, 0.0, lanes))
        return builder.select(positive, constant(element, 1.0, lanes), args[1])

    return value(value, value), codegen


@cache
def run_sums(dtype: str, lanes: int, run: int) -> Any:
    """Return ``sums(vec)``: the sums of each ``run`` (a power of two) neighbouring lanes, ``lanes / run`` values."""
    argument, result = value_type(dtype, lanes), value_type(dtype, lanes // run)

    @intrinsic
    def sums(typingctx: Any, vec: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            value, count = args[0], lanes
            while count > lanes // run:
                halves = []
                for start in (0, 1):
                    if count == 2:
                        halves.append(builder.extract_element(value, I32(start)))
                        continue
                    order = ir.Constant(ir.VectorType(I32, count // 2), list(range(start, count, 2)))
                    halves.append(builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order))
                value, count = builder.fadd(*halves), count // 2
            return value

        return result(argument), codegen

    if run == 1 or not isinstance(argument, Vec):
        raise ValueError(f"{lanes} lanes have no runs of {run} to add")
    return sums


@cache
def transposer(dtype: str, lanes: int) -> Any:
    """Return ``transpose(x, x_stride, y, y_stride)``: y is x, ``lanes`` rows of as many values, transposed.

    Strides are bytes from row to row. Of float32 or float64. In each round the blocks beside the diagonal of blocks
    twice as large change places.
    """
    kind = shape_of(LANES[dtype], lanes)

    @intrinsic
    def transpose(typingctx: Any, x: Any, x_stride: Any, y: Any, y_stride: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            def row(i: int, address: ir.Value, stride: ir.Value) -> ir.Value:
                return builder.inttoptr(builder.add(address, builder.mul(stride, I64(i))), kind.as_pointer())

            rows = [builder.load(row(i, args[0], args[1]), align=BYTES[dtype]) for i in range(lanes)]
            size = lanes // 2
            while size:
                upper = [lane if not lane & size else lane - size + lanes for lane in range(lanes)]
                lower = [lane + size if not lane & size else lane + lanes for lane in range(lanes)]
                for i in range(lanes):
                    if not i & size:
                        pair = rows[i], rows[i + size]
                        for at, order in ((i, upper), (i + size, lower)):
                            rows[at] = builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(I32, lanes), order))
                size //= 2
            for i, column in enumerate(rows):
                builder.store(column, row(i, args[2], args[3]), align=BYTES[dtype])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), codegen

    return transpose
