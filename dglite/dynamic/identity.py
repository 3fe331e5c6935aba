"""What a user's function depends on besides its arguments, so that it is known when it is the same function again."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from ..recorder import captured, code_of, read_of_modules

_NUMBERS = (int, float, bool, str, bytes, type(None))
_LASTING = (types.ModuleType, types.BuiltinFunctionType, type, torch.dtype)
_DEPTH = 4


class FunctionIdentity:
    """``key`` is equal for functions that do the same, given that ``alive``, what they captured, is kept alive.

    ``tensors`` and ``layers`` are those that they may read. ``key`` is None where that cannot be told, ``unknown``
    says why.
    """

    unknown = ""

    def __init__(self, functions: Iterable[Any]) -> None:
        self.tensors: dict[int, torch.Tensor] = {}
        self.layers: list[nn.Module] = []
        self.alive: list[Any] = []
        self._visited: set[int] = set()
        try:
            self.key: tuple[Any, ...] | None = tuple([self._function(function, 0) for function in functions])
        except _UnknownError as error:
            self.key, self.unknown = None, str(error)

    def _function(self, function: Any, depth: int) -> Any:
        code = code_of(function)
        if code is None or depth > _DEPTH or isinstance(function, functools.partial):
            raise _UnknownError("it calls what is not a Python function, a functools.partial, or functions too deep")
        owner = getattr(function, "__self__", None)
        self.alive.append(code)
        parts = [id(code), None if owner is None else self._value(owner, depth)]
        around = captured(function)
        parts += [self._value(value, depth) for _, value in around]
        inside = list(read_of_modules(code, around))
        self.alive += inside
        return tuple(parts + [id(value) for value in inside])

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _NUMBERS:
            return kind, value
        if isinstance(value, torch.Tensor):
            self.tensors[id(value)] = value
            return id(value), value.requires_grad
        if isinstance(value, nn.Module):
            return self._layer(value, depth)
        if isinstance(value, _LASTING):
            self.alive.append(value)
            return id(value)
        if kind in (tuple, list):
            return kind, tuple([self._value(x, depth) for x in value])
        if kind in (dict, OrderedDict):
            return kind, tuple([(self._value(k, depth), self._value(x, depth)) for k, x in value.items()])
        if isinstance(value, types.FunctionType | types.MethodType):
            return self._function(value, depth + 1)
        raise _UnknownError(f"it reads a {kind.__name__}, of which it cannot be told whether it has changed")

    def _layer(self, layer: nn.Module, depth: int) -> Any:
        """Return a layer's parameters and settings, and those of the layers in it."""
        if id(layer) in self._visited:
            return id(layer)
        self._visited.add(id(layer))
        self.layers.append(layer)
        if any(getattr(layer, hooks) for hooks in _HOOKS):
            raise _UnknownError(f"the layer {type(layer).__name__} has hooks")
        read = [item for item in vars(layer).items() if item[0] in _TABLES or not item[0].startswith("_")]
        return id(layer), type(layer), *[(name, self._value(x, depth)) for name, x in read]


_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class _UnknownError(Exception):
    """Something was captured of which it cannot be told whether it is the same again."""
