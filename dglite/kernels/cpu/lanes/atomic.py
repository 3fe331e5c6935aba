"""Words that threads share, and calls of C functions by address."""

from __future__ import annotations

import platform

from llvmlite import ir

from .types import I8, I32, I64, boolean, int64, none
from .values import Intrinsic, Value, call_address, call_external, converted, intrinsic

_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", []), "aarch64": ("llvm.aarch64.hint", [I32(1)])}
_PAUSE = _PAUSES.get({"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine()))


def word_at(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Return the pointer to the word at an address."""
    return builder.inttoptr(address, I64.as_pointer())


@intrinsic(none, int64, int64, int64)
def put_word(builder: ir.IRBuilder, address: ir.Value, i: ir.Value, value: ir.Value) -> None:
    """Write the i-th word from an address on."""
    builder.store(value, builder.gep(word_at(builder, address), [i]))


@intrinsic(int64, int64, int64)
def add_to_word(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> ir.Value:
    """Add to the word at an address, as one step; return what was there. Writes before it are seen by who sees it."""
    return builder.atomic_rmw("add", word_at(builder, address), value, "acq_rel")


@intrinsic(boolean, int64, int64)
def take_bit(builder: ir.IRBuilder, address: ir.Value, bit: ir.Value) -> ir.Value:
    """Set a bit of the word at an address, as one step; return whether it was not set."""
    mask = builder.shl(I64(1), bit)
    previous = builder.atomic_rmw("or", word_at(builder, address), mask, "acq_rel")
    return builder.icmp_unsigned("==", builder.and_(previous, mask), I64(0))


@intrinsic(int64, int64)
def read_word(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Read a word that another thread may write."""
    return builder.load_atomic(word_at(builder, address), "acquire", 8)


@intrinsic(none)
def pause(builder: ir.IRBuilder) -> None:
    """Tell the core that this is a loop that waits: some tens of cycles, which another thread of the core may use."""
    if _PAUSE is not None:
        call_external(builder, _PAUSE[0], ir.VoidType(), _PAUSE[1])


@intrinsic(int64, int64, int64, int64)
def call_int(builder: ir.IRBuilder, function: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Call a C function (pointer, int) that returns an int, or one that takes less."""
    return builder.sext(call_address(builder, I32, function, [x, builder.trunc(y, I32)]), I64)


@Intrinsic
def call_at(builder: ir.IRBuilder, address: Value, *words: Value) -> Value:
    """Call the function of integers at an address."""
    call_address(builder, ir.VoidType(), address.ir, [converted(builder, word, int64) for word in words])
    return Value(none, ir.Constant(I8, 0))
