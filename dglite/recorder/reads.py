"""What a function refers to: globals, built-ins and attributes of modules, so that recordings can be compared."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..backend import active as backend
from .bytecode import Code, analyse, call_target
from .dependencies import MISSING, Dependencies
from .mailbox import MAILBOX

_MODULES = (*backend.modules, "math", "operator", "_operator", "typing")
"""Modules and packages whose functions only compute, and tell a deferred column from a tensor: ours do not."""
_EFFECTS = tuple(
    f"torch.{name}" for name in "distributed cuda multiprocessing utils hub autograd serialization".split()
)
"""Those inside them of which that does not hold."""
_SETTINGS = frozenset(
    "use_deterministic_algorithms save savez savetxt seterr seterrcall setitem delitem iadd iand iconcat ifloordiv "
    "ilshift imatmul imod imul ior ipow irshift isub itruediv ixor".split()
)
"""Functions elsewhere in them that change something, beside those called ``set_...`` and ``..._``."""
_LITERALS = frozenset([int, float, bool, str, type(None), np.float64])
_OF_BATCHES = frozenset("src dst data mailbox nn functional values".split())
_TENSOR: Mapping[str, Any] = vars(backend.tensor_type)
_TENSOR_AT_FIRST = dict(_TENSOR)
BUILTINS = {
    name: getattr(builtins, name)
    for name in (
        "abs bool dict enumerate float int isinstance len list max min range reversed round set slice "
        "sorted str sum tuple type zip"
    ).split()
}
"""Built-in functions that only compute, and call nothing that a function's names do not tell."""


@functools.lru_cache(maxsize=1024)
def is_known(module: str) -> bool:
    """Whether code of this module does nothing but compute."""
    return _within(module, _MODULES) and not _within(module, _EFFECTS) and not module.endswith(".random")


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return module.startswith(packages) and any(
        module == package or module.startswith(f"{package}.") for package in packages
    )


def own_operations(code: Code, dependencies: Dependencies) -> bool:
    """Whether methods and operators that the code may call of tensors are those that the tensor library came with."""
    tensor = backend.tensor_type
    names = code.operations
    return all(
        dependencies.of_namespace(_TENSOR, name, tensor) is _TENSOR_AT_FIRST.get(name, MISSING) for name in names
    )


def through(
    module: types.ModuleType, path: tuple[str, ...], dependencies: Dependencies
) -> Iterator[tuple[Any, str, Any]]:
    """Yield (module, name, value) for each module that a chain of attributes passes; ``MISSING`` where it breaks."""
    value: Any = module
    for name in path:
        if not isinstance(value, types.ModuleType):
            return
        owner, value = value, dependencies.of_namespace(vars(value), name, value)
        yield owner, name, value


def literals_of(plain: types.FunctionType) -> tuple[Any, ...] | None:
    """Return the numbers and strings in the closure and defaults of a function, or None if there are other values.

    Equal ones are of one type, and zeros of one sign.
    """
    try:
        values: list[Any] = [*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values()]
        values += [cell.cell_contents for cell in plain.__closure__ or ()]
    except (ValueError, AttributeError):  # a variable of the enclosing function has no value; Dynamo reads no closures
        return None
    if not all(type(value) in _LITERALS for value in values):
        return None
    return tuple([(type(value), value.hex() if isinstance(value, float) else value) for value in values])


def repeats(function: Any) -> bool:
    """Whether all that a function reads is its argument, literals, built-ins and modules, if it may be recorded.

    Such a function does tomorrow what it did today, as long as it finds the same. What it calls must be the operations
    of deferred columns: others may draw random numbers, or ask whether gradients are taken.
    """
    if type(function) not in (types.FunctionType, types.MethodType):
        return False
    target = call_target(function)
    if target is None or target[1] is not None:
        return False
    plain, code = target[0], analyse(target[0].__code__)
    if not code.names <= MAILBOX.names | _OF_BATCHES or literals_of(plain) is None:
        return False
    for name in code.global_names:
        if name not in plain.__globals__:
            continue
        value = plain.__globals__[name]
        if not isinstance(value, types.ModuleType):
            return False
        for path in code.paths_of(name):
            read = list(through(value, path, Dependencies()))
            if not read or not only_computes(read[-1][2]):
                return False
    return True


def only_computes(value: Any) -> bool:
    """Whether something to call is of a library and does nothing but compute."""
    if not callable(value):
        return False
    module = getattr(value, "__module__", None)
    if module is None:
        owner = getattr(value, "__self__", None) or getattr(value, "__objclass__", None)
        module = owner.__name__ if isinstance(owner, types.ModuleType) else None
        module = module or (owner if isinstance(owner, type) else type(value)).__module__
    name = getattr(value, "__name__", "")
    return is_known(module) and name not in _SETTINGS and not name.startswith("set_") and name[-1:] != "_"


def captured(function: Any) -> list[tuple[str, Any]]:
    """Return the names and values that a function written in Python reads from around it."""
    target = call_target(function)
    assert target is not None
    return Dependencies().captured(target)


def read_of_modules(code: types.CodeType, around: Iterable[tuple[str, Any]]) -> Iterator[Any]:
    """Yield what modules among ``around``, which :func:`captured` found, have under the names that ``code`` reads."""
    paths_of = analyse(code).paths_of
    for name, module in around:
        if isinstance(module, types.ModuleType):
            for path in paths_of(name):
                yield from (value for _, _, value in through(module, path, Dependencies()))
