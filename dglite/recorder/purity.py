"""Which functions may be run on deferred columns: those that do nothing but compute what they return.

Recording changes when, and for a reducer how often, a function's operations run. That is the same to a function that
only computes. One that writes somewhere, prints, or draws from another generator than the tensor library's is run for
real. What a function does is read off its bytecode, once for each piece of code; what it captured, each time.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ..backend import active as backend
from .mailbox import MAILBOX

__all__ = ["Modules", "captured", "code_of", "constants_of", "modules_of", "reads_only", "refusal"]

_MODULES = (*backend.modules, "math", "operator", "typing")
"""Modules and packages whose functions only compute, and tell a deferred column from a tensor: ours do not."""
_CONSTANT_TYPES = {
    ("torch", "dtype"),
    ("torch", "device"),
    ("torch", "Size"),
    ("numpy", "ndarray"),
    ("numpy", "float64"),
}
_BUILTINS = frozenset(
    "abs bool dict enumerate float getattr hasattr int isinstance len list max min range reversed round set slice "
    "sorted str sum super tuple type zip".split()
)
_SETS_ITEM = "[...] ="
_WRITING = frozenset(
    [_SETS_ITEM]
    + "append extend insert remove pop popitem clear update setdefault add discard sort reverse".split()
    + "write writelines".split()
)
_STORES = ("STORE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_SUBSCR", "IMPORT_NAME")
_BLOCKS = ("SETUP_", "BEFORE_WITH", "PUSH_EXC_INFO")
_READS = ("LOAD_ATTR", "LOAD_METHOD")
_JUMPS = ("POP_JUMP", "JUMP_IF")
_DEPTH = 4
_OF_BATCHES = frozenset("src dst data mailbox nn functional values".split())


@dataclass(frozen=True)
class _Code:
    """What one piece of code does: why it may not be recorded, what it reads, whether it branches, its numbers.

    ``whole`` are the names that it uses otherwise than to read an attribute: by calling them, for instance.
    """

    refusal: str | None
    global_names: tuple[str, ...]
    names: frozenset[str]
    whole: frozenset[str]
    branches: bool
    constants: frozenset[float]


_codes: WeakKeyDictionary[types.CodeType, _Code] = WeakKeyDictionary()


def code_of(function: Any) -> types.CodeType | None:
    """Return the code that a call of ``function`` runs; None where it is not written in Python."""
    if isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", None)


def constants_of(function: Any) -> frozenset[float]:
    """Return the numbers that stand in the function's source, and 0, 1, 2, 1/2 and their negatives."""
    code = code_of(function)
    return _COMMON if code is None else _known(code).constants


_COMMON = frozenset((0.0, 1.0, 2.0, 0.5, -1.0, -2.0, -0.5))


def _known(code: types.CodeType) -> _Code:
    found = _codes.get(code)
    if found is None:
        found = _codes[code] = _Reader().read(code)
    return found


