"""LLVM operations that Numba lacks: atomic words shared by threads, and calls of C functions by address."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .vec import I32, I64

_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", []), "aarch64": ("llvm.aarch64.hint", [I32(1)])}
_PAUSE = _PAUSES.get({"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine()))


def _at(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, I64.as_pointer())


@intrinsic
def put_word(typingctx: Any, address: Any, i: Any, value: Any) -> Any:
    """Write the i-th word from an address on."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        builder.store(args[2], builder.gep(_at(builder, args[0]), [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def add_to_word(typingctx: Any, address: Any, value: Any) -> Any:
    """Add to the word at an address, as one step; return what was there. Writes before it are seen by who sees it."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.atomic_rmw("add", _at(builder, args[0]), args[1], "acq_rel")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def take_bit(typingctx: Any, address: Any, bit: Any) -> Any:
    """Set a bit of the word at an address, as one step; return whether it was not set."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        mask = builder.shl(I64(1), args[1])
        previous = builder.atomic_rmw("or", _at(builder, args[0]), mask, "acq_rel")
        return builder.icmp_unsigned("==", builder.and_(previous, mask), I64(0))

    return types.boolean(types.int64, types.int64), codegen


@intrinsic
def read_word(typingctx: Any, address: Any) -> Any:
    """Read a word that another thread may write."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.load_atomic(_at(builder, args[0]), "acquire", 8)

    return types.int64(types.int64), codegen


@intrinsic
def pause(typingctx: Any) -> Any:
    """Tell the core that this is a loop that waits: some tens of cycles, which another thread of the core may use."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        if _PAUSE is not None:
            name, hints = _PAUSE
            kind = ir.FunctionType(ir.VoidType(), [hint.type for hint in hints])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), hints)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def call_int(typingctx: Any, function: Any, x: Any, y: Any) -> Any:
    """Call a C function (pointer, int) that returns an int, or one that takes less."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(I32, [I64, I32])
        called = builder.inttoptr(args[0], kind.as_pointer())
        return builder.sext(builder.call(called, [args[1], builder.trunc(args[2], I32)]), I64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def call_rows(
    typingctx: Any, address: Any, args: Any, row: Any, stop: Any, begin: Any, end: Any, out: Any, argmax: Any
) -> Any:
    """Call the g-SpMM kernel at an address for the rows from ``row`` to ``stop``, see ``render/sparse.py``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [I64] * 7)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), codegen
