"""Locks that a forked process finds open.

A child has the thread that forked and no other. A lock that another thread held at that moment would stay taken in the
child for ever; what it guards is published when it is complete, so the child may go on with what it finds.
"""

from __future__ import annotations

import os
import threading
import weakref

__all__ = ["Lock"]


class Lock:
    """A reentrant lock for ``with``. Copies and pickles are locks of their own."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _known.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


_known: weakref.WeakSet[Lock] = weakref.WeakSet()
"""All of them, for a child to open."""


def _open_all() -> None:
    for lock in list(_known):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
