"""Entry points of a translated function with arrays: for Python, as a function of a C extension, or for tasks.

A function is compiled for each combination of argument types. The entry for Python receives Python objects, and reads
an array's address and length where NumPy's C interface has them: at the cost of a few loads. It checks that each
argument has the type that the function was compiled for, and returns ``NotImplemented`` if one has not. The entry for
tasks has the three arguments of kernels, see :mod:`..run.launch`. Words of ``args``: 0 the number of rows, 1 set to 1
if an allocation failed, then for each array its address and its length, and each number.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

import numpy as np
from llvmlite import ir

from ....errors import DGLError
from ..lanes.arrays import ELEMENTS, Array, Record
from ..lanes.types import I8, I32, I64, NUMBERS, Float, Type, boolean, float64, int64, none
from ..lanes.values import Value, call_external, cast
from .translate_values import Callee

_OBJECT = I8.as_pointer()
_HEAD = object.__basicsize__
"""Bytes of an object before its own fields; the last word of them is its type."""
_DATA, _NDIM, _SHAPE, _DTYPE, _FLAGS = (_HEAD + 8 * i for i in (0, 1, 2, 5, 6))
"""Fields of an array."""
_BYTE_ORDER, _TYPE_NUMBER = _HEAD + 10, _HEAD + 12
"""Fields of a dtype."""
_WHOLE = 0x101
"""The flags of one that is contiguous and aligned."""
_ARRAY, _OTHERWISE, _NONE = range(3)
"""Positions in ``_CONSTANTS``, the tuple that Python's entry point is called with."""
_CONSTANTS = (np.ndarray, NotImplemented, None)


# -- types -------------------------------------------------------------------------------------------------------------
def kind_of(value: Any) -> Any:
    """Return the type of an argument as a string, or as a tuple of (field, type)."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}[]"
    if isinstance(value, tuple):
        return tuple(zip(value._fields, map(kind_of, value), strict=True))  # type: ignore[attr-defined]
    return "none" if value is None else "float64" if isinstance(value, float) else "int64"


def type_of(kind: Any) -> Type:
    """Return the type for a result of :func:`kind_of`."""
    if isinstance(kind, tuple):
        return Record(tuple((name, type_of(field)) for name, field in kind))
    return Array(kind[:-2]) if kind.endswith("[]") else none if kind == "none" else NUMBERS[kind]


def leaves(arguments: Any) -> Iterator[Any]:
    """Return arrays and numbers one after the other."""
    for x in arguments:
        if isinstance(x, tuple):
            yield from leaves(x)
        else:
            yield x


# -- for tasks ---------------------------------------------------------------------------------------------------------
def _for_tasks(module: ir.Module, name: str, body: Callee) -> None:
    """Write a function that calls ``body(*arguments, first, last)`` for the rows of a task."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 3), name)
    builder = ir.IRBuilder(function.append_basic_block())
    address, task, num_tasks = function.args
    words, at = builder.inttoptr(address, I64.as_pointer()), 2

    def word(i: int) -> ir.Value:
        return builder.load(builder.gep(words, [I64(i)]))

    def read(kind: Type) -> ir.Value:
        nonlocal at
        at += 2 if isinstance(kind, Array) else 1
        if isinstance(kind, Array):
            return _array(builder, kind, builder.inttoptr(word(at - 2), kind.llvm.elements[0]), word(at - 1))
        if isinstance(kind, Record):
            at -= 1
            return _record(builder, kind, [read(field) for field in kind.fields.values()])
        return _number(builder, kind, word(at - 1))

    with builder.if_then(builder.icmp_signed(">=", task, I64(0))):
        rows = word(0)
        values = [read(kind) for kind in body.parameters[:-2]]
        for share in (task, builder.add(task, I64(1))):
            values.append(builder.sdiv(builder.mul(rows, share), num_tasks))
        builder.call(body.function, [*values, builder.gep(words, [I64(1)])])
    builder.ret_void()


