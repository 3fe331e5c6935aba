"""Which functions may be run on deferred columns: those that do nothing but compute what they return.

Recording changes when, and for a reducer how often, a function's operations run. That is the same to a function that
only computes. One that writes somewhere, prints, or draws from another generator than the tensor library's is run for
real. What a function does is read off its bytecode, once for each piece of code; what it captured, each time.
"""

from __future__ import annotations

import types
from typing import Any
from weakref import WeakKeyDictionary

from ..backend import active as backend
from .bytecode import SETS_ITEM, Code, code_of, known
from .reads import BUILTINS, MISSING, captured, is_known, only_computes, own_operations, through

__all__ = ["may_write", "refusal"]

_CONSTANT_TYPES = {
    ("torch", "dtype"),
    ("torch", "device"),
    ("torch", "Size"),
    ("numpy", "ndarray"),
    ("numpy", "float64"),
}
_WRITING = frozenset(
    [SETS_ITEM]
    + "append extend insert remove pop popitem clear update setdefault add discard sort reverse".split()
    + "write writelines".split()
)
_DEPTH = 4
_LONGEST = 256
"""How many elements of a captured container are looked at; one that has more is not."""
_SIMPLE = (int, float, bool, str, type(None))
_TABLES = ("_parameters", "_buffers", "_modules")
"""Where a layer keeps attributes of its own kind."""
_LASTING = (types.FunctionType, types.BuiltinFunctionType, type)


def refusal(function: Any, once: bool = False, depth: int = 0) -> str | None:
    """Return why ``function`` may not be recorded, None if it may.

    With ``once`` it would be called once instead of once per bucket, so it must not branch either: what it branches on
    may differ between buckets.
    """
    code = code_of(function)
    if code is None:
        return "it is not a Python function"
    if not own_operations(known(code)):
        return "an operation of the tensor library has been replaced"
    kinds = _kinds_of(function, known(code)) if depth == 0 else None
    if kinds is not None:
        found = _judged.get(code, {}).get(once)
        if found is not None and found[0] == kinds:
            return found[1]
    reason = _refusal(function, known(code), once, depth)
    if kinds is not None:
        _judged.setdefault(code, {})[once] = kinds, reason
    return reason


def may_write(function: Any) -> bool:
    """Whether a function may write into the columns that it is given: it does, or it does what cannot be told."""
    if backend.is_layer(function):
        return _refusal_of_layer(type(function).__name__, function, False, 0) is not None
    return refusal(function) is not None


_judged: WeakKeyDictionary[types.CodeType, dict[bool, tuple[tuple[Any, ...], str | None]]] = WeakKeyDictionary()
"""What was found about functions, with the kinds of what they captured then."""


def _kinds_of(function: Any, code: Code) -> tuple[Any, ...] | None:
    """Return what the judgement of a function depends on besides its code.

    None where it has to be made anew each time: of methods, and of what captures functions, layers or containers.
    """
    if type(function) is not types.FunctionType:
        return None
    kinds: list[Any] = []
    for name, value in captured(function):
        kinds.append(name)
        if isinstance(value, types.ModuleType):
            kinds.append(value)
            for path in code.paths_of(name):
                for _, _, at in through(value, path):
                    kinds.append(at if isinstance(at, types.ModuleType) else _kind_of(at))
        else:
            kinds.append(_kind_of(value))
    return None if MISSING in kinds else tuple(kinds)


def _kind_of(value: Any) -> Any:
    """Return what counts of a captured value, ``MISSING`` where that cannot be told in short."""
    kind = type(value)
    if kind in _SIMPLE or (kind.__module__, kind.__name__) in _CONSTANT_TYPES:
        return kind
    if backend.is_tensor(value):
        return backend.tensor_type
    return value if isinstance(value, _LASTING) and only_computes(value) else MISSING


def _refusal(function: Any, code: Code, once: bool, depth: int) -> str | None:
    """Return why the function may not be recorded, from a look at all that it captured."""
    if depth > _DEPTH:
        return "it calls functions that call functions, too deep to follow"
    if code.refusal is not None:
        return code.refusal
    if once and code.branches:
        return "it branches"
    for name, value in captured(function):
        reason = _refusal_of(name, value, code, once, depth)
        if reason is not None:
            return reason
    owner = getattr(function, "__self__", None)
    return None if owner is None else _refusal_of_owner(owner, code, once, depth)


