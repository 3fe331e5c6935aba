"""Functions of a module in the language of kernels: compiled as generated ones are, without Numba.

A function whose name begins with an underscore serves others of the module and has no address of its own; see
:mod:`.translate` for the language.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from .jit import compile_kernels

__all__ = ["Kernel"]


class Kernel:
    """A decorated function; other kernels of its module may call it.

    Its text is that of the file when the module is imported.
    """

    def __init__(self, function: Callable) -> None:
        self.function = function
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(node, ast.FunctionDef)
        node.decorator_list = []
        if ast.get_docstring(node):
            del node.body[0]
        self._text = ast.unparse(node)

    def __call__(self, *args: Any) -> Any:
        """Stand for a call in another kernel; Python calls kernels by their address."""
        raise TypeError(f"{self.function.__name__} is compiled; launch it at its address")

    @cached_property
    def address(self) -> int:
        """Return the address of the compiled function."""
        kernels, constants = self._needed()
        module = self.function.__module__
        texts = [f'"""{module}.{self.function.__name__}."""', f"from {module} import {', '.join(constants)}"]
        texts += [kernel._text for kernel in kernels]
        return compile_kernels(self.function.__name__, "\n\n".join(texts) + "\n")[self.function.__name__]

    def _needed(self) -> tuple[list[Kernel], list[str]]:
        """Return the kernels to compile, those that are called first, and the other names of the module in them."""
        kernels, constants = dict[Kernel, None](), dict[str, None]()
        for name, value in self._names():
            if isinstance(value, Kernel):
                below, names = value._needed()
                kernels.update(dict.fromkeys(below))
                constants.update(dict.fromkeys(names))
            else:
                constants[name] = None
        return [*kernels, self], sorted(constants)

    def _names(self) -> Iterator[tuple[str, object]]:
        for name in self.function.__code__.co_names:
            if name in self.function.__globals__:
                yield name, self.function.__globals__[name]
