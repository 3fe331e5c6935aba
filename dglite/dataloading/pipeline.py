"""Results computed ahead by threads and returned in order: what every loader runs on.

A thread claims the next position, makes its result and leaves it in a bounded store; the consumer takes results by
position. Who made a result, and when, changes nothing about it: see ``dglite.random.draws_keyed_by``.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from typing import Any, final

from ..backend import active

Produce = Callable[[int], Any]
"""Makes the result of a position."""

_AT_EXIT = 5.0
"""Seconds that the end of the program waits for a thread's current batch."""
_HEEDS_INTERRUPTS = 0.2
"""Seconds after which a wait is begun anew: on Windows Ctrl-C does not end one."""


def call_in_next(function: Callable[[int], Any], number: int) -> Any:
    """Return ``function(number)``, users' code that an iterator calls in ``__next__``.

    Raises ``RuntimeError``: the function raised StopIteration, which would end the loop as if there were no more (PEP
    479 for generators).
    """
    try:
        return function(number)
    except StopIteration as error:
        stopped = RuntimeError(
            "StopIteration was raised while a batch was made, which would end the epoch early; if it comes from "
            "next(iterator), catch it there or give a default, next(iterator, None)"
        )
        for note in getattr(error, "__notes__", ()):
            stopped.add_note(note)
        raise stopped from error


