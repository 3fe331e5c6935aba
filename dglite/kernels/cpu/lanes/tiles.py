"""Helpers of kernels that work on tiles: stack memory, sums over groups of lanes, transposition."""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from .types import BYTES, I8, I32, I64, LANES, Vec, constant, int64, none, shape_of, value_type
from .values import Intrinsic, Value, converted, intrinsic


@cache
def scratch(size: int) -> Intrinsic:
    """Return ``memory()``: the address of ``size`` bytes on the stack, at a multiple of 64, undefined at first.

    Each place where it is written in a kernel has its own bytes, for the length of the call.
    """

    @intrinsic(int64)
    def memory(builder: ir.IRBuilder) -> ir.Value:
        # Not filled with zeros: LLVM takes that apart byte by byte, at length.
        with builder.goto_entry_block():
            place = builder.alloca(ir.ArrayType(I8, size))
        place.align = 64
        return builder.ptrtoint(place, I64)

    return memory


@Intrinsic
def steep(builder: ir.IRBuilder, value: Value, slope: Value) -> Value:
    """Slope of the leaky ReLU in every lane: 1 where ``value`` is positive or NaN, ``slope`` elsewhere."""
    kind = value.type
    element, lanes = (LANES[kind.dtype], kind.lanes) if isinstance(kind, Vec) else (kind.llvm, 1)
    positive = builder.fcmp_unordered(">", value.ir, constant(element, 0.0, lanes))
    slopes = builder.select(positive, constant(element, 1.0, lanes), converted(builder, slope, kind))
    return Value(kind, slopes)


@cache
def run_sums(dtype: str, lanes: int, run: int) -> Intrinsic:
    """Return ``sums(vec)``: the sums of each ``run`` (a power of two) neighbouring lanes, ``lanes / run`` values."""
    argument, result = value_type(dtype, lanes), value_type(dtype, lanes // run)

    @intrinsic(result, argument)
    def sums(builder: ir.IRBuilder, vec: ir.Value) -> ir.Value:
        value, count = vec, lanes
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

    if run == 1 or not isinstance(argument, Vec):
        raise ValueError(f"{lanes} lanes have no runs of {run} to add")
    return sums


@cache
def transposer(dtype: str, lanes: int) -> Intrinsic:
    """Return ``transpose(x, x_stride, y, y_stride)``: y is x, ``lanes`` rows of as many values, transposed.

    Strides are bytes from row to row. Of float32 or float64. In each round the blocks beside the diagonal of blocks
    twice as large change places.
    """
    kind = shape_of(LANES[dtype], lanes)

    @intrinsic(none, *[int64] * 4)
    def transpose(builder: ir.IRBuilder, x: ir.Value, x_stride: ir.Value, y: ir.Value, y_stride: ir.Value) -> None:
        def row(i: int, address: ir.Value, stride: ir.Value) -> ir.Value:
            return builder.inttoptr(builder.add(address, builder.mul(stride, I64(i))), kind.as_pointer())

        rows = [builder.load(row(i, x, x_stride), align=BYTES[dtype]) for i in range(lanes)]
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
            builder.store(column, row(i, y, y_stride), align=BYTES[dtype])

    return transpose
