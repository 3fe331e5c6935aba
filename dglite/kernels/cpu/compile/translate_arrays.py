"""Arrays in kernel source: elements, parts, lengths, room for more, and functions of the C library. See
:mod:`.translate`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import ir

from ..lanes.arrays import ELEMENTS, Array, Record
from ..lanes.types import I8, I64, boolean, float64, int64
from ..lanes.values import Value, call_external, cast
from .translate_values import Expressions, constant, refuse

_BYTES = I8.as_pointer()
_LIBRARY = {
    np.log: "log",
    np.cos: "cos",
    math.erf: "erf",
    np.sqrt: "llvm.sqrt.f64",
    np.floor: "llvm.floor.f64",
}
"""Functions of a float64, by the name that the C library or LLVM has for them."""


class ArrayExpressions(Expressions):
    """The translation of expressions with arrays in them. ``leave`` is the block in which a function ends that asks for
    memory, which it frees there, ``failed`` points to a word that it sets to 1 if an allocation fails."""

    leave: ir.Block | None = None
    failed: ir.Value = None
    rooms: list[ir.Value]

    # -- elements ------------------------------------------------------------------------------------------------------
    def of_Subscript(self, node: ast.Subscript) -> Value:
        dtype, array = self.array(node.value)
        if isinstance(node.slice, ast.Slice):
            return self.part(dtype, array, node.slice)
        storage, kind = ELEMENTS[dtype]
        value = self.builder.load(self.place(array, node))
        if kind == boolean:
            return Value(kind, self.builder.icmp_signed("!=", value, I8(0)))
        if kind == int64 and storage != I64:
            value = (self.builder.zext if dtype[0] == "u" else self.builder.sext)(value, I64)
        return Value(kind, value)

    def store(self, target: ast.Subscript, value: Value) -> None:
        """Write ``target = value``."""
        dtype, array = self.array(target.value)
        storage, kind = ELEMENTS[dtype]
        number = cast(self.builder, value, kind)
        if kind == boolean:
            number = self.builder.zext(number, I8)
        elif kind == int64 and storage != I64:
            number = self.builder.trunc(number, storage)
        self.builder.store(number, self.place(array, target))

    def array(self, node: ast.expr) -> tuple[str, ir.Value]:
        """Return the dtype of an array, and the array."""
        kind, array = self.value(node)
        if not isinstance(kind, Array):
            refuse(node, "is no array")
        return kind.dtype, array

    def place(self, array: ir.Value, node: ast.Subscript) -> ir.Value:
        """Return the pointer to an element. Nothing is counted from the end."""
        first = self.builder.extract_value(array, 0)
        return self.builder.gep(first, [self.number(node.slice, int64)], inbounds=True)

    def part(self, dtype: str, array: ir.Value, bounds: ast.Slice) -> Value:
        """Return the elements between two bounds, which are trusted to lie inside."""
        builder = self.builder
        lower = I64(0) if bounds.lower is None else self.number(bounds.lower, int64)
        upper = builder.extract_value(array, 1) if bounds.upper is None else self.number(bounds.upper, int64)
        first = builder.gep(builder.extract_value(array, 0), [lower], inbounds=True)
        return self.array_value(Array(dtype), first, builder.sub(upper, lower))

    def array_value(self, kind: Array, first: ir.Value, length: ir.Value) -> Value:
        array = self.builder.insert_value(ir.Constant(kind.llvm, ir.Undefined), first, 0)
        return Value(kind, self.builder.insert_value(array, length, 1))

    # -- names with dots -----------------------------------------------------------------------------------------------
    def of_Attribute(self, node: ast.Attribute) -> Value:
        number = self.meaning(node)
        if number is not None:
            return constant(node, number)
        record = self.value(node.value)
        if not isinstance(record.type, Record) or node.attr not in record.type.fields:
            refuse(node, "is no field")
        position = list(record.type.fields).index(node.attr)
        return Value(record.type.fields[node.attr], self.builder.extract_value(record.ir, position))

    def meaning(self, node: ast.expr) -> Any:
        """Return what a name, or one of a module, stands for in the whole source."""
        if isinstance(node, ast.Name):
            return None if node.id in self.names else self.meanings.get(node.id)
        if isinstance(node, ast.Attribute):
            module = self.meaning(node.value)
            return getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
        return None

    # -- calls ---------------------------------------------------------------------------------------------------------
    def of_Call(self, node: ast.Call) -> Value:
        function = self.meaning(node.func)
        if function is len:
            return Value(int64, self.builder.extract_value(self.array(node.args[0])[1], 1))
        if function is int:
            return Value(int64, self.number(node.args[0], int64))
        if function is np.empty:
            return self.empty(node)
        if isinstance(function, Callable) and function in _LIBRARY:  # type: ignore[arg-type]
            argument = self.number(node.args[0], float64)
            return Value(float64, call_external(self.builder, _LIBRARY[function], float64.llvm, [argument]))
        return super().of_Call(node)

    def empty(self, node: ast.Call) -> Value:
        """Return memory for numbers, freed when the same line runs again or the function returns."""
        if self.leave is None:
            refuse(node, "asks for memory in a function that others call")
        count, dtype = self.number(node.args[0], int64), "float64"
        if len(node.args) == 2:
            like = node.args[1]
            of_array = isinstance(like, ast.Attribute) and like.attr == "dtype"
            dtype = self.array(like.value)[0] if of_array else np.dtype(self.meaning(like)).name  # type: ignore[attr-defined]
        builder, storage = self.builder, ELEMENTS[dtype][0]
        with builder.goto_entry_block():
            room = builder.alloca(_BYTES)
            builder.store(ir.Constant(_BYTES, None), room)
        self.rooms.append(room)
        self.free(room)
        size = builder.mul(count, I64(np.dtype(dtype).itemsize))
        memory = call_external(builder, "PyMem_RawMalloc", _BYTES, [size])
        builder.store(memory, room)
        after, none = (builder.append_basic_block() for _ in range(2))
        builder.cbranch(builder.icmp_unsigned("==", memory, ir.Constant(_BYTES, None)), none, after)
        builder.position_at_end(none)
        builder.store(I64(1), self.failed)
        builder.branch(self.leave)
        builder.position_at_end(after)
        return self.array_value(Array(dtype), builder.bitcast(memory, storage.as_pointer()), count)

    def free(self, room: ir.Value) -> None:
        call_external(self.builder, "PyMem_RawFree", ir.VoidType(), [self.builder.load(room)])
