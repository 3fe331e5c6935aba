"""What a vertex function reads besides its vertices, as it was when the function was traced.

A trace keeps Python's values: a number on ``self``, the layers of a module, a captured dict. Each call compares them
with what is there now; after a change the function is traced again.
"""

from __future__ import annotations

import enum
import functools
import inspect
import random
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import nn

from ...errors import DGLError
from ...recorder import code_of
from ...recorder.bytecode import analyse

_SIMPLE = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", *_BACKWARD_HOOKS)
_GLOBAL_HOOKS = [getattr(nn.modules.module, f"_global{name}") for name in ("_forward_hooks", "_forward_pre_hooks")]
_LIBRARIES = ("torch", "numpy", "math", "builtins", "typing", "dglite", "functools", "itertools", "operator")
"""Packages whose code is taken not to change."""
_MOST_ELEMENTS = 4096
"""Of longer containers and arrays only the length is compared."""
_MISSING = object()
_Read = tuple[Callable[..., Any], Any, str, Any]
"""How a value is read: a function, whose, under which name; and the value."""


class FunctionSurroundings:
    """The values that functions read, by where they lie: attributes, globals, closures, elements of containers."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        """Note what the ``forward`` of modules reads, and all that these and what they call refer to.

        Of an object only attributes count whose names occur in the code: a counter on ``self`` that ``forward`` does
        not read changes nothing.
        """
        roots, count = list(modules), 0
        self._inside = {id(x) for root in roots for x in root.modules()}
        self._names = {"forward"}
        while len(self._names) > count:  # what is reached may be code, which names more
            count = len(self._names)
            self._reads, self._contents = list[_Read](), list[tuple[Any, Any]]()
            self._pending: list[Any] = [*roots, *_GLOBAL_HOOKS]
            visited = dict[int, Any]()
            while self._pending:
                value = self._pending.pop()
                if id(value) not in visited:
                    visited[id(value)] = value
                    self._note(value)

    def change(self) -> str | None:
        """Return the name of something that has another value now, None if nothing has."""
        for read, owner, name, value in self._reads:
            current = read(owner, name, _MISSING)
            if current is not value and not _is_equal(current, value):
                return "a variable of an enclosing function" if read is _content else str(name)
        for container, content in self._contents:
            if not _has_content(container, content):
                return f"a {type(container).__name__}"
        return None

    # -- noting -------------------------------------------------------------------------------------------------
    def _note(self, value: Any) -> None:
        if isinstance(value, (*_SIMPLE, torch.Tensor, enum.Enum)):
            return  # compared where it lies
        if isinstance(value, nn.Module):
            self._of_module(value)
        elif isinstance(value, _CONTAINERS):
            self._of_container(value)
        elif isinstance(value, np.ndarray):
            self._contents.append((value, value.tobytes() if value.size <= _MOST_ELEMENTS else len(value)))
        elif isinstance(value, functools.partial):
            self._pending += [value.func, value.args, value.keywords]
        elif isinstance(value, property):
            self._pending.append(value.fget)
        elif isinstance(value, classmethod | staticmethod):
            self._pending.append(value.__func__)
        elif code_of(value) is not None and isinstance(value, types.FunctionType | types.MethodType):
            self._of_function(value)
        elif isinstance(value, types.ModuleType):
            if not _is_of_library(value.__name__):
                self._attributes(vars(value))
        elif isinstance(value, type):
            self._of_class(value)
        else:
            self._of_object(value)

    def _of_function(self, function: Any) -> None:
        self._pending.append(getattr(function, "__self__", None))
        plain = getattr(function, "__func__", function)
        if _is_of_library(plain.__module__ or ""):
            return
        self._names |= _names_in(plain.__code__)
        for name in analyse(plain.__code__).global_names:
            if name in plain.__globals__:
                self._read(dict.get, plain.__globals__, name)
        for cell in plain.__closure__ or ():
            self._read(_content, cell, "")
        self._pending += [plain.__defaults__, plain.__kwdefaults__]

    def _of_module(self, module: nn.Module) -> None:
        if any(getattr(module, hooks, None) for hooks in _BACKWARD_HOOKS):
            raise DGLError(
                f"the layer {type(module).__name__} has backward hooks, which a vertex program does not call: its "
                "gradient runs for all vertices of a level together. Register hooks on parameters or on the result"
            )
        space = vars(module)
        for table in _TABLES:
            self._read(dict.get, space, table)
        self._of_object(module)

    def _of_container(self, container: Any) -> None:
        if len(container) > _MOST_ELEMENTS:
            self._contents.append((container, len(container)))
            return
        self._contents.append((container, _elements(container)))
        self._pending += _elements(container)

    def _of_object(self, owner: Any) -> None:
        kind, space = type(owner), getattr(owner, "__dict__", {})
        self._of_class(kind)
        of_torch = isinstance(owner, nn.Module) and _is_of_library(kind.__module__)
        for name in {name for name in space if self._is_read(owner, name, of_torch)}:
            self._read(dict.get, space, name)
        absent = self._names & {name for base in kind.__mro__ for name in vars(base)} - space.keys()
        for name in absent:
            slot = inspect.getattr_static(kind, name)
            if isinstance(slot, types.MemberDescriptorType):
                self._read(getattr, owner, name)
            elif isinstance(space, dict):
                self._read(dict.get, space, name)

    def _is_read(self, owner: Any, name: str, of_torch: bool) -> bool:
        """Whether code may read an attribute; a layer of torch may read all of its own."""
        if name == "training" and id(owner) in self._inside:
            return False  # it is part of a trace's key
        return name in self._names or (of_torch and not name.startswith("_"))

    def _of_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if not _is_of_library(base.__module__):
                self._attributes(vars(base))

    def _attributes(self, space: Mapping[str, Any]) -> None:
        """Note what a class or a module has under the names in the code."""
        for name in self._names.intersection(space):
            self._read(type(space).get, space, name)

    def _read(self, read: Callable[..., Any], owner: Any, name: str) -> None:
        """Note the value that ``read(owner, name, _MISSING)`` returns, and look into it."""
        value = read(owner, name, _MISSING)
        self._reads.append((read, owner, name, value))
        self._pending.append(value)


def states_of_generators() -> tuple[Any, ...]:
    """Return the states of the generators of Python and NumPy, to tell whether a function has drawn from them."""
    state: Any = np.random.get_state()
    return random.getstate(), state[1].tobytes(), state[2:]


def generator_states(device: torch.device) -> list[tuple[Callable[[Any], None], torch.Tensor]]:
    """Return the states of torch's generators on the CPU and on a device, with what sets them again."""
    states: list[tuple[Callable[[Any], None], torch.Tensor]] = [(torch.set_rng_state, torch.get_rng_state())]
    there: Any = getattr(torch, device.type, None)
    if device.type != "cpu" and hasattr(there, "get_rng_state"):
        states.append((functools.partial(there.set_rng_state, device=device), there.get_rng_state(device)))
    return states


def _is_of_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes in a function and those inside of it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def _content(cell: types.CellType, name: str, missing: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return missing


def _is_equal(x: Any, y: Any) -> bool:
    return type(x) is type(y) and isinstance(x, _SIMPLE) and x == y


def _elements(container: Any) -> tuple[Any, ...]:
    """Return what a container holds, keys of a dict included."""
    return (*container, *container.values()) if isinstance(container, dict) else tuple(container)


def _has_content(container: Any, content: Any) -> bool:
    """Whether a container has the elements that it had, an array the values; of long ones, as many."""
    if type(content) is int:
        return len(container) == content
    if type(content) is bytes:
        return bool(container.tobytes() == content)
    if not container:
        return not content
    elements = _elements(container)
    if len(elements) != len(content):
        return False
    return all(map(is_, elements, content)) or all(map(_is_same, elements, content))


def _is_same(x: Any, y: Any) -> bool:
    return x is y or _is_equal(x, y)
