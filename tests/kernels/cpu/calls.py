"""Calls of kernels by address."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from dglite.kernels.cpu.compile.jit import compile_kernel
from dglite.kernels.cpu.compile.written import Kernel
from dglite.kernels.cpu.lanes.atomic import call_at

SIMD = "from dglite.kernels.cpu.lanes import simd\n\n"


@Kernel
def call(kernel: int, words: int, task: int, tasks: int) -> None:
    """Run a task of a kernel."""
    call_at(kernel, words, task, tasks)


def compiled(source: str, arguments: int) -> Callable[..., Any]:
    """Return ``kernel`` of some source, which takes this many integers."""
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * arguments)(compile_kernel("test", SIMD + source))
