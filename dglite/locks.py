"""Locks that are free in a forked child, whoever held them in the parent.

A child has the thread that forked and no other. A lock that another thread held at that moment would stay taken in the
child for ever; what it guards is entered when it is complete, so the child may go on with what it finds.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
"""All of them, for a child to open."""


def new_lock() -> Any:
    """Return a reentrant lock for ``with``.

    It is Python's own: one whose ``__enter__`` is written in Python would stay taken after an interrupt inside of that.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _open_all() -> None:
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