class _Reader:
    """Reads the bytecode of a function and of the functions inside it."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.branches = False
        self.names, self.whole, self.constants = set[str](), set[str](), set(_COMMON)
        self.global_names: dict[str, None] = {}

    def read(self, code: types.CodeType) -> _Code:
        loaded: str | None = None
        previous: Any = None
        for instruction in _instructions(code):
            name = instruction.opname
            if loaded is not None and not name.startswith(_READS):
                self.whole.add(loaded)
            loaded = instruction.argval if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF") else None
            self._take_in(name, instruction.argval)
            self._object(name, instruction, previous, code)
            previous = instruction
        return _Code(
            self.refusal,
            tuple(self.global_names),
            frozenset(self.names),
            frozenset(self.whole),
            self.branches,
            frozenset(self.constants),
        )

    def _take_in(self, name: str, argument: Any) -> None:
        """Note what is read."""
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            self.global_names[argument] = None
        elif name.startswith(_READS):
            self.names.add(argument)
        elif name == "STORE_SUBSCR":
            self.names.add(_SETS_ITEM)
        elif name.startswith(_JUMPS) and "NONE" not in name:
            self.branches = True
        elif name == "LOAD_CONST" and isinstance(argument, int | float):
            self.constants |= {float(argument), -float(argument)}

    def _object(self, name: str, instruction: dis.Instruction, previous: Any, code: types.CodeType) -> None:
        """Note the first reason not to record."""
        argument, reason = instruction.argval, None
        if name.startswith(_STORES) or (name == "STORE_DEREF" and argument in code.co_freevars):
            reason = f"it writes to {argument!r}"
        elif name.startswith("INPLACE_") or (name == "BINARY_OP" and instruction.argrepr.endswith("=")):
            reason = "it changes a value in place"
        elif name.startswith(_BLOCKS):
            reason = "it has a 'with' or 'try' block"
        elif name == "STORE_SUBSCR" and not isinstance(getattr(previous, "argval", None), str):
            reason = "it writes into an array"
        elif name.startswith(("YIELD", "GET_AWAITABLE", "ASYNC_GEN")):
            reason = "it is a generator"
        elif name.startswith(_READS) and argument.endswith("_") and not argument.endswith("__"):
            reason = f"it calls {argument!r}, which works in place"
        self.refusal = self.refusal or reason


def _instructions(code: types.CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)


Modules = tuple[tuple[str, types.ModuleType], ...]


def modules_of(function: Any) -> Modules | None:
    """Return the modules that a function reads by name if it reads nothing else but its argument; None otherwise.

    Such a function does tomorrow what it did today, as long as :func:`reads_only` holds. What it calls must be the
    operations of deferred columns: others may draw random numbers, or ask whether gradients are taken.
    """
    if type(function) is not types.FunctionType or function.__code__.co_freevars:
        return None
    if not _known(function.__code__).names <= MAILBOX.names | _OF_BATCHES:
        return None
    names = [name for name in _known(function.__code__).global_names if name in function.__globals__]
    modules = tuple((name, function.__globals__[name]) for name in names)
    if not all(isinstance(module, types.ModuleType) for _, module in modules) or not reads_only(function, modules):
        return None
    return modules


def reads_only(function: types.FunctionType, modules: Modules) -> bool:
    """Whether a function, by whose code ``modules`` were found, still reads these and nothing else."""
    if function.__defaults__ is not None or function.__kwdefaults__ is not None:
        return False
    names = function.__globals__
    return all(names.get(name) is module for name, module in modules)


def refusal(function: Any, once: bool = False, depth: int = 0) -> str | None:
    """Return why ``function`` may not be recorded, None if it may.

    With ``once`` it would be called once instead of once per bucket, so it must not branch either: what it branches on
    may differ between buckets.
    """
    code = code_of(function)
    if code is None:
        return "it is not a Python function"
    kinds = _kinds_of(function, code) if depth == 0 else None
    if kinds is not None:
        found = _judged.get(code, {}).get(once)
        if found is not None and found[0] == kinds:
            return found[1]
    reason = _refusal(function, code, once, depth)
    if kinds is not None:
        _judged.setdefault(code, {})[once] = kinds, reason
    return reason


_judged: WeakKeyDictionary[types.CodeType, dict[bool, tuple[tuple[Any, ...], str | None]]] = WeakKeyDictionary()
"""What was found about functions, with the kinds of what they captured then."""


def _kinds_of(function: Any, code: types.CodeType) -> tuple[Any, ...] | None:
    """Return what the judgement of a function depends on besides its code.

    None where it has to be made anew each time: of methods, and of what captures functions, layers or containers.
    """
    if type(function) is not types.FunctionType:
        return None
    names = function.__globals__
    values = [names[name] for name in _known(code).global_names if name in names]
    try:
        values += [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        return None
    values += function.__defaults__ or ()
    values += (function.__kwdefaults__ or {}).values()
    kinds: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in _SIMPLE:
            kinds.append(kind)
        elif backend.is_tensor(value):
            kinds.append(backend.tensor_type)
        elif kind in _LASTING:
            kinds.append(id(value))
        else:
            return None
    return tuple(kinds)


_SIMPLE = (int, float, bool, str, type(None))
_LASTING = (types.ModuleType, types.BuiltinFunctionType, type)


def _refusal(function: Any, code: types.CodeType, once: bool, depth: int) -> str | None:
    """Return why the function may not be recorded, from a look at all that it captured."""
    if depth > _DEPTH:
        return "it calls functions that call functions, too deep to follow"
    known = _known(code)
    if known.refusal is not None:
        return known.refusal
    if once and known.branches:
        return "it branches"
    for name, value in captured(function):
        reason = _refusal_of(name, value, known, once, depth)
        if reason is not None:
            return reason
    owner = getattr(function, "__self__", None)
    return None if owner is None else _refusal_of_owner(owner, known, once, depth)


def captured(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a function written in Python reads from around it."""
    code = code_of(function)
    assert code is not None
    known = _known(code)
    if isinstance(function, functools.partial):
        for value in (*function.args, *function.keywords.values()):
            yield "an argument", value
        function = function.func
    plain = getattr(function, "__func__", function)
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            yield name, Ellipsis
    for value in (*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values()):
        yield "a default", value
    for name in known.global_names:
        if name in plain.__globals__:
            yield name, plain.__globals__[name]
        elif name not in _BUILTINS:
            kind = "built-in function" if hasattr(builtins, name) else "unknown name"
            yield name, _Forbidden(f"it uses the {kind} {name!r}")