class _Cores:
    """The trainer's number of threads while workers run: its own less one for each worker, at least three quarters.

    A worker waits most of the time, until the trainer has taken a batch: it does not need a core of its own. Only the
    thread that began the epoch is set, because thread counts are kept by thread.
    """

    def __init__(self) -> None:
        # Reentrant: a loader that the garbage collector drops while the lock is held gives its workers back here.
        self._lock = threading.RLock()
        self._workers, self._before, self._owner = 0, 0, 0

    def reserve(self, workers: int) -> None:
        """Take ``workers`` threads from the thread that calls this."""
        with self._lock:
            if not self._before:
                self._before, self._owner = active.num_threads(), threading.get_ident()
            self._workers += workers
            self._tell()

    def release(self, workers: int) -> None:
        """Give them back."""
        with self._lock:
            self._workers -= workers
            self._tell()

    def _tell(self) -> None:
        if threading.get_ident() == self._owner:
            least = -(-3 * self._before // 4)
            active.set_num_threads(max(least, self._before - self._workers))
            if not self._workers:
                self._before = 0


_cores = _Cores()


class _Failed:
    """An exception instead of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Store:
    """The state shared by workers and consumer, without the iterator: dropping that ends the workers."""

    def __init__(self, produce: Produce, first: int, count: int, ahead: int, exchanges: bool) -> None:
        self.produce, self.exchanges = produce, exchanges
        self.num_taken, self.claimed, self.count, self.ahead = first, first, count, ahead
        self.results: dict[int, Any] = {}
        self.closed = False
        # The condition's lock is reentrant: the garbage collector may close another store's iterator in a wait.
        self.changed = threading.Condition()
        self.threads: list[threading.Thread] = []

    def claim(self) -> int | None:
        """Return the next position to work on, once there is room for its result; None when there is no more."""
        with self.changed:
            while not self.closed and self.claimed < self.count and self.claimed - self.num_taken >= self.ahead:
                self.changed.wait()
            due = self.claimed - self.num_taken < self.ahead if self.exchanges else not self.closed
            if self.claimed >= self.count or not due:
                return None
            self.claimed += 1
            return self.claimed - 1

    def put(self, position: int, result: Any) -> None:
        """Leave a result; after one that failed no more work is begun."""
        with self.changed:
            if not self.closed:
                self.results[position] = result
            if isinstance(result, _Failed):
                self.count = min(self.count, self.claimed)
            self.changed.notify_all()

    def get(self) -> Any:
        """Wait for the next result in order."""
        with self.changed:
            position = self.num_taken
            if self.exchanges:  # other ranks count on it, also where this wait is interrupted
                self.num_taken += 1
                self.changed.notify_all()
            while position not in self.results:
                self.changed.wait(_HEEDS_INTERRUPTS)
            self.num_taken = position + 1
            self.changed.notify_all()
            return self.results.pop(position)

    def close(self) -> None:
        """Let every worker end after the result that it is making, or the exchanges that are due; no result is kept."""
        with self.changed:
            self.closed = True
            self.results.clear()
            self.changed.notify_all()


def _work(store: _Store, number: int, begin: Callable[[int], None] | None, ready: threading.Barrier) -> None:
    active.set_num_threads(1)
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        return  # not all threads could be started
    try:
        if begin is not None:
            call_in_next(begin, number)
    except BaseException as error:  # the consumer raises it
        position = store.claim()
        if position is not None:
            store.put(position, _Failed(error))
        return
    while (position := store.claim()) is not None:
        try:
            result = call_in_next(store.produce, position)
        except BaseException as error:  # the consumer raises it
            result = _Failed(error)
        store.put(position, result)
        del result  # or a consumed batch would live until the next one is made


_open: weakref.WeakSet[_Store] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End workers before the interpreter goes: a thread that asks for it afterwards never returns."""
    for exchanges in (True, False):  # those of others first, which take results of the rest
        stores = [store for store in list(_open) if store.exchanges == exchanges]
        for store in stores:
            store.close()
        for thread in [thread for store in stores for thread in store.threads]:
            thread.join(_AT_EXIT)


@final
class Ordered:
    """An iterator over ``produce(i)`` for i from ``first`` up to ``count``, in order.

    Parameters
    ----------
    workers
        threads that call ``produce``, in this process; 0 calls it in ``next``.
    ahead
        the most results in progress or waiting at a time.
    begin
        called in each thread with its number before the first result.
    exchanges
        each result is an exchange of all ranks, so there is one worker at most. After n calls of ``next`` it has made
        the results up to n + ``ahead``, no more and no less, also where the iterator is closed: so ranks that have
        called ``next`` as often have made the same exchanges.

    Notes
    -----
    An exception of ``produce`` is raised by ``next`` in its turn, with its own traceback (StopIteration as the cause of
    a RuntimeError); after it, and after the last result, the iterator is closed. Dropping the iterator closes it. While
    it is open, the trainer keeps its threads less one for each worker, unless that mostly waits for exchanges.
    """

    def __init__(
        self,
        produce: Produce,
        first: int,
        count: int,
        workers: int,
        ahead: int,
        begin: Callable[[int], None] | None = None,
        exchanges: bool = False,
    ) -> None:
        self._store: _Store | None = _Store(produce, first, count, ahead, exchanges)
        self._workers, self._threads = max(min(workers, count - first), 0), self._store.threads
        self._exchanges = exchanges
        if not self._workers:
            return
        store, ready = self._store, threading.Barrier(self._workers + 1)
        for number in range(self._workers):
            thread = threading.Thread(
                target=_work, args=(store, number, begin, ready), name=f"dglite-loader-{number}", daemon=True
            )
            store.threads.append(thread)
        started = 0
        try:
            for thread in store.threads:
                thread.start()
                started += 1
            ready.wait()
        except BaseException:
            del store.threads[started:]
            self._store, self._workers = None, 0
            store.close()
            ready.abort()
            raise
        _open.add(store)
        # After the workers have set theirs to 1: torch also remembers the number that was set last, by any thread.
        if not exchanges:
            _cores.reserve(self._workers)

    def __iter__(self) -> Ordered:
        return self

    def __next__(self) -> Any:
        store = self._store
        if store is None:
            raise StopIteration
        try:
            if store.num_taken >= store.count:
                self._join()  # threads that have nothing left to do
                raise StopIteration
            if not self._workers:
                result = call_in_next(store.produce, store.num_taken)
                store.num_taken += 1
                return result
            result = store.get()
            if isinstance(result, _Failed):
                raise result.error
        except BaseException:
            self._stop()
            raise
        return result

    def close(self) -> None:
        """End the workers, each after the result that it is making; nothing more comes. Wait for exchanges to end."""
        self._stop()
        if self._exchanges:
            self._join()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _stop(self) -> None:
        store, self._store = self._store, None
        if store is None:
            return
        store.close()
        if self._workers and not store.exchanges:
            _cores.release(self._workers)

    def __del__(self) -> None:
        self._stop()