# -- for Python --------------------------------------------------------------------------------------------------------
class _FromPython:
    """Writes a function of Python objects. Its arguments: ``_CONSTANTS``, the objects' array, and their number."""

    def __init__(self, module: ir.Module, name: str) -> None:
        kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), I64])
        self.module, self.function = module, ir.Function(module, kind, name)
        self.builder = builder = ir.IRBuilder(self.function.append_basic_block())
        self.otherwise, self.raised, self.no_tuple = (self.function.append_basic_block() for _ in range(3))
        with builder.goto_block(self.otherwise):
            answer = self.constant(_OTHERWISE)
            self.call("Py_IncRef", ir.VoidType(), answer)
            builder.ret(answer)
        with builder.goto_block(self.no_tuple):
            self.call("PyErr_Clear", ir.VoidType())
            builder.branch(self.otherwise)
        with builder.goto_block(self.raised):
            builder.ret(ir.Constant(_OBJECT, None))

    @cached_property
    def array_type(self) -> ir.Value:
        return self.constant(_ARRAY)

    @cached_property
    def is_array(self) -> ir.Function:
        """A function of an object, the type of arrays and NumPy's number of a dtype: whether the object is an array of
        one dimension that lies in memory as kernels read it. Its code is there once for all arguments."""
        function = ir.Function(self.module, ir.FunctionType(ir.IntType(1), [_OBJECT, _OBJECT, I32]), "is_array")
        function.linkage = "internal"
        function.attributes.add("noinline")
        array, array_type, number = function.args
        builder = ir.IRBuilder(function.append_basic_block())
        is_one = builder.icmp_unsigned("==", _field(builder, array, _HEAD - 8, _OBJECT), array_type)
        with builder.if_then(builder.not_(is_one)):
            builder.ret(ir.Constant(ir.IntType(1), 0))
        dtype = _field(builder, array, _DTYPE, _OBJECT)
        foreign = I8(ord(np.dtype("i4").newbyteorder().byteorder))
        fits = builder.icmp_signed("==", _field(builder, dtype, _TYPE_NUMBER, I32), number)
        fits = builder.and_(fits, builder.icmp_signed("!=", _field(builder, dtype, _BYTE_ORDER, I8), foreign))
        fits = builder.and_(fits, builder.icmp_signed("==", _field(builder, array, _NDIM, I32), I32(1)))
        flags = builder.and_(_field(builder, array, _FLAGS, I32), I32(_WHOLE))
        builder.ret(builder.and_(fits, builder.icmp_signed("==", flags, I32(_WHOLE))))
        return function

    def call(self, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
        """Call a function of the interpreter."""
        return call_external(self.builder, name, result, arguments)

    def constant(self, position: int) -> ir.Value:
        return self.call("PyTuple_GetItem", _OBJECT, self.function.args[0], I64(position))

    def require(self, condition: ir.Value, otherwise: ir.Block) -> None:
        """Go on only where a condition holds."""
        here = self.function.append_basic_block()
        self.builder.cbranch(condition, here, otherwise)
        self.builder.position_at_end(here)

    def read(self, kind: Type, item: ir.Value) -> ir.Value:
        """Return the value of an object."""
        builder = self.builder
        if isinstance(kind, Array):
            return self.read_array(kind, item)
        if isinstance(kind, Record):
            return _record(builder, kind, [self.read_field(item, i, f) for i, f in enumerate(kind.fields.values())])
        if kind == none:
            self.require(builder.icmp_unsigned("==", item, self.constant(_NONE)), self.otherwise)
            return ir.Constant(I8, 0)
        real = isinstance(kind, Float)
        if real:
            value = self.call("PyFloat_AsDouble", float64.llvm, item)
            suspect = builder.fcmp_ordered("==", value, ir.Constant(value.type, -1.0))
        else:
            value = self.call("PyLong_AsLongLong", I64, item)
            suspect = builder.icmp_signed("==", value, I64(-1))
        with builder.if_then(suspect, likely=False):
            error = self.call("PyErr_Occurred", _OBJECT)
            self.require(builder.icmp_unsigned("==", error, ir.Constant(_OBJECT, None)), self.raised)
        return value if real else _number(builder, kind, value)

    def read_field(self, record: ir.Value, i: int, kind: Type) -> ir.Value:
        item = self.call("PyTuple_GetItem", _OBJECT, record, I64(i))
        self.require(self.builder.icmp_unsigned("!=", item, ir.Constant(_OBJECT, None)), self.no_tuple)
        return self.read(kind, item)

    def read_array(self, kind: Array, array: ir.Value) -> ir.Value:
        builder, number = self.builder, I32(np.dtype(kind.dtype).num)
        self.require(builder.call(self.is_array, [array, self.array_type, number]), self.otherwise)
        first = _field(builder, array, _DATA, ELEMENTS[kind.dtype][0].as_pointer())
        return _array(builder, kind, first, builder.load(_field(builder, array, _SHAPE, I64.as_pointer())))

    def give(self, kind: Type, value: ir.Value) -> None:
        """Return a number as an object."""
        if kind == float64:
            self.builder.ret(self.call("PyFloat_FromDouble", _OBJECT, value))
        elif kind == boolean:
            self.builder.ret(self.call("PyBool_FromLong", _OBJECT, self.builder.zext(value, I64)))
        elif kind == int64:
            self.builder.ret(self.call("PyLong_FromLongLong", _OBJECT, value))
        else:
            nothing = self.constant(_NONE)
            self.call("Py_IncRef", ir.VoidType(), nothing)
            self.builder.ret(nothing)


def _for_python(module: ir.Module, name: str, body: Callee) -> None:
    """Write a function that Python can call, which calls ``body`` without the GIL."""
    entry = _FromPython(module, name)
    builder, args = entry.builder, entry.function.args
    builder.position_at_end(entry.function.entry_basic_block)
    entry.require(builder.icmp_signed("==", args[2], I64(len(body.parameters))), entry.otherwise)
    objects = [builder.load(builder.gep(args[1], [I64(i)])) for i in range(len(body.parameters))]
    values = [entry.read(kind, item) for kind, item in zip(body.parameters, objects, strict=True)]
    failed = builder.alloca(I64)
    builder.store(I64(0), failed)
    thread = entry.call("PyEval_SaveThread", _OBJECT)
    returned = builder.call(body.function, [*values, failed])
    entry.call("PyEval_RestoreThread", ir.VoidType(), thread)
    with builder.if_then(builder.icmp_signed("!=", builder.load(failed), I64(0)), likely=False):
        builder.ret(entry.call("PyErr_NoMemory", _OBJECT))
    entry.give(body.result, returned)


# -- for an address ----------------------------------------------------------------------------------------------------
def _for_address(module: ir.Module, name: str, body: Callee) -> None:
    """Write a function of integers, which may return one."""
    result = ir.VoidType() if body.result == none else I64
    function = ir.Function(module, ir.FunctionType(result, [I64] * len(body.parameters)), name)
    builder = ir.IRBuilder(function.append_basic_block())
    returned = builder.call(body.function, [*function.args, builder.alloca(I64)])
    if body.result == none:
        builder.ret_void()
    else:
        builder.ret(returned)


WAYS = {"tasks": _for_tasks, "python": _for_python, "address": _for_address}
"""The writer of each entry point, by name."""


def _field(builder: ir.IRBuilder, address: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
    place = builder.gep(address, [I64(offset)])
    return builder.load(builder.bitcast(place, kind.as_pointer()))


def _array(builder: ir.IRBuilder, kind: Array, first: ir.Value, length: ir.Value) -> ir.Value:
    return _record(builder, kind, [first, length])


def _record(builder: ir.IRBuilder, kind: Type, parts: list[ir.Value]) -> ir.Value:
    value: ir.Value = ir.Constant(kind.llvm, ir.Undefined)
    for i, part in enumerate(parts):
        value = builder.insert_value(value, part, i)
    return value


def _number(builder: ir.IRBuilder, kind: Type, word: ir.Value) -> ir.Value:
    if isinstance(kind, Float):
        return builder.bitcast(word, kind.llvm)
    return builder.icmp_signed("!=", word, I64(0)) if kind == boolean else cast(builder, Value(int64, word), kind)


# -- functions of Python -----------------------------------------------------------------------------------------------
class _Method(ctypes.Structure):
    """Python's description of a function in C."""

    _fields_ = [("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("flags", ctypes.c_int)]
    _fields_ += [("doc", ctypes.c_char_p)]


_FAST_CALL, _WITH_KEYWORDS = 0x80, 0x02
"""Arguments lie one after the other in memory; behind them is a tuple of keywords, or nothing."""
_methods: list[_Method] = []
"""They must last as long as the functions."""
_new_function: Any = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype, _new_function.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


def callable_at(name: str, address: int, state: tuple[Any, ...] | None = None) -> Any:
    """Return the function of Python whose compiled code is at an address.

    With a ``state``, which the code is given first, it takes keywords.
    """
    if not can_read_arrays():
        raise DGLError(f"kernels cannot read the arrays of NumPy {np.__version__} on {sys.implementation.name}")
    flags = _FAST_CALL if state is None else _FAST_CALL | _WITH_KEYWORDS
    _methods.append(_Method(name.encode(), address, flags, None))
    return _new_function(ctypes.addressof(_methods[-1]), _CONSTANTS if state is None else state, None)


@cache
def can_read_arrays() -> bool:
    """Whether arrays lie in memory as compiled code reads them: as in all of NumPy, from 1.7 to this day."""
    array = np.arange(3)

    def field(address: Any, offset: int, kind: Any) -> Any:
        return kind.from_address((address if isinstance(address, int) else id(address)) + offset).value

    dtype = field(array, _DTYPE, ctypes.c_void_p)
    fields = [
        (field(array, _HEAD - 8, ctypes.c_void_p), id(np.ndarray)),
        (field(array, _DATA, ctypes.c_void_p), array.ctypes.data),
        (field(array, _NDIM, ctypes.c_int), 1),
        (field(field(array, _SHAPE, ctypes.c_void_p), 0, ctypes.c_int64), 3),
        (field(array, _FLAGS, ctypes.c_int) & _WHOLE, _WHOLE),
        (dtype, id(array.dtype)),
        (field(dtype, _BYTE_ORDER, ctypes.c_char), b"="),
        (field(dtype, _TYPE_NUMBER, ctypes.c_int), array.dtype.num),
    ]
    return all(kind == expected for kind, expected in fields)
