"""Arrays and records of them in kernel source: a pointer and a length, whose elements are numbers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .vec import I8, I16, I32, I64, LANES

ELEMENTS: dict[str, tuple[ir.Type, types.Type]] = {
    "bool": (I8, types.boolean),
    **{f"{sign}int{size.width}": (size, types.int64) for sign in ("", "u") for size in (I8, I16, I32, I64)},
    **{dtype: (LANES[dtype], getattr(types, dtype)) for dtype in ("float32", "float64")},
}
"""How an element of each dtype lies in memory, and the type of its value. Every integer is read as an int64."""


class Array(types.Type):
    """Type of a contiguous array of one dimension."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        super().__init__(name=f"{dtype}[]")

    @property
    def llvm(self) -> ir.Type:
        """The LLVM type: where the first element is, and how many there are."""
        return ir.LiteralStructType([ELEMENTS[self.dtype][0].as_pointer(), I64])


class Record(types.Type):
    """Type of a named tuple."""

    def __init__(self, fields: tuple[tuple[str, types.Type], ...]) -> None:
        self.fields = dict(fields)
        super().__init__(name=str(fields))

    @property
    def llvm(self) -> ir.Type:
        """The LLVM type."""
        return ir.LiteralStructType([llvm_of(kind) for kind in self.fields.values()])


def llvm_of(kind: types.Type) -> ir.Type:
    """Return the LLVM type of a value."""
    if isinstance(kind, Array | Record):
        return kind.llvm
    return {"bool": ir.IntType(1), "none": I8, "uint64": I64, **LANES}[str(kind)]


@intrinsic
def address_of(typingctx: Any, array: Any, i: Any) -> Any:
    """Return the address of ``array[i]``, which need not be inside."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        if isinstance(array, Array):
            first = builder.extract_value(args[0], 0)
        else:
            first = context.make_array(sig.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(builder.gep(first, [args[1]]), I64)

    return types.int64(array, types.int64), codegen
