"""What is known about users' functions, cached under their code objects."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from types import CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from ..backend import active as backend
from ..expr import Side
from ..function import MessageFunction, ReduceFunction, reduce_function
from ..recorder import (
    CallTarget,
    Dependencies,
    EdgeColumn,
    Reduced,
    call_target,
    code_of,
    literals_of,
    purity_check,
    refusal,
    repeats,
)
from ..udf import function_name
from .plan import UserFunction
from .relation import Relation, has_kernels

_logger = logging.getLogger("dglite")


_NOTHING: Mapping[Any, Any] = MappingProxyType({})
_HALF = ("float16", "bfloat16")


@dataclass(frozen=True)
class _Messages:
    """What a message function makes of columns of such shapes and dtypes, as long as it reads the same around it."""

    dependencies: Dependencies
    scheme: tuple[tuple[Side, str, tuple[int, ...], str], ...]
    messages: tuple[MessageFunction, ...]

    def fits(self, relation: Relation) -> bool:
        for side, name, feat, dtype in self.scheme:
            x = relation.peek(side, name)
            if x is None or backend.shape(x)[1:] != feat or backend.dtype(x) != dtype:
                return False
            if dtype in _HALF and not has_kernels(x):
                return False
        return True


_Literals = tuple[Any, ...] | None
_messages: WeakKeyDictionary[CodeType, dict[_Literals, _Messages | None]] = WeakKeyDictionary()
"""By the literals that a function of the code captures; None where what it does has to be recorded at each call."""
_builtins: WeakKeyDictionary[CodeType, dict[_Literals, tuple[Dependencies, tuple[ReduceFunction, ...]]]] = (
    WeakKeyDictionary()
)
_MOST_LITERALS = 16
"""Of how many tuples of literals what a function does is kept: a number may differ at each call."""
_bucketed: WeakKeyDictionary[CodeType, str] = WeakKeyDictionary()
"""Reduce functions that turned out not to be recordable, and why: they are not tried again."""
_logged: WeakSet[Any] = WeakSet()
"""Functions, by their code, that the log has named."""


def _method(function: Any) -> CallTarget | None:
    """Return what a method runs that does not read its object; None for anything else."""
    target = call_target(function) if type(function) is MethodType else None
    return None if target is None or target[1] is not None else target


def cached_messages(function: Any, relation: Relation) -> tuple[MessageFunction, ...] | None:
    """Return the messages that a function is known to make of the relation's columns."""
    target: CallTarget | None = (function, None, ()) if type(function) is FunctionType else _method(function)
    recordings = None if target is None else _messages.get(target[0].__code__)
    if target is None or recordings is None:
        return None
    cached = recordings.get(literals_of(target[0]))
    if cached is None or not cached.dependencies.unchanged(target) or not cached.fits(relation):
        return None
    return cached.messages


def is_kept(function: Any) -> bool:
    """Whether what a function does, if it may be recorded, is kept for functions of the same code and literals."""
    if not repeats(function):
        return False
    plain = _plain(function)
    recordings = _messages.get(plain.__code__, _NOTHING)
    literals = literals_of(plain)
    return recordings[literals] is not None if literals in recordings else len(recordings) < _MOST_LITERALS


def _keep(table: MutableMapping[CodeType, dict[_Literals, Any]], function: Any, result: Any) -> None:
    plain = _plain(function)
    table.setdefault(plain.__code__, {})[literals_of(plain)] = result


def _plain(function: Any) -> FunctionType:
    target = call_target(function)
    assert target is not None
    return target[0]


def note_messages(function: Any, messages: tuple[MessageFunction, ...], scheme: Any) -> None:
    """Note what a function has made of columns, if it will do so again; ``scheme`` is None if it depends on more."""
    refused, dependencies = purity_check(function, False)
    if refused is None and is_kept(function):
        _keep(_messages, function, None if scheme is None else _Messages(dependencies, scheme, messages))


def why_bucketed(function: Any) -> str | None:
    """Return why a reduce function is run in buckets, None where it may be recorded."""
    code = code_of(function)
    return (None if code is None else _bucketed.get(code)) or refusal(function, once=True)


def bucket(function: Any, reason: str) -> None:
    """Run a reduce function in buckets from now on."""
    code = code_of(function)
    if code is not None:
        _bucketed[code] = reason


def why_as_written(signature: Any, function: Any) -> str:
    """Return why a message function is executed as written."""
    if isinstance(signature, UserFunction) and signature.few_edges:
        return "on so few edges that takes less time"
    return why_not_fused(function, False)


def why_not_fused(function: Any, reduces: bool) -> str:
    """Return why a message function, or a reduce function, cannot be fused."""
    return (why_bucketed(function) if reduces else refusal(function)) or "it fails on columns without values"


def log_unfused(function: Any, reduces: bool) -> None:
    """Log, the first time, that a function is executed as written, and why."""
    key = code_of(function) or type(function)
    if key in _logged:
        return
    _logged.add(key)
    if _logger.isEnabledFor(logging.INFO):
        code = code_of(function)
        place = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
        kind = "reduce" if reduces else "message"
        why = why_not_fused(function, reduces)
        _logger.info("%s function %s%s is not fused: %s", kind, function_name(function), place, why)


def cached_builtins(function: Any) -> tuple[ReduceFunction, ...] | None:
    """Return the built-in reducers that a function is known to be, None where it does more or was not seen yet."""
    target: CallTarget | None = (function, None, ()) if type(function) is FunctionType else _method(function)
    recordings = None if target is None else _builtins.get(target[0].__code__)
    if target is None or recordings is None:
        return None
    cached = recordings.get(literals_of(target[0]))
    return None if cached is None or not cached[0].unchanged(target) else cached[1]


def note_builtins(function: Any, result: Mapping[str, Any], read: Mapping[str, EdgeColumn]) -> None:
    """Note which built-in reducers a function is, if it returns reductions of message fields untouched."""
    names = {id(column): name for name, column in read.items()}
    reducers = []
    for out, value in result.items():
        if type(value) is not Reduced or not value.of_any_shape or id(value.column) not in names:
            return
        reducers.append(reduce_function(value.reducer.value, names[id(value.column)], out))
    refused, dependencies = purity_check(function, True)
    if refused is None and is_kept(function):
        _keep(_builtins, function, (dependencies, tuple(reducers)))
