"""What a function's bytecode does and reads, analysed once for each code object."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ..backend import active as backend

_ALWAYS = """
    NOP RESUME CACHE EXTENDED_ARG PUSH_NULL POP_TOP COPY SWAP MAKE_CELL COPY_FREE_VARS MAKE_FUNCTION
    LOAD_CONST LOAD_GLOBAL LOAD_FAST STORE_FAST DELETE_FAST LOAD_DEREF STORE_DEREF LOAD_ATTR STORE_SUBSCR
    UNARY_NEGATIVE UNARY_NOT UNARY_INVERT BINARY_OP COMPARE_OP IS_OP CONTAINS_OP
    BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_STRING BUILD_SLICE
    LIST_APPEND LIST_EXTEND SET_ADD SET_UPDATE MAP_ADD DICT_UPDATE DICT_MERGE UNPACK_SEQUENCE UNPACK_EX
    GET_ITER FOR_ITER JUMP_FORWARD JUMP_BACKWARD CALL CALL_FUNCTION_EX RETURN_VALUE RAISE_VARARGS
"""
"""In every version from 3.11 on. Stores are looked at one by one, and so is what is called."""

_3_11 = """
    PRECALL KW_NAMES LOAD_METHOD LOAD_CLOSURE BINARY_SUBSCR BUILD_CONST_KEY_MAP FORMAT_VALUE LIST_TO_TUPLE
    UNARY_POSITIVE LOAD_ASSERTION_ERROR JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP
    POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
    POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
"""
_FROM_3_12 = """
    POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE END_FOR BINARY_SLICE CALL_INTRINSIC_1
    LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR RERAISE
"""
"""Comprehensions are part of their function's code, with a RERAISE that puts its variables back after an error."""

_3_12 = "KW_NAMES LOAD_CLOSURE BINARY_SUBSCR BUILD_CONST_KEY_MAP FORMAT_VALUE RETURN_CONST LOAD_ASSERTION_ERROR"
_FROM_3_13 = """
    CALL_KW LOAD_FAST_LOAD_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST TO_BOOL CONVERT_VALUE FORMAT_SIMPLE
    FORMAT_WITH_SPEC SET_FUNCTION_ATTRIBUTE
"""
_3_13 = "BINARY_SUBSCR BUILD_CONST_KEY_MAP RETURN_CONST LOAD_ASSERTION_ERROR"
_3_14 = """
    LOAD_SMALL_INT LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_COMMON_CONSTANT NOT_TAKEN POP_ITER
"""

_VERSIONS = {
    (3, 11): (_ALWAYS, _3_11),
    (3, 12): (_ALWAYS, _FROM_3_12, _3_12),
    (3, 13): (_ALWAYS, _FROM_3_12, _FROM_3_13, _3_13),
    (3, 14): (_ALWAYS, _FROM_3_12, _FROM_3_13, _3_14),
}


def known_opcodes(version: tuple[int, int] = sys.version_info[:2]) -> frozenset[str]:
    """Return the instructions that a recorded function may have; none for an unknown version of Python."""
    return frozenset(name for part in _VERSIONS.get(version, ()) for name in part.split())


CallTarget = tuple[types.FunctionType, Any, tuple[Any, ...]]
"""What a call runs: the function written in Python, the object that its code reads, the arguments of a ``partial``."""

SETS_ITEM = "[...] ="
"""Stands among the names of a piece of code that sets an item."""

_OPCODES = known_opcodes()
_NAMED = ("LOAD_GLOBAL", "LOAD_DEREF")
_READS = ("LOAD_ATTR", "LOAD_METHOD")
_CONSTANTS = ("LOAD_CONST", "RETURN_CONST", "LOAD_SMALL_INT")
_SILENT = ("EXTENDED_ARG", "CACHE", "NOP")
_DECLARES = ("MAKE_CELL", "COPY_FREE_VARS")
_JUMPS = ("POP_JUMP", "JUMP_IF")
_BLOCKS = ("BEFORE_", "PUSH_EXC_INFO", "LOAD_SPECIAL")
_GENERATORS = ("RETURN_GENERATOR", "YIELD", "GET_AWAITABLE", "ASYNC_GEN")
_INTRINSICS = ("INTRINSIC_UNARY_POSITIVE", "INTRINSIC_LIST_TO_TUPLE")
_OPTIONS = {"out": "it gives a tensor to write to, as 'out'", "inplace": "it calls something with 'inplace'"}
_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "[]": "getitem",
    "<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge",
}  # fmt: skip
_UNARY = {"UNARY_NEGATIVE": "neg", "UNARY_INVERT": "invert", "UNARY_POSITIVE": "pos", "BINARY_SUBSCR": "getitem"}
_WITH_OPTION = {
    **dict.fromkeys("relu relu6 selu silu mish hardsigmoid hardswish".split(), 2),
    **dict.fromkeys("leaky_relu elu celu".split(), 3),
    **dict.fromkeys("threshold hardtanh dropout alpha_dropout dropout1d dropout2d dropout3d".split(), 4),
}
"""Functions whose last argument is an option to work in place, with how many they have."""
_SPECIAL = ("__name__", "__class__")
_PACKAGE = str(Path(__file__).parents[1])
_MAKING = frozenset(("tensor", "new_tensor", "Tensor"))
_ASKING = frozenset(("isinstance", "issubclass", "__class__"))
_COMMON = frozenset((0.0, 1.0, 2.0, 0.5, -1.0, -2.0, -0.5))


