"""Types of values in kernel source, and how LLVM names them.

A ``Vec`` of any power-of-two number of lanes is one LLVM vector; LLVM cuts it into the machine's registers, so a kernel
names a 64-lane accumulator once and it lives in eight AVX2 or four AVX-512 registers for the whole row.
"""

from __future__ import annotations

from llvmlite import ir

from ...spec import ITEM_BYTES

I64, I32, I16, I8, I1 = (ir.IntType(bits) for bits in (64, 32, 16, 8, 1))
LANES = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "int32": I32, "int64": I64}
STORAGE = {**LANES, "float16": ir.HalfType(), "bfloat16": I16}
"""How each dtype lies in memory."""
BYTES = {**ITEM_BYTES, "int32": 4, "int64": 8}


class Type:
    """Type of a value; two of the same name are the same."""

    def __init__(self, name: str, llvm: ir.Type) -> None:
        self.name, self.llvm = name, llvm

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


class NumberType(Type):
    """Type of a number of some bits."""

    def __init__(self, name: str, llvm: ir.Type, bits: int) -> None:
        super().__init__(name, llvm)
        self.bits = bits


class Integer(NumberType):
    """Type of an integer."""


class Float(NumberType):
    """Type of a float."""


none, boolean = Type("none", I8), Integer("bool", I1, 1)
int32, int64, uint64 = Integer("int32", I32, 32), Integer("int64", I64, 64), Integer("uint64", I64, 64)
float32, float64 = Float("float32", LANES["float32"], 32), Float("float64", LANES["float64"], 64)
NUMBERS = {kind.name: kind for kind in (boolean, int32, int64, float32, float64)}
"""Types that arithmetic is done in; where two meet, the later one is taken."""


class Vec(Type):
    """Type of a vector of ``lanes`` values."""

    def __init__(self, dtype: str, lanes: int) -> None:
        super().__init__(f"Vec({dtype}, {lanes})", ir.VectorType(LANES[dtype], lanes))
        self.dtype, self.lanes = dtype, lanes


class Mask(Type):
    """Type of a boolean for each lane of a vector of ``dtype``."""

    def __init__(self, dtype: str, lanes: int) -> None:
        super().__init__(f"Mask({dtype}, {lanes})", ir.VectorType(I1, lanes))
        self.dtype, self.lanes = dtype, lanes


def value_type(dtype: str, lanes: int) -> Type:
    """Return the type of ``lanes`` values: a number's for one lane."""
    return NUMBERS[dtype] if lanes == 1 else Vec(dtype, lanes)


def shape_of(element: ir.Type, lanes: int) -> ir.Type:
    """Return the LLVM type of ``lanes`` elements."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def constant(element: ir.Type, value: float, lanes: int) -> ir.Constant:
    """Return a value in every lane."""
    return ir.Constant(element, value) if lanes == 1 else ir.Constant(ir.VectorType(element, lanes), [value] * lanes)