@dataclass(frozen=True)
class _Forbidden:
    reason: str


def _refusal_of(name: str, value: Any, known: _Code, once: bool, depth: int) -> str | None:
    """Return why a captured value rules recording out."""
    if isinstance(value, _Forbidden):
        return value.reason
    if value is None or isinstance(value, bool | int | float | str | bytes) or backend.is_tensor(value):
        return None
    if (type(value).__module__, type(value).__name__) in _CONSTANT_TYPES:
        return None
    if isinstance(value, types.ModuleType):
        if not _is_known(value.__name__) or value.__name__.endswith(".random"):
            return f"it uses the module {value.__name__!r}"
        if value.__name__ == "numpy" and "random" in known.names:
            return "it draws random numbers from NumPy"
        return None
    if isinstance(value, list | dict | set | tuple | frozenset):
        writes = known.names & _WRITING
        return f"it may change {name!r} by {min(writes)!r}" if writes else None
    if backend.is_layer(value):
        used = _refusal_of_layer(name, value, once, depth) if name in known.whole else None
        return used or _refusal_of_owner(value, known, once, depth)
    if isinstance(value, type):
        return None if _is_known(value.__module__) or value.__module__ == "builtins" else f"it uses the class {name!r}"
    if callable(value) and _is_known(getattr(value, "__module__", None) or type(value).__module__):
        return "it runs parts of itself again" if name == "checkpoint" else None
    return (
        refusal(value, once, depth + 1)
        if code_of(value) is not None
        else f"it reads {name!r}, a {type(value).__name__}"
    )


def _is_known(module: str) -> bool:
    """Whether code of this module does nothing but compute."""
    return any(module == known or module.startswith(f"{known}.") for known in _MODULES)


def _refusal_of_layer(name: str, layer: Any, once: bool, depth: int) -> str | None:
    """Return why a layer rules recording out: it keeps state, or a user's ``forward`` in it may not be recorded."""
    if once and backend.has_state(layer):
        return f"the layer {name!r} keeps state"
    for inner in backend.layers_in(layer):
        if not _is_known(type(inner).__module__):
            reason = refusal(inner.forward, once, depth + 1)
            if reason is not None:
                return f"in the layer {name!r}, {reason}"
    return None


def _refusal_of_owner(owner: Any, known: _Code, once: bool, depth: int) -> str | None:
    """Return why the attributes of a method's object that its code names rule recording out."""
    for name in known.names:
        found = getattr(type(owner), name, None)
        if found is None:
            value = getattr(owner, name, None) if backend.is_layer(owner) else vars(owner).get(name)
            if backend.is_layer(value):
                reason = _refusal_of_layer(name, value, once, depth)
            else:
                reason = _refusal_of(name, value, known, once, depth)
        else:
            function = getattr(found, "fget", found)
            user = isinstance(function, types.FunctionType) and not _is_known(function.__module__)
            reason = refusal(function, once, depth + 1) if user else None
        if reason is not None:
            return reason
    return None