@dataclass(frozen=True)
class Code:
    """What one piece of code does: why it may not be recorded, what it reads, whether it branches, its numbers.

    ``paths`` are the global names and variables of enclosing functions with the attributes read of them, as in
    ``("torch", "nn", "functional", "relu")``. ``names`` are all attributes that it reads of anything, ``operations``
    those methods and operators among them that tensors have. ``reads_first`` tells whether it reads its first
    parameter, which is ``self`` in methods.
    """

    refusal: str | None
    global_names: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    names: frozenset[str]
    operations: tuple[str, ...]
    branches: bool
    constants: frozenset[float]
    reads_first: bool

    def paths_of(self, name: str) -> list[tuple[str, ...]]:
        """Return the chains of attributes that are read from global ``name``; an empty one if it is used itself."""
        return [path[1:] for path in self.paths if path[0] == name]


_codes: WeakKeyDictionary[types.CodeType, Code] = WeakKeyDictionary()


def call_target(function: Any) -> CallTarget | None:
    """Return the Python function that a call of ``function`` runs, its object and bound arguments, or None.

    A function may be one, a method, a ``partial`` of such, a layer, or an object of a class that has ``__call__``. The
    object of a method that does not read ``self`` is left out.
    """
    kind = type(function)
    if kind is types.FunctionType:
        return function, None, ()
    if kind is functools.partial:
        inner = call_target(function.func)
        bound = (*function.args, *function.keywords.values())
        return None if inner is None else (inner[0], inner[1], (*inner[2], *bound))
    if kind is types.MethodType:
        plain, owner = function.__func__, function.__self__
    elif backend.is_layer(function):
        inner = call_target(getattr(function, "forward", None))
        return None if inner is None else (inner[0], function, inner[2])
    else:
        plain, owner = _of_class(kind, "__call__"), function
    if type(plain) is not types.FunctionType:
        return None
    return plain, owner if analyse(plain.__code__).reads_first else None, ()


def _of_class(kind: type, name: str) -> Any:
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)


def code_of(function: Any) -> types.CodeType | None:
    """Return the code that a call of ``function`` runs, or None if it is not written in Python."""
    target = call_target(function)
    return None if target is None else target[0].__code__


def constants_of(function: Any) -> frozenset[float]:
    """Return the numbers that stand in the function's source, and 0, 1, 2, 1/2 and their negatives."""
    code = code_of(function)
    return _COMMON if code is None else analyse(code).constants


@functools.lru_cache(maxsize=1024)
def asks_for_class(code: types.CodeType) -> bool:
    """Whether code that reads an object's ``__class__``, without naming it, does so by ``isinstance`` or ``match``."""
    return (
        code.co_name in ("__instancecheck__", "__subclasscheck__")
        or not _ASKING.isdisjoint(code.co_names)
        or any(instruction.opname == "MATCH_CLASS" for instruction in dis.get_instructions(code))
    )


@functools.lru_cache(maxsize=1024)
def makes_tensors(code: types.CodeType) -> bool:
    """Whether a user's code names a function that makes a tensor of another without asking ``__torch_function__``.

    ``Tensor`` may be such a function or, as in ``isinstance(x, Tensor)``, a class: only arguments follow a function.
    """
    names = code.co_names
    if code.co_filename.startswith(_PACKAGE) or _MAKING.isdisjoint(names):
        return False
    return (
        "tensor" in names
        or "new_tensor" in names
        or not asks_for_class(code)
        or any(
            first.argval == "Tensor" and second.opname.startswith(("LOAD_", "PUSH_NULL"))
            for first, second in pairwise(dis.get_instructions(code))
        )
    )


def analyse(code: types.CodeType) -> Code:
    """Return what a piece of code, and the functions inside it, do and read."""
    reads = _codes.get(code)
    if reads is None:
        reads = _codes[code] = _Reader().read(code)
    return reads


