"""What a function reads from around it, as it is now: so that what was learned of it is used while that holds only."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..backend import active as backend
from .bytecode import Code, code_of, known
from .mailbox import MAILBOX

__all__ = ["BUILTINS", "MISSING", "Reads", "captured", "holds", "is_known", "only_computes", "own_operations"]
__all__ += ["read_of_modules", "reads_of", "through"]

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
_OF_BATCHES = frozenset("src dst data mailbox nn functional values".split())
_TENSOR: Mapping[str, Any] = vars(backend.tensor_type)
_TENSOR_AT_FIRST = dict(_TENSOR)
MISSING = object()
BUILTINS = {
    name: getattr(builtins, name)
    for name in (
        "abs bool dict enumerate float int isinstance len list max min range reversed round set slice "
        "sorted str sum tuple type zip"
    ).split()
}
"""Built-in functions that only compute, and call nothing that a function's names do not tell."""


class Reads(NamedTuple):
    """What a function has found: its globals, the built-ins that no global hides, and attributes of namespaces."""

    names: tuple[tuple[str, Any], ...]
    builtins: tuple[str, ...]
    attributes: tuple[tuple[Mapping[str, Any], str, Any], ...]


@functools.lru_cache(maxsize=1024)
def is_known(module: str) -> bool:
    """Whether code of this module does nothing but compute."""
    return _within(module, _MODULES) and not _within(module, _EFFECTS) and not module.endswith(".random")


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return module.startswith(packages) and any(module == one or module.startswith(f"{one}.") for one in packages)


def own_operations(code: Code) -> bool:
    """Whether methods and operators that the code may call of tensors are those that the tensor library came with."""
    return all(_TENSOR.get(name, MISSING) is _TENSOR_AT_FIRST.get(name, MISSING) for name in code.operations)


def through(module: types.ModuleType, path: tuple[str, ...]) -> Iterator[tuple[types.ModuleType, str, Any]]:
    """Yield (module, name, value) for each module that a chain of attributes passes; ``MISSING`` where it breaks."""
    value: Any = module
    for name in path:
        if not isinstance(value, types.ModuleType):
            return
        owner, value = value, vars(value).get(name, MISSING)
        yield owner, name, value


def reads_of(function: Any) -> Reads | None:
    """Return what a function reads if that is nothing but its argument, built-ins and modules; None otherwise.

    Such a function does tomorrow what it did today, as long as :func:`holds`. What it calls must be the operations of
    deferred columns: others may draw random numbers, or ask whether gradients are taken.
    """
    if type(function) is not types.FunctionType or function.__code__.co_freevars:
        return None
    code = known(function.__code__)
    if not code.names <= MAILBOX.names | _OF_BATCHES:
        return None
    names: list[tuple[str, Any]] = []
    hidden: list[str] = []
    attributes: list[tuple[Mapping[str, Any], str, Any]] = []
    for name in code.global_names:
        value = function.__globals__.get(name, MISSING)
        if value is MISSING:
            hidden.append(name)
            continue
        if not isinstance(value, types.ModuleType):
            return None
        names.append((name, value))
        for path in code.paths_of(name):
            found = list(through(value, path))
            if not found or not only_computes(found[-1][2]):
                return None
            attributes += [(vars(owner), attribute, at) for owner, attribute, at in found]
    attributes += [(_TENSOR, name, _TENSOR_AT_FIRST.get(name, MISSING)) for name in code.operations]
    reads = Reads(tuple(names), tuple(hidden), tuple(attributes))
    return reads if holds(function, reads) else None


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


def holds(function: types.FunctionType, reads: Reads) -> bool:
    """Whether a function by whose code ``reads`` were found, or one of equal code, still reads these, nothing else."""
    if function.__defaults__ is not None or function.__kwdefaults__ is not None:
        return False
    names = function.__globals__
    for name, value in reads.names:
        if names.get(name) is not value:
            return False
    for namespace, name, value in reads.attributes:
        if namespace.get(name, MISSING) is not value:
            return False
    if not reads.builtins:
        return True
    found = function.__builtins__  # type: ignore[attr-defined]
    return all(name not in names and found.get(name) is BUILTINS.get(name, MISSING) for name in reads.builtins)


def captured(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a function written in Python reads from around it.

    A built-in function that only computes is left out; a name without a value has ``MISSING``.
    """
    code = code_of(function)
    assert code is not None
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
    for name in known(code).global_names:
        value = plain.__globals__.get(name, MISSING)
        if value is MISSING:
            value = plain.__builtins__.get(name, MISSING)
            if value is BUILTINS.get(name):
                continue
        yield name, value


def read_of_modules(function: Any) -> Iterator[Any]:
    """Yield what the modules that a function captured have under the names that it reads of them."""
    code = known(code_of(function))  # type: ignore[arg-type]
    for name, module in captured(function):
        if isinstance(module, types.ModuleType):
            for path in code.paths_of(name):
                yield from (value for _, _, value in through(module, path))
