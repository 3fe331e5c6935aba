"""Numba's decorators, with a cache whose key covers everything that is compiled in.

See docs/decisions/0076-compiled-code-is-cached-by-a-hash-of-its-sources.md.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numba
from llvmlite.binding import ffi
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from ... import store
from .stamp import module_stamp

Decorator = Callable[[Callable], Any]

compile_lock = threading.RLock()
"""Held while rendered kernels are compiled; taken before Numba's lock, which is taken before LLVM's."""


def njit(signature: str = "", **options: Any) -> Decorator:
    """Compile a function as ``numba.njit`` does: at once for a signature, else where it is called."""

    def decorate(function: Callable) -> Any:
        dispatcher = numba.njit(no_cfunc_wrapper=True, **options)(function)
        dispatcher._cache = _Cache(function, options)
        if signature:
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return decorate


def cfunc(signature: str, **options: Any) -> Decorator:
    """Compile a function to an ``address`` at once, as ``numba.cfunc`` does."""

    def decorate(function: Callable) -> Any:
        callback: Any = CFunc(function, normalize_signature(signature), locals={}, options=options)
        callback._cache = _Cache(function, options)
        callback.compile()
        return callback

    return decorate


class _Cache(NullCache):
    """Where Numba looks for what a function was compiled to, and leaves it. Each signature has a file."""

    def __init__(self, function: Callable, options: dict[str, Any]) -> None:
        if function.__closure__ is not None:
            raise TypeError(f"{function.__qualname__} refers to variables around it, which its key would not know")
        line = function.__code__.co_firstlineno
        self._label = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self._parts = (module_stamp(function.__module__), function.__qualname__, line, sorted(options.items()))

    def _named(self, signature: Any, codegen: Any) -> tuple[str, bytes]:
        key = hashlib.sha256(repr((*self._parts, str(signature), codegen.magic_tuple())).encode()).digest()
        return store.file_name(self._label, key, ".code"), key

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what a signature was compiled to, or None."""
        target_context.refresh()
        content = store.read("kernels", *self._named(signature, target_context.codegen()))
        return None if content is None else CompileResult._rebuild(target_context, *pickle.loads(content))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what a signature was compiled to, if it has no address of this process in it."""
        if not compiled.library.has_dynamic_globals:
            store.write("kernels", *self._named(signature, compiled.codegen), dumps(compiled._reduce()))


def _hold() -> None:
    for lock in _LOCKS:
        lock.__enter__()


def _release() -> None:
    for lock in reversed(_LOCKS):
        lock.__exit__(None, None, None)


# A fork waits until no other thread compiles: the child has no such thread, and would wait for its locks forever.
_LOCKS = (compile_lock, global_compiler_lock, ffi.lib._lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
