"""Which functions may be called on deferred columns: those without side effects.

Recording changes when, and for a reducer how often, a function's operations run. A function without side effects
computes the same. One that writes somewhere, prints, or draws from another generator than the tensor library's runs as
written. What a function does is read from its bytecode, once for each code object; what it captures, each time.
"""

from __future__ import annotations

import functools
import types
from typing import Any
from weakref import WeakKeyDictionary

from ..backend import active as backend
from .bytecode import SETS_ITEM, CallTarget, Code, analyse, call_target
from .dependencies import CONTAINERS, LONGEST, MISSING, Dependencies, is_simple
from .reads import BUILTINS, is_known, only_computes, own_operations, through

_WRITING = frozenset(
    [SETS_ITEM]
    + "append extend insert remove pop popitem clear update setdefault add discard sort reverse".split()
    + "write writelines".split()
)
_DEPTH = 4
_MOST = 16
"""How many results are cached for functions with the same code object, such as methods of several objects."""
_TABLES = ("_parameters", "_buffers", "_modules")
"""Where a layer keeps parameters, buffers and inner layers."""
_NO_FORWARD = "_forward_unimplemented"
"""What is called where a layer defines no ``forward``: it raises."""
_OWN_LAYERS = f"{__name__.partition('.')[0]}.backend."
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def refusal(function: Any, once: bool = False) -> str | None:
    """Return why ``function`` may not be recorded, None if it may.

    With ``once`` it would be called once instead of once per bucket, so it must not branch either: what it branches on
    may differ between buckets.
    """
    return purity_check(function, once)[0]


def may_write(function: Any) -> bool:
    """Whether a function may write into the columns that it is given; True also where that is unknown."""
    return purity_check(function, False)[0] is not None


_Result = tuple[str | None, Dependencies]
_results: WeakKeyDictionary[types.CodeType, tuple[tuple[bool, bool, _Result], ...]] = WeakKeyDictionary()
"""Results by a function's code object, the latest first: whether it is called once, whether it is a layer's, result."""


def purity_check(function: Any, once: bool) -> _Result:
    """Return why a function may not be recorded, and all that the check read: valid while that is unchanged."""
    target = call_target(function)
    if target is None:
        return "it is not a Python function", Dependencies()
    code, layer = target[0].__code__, backend.is_layer(function)
    results = _results.get(code, ())
    for for_once, of_layer, cached in results:
        if for_once is once and of_layer is layer and cached[1].unchanged(target):
            return cached
    check = _PurityCheck(once)
    if layer:
        check.dependencies.captured(target)
        reason = check.layer(type(function).__name__, function, 0)
    else:
        reason = check.function(target, 0)
    result = reason, check.dependencies.seal()
    if check.dependencies.complete:
        _results[code] = ((once, layer, result), *[cached for cached in results if cached[2][1].complete][: _MOST - 1])
    return result


