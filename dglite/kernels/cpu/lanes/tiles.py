"""Helpers of row kernels that work on a tile of scores: stack memory, and sums over groups of lanes."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .vec import I8, I32, I64, LANES, Vec, constant, value_type

__all__ = ["run_sums", "scratch", "steep"]


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
    given, result = value_type(dtype, lanes), value_type(dtype, lanes // run)

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

        return result(given), codegen

    if run == 1 or not isinstance(given, Vec):
        raise ValueError(f"{lanes} lanes have no runs of {run} to add")
    return sums
