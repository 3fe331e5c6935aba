"""Recording of operations on lazy tensors: functions of a C extension, which read objects of Python where these lie.

A lazy tensor has three slots: kind, place and session. A session has two: ``products``, signatures of products with
weights, and ``words``, an array: the number of nodes, where free words begin, and what was recorded, see
:func:`.batching.parse`. What a call records is looked up by the kinds of its arguments, in dicts of dicts; whatever
is not there is left to a function of Python, the *otherwise* of each.

Each kernel has the arguments of a C function of Python: its state (a tuple), the address of its arguments, how many
there are, and the names of keywords, or 0. It returns a new reference, or 0 after an error. Objects are addresses.
"""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ....errors import DGLError
from ..compile.entry import callable_at
from ..compile.written import Kernel
from ..lanes.atomic import put_word
from ..lanes.simd import word
from ..lanes.types import I64, int64
from ..lanes.values import Intrinsic, call_external, intrinsic
from .batching import PLACE_BITS

_HEAD = object.__basicsize__ // 8
_TYPE = _HEAD - 1
"""Words of any object before its own, the last of which is its type."""
_KIND, _REF, _SESSION = _HEAD, _HEAD + 1, _HEAD + 2
_PRODUCTS, _WORDS = _HEAD, _HEAD + 1
_SIZE, _ITEMS, _ADDRESS_OF_ITEMS = _HEAD, tuple.__basicsize__ // 8, _HEAD + 1
"""The size of tuples and lists, the items of a tuple (in Python 3.14 behind its hash), and the address of a list's."""
_DATA, _SHAPE = _HEAD, _HEAD + 2
"""Of arrays."""
_LAZY, _TABLE, _OTHERWISE, _LIST, _DEFAULT = (_ITEMS + i for i in range(5))
"""Of a state: the type of lazy tensors, signatures, what records all else, the type of lists, and another object."""
FIRST_WORD = 2
"""The first word of a session's ``words`` that may hold what was recorded."""


def _of_python(name: str, count: int) -> Intrinsic:
    """Return the call of a function of the interpreter, of words."""

    @intrinsic(int64, *[int64] * count)
    def call(builder: ir.IRBuilder, *args: ir.Value) -> ir.Value:
        """Call it."""
        return call_external(builder, name, I64, args)

    return call


_allocate = _of_python("PyType_GenericAlloc", 2)
_from_int, _to_int = _of_python("PyLong_FromLongLong", 1), _of_python("PyLong_AsLongLong", 1)
_new_tuple, _put_item = _of_python("PyTuple_New", 1), _of_python("PyTuple_SetItem", 3)
_tuple_of = _of_python("PyList_AsTuple", 1)
_call, _call_one = _of_python("PyObject_Call", 3), _of_python("PyObject_CallOneArg", 2)
_vectorcall = _of_python("PyObject_Vectorcall", 4)
_look_up, _clear_error = _of_python("PyDict_GetItemWithError", 2), _of_python("PyErr_Clear", 0)
_take, _drop = _of_python("Py_IncRef", 1), _of_python("Py_DecRef", 1)


@Kernel
def _entry(table: int, key: int) -> int:
    """Return what a dict has under a key; 0 where it has nothing, or there is no dict."""
    entry = 0
    if table != 0:
        entry = _look_up(table, key)
        if entry == 0:
            _clear_error()
    return entry


@Kernel
def _lazy(lazy_type: int, session: int, ref: int, kind: int) -> int:
    """Return a new lazy tensor."""
    lazy, number = _allocate(lazy_type, 0), _from_int(ref)
    if lazy == 0 or number == 0:
        return 0
    _take(session)
    _take(kind)
    put_word(lazy, _KIND, kind)
    put_word(lazy, _REF, number)
    put_word(lazy, _SESSION, session)
    return lazy


@Kernel
def _room(session: int, needed: int) -> int:
    """Return the address of a session's words, 0 if there is no room for ``needed`` more."""
    array = word(session, _WORDS)
    data = word(array, _DATA)
    return data if word(data, 1) + needed <= word(word(array, _SHAPE), 0) else 0


