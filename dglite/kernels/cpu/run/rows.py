"""Run a compiled function over a range of rows: on this thread, or split over the process's thread pool.

The function takes arrays, integers and named tuples of these, and, last, the rows ``first`` and ``last`` of its share;
it writes results for these rows only. One thread calls it as it is. For several, a kernel is rendered around it that
reads its arguments from words, as :mod:`.launch` wants them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from ..compile.jit import load_source
from .launch import launch, num_calls, num_threads, tasks_for

__all__ = ["array_at", "run_rows"]


@intrinsic
def _pointer(typingctx: Any, address: Any, dtype: Any) -> Any:
    pointer = types.CPointer(dtype.dtype)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(pointer))

    return pointer(types.int64, dtype), codegen


@numba.njit(inline="always")
def array_at(address, length, dtype):  # type: ignore[no-untyped-def]
    """Return the array of ``length`` numbers of a dtype at an address."""
    return numba.carray(_pointer(address, dtype), (length,))


_SOURCE = '''"""Run shares of {module}.{name}."""
import numpy as np

from {module} import {name}
{imports}from dglite.kernels.cpu.compile.cached import cfunc
from dglite.kernels.cpu.run.rows import array_at
from dglite.kernels.cpu.lanes.simd import word


@cfunc("void(int64, int64, int64)", error_model="numpy")
def kernel(args, task, num_tasks):
    if task >= 0:
        num_rows = word(args, 0)
        {name}({arguments}, num_rows * task // num_tasks, num_rows * (task + 1) // num_tasks)
'''

_addresses: dict[tuple, int] = {}
_COST = 8
"""Elements of a sum that take as long as one of these, a choice or a step to anywhere in memory."""


def run_rows(function: Any, num_rows: int, work: int, threads: int, *arguments: Any) -> None:
    """Call ``function(*arguments, first, last)`` for shares that cover all rows; ``work`` is about how many elements.

    Arrays are one-dimensional and contiguous; a share must not depend on what another one writes.
    """
    threads = num_threads(work, threads)
    if threads == 1:
        calls = min(num_calls(_COST * work), max(num_rows, 1))
        for i in range(calls):
            function(*arguments, num_rows * i // calls, num_rows * (i + 1) // calls)
        return
    values = list(_flattened(arguments))
    kinds = tuple(x.dtype.char if isinstance(x, np.ndarray) else "" for x in values)
    address = _addresses.get((function, kinds))
    if address is None:
        address = _addresses[function, kinds] = load_source("rows", _source(function, arguments)).kernel.address
    words = [num_rows]
    for x in values:
        words += [x.ctypes.data, len(x)] if isinstance(x, np.ndarray) else [x]
    launch(address, words, *tasks_for(_COST * work, threads))


def _flattened(arguments: Any) -> Iterator[np.ndarray | int]:
    for x in arguments:
        if isinstance(x, tuple):
            yield from x
        else:
            yield x


def _source(function: Any, arguments: tuple[Any, ...]) -> str:
    parts, imports, at = [], "", 1
    for x in arguments:
        fields = []
        for value in x if isinstance(x, tuple) else (x,):
            if isinstance(value, np.ndarray):
                fields.append(f"array_at(word(args, {at}), word(args, {at + 1}), np.{value.dtype.name})")
                at += 2
            else:
                fields.append(f"word(args, {at})")
                at += 1
        if isinstance(x, tuple):
            imports += f"from {type(x).__module__} import {type(x).__name__}\n"
        parts.append(f"{type(x).__name__}({', '.join(fields)})" if isinstance(x, tuple) else fields[0])
    python = function.py_func
    return _SOURCE.format(module=python.__module__, name=python.__name__, imports=imports, arguments=", ".join(parts))
