"""Settings that a captured step depends on beside its inputs: modules, their attributes and hooks, the loss function.

A step is captured once and then runs without its module's code, so whatever that code reads is compared before each
step: a changed setting is captured again. Attributes that the forward pass itself writes cannot take effect later; a
warning names them.
"""

from __future__ import annotations

import functools
import operator
import random
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as torch_module

from ..errors import DGLWarning

_MISSING = object()
_CONTAINERS = (list, set, dict)
_VALUES = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, range, slice, Enum)
_GLOBAL_HOOKS = [name for name in vars(torch_module) if name.startswith("_global_") and name.endswith("hooks")]


def signature(leaf: Any) -> str:
    """Return the properties of an input that a plan depends on: shape and dtype of a tensor, else its value."""
    return f"{tuple(leaf.shape)} {leaf.dtype}" if isinstance(leaf, torch.Tensor) else repr(leaf)


def input_problem(leaves: Iterable[Any]) -> str:
    """Return why inputs cannot be trained with, or an empty text."""
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            if leaf.requires_grad:
                return "an input requires a gradient, which a partitioned step does not compute: pass it detached"
            if leaf.layout != torch.strided:
                return f"an input has the layout {leaf.layout}: pass dense tensors"
        elif not isinstance(leaf, _VALUES) and not isinstance(leaf, types.FunctionType | type):
            name = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
            return f"an input is a {name}: pass tensors, numbers or texts, in tuples, lists and dicts"
    return ""


def modes(module: nn.Module, device: torch.device) -> tuple[Any, ...]:
    """Return the modes of torch, and the frozen parameters, that change a step."""
    kind = device.type
    autocast = torch.is_autocast_enabled(kind), str(torch.get_autocast_dtype(kind)), str(torch.get_default_dtype())
    with torch._C.DisableTorchFunctionSubclass():
        return (*autocast, *(p.requires_grad for p in module.parameters()))


class CallSettings:
    """Settings of a module and a loss function, numbered: `number` is equal exactly while the settings are.

    Parameters
    ----------
    module : nn.Module
    loss : callable or None

    Attributes
    ----------
    training : list of bool
        Of all modules, when `number` was last called.
    """

    def __init__(self, module: nn.Module, loss: Callable[..., Any] | None) -> None:
        self._module, self._loss = module, loss
        self._numbers: dict[Any, int] = {}
        self._alive: list[Any] = []  # so that no id of a compared object is used again
        self._written: set[tuple[int, str]] = set()
        self._owners: list[Any] = []
        self._copies: list[Mapping[str, Any]] = []
        self._number = -1
        self.training: list[bool] = []

    def number(self) -> int:
        """Return the number of the present settings: a new one if there have never been equal ones."""
        if not self._owners or not self._unchanged():
            self._read()
        return self._number

    def _unchanged(self) -> bool:
        try:
            return all(map(operator.eq, map(self._namespace, self._owners), self._copies))
        except Exception:  # replaced tensors and arrays have no single truth value
            return False

    def _read(self) -> None:
        self._owners = list(_owners(self._module, self._loss))
        self._copies = [_copied(self._namespace(owner)) for owner in self._owners]
        text = tuple((id(owner), _identity(copy)) for owner, copy in zip(self._owners, self._copies, strict=True))
        self.training = [module.training for module in self._module.modules()]
        self._alive += [self._owners, self._copies]
        self._number = self._numbers.setdefault(text, len(self._numbers))

    def _namespace(self, owner: Any) -> Mapping[str, Any]:
        names = _namespace(owner)
        skipped = [name for number, name in self._written if number == id(owner)] if self._written else ()
        return {name: value for name, value in names.items() if name not in skipped} if skipped else names

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Warn of attributes that are written, and of random numbers that are drawn, while a step is captured."""
        self.number()
        state = _random_state()
        yield
        written: list[str] = []
        for owner, copy in zip(self._owners, self._copies, strict=True):
            now = self._namespace(owner)
            names = [name for name, value in now.items() if _identity(value) != _identity(copy.get(name, _MISSING))]
            self._written.update((id(owner), name) for name in names)
            written += [f"{type(owner).__name__}.{name}" for name in names]
        if written:
            _warn(
                f"the forward pass writes {', '.join(written[:4])}: a partitioned step does so in its first call only"
            )
        if state != _random_state():
            _warn("the forward pass draws from random or numpy.random: a partitioned step keeps its first draw")
        self._read()


def _random_state() -> Any:
    return random.getstate(), np.random.get_state()[2]  # type: ignore[index]


def _warn(text: str) -> None:
    warnings.warn(text, DGLWarning, stacklevel=9)


def _owners(module: nn.Module, loss: Any) -> Iterator[Any]:
    """Yield everything whose attributes are read in a step, once each."""
    yield torch_module
    modules = [*module.modules(), *(loss.modules() if isinstance(loss, nn.Module) else [loss])]
    records: set[int] = set()
    forwards = {
        forward: None
        for owner in modules
        if isinstance(forward := getattr(type(owner), "forward", None), types.FunctionType)
        and forward.__module__.split(".")[0] not in ("torch", "dglite")
    }
    for owner in [*modules, *forwards]:
        yield owner
        for value in _items(_namespace(owner).values()):
            if _is_record(value, owner) and id(value) not in records:
                records.add(id(value))
                yield value


def _items(values: Iterable[Any]) -> Iterator[Any]:
    """Yield values, and what lists, tuples and dicts among them hold."""
    for value in values:
        yield value
        if isinstance(value, list | tuple | dict):
            yield from value.values() if isinstance(value, dict) else value


def _is_record(value: Any, owner: Any) -> bool:
    """Return whether a value is an object of settings: a configuration, or of a class beside its owner's."""
    if isinstance(value, type | types.FunctionType | nn.Module | torch.Tensor) or not hasattr(value, "__dict__"):
        return False
    record = is_dataclass(value) or isinstance(value, types.SimpleNamespace) or hasattr(value, "to_dict")
    return record or (isinstance(owner, nn.Module) and type(value).__module__ == type(owner).__module__)


def _namespace(owner: Any) -> Mapping[str, Any]:
    """Return the values that an object or a function reads, by name."""
    if owner is torch_module:
        return {name: getattr(torch_module, name) for name in _GLOBAL_HOOKS}
    if isinstance(owner, functools.partial):
        return {"args": owner.args, **owner.keywords, "func": owner.func}
    if isinstance(owner, types.MethodType):
        return {"self": owner.__self__, **getattr(owner.__self__, "__dict__", {})}
    if isinstance(owner, types.FunctionType):
        names = {name: owner.__globals__[name] for name in owner.__code__.co_names if name in owner.__globals__}
        cells = dict(zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=True))
        return names | {name: _content(cell) for name, cell in cells.items()} | {"defaults": owner.__defaults__}
    return getattr(owner, "__dict__", {})


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _copied(names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, _CONTAINERS) else value for name, value in names.items()}


def _identity(value: Any) -> Any:
    """Return something hashable that is equal for equal values, and for other objects only if they are the same."""
    if isinstance(value, _VALUES):
        return type(value).__name__, repr(value) if isinstance(value, slice | float) else value
    if isinstance(value, Mapping):
        return tuple((key, _identity(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_identity, value))
    if isinstance(value, set | frozenset):
        return frozenset(map(_identity, value))
    return id(value)