@Kernel
def _entry_of_kinds(state: int, table: int, args: int, count: int) -> int:
    """Return the entry for the kinds of lazy tensors of one session, or 0."""
    entry = table
    for i in range(count):
        x = word(args, i)
        if word(x, _TYPE) != word(state, _LAZY):
            return 0
        if word(x, _SESSION) != word(word(args, 0), _SESSION):
            return 0
        entry = _entry(entry, word(x, _KIND))
        if entry == 0:
            return 0
    return entry if count > 0 and word(entry, _TYPE) == word(state, _TYPE) else 0


@Kernel
def _recorded(state: int, entry: int, args: int, count: int) -> int:
    """Record an operation of lazy tensors, whose entry is (number of the signature, kind of the result)."""
    session = word(word(args, 0), _SESSION)
    words = _room(session, 1 + count)
    if words == 0:
        return 0
    node, at = word(words, 0), word(words, 1)
    put_word(words, at, _to_int(word(entry, _ITEMS)))
    for i in range(count):
        put_word(words, at + 1 + i, _to_int(word(word(args, i), _REF)))
    put_word(words, 0, node + 1)
    put_word(words, 1, at + 1 + count)
    return _lazy(word(state, _LAZY), session, node << PLACE_BITS, word(entry, _ITEMS + 1))


# The functions below end with what Python records: it also makes room, and raises.
@Kernel
def by_kinds(state: int, args: int, count: int, names: int) -> int:
    """Record an operation on lazy tensors."""
    if names == 0:
        entry = _entry_of_kinds(state, word(state, _TABLE), args, count)
        if entry != 0:
            lazy = _recorded(state, entry, args, count)
            if lazy != 0:
                return lazy
    return _vectorcall(word(state, _OTHERWISE), args, count, names)


@Kernel
def by_kinds_of_list(state: int, args: int, count: int, names: int) -> int:
    """Record an operation on a list or tuple of lazy tensors and an axis."""
    if names == 0 and (count == 1 or count == 2):
        several = word(args, 0)
        is_list = word(several, _TYPE) == word(state, _LIST)
        if is_list or word(several, _TYPE) == word(state, _TYPE):
            items = word(several, _ADDRESS_OF_ITEMS) if is_list else several + 8 * _ITEMS
            axis = word(args, 1) if count == 2 else word(state, _DEFAULT)
            number = _from_int(word(several, _SIZE))
            table = _entry(_entry(word(state, _TABLE), number), axis)
            _drop(number)
            if table != 0:
                entry = _entry_of_kinds(state, table, items, word(several, _SIZE))
                if entry != 0:
                    lazy = _recorded(state, entry, items, word(several, _SIZE))
                    if lazy != 0:
                        return lazy
    return _vectorcall(word(state, _OTHERWISE), args, count, names)


@Kernel
def by_weights(state: int, args: int, count: int, names: int) -> int:
    """Record an operation on a lazy tensor and up to two tensors, which are found by their addresses."""
    if names == 0 and (count == 2 or count == 3) and word(word(args, 0), _TYPE) == word(state, _LAZY):
        x = word(args, 0)
        table = _entry(word(word(x, _SESSION), _PRODUCTS), word(x, _KIND))
        for i in range(1, 3):
            number = _from_int(word(args, i) if i < count else word(state, _DEFAULT))
            table = _entry(table, number)
            _drop(number)
        if table != 0:
            lazy = _recorded(state, table, args, 1)
            if lazy != 0:
                return lazy
    return _vectorcall(word(state, _OTHERWISE), args, count, names)


