"""Functions of a module in the language of kernels: compiled as generated ones are.

See :mod:`.translate` for the language. A function is compiled when it is called first, for the types of its arguments,
or when its address is asked for.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ..lanes.arrays import ELEMENTS
from .entry import callable_at, kind_of, leaves
from .jit import compile_entry


class Kernel:
    """A decorated function. Other kernels may call it, and Python, which lets other threads run meanwhile.

    Its text is read from the file when the module is imported.
    """

    def __init__(self, function: Callable) -> None:
        self.function, self.__doc__ = function, function.__doc__
        self._lines = linecache.getlines(function.__code__.co_filename)
        self._latest: Callable = _unknown
        self._entries: dict[tuple, Callable] = {}
        self._task_entries: dict[tuple, int] = {}

    # -- calls of Python -----------------------------------------------------------------------------------------------
    def __call__(self, *args: Any) -> Any:
        """Run the function. Arrays are of one dimension; those that it writes to are contiguous."""
        result = self._latest(*args)
        return self._run(args) if result is NotImplemented else result

    def _run(self, args: tuple) -> Any:
        """Run it for arguments of other types than the last ones, or arrays that must be copied to be read."""
        name, count = self.function.__name__, self.function.__code__.co_argcount
        if len(args) != count:
            raise TypeError(f"{name} takes {count} arguments, got {len(args)}")
        for entry in [*self._entries.values()]:  # to try costs less than to tell the types
            result = entry(*args)
            if result is not NotImplemented:
                self._latest = entry
                return result
        self._latest = entry = self.entry(*args)
        result = entry(*args)
        if result is not NotImplemented:
            return result
        copies = tuple(map(plain, args))
        result = entry(*copies)
        if result is NotImplemented:
            raise TypeError(f"{name} cannot take {[kind_of(x) for x in args]}: their memory layout is not supported")
        for x, copy in zip(leaves(args), leaves(copies), strict=True):
            # What was not copied may be written to by other threads meanwhile.
            copied = isinstance(x, np.ndarray) and not np.may_share_memory(x, copy)
            if copied and x.astype(copy.dtype).tobytes() != copy.tobytes():
                raise TypeError(f"{name} writes to an array that is not contiguous")
        return result

    def entry(self, *args: Any) -> Callable:
        """Return the compiled function for arguments of these types; it returns ``NotImplemented`` for others."""
        kinds = tuple(map(kind_of, args))
        if kinds not in self._entries:
            name = self.function.__name__
            self._entries.setdefault(kinds, callable_at(name, compile_entry(name, self._text, kinds, "python")))
        return self._entries[kinds]

    # -- addresses -----------------------------------------------------------------------------------------------------
    def task_address(self, args: tuple) -> int:
        """Return the address of the kernel that runs the function for a task's rows, see :mod:`.entry`; ``args`` are
        all arguments but these rows."""
        kinds = tuple(map(kind_of, args))
        if kinds not in self._task_entries:
            rows = "int64", "int64"
            self._task_entries[kinds] = compile_entry(self.function.__name__, self._text, (*kinds, *rows), "tasks")
        return self._task_entries[kinds]

    @cached_property
    def address(self) -> int:
        """Return the address of the compiled function of integers."""
        name, kinds = self.function.__name__, ("int64",) * self.function.__code__.co_argcount
        return compile_entry(name, self._text, kinds, "address")

    # -- text ----------------------------------------------------------------------------------------------------------
    @cached_property
    def _text(self) -> str:
        """Return a source with this function as the last, those that it calls, and imports of what else it names."""
        texts, imports = dict[str, str](), dict[str, tuple[str, object]]()
        for kernel in self._needed():
            name = kernel.function.__name__
            assert name not in texts, f"two kernels that {self.function.__name__} needs are named {name}"
            texts[name] = kernel._definition
            for constant, value in kernel._names():
                if not isinstance(value, Kernel | int | float):
                    _, other = imports.setdefault(constant, (kernel.function.__module__, value))
                    assert other is value, f"{constant} has two meanings in what {self.function.__name__} needs"
        lines = [f"from {module} import {name}" for name, (module, _) in sorted(imports.items())]
        title = f'"""{self.function.__module__}.{self.function.__name__}."""'
        return "\n\n".join([title, "\n".join(lines), *texts.values()]) + "\n"

    @cached_property
    def _definition(self) -> str:
        """Return the text of the function alone, with its constants as numbers."""
        lines = inspect.getblock(self._lines[self.function.__code__.co_firstlineno - 1 :])
        node = ast.parse(textwrap.dedent("".join(lines))).body[0]
        assert isinstance(node, ast.FunctionDef)
        node.decorator_list = []
        if ast.get_docstring(node):
            del node.body[0]
        numbers = {name: value for name, value in self._names() if isinstance(value, int | float)}
        return ast.unparse(_Literal(numbers).visit(node))

    def _needed(self) -> list[Kernel]:
        """Return the kernels to compile, those that are called first."""
        needed = dict[Kernel, None]()
        for _, value in self._names():
            if isinstance(value, Kernel):
                needed.update(dict.fromkeys(value._needed()))
        return [*needed, self]

    def _names(self) -> Iterator[tuple[str, object]]:
        for name in self.function.__code__.co_names:
            if name in self.function.__globals__:
                yield name, self.function.__globals__[name]


class _Literal(ast.NodeTransformer):
    """Writes numbers in place of their names."""

    def __init__(self, numbers: dict[str, Any]) -> None:
        self.numbers = numbers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.numbers[node.id]) if node.id in self.numbers else node


def _unknown(*args: Any) -> Any:
    return NotImplemented


def plain(x: Any) -> Any:
    """Return an argument whose arrays lie in memory as kernels read them, in the same memory where they can."""
    if isinstance(x, tuple):
        return type(x)(*map(plain, x))
    if not isinstance(x, np.ndarray):
        return x
    x = np.asarray(x)
    dtype = np.dtype(x.dtype.name) if x.dtype.name in ELEMENTS else x.dtype
    x = x.view(dtype) if x.dtype.isnative else x.astype(dtype)
    return x if x.flags.c_contiguous and x.flags.aligned else x.copy()