def _refusal_of(name: str, value: Any, code: Code, once: bool, depth: int) -> str | None:
    """Return why a captured value rules recording out."""
    if value is MISSING:
        return f"it uses the unknown name {name!r}"
    if value is None or isinstance(value, bool | int | float | str | bytes) or backend.is_tensor(value):
        return None
    if (type(value).__module__, type(value).__name__) in _CONSTANT_TYPES:
        return None
    if isinstance(value, types.ModuleType):
        return _refusal_of_module(name, value, code, once, depth)
    if isinstance(value, list | dict | set | tuple | frozenset):
        return _refusal_of_container(name, value, code, once, depth)
    if backend.is_layer(value):
        used = _refusal_of_layer(name, value, once, depth) if () in _uses_of(name, code) else None
        return used or _refusal_of_owner(value, code, once, depth)
    if isinstance(value, type):
        return None if only_computes(value) or value in BUILTINS.values() else f"it uses the class {name!r}"
    if only_computes(value):
        return None
    if code_of(value) is not None:
        return refusal(value, once, depth + 1)
    kind = "built-in function" if isinstance(value, types.BuiltinFunctionType) else None
    return f"it uses the {kind} {name!r}" if kind else f"it reads {name!r}, a {type(value).__name__}"


def _uses_of(name: str, code: Code) -> list[tuple[str, ...]]:
    """Return which attributes are read of a captured value; that it is used itself, where no name tells: a default."""
    return code.paths_of(name) or [()]


def _refusal_of_module(name: str, module: types.ModuleType, code: Code, once: bool, depth: int) -> str | None:
    """Return why what is read of a module rules recording out."""
    if not is_known(module.__name__):
        return f"it uses the module {module.__name__!r}"
    for path in _uses_of(name, code):
        if not path:
            return f"it hands on the module {name!r}"
        for owner, attribute, value in through(module, path):
            if not is_known(owner.__name__):
                return f"it uses the module {owner.__name__!r}"
            inside = isinstance(value, types.ModuleType)
            reason = None if inside else _refusal_of(attribute, value, code, once, depth)
            if reason is not None or (inside and attribute == path[-1]):
                return reason or f"it hands on the module {attribute!r}"
    return None


def _refusal_of_container(name: str, value: Any, code: Code, once: bool, depth: int) -> str | None:
    """Return why a captured list, dict, set or tuple rules recording out: it, or something in it, may change."""
    writes = code.names & _WRITING
    if writes:
        return f"it may change {name!r} by {min(writes)!r}"
    if len(value) > _LONGEST or depth > _DEPTH:
        return f"it reads {name!r}, which holds too much to look at"
    for element in value.values() if isinstance(value, dict) else value:
        if type(element) not in _SIMPLE:
            layer = backend.is_layer(element)
            reason = _refusal_of_layer(name, element, once, depth) if layer else None
            reason = reason or _refusal_of(name, element, code, once, depth + 1)
            if reason is not None:
                return reason
    return None


def _refusal_of_layer(name: str, layer: Any, once: bool, depth: int) -> str | None:
    """Return why a layer rules recording out: it keeps state, or a user's ``forward`` in it may not be recorded."""
    if once and backend.has_state(layer):
        return f"the layer {name!r} keeps state"
    if backend.has_hooks(layer):
        return f"the layer {name!r} has hooks"
    for inner in backend.layers_in(layer):
        if not once and vars(inner).get("inplace"):
            return f"the layer {name!r} works in place"
        if not is_known(type(inner).__module__):
            reason = refusal(inner.forward, once, depth + 1)
            if reason is not None:
                return f"in the layer {name!r}, {reason}"
    return None


def _refusal_of_owner(owner: Any, code: Code, once: bool, depth: int) -> str | None:
    """Return why the attributes of a method's object that its code names rule recording out."""
    kind = owner if isinstance(owner, type) else type(owner)
    for hook in ("__getattr__", "__getattribute__"):
        found = _of_class(kind, hook)
        if isinstance(found, types.FunctionType) and not is_known(found.__module__):
            return f"its object has a {hook} of its own"
    for name in code.names:
        value = _attribute(owner, kind, name)
        if value is MISSING:
            continue
        if backend.is_layer(value):
            reason = _refusal_of_layer(name, value, once, depth)
            for inner in backend.layers_in(value) if reason is None and depth < _DEPTH else ():
                if inner is not owner and not is_known(type(inner).__module__):
                    reason = reason or _refusal_of_owner(inner, code, once, depth + 1)
        else:
            reason = _refusal_of(name, value, code, once, depth)
        if reason is not None:
            return reason
    return None


def _attribute(owner: Any, kind: type, name: str) -> Any:
    """Return what stands behind an attribute, a method of a user bound to its object; ``MISSING`` if nothing does."""
    found = _of_class(kind, name)
    if not isinstance(found, property) and not isinstance(owner, type):
        own = getattr(owner, "__dict__", {})
        for table in _TABLES if backend.is_layer(owner) else ():
            if name in own[table]:
                return own[table][name]
        if name in own:
            return own[name]
    if isinstance(found, staticmethod):
        return found.__func__
    function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    if not isinstance(function, types.FunctionType):
        return found
    whose = kind if isinstance(found, classmethod) else owner
    return MISSING if is_known(function.__module__) else types.MethodType(function, whose)


def _of_class(kind: type, name: str) -> Any:
    """Return what a class, or one that it inherits from, has under a name, as it stands there."""
    for one in kind.__mro__:
        if name in one.__dict__:
            return one.__dict__[name]
    return MISSING
