"""A thread that prefetches batches with exchanges: as many as ``next`` was called for, alike on all ranks."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, final

from ..backend import active
from ..dataloading.pipeline import call_in_next

_HEEDS_INTERRUPTS = 0.2
"""Seconds after which a wait is begun anew: on Windows Ctrl-C does not end one."""
_AT_EXIT = 5.0
"""Seconds that the end of the program waits for exchanges that have begun."""


class _FailedFetch:
    """An exception in the place of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _FetchedRows:
    """What the thread and the consumer share. It knows no iterator, so that one that is dropped ends its thread."""

    def __init__(self, make: Callable[[int], Any], first: int, count: int, ahead: int) -> None:
        self.make, self.next, self.count, self.ahead = make, first, count, ahead
        self.requested, self.closed = first, False
        self.results: deque[Any] = deque()
        self.changed = threading.Condition()

    def may_make(self) -> bool:
        """Wait until the next result may be made; False when there is no more to make."""
        with self.changed:
            while self.next < self.count and self.next >= self.requested + self.ahead and not self.closed:
                self.changed.wait()
            return self.next < min(self.count, self.requested + self.ahead)

    def put(self, result: Any) -> None:
        with self.changed:
            self.next += 1
            if not self.closed:
                self.results.append(result)
            if isinstance(result, _FailedFetch):
                self.count = self.next  # all ranks have failed, and make no more
            self.changed.notify_all()

    def close(self) -> None:
        """Let the thread end after the results that were asked for: other ranks count on its part in them."""
        with self.changed:
            self.closed = True
            self.results.clear()
            self.changed.notify_all()


def _work(store: _FetchedRows) -> None:
    active.set_num_threads(1)
    while store.may_make():
        try:
            result = call_in_next(store.make, store.next)
        except BaseException as error:  # the consumer raises it
            result = _FailedFetch(error)
        store.put(result)
        del result  # or a consumed batch would live until the next one is made


_open: weakref.WeakSet[Ahead] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for running in list(_open):
        running.close(_AT_EXIT)


@final
class Ahead:
    """An iterator over ``make(i)`` for i from ``first`` up to ``count``, in order.

    With ``ahead`` above 0 a thread makes, after n calls of ``next``, the results up to n + ``ahead``, no more and no
    less; so ranks that have called ``next`` as often have made the same exchanges, also where they stop early.
    An error ends it.
    """

    def __init__(self, make: Callable[[int], Any], first: int, count: int, ahead: int) -> None:
        self._store = _FetchedRows(make, first, count, ahead)
        self._thread: threading.Thread | None = None
        if ahead and first < count:
            self._thread = threading.Thread(target=_work, args=(self._store,), name="dglite-fetch", daemon=True)
            self._thread.start()
            _open.add(self)

    def __iter__(self) -> Ahead:
        return self

    def __next__(self) -> Any:
        store = self._store
        if store.closed or store.requested >= store.count:
            self.close()
            raise StopIteration
        if self._thread is None:
            store.requested += 1
            try:
                return call_in_next(store.make, store.requested - 1)
            except BaseException:
                store.closed = True
                raise
        with store.changed:
            store.requested += 1
            store.changed.notify_all()
            while not store.results:
                store.changed.wait(_HEEDS_INTERRUPTS)
            result = store.results.popleft()
        if isinstance(result, _FailedFetch):
            self.close()
            raise result.error
        return result

    def close(self, timeout: float | None = None) -> None:
        """Take part in the exchanges that other ranks count on, and end; nothing more comes."""
        self._store.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def __del__(self) -> None:
        self._store.close()
