"""Arrays and records of them in kernel source: a pointer and a length, whose elements are numbers."""

from __future__ import annotations

from llvmlite import ir

from .types import I8, I16, I32, I64, NUMBERS, NumberType, Type, boolean, int64
from .values import Intrinsic, Value, converted

ELEMENTS: dict[str, tuple[ir.Type, NumberType]] = {
    "bool": (I8, boolean),
    **{f"{sign}int{size.width}": (size, int64) for sign in ("", "u") for size in (I8, I16, I32, I64)},
    **{dtype: (NUMBERS[dtype].llvm, NUMBERS[dtype]) for dtype in ("float32", "float64")},
}
"""How an element of each dtype lies in memory, and the type of its value. Every integer is read as an int64."""


class Array(Type):
    """Type of a contiguous array of one dimension: where the first element is, and how many there are."""

    def __init__(self, dtype: str) -> None:
        super().__init__(f"{dtype}[]", ir.LiteralStructType([ELEMENTS[dtype][0].as_pointer(), I64]))
        self.dtype = dtype


class Record(Type):
    """Type of a named tuple."""

    def __init__(self, fields: tuple[tuple[str, Type], ...]) -> None:
        super().__init__(str(fields), ir.LiteralStructType([kind.llvm for _, kind in fields]))
        self.fields = dict(fields)


@Intrinsic
def address_of(builder: ir.IRBuilder, array: Value, i: Value) -> Value:
    """Return the address of ``array[i]``, which need not be inside."""
    first = builder.extract_value(array.ir, 0)
    return Value(int64, builder.ptrtoint(builder.gep(first, [converted(builder, i, int64)]), I64))