class _PurityCheck:
    """Checks a function and all that it captured. Its methods return why it may not be recorded, or None."""

    def __init__(self, once: bool) -> None:
        self.once = once
        self.dependencies = Dependencies()

    def function(self, target: CallTarget, depth: int) -> str | None:
        """Check a function written in Python."""
        code = analyse(target[0].__code__)
        if not own_operations(code, self.dependencies):
            return "an operation of the tensor library has been replaced"
        if depth > _DEPTH:
            return "it calls functions that call functions, too deep to follow"
        captured = self.dependencies.captured(target, not depth)
        if code.refusal is not None:
            return code.refusal
        if self.once and code.branches:
            return "it branches"
        for name, value in captured:
            reason = None if name in BUILTINS and value is BUILTINS[name] else self.value(name, value, code, depth)
            if reason is not None:
                return reason
        return None if target[1] is None else self.owner(target[1], code, depth)

    def value(self, name: str, value: Any, code: Code, depth: int) -> str | None:
        """Check a captured value."""
        if value is MISSING:
            return f"it uses the unknown name {name!r}"
        if is_simple(value) or isinstance(value, int | float | str | bytes):
            return None
        if isinstance(value, types.ModuleType):
            return self.module(name, value, code, depth)
        if isinstance(value, CONTAINERS):
            return self.container(name, value, code, depth)
        if backend.is_layer(value):
            used = self.layer(name, value, depth) if () in _uses_of(name, code) else None
            return used or self.owner(value, code, depth)
        if isinstance(value, type):
            return None if only_computes(value) or value in BUILTINS.values() else f"it uses the class {name!r}"
        if only_computes(value):
            return None
        target = call_target(value)
        if target is not None:
            self.dependencies.of_class(type(value), "__call__")
            if type(value) is functools.partial:  # its keywords may change
                self.dependencies.complete = False
            return self.function(target, depth + 1)
        kind = "built-in function" if isinstance(value, types.BuiltinFunctionType) else None
        return f"it uses the {kind} {name!r}" if kind else f"it reads {name!r}, a {type(value).__name__}"

    def module(self, name: str, module: types.ModuleType, code: Code, depth: int) -> str | None:
        """Check what is read of a module."""
        if not is_known(module.__name__):
            return f"it uses the module {module.__name__!r}"
        for path in _uses_of(name, code):
            if not path:
                return f"it passes the module {name!r}"
            for owner, attribute, value in through(module, path, self.dependencies):
                if not is_known(owner.__name__):
                    return f"it uses the module {owner.__name__!r}"
                inside = isinstance(value, types.ModuleType)
                reason = None if inside else self.value(attribute, value, code, depth)
                if reason is not None or (inside and attribute == path[-1]):
                    return reason or f"it passes the module {attribute!r}"
        return None

    def container(self, name: str, value: Any, code: Code, depth: int) -> str | None:
        """Check a captured list, dict, set or tuple: it, or something in it, may change."""
        writes = code.names & _WRITING
        if writes:
            return f"it may change {name!r} by {min(writes)!r}"
        if len(value) > LONGEST or depth > _DEPTH:
            return f"it reads {name!r}, which has too many elements to check"
        for element in value.values() if isinstance(value, dict) else value:
            if not is_simple(element):
                reason = self.layer(name, element, depth) if backend.is_layer(element) else None
                reason = reason or self.value(name, element, code, depth + 1)
                if reason is not None:
                    return reason
        return None

    def layer(self, name: str, layer: Any, depth: int) -> str | None:
        """Check a layer that is called: whether it keeps state, and what users wrote in it."""
        for inner in backend.layers_in(layer):
            reason = self._one_layer(name, inner, depth)
            if reason is not None:
                return reason
        return None

    def _one_layer(self, name: str, layer: Any, depth: int) -> str | None:
        """Check a layer, but not those inside it."""
        reads, kind = self.dependencies, type(layer)
        if not isinstance(vars(layer).get("_modules"), dict):
            return f"the layer {name!r} is of an unknown kind"
        reads.values_of(layer, "_modules")
        if any(reads.values_of(layer, hooks) for hooks in _HOOKS):
            return f"the layer {name!r} has hooks"
        if self.once and any(x is not None for x in reads.values_of(layer, "_buffers")):
            return f"the layer {name!r} keeps state"
        inplace = reads.of_object(layer, None, "inplace", exactly=True)
        if not self.once and inplace is not MISSING and inplace:
            return f"the layer {name!r} works in place"
        if not _of_library(reads.of_class(kind, "__call__")):
            return f"the layer {name!r} has a __call__ of its own"
        forward, of_class = reads.of_object(layer, None, "forward"), reads.of_class(kind, "forward")
        defined = of_class if forward is MISSING else forward
        of_library = is_known(kind.__module__) or getattr(defined, "__name__", "") == _NO_FORWARD
        if of_library and is_known(getattr(defined, "__module__", None) or ""):
            return None
        forward = layer.forward if forward is MISSING else forward
        target = call_target(forward)
        reason = "it is not a Python function" if target is None else self.function(target, depth + 1)
        return None if reason is None else f"in the layer {name!r}, {reason}"

    def owner(self, owner: Any, code: Code, depth: int) -> str | None:
        """Check the attributes of a method's object that its code names."""
        kind = owner if isinstance(owner, type) else type(owner)
        for hook in ("__getattr__", "__getattribute__"):
            method = self.dependencies.of_class(kind, hook)
            if isinstance(method, types.FunctionType) and not is_known(method.__module__):
                return f"its object has a {hook} of its own"
        for name in code.names:
            value = self._attribute(owner, kind, name)
            if value is MISSING:
                continue
            if backend.is_layer(value):
                reason = self.layer(name, value, depth)
                for inner in backend.layers_in(value) if reason is None and depth < _DEPTH else ():
                    if inner is not owner and not is_known(type(inner).__module__):
                        reason = reason or self.owner(inner, code, depth + 1)
            else:
                reason = self.value(name, value, code, depth)
            if reason is not None:
                return reason
        return None

    def _attribute(self, owner: Any, kind: type, name: str) -> Any:
        """Return the value of an attribute, a user's method bound to its object; ``MISSING`` without one."""
        attribute = self.dependencies.of_class(kind, name)
        if not isinstance(attribute, property) and not isinstance(owner, type):
            for table in (*(_TABLES if backend.is_layer(owner) else ()), None):
                value = self.dependencies.of_object(owner, table, name)
                if value is not MISSING:
                    return value
        if isinstance(attribute, staticmethod):
            return attribute.__func__
        function = attribute.fget if isinstance(attribute, property) else getattr(attribute, "__func__", attribute)
        if not isinstance(function, types.FunctionType):
            return attribute
        receiver = kind if isinstance(attribute, classmethod) else owner
        return MISSING if is_known(function.__module__) else types.MethodType(function, receiver)


def _of_library(method: Any) -> bool:
    """Whether a layer's method is defined by the tensor library or by dglite's own layers."""
    module = getattr(method, "__module__", None) or ""
    return is_known(module) or module.startswith(_OWN_LAYERS)


def _uses_of(name: str, code: Code) -> list[tuple[str, ...]]:
    """Return which attributes are read of a captured value; ``()`` is the value itself, also without a name."""
    return code.paths_of(name) or [()]