class _Reader:
    """Reads the bytecode of a function and of the functions inside it."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.branches = False
        self.true_at: set[int] = set()
        self.loaded: set[Any] = set()
        self.names: set[str] = set()
        self.operators: set[str] = set()
        self.constants = set(_COMMON)
        self.global_names: dict[str, None] = {}
        self.paths: dict[tuple[str, ...], None] = {}
        self._path: tuple[str, ...] = ()

    def read(self, code: types.CodeType) -> Code:
        for part in _parts(code):
            previous: Any = None
            for instruction in dis.get_instructions(part):
                name, argument = instruction.opname, instruction.argval
                if name in _SILENT:
                    continue
                if name not in _DECLARES:
                    self.loaded.update(argument if isinstance(argument, tuple) else (argument,))
                self._follow(name, argument, instruction.is_jump_target)
                self._take_in(name, argument, instruction.argrepr)
                reason = _reason(instruction, previous, part)
                self.refusal = self.refusal or reason
                if name in ("PRECALL", "CALL") and previous.opname == "LOAD_CONST" and previous.argval is True:
                    self.true_at.add(instruction.arg or 0)
                previous = instruction
            self._follow("", None, False)
        names = self.names | self.global_names.keys()
        optional = [name for name, place in _WITH_OPTION.items() if place in self.true_at and name in names]
        return Code(
            self.refusal or (f"it may call {optional[0]!r} in place" if optional else None),
            tuple(self.global_names),
            tuple(self.paths),
            frozenset(self.names),
            tuple(name for name in self.names | self.operators if hasattr(backend.tensor_type, name)),
            self.branches,
            frozenset(self.constants),
            code.co_argcount == 0 or code.co_varnames[0] in self.loaded,
        )

    def _follow(self, name: str, argument: Any, arrives: bool) -> None:
        """Note which attributes are read of what stands outside. Where code arrives from elsewhere a chain ends."""
        if self._path and name in _READS and not arrives:
            self._path = (*self._path, argument)
            return
        if self._path:
            self.paths[self._path] = None
        self._path = (argument,) if name in _NAMED else ()

    def _take_in(self, name: str, argument: Any, text: str) -> None:
        """Note what is read."""
        if name == "LOAD_GLOBAL":
            self.global_names[argument] = None
        elif name in _READS:
            self.names.add(argument)
        elif name == "STORE_SUBSCR":
            self.names.add(SETS_ITEM)
        elif name.startswith(_JUMPS) and "NONE" not in name:
            self.branches = True
        elif name in _CONSTANTS and isinstance(argument, int | float):
            self.constants |= {float(argument), -float(argument)}
        elif text == "INTRINSIC_UNARY_POSITIVE":
            self.operators.add("__pos__")
        elif name in _UNARY:
            self.operators.add(f"__{_UNARY[name]}__")
        elif name in ("BINARY_OP", "COMPARE_OP"):
            operator = _OPERATORS.get(text.removeprefix("bool(").removesuffix(")"), "")
            self.operators |= {f"__{operator}__", f"__r{operator}__"}


def _reason(instruction: dis.Instruction, previous: Any, code: types.CodeType) -> str | None:
    """Return why a function with this instruction may not be recorded."""
    name, argument = instruction.opname, instruction.argval
    if name not in _OPCODES:
        if name.startswith(_BLOCKS):
            return "it has a 'with' or 'try' block"
        if name.startswith(_GENERATORS):
            return "it is a generator"
        if name.startswith(("STORE_", "DELETE_", "IMPORT_")):
            return "it writes into an array" if argument is None else f"it writes to {argument!r}"
        return f"it has the instruction {name}"
    if name == "STORE_DEREF" and argument in code.co_freevars:
        return f"it writes to {argument!r}"
    if name == "BINARY_OP" and instruction.argrepr.endswith("="):
        return "it changes a value in place"
    if name == "STORE_SUBSCR" and not (previous.opname in _CONSTANTS and isinstance(previous.argval, str)):
        return "it writes into an array"
    if name == "CALL_INTRINSIC_1" and instruction.argrepr not in _INTRINSICS:
        return f"it has the instruction {name}"
    if name in _READS and argument.endswith("_") and argument not in _SPECIAL:
        return f"it calls {argument!r}, which works in place"
    keywords = _keywords(instruction, previous, code)
    return next((_OPTIONS[keyword] for keyword in keywords if keyword in _OPTIONS), None)


def _keywords(instruction: dis.Instruction, previous: Any, code: types.CodeType) -> tuple[Any, ...]:
    """Return the keywords of a call."""
    if instruction.opname == "KW_NAMES":
        return tuple(code.co_consts[instruction.arg or 0])
    if instruction.opname == "CALL_KW" and isinstance(previous.argval, tuple):
        return previous.argval
    return ()


def _parts(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _parts(constant)