@Kernel
def _parts(lazy_type: int, x: int, entry: int) -> int:
    """Return parts of a lazy tensor. ``entry``: whether it is a tuple of them, then place and kind of each."""
    session, ref, size = word(x, _SESSION), _to_int(word(x, _REF)), word(entry, _SIZE)
    if _to_int(word(entry, _ITEMS)) == 0:
        return _lazy(lazy_type, session, ref + _to_int(word(entry, _ITEMS + 1)), word(entry, _ITEMS + 2))
    several = _new_tuple(size // 2)
    for i in range(size // 2):
        at = _ITEMS + 1 + 2 * i
        part = _lazy(lazy_type, session, ref + _to_int(word(entry, at)), word(entry, at + 1))
        if several == 0 or part == 0:
            return 0
        _put_item(several, i, part)
    return several


@Kernel
def by_options(state: int, args: int, count: int, names: int) -> int:
    """Return parts of a lazy tensor, which are found by its kind and the other arguments."""
    if names == 0 and count > 0 and word(word(args, 0), _TYPE) == word(state, _LAZY):
        x = word(args, 0)
        table, key = _entry(word(state, _TABLE), word(x, _KIND)), _new_tuple(count - 1)
        if key != 0:
            for i in range(1, count):
                option = word(args, i)
                if word(option, _TYPE) == word(state, _LIST):
                    option = _tuple_of(option)
                else:
                    _take(option)
                _put_item(key, i - 1, option)
            entry = _entry(table, key)
            _drop(key)
            if entry != 0:
                return _parts(word(state, _LAZY), x, entry)
    return _vectorcall(word(state, _OTHERWISE), args, count, names)


@Kernel
def of_torch(state: int, args: int, count: int, names: int) -> int:
    """Call what records a function of torch: (function, types, arguments, keywords), as torch asks for it."""
    if names == 0 and count > 2:
        record = _entry(word(state, _TABLE), word(args, 0))
        if record != 0:
            options = word(args, 3) if count > 3 else 0
            return _call(record, word(args, 2), 0 if options == word(state, _DEFAULT) else options)
    return _vectorcall(word(state, _OTHERWISE), args, count, names)


@Kernel
def append(state: int, args: int, count: int, names: int) -> int:
    """Record nodes and return a lazy tensor of the first: (session, kind, number of nodes, *words)."""
    session, first = word(args, 0), 3
    while _room(session, count - first) == 0:
        done = _call_one(word(state, _OTHERWISE), session)
        if done == 0:
            return 0
        _drop(done)
    words = word(word(session, _WORDS), _DATA)
    node, at = word(words, 0), word(words, 1)
    for i in range(first, count):
        put_word(words, at + i - first, _to_int(word(args, i)))
    put_word(words, 0, node + _to_int(word(args, 2)))
    put_word(words, 1, at + count - first)
    return _lazy(word(state, _LAZY), session, node << PLACE_BITS, word(args, 1))


def check_slots(lazy: Any, session: Any) -> None:
    """Raise unless slots, and items of tuples and lists, lie where the kernels read them."""

    def slot(x: Any, i: int) -> Any:
        return ctypes.c_void_p.from_address(id(x) + 8 * i).value

    slots = [(lazy, _KIND, "_kind"), (lazy, _REF, "_ref"), (lazy, _SESSION, "_session")]
    slots += [(session, _PRODUCTS, "products"), (session, _WORDS, "words")]
    as_read = all(slot(x, i) == id(getattr(x, name)) for x, i, name in slots)
    pair = lazy, session
    as_read = as_read and [slot(pair, i) for i in (_SIZE, _ITEMS, _ITEMS + 1)] == [2, id(lazy), id(session)]
    as_read = as_read and slot([lazy], _SIZE) == 1 and list.__basicsize__ == 8 * (_ADDRESS_OF_ITEMS + 2)
    if not as_read:
        raise DGLError(f"lazy tensors cannot be recorded on {sys.implementation.name} {sys.version.split()[0]}")


def recorder(kernel: Kernel, lazy_type: type, table: Any, otherwise: Callable[..., Any], default: Any = 0) -> Any:
    """Return the function of Python that records by a kernel, with what makes up its state."""
    return callable_at(kernel.function.__name__, kernel.address, (lazy_type, table, otherwise, list, default))


def method(record: Any) -> Any:
    """Return a function as an attribute of a class that binds it, as it does functions of Python."""
    return _instance_method(record) if isinstance(record, types.BuiltinFunctionType) else record


_instance_method: Any = ctypes.pythonapi.PyInstanceMethod_New
_instance_method.restype, _instance_method.argtypes = ctypes.py_object, [ctypes.py_object]
