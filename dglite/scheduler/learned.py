"""What has been learned about users' functions, by their code: it is forgotten with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

from ..backend import active as backend
from ..expr import Side
from ..function import MessageFunction, ReduceFunction, reduce_function
from ..recorder import Column, Reduced, captures_of, code_of, refusal
from .relation import Relation

__all__ = ["Recording", "bucket", "builtins_of", "note_builtins", "recordings", "why_bucketed"]


@dataclass(frozen=True)
class Recording:
    """Messages that a function makes of columns of such shapes and dtypes, while the modules that it reads stay."""

    modules: tuple[tuple[str, Any], ...]
    scheme: tuple[tuple[Side, str, tuple[int, ...], str], ...]
    messages: tuple[MessageFunction, ...]

    def fits(self, function: Any, relation: Relation) -> bool:
        names = function.__globals__
        for name, module in self.modules:
            if names.get(name) is not module:
                return False
        for side, column, feat, dtype in self.scheme:
            if not relation.has_column(side, column):
                return False
            x = relation.column(side, column)
            if backend.shape(x)[1:] != feat or backend.dtype(x) != dtype or not backend.on_cpu(x):
                return False
        return True


recordings: WeakKeyDictionary[CodeType, Recording] = WeakKeyDictionary()
_builtins: WeakKeyDictionary[CodeType, tuple[ReduceFunction, ...]] = WeakKeyDictionary()
_bucketed: WeakKeyDictionary[CodeType, str] = WeakKeyDictionary()
"""Reduce functions that turned out not to be recordable, and why: they are not tried again."""


def why_bucketed(function: Any) -> str | None:
    """Return why a reduce function is run in buckets, None where it may be recorded."""
    code = code_of(function)
    return (None if code is None else _bucketed.get(code)) or refusal(function, once=True)


def bucket(function: Any, reason: str) -> bool:
    """Run a reduce function in buckets from now on; False if that is so already, or not to be remembered."""
    code = code_of(function)
    if code is None or code in _bucketed:
        return False
    _bucketed[code] = reason
    return True


def builtins_of(function: Any) -> tuple[ReduceFunction, ...] | None:
    """Return the built-in reducers that a function is known to be, None where it does more or was not seen yet."""
    code = code_of(function)
    found = None if code is None else _builtins.get(code)
    return found if found is not None and captures_of(function).plain else None


def note_builtins(function: Any, result: Any, read: Mapping[str, Column]) -> None:
    """Note which built-in reducers a function is, if it returns reductions of message fields untouched."""
    code = code_of(function)
    if code is None or code in _builtins or not captures_of(function).plain:
        return
    names = {id(column): name for name, column in read.items()}
    reducers = []
    for out, value in result.items():
        if type(value) is not Reduced or id(value.column) not in names:
            return
        reducers.append(reduce_function(value.reducer.value, names[id(value.column)], out))
    _builtins[code] = tuple(reducers)
