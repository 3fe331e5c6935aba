"""Threads of our own: the pool of a process without GNU OpenMP, as on macOS and Windows.

They are Python's threads, which block in the interpreter's locks without the GIL.

Words of ``mail``: 0 the function that each thread calls with (data, its number), 1 data, 2 threads of this call, the
caller among them, 3 how many have returned, 4 the lock that the last of them opens, 5 and 6 the interpreter's functions
that close and open a lock, then the lock of each thread.
"""

from __future__ import annotations

import ctypes
import threading
from array import array

from ....locks import new_lock
from ..compile.written import Kernel
from ..lanes.atomic import add_to_word, call_at, call_int, put_word, read_word
from ..lanes.simd import word

MOST = 1024
"""Threads that a call can use."""
_CLOSE, _OPEN, _LOCKS = 5, 6, 7

_api = ctypes.pythonapi
_api.PyThread_allocate_lock.restype = ctypes.c_void_p
_api.PyThread_acquire_lock.argtypes = [ctypes.c_void_p, ctypes.c_int]
_api.PyThread_release_lock.argtypes = [ctypes.c_void_p]


def closed_lock() -> int:
    """Return the address of a lock of the interpreter, closed; it stays for good."""
    lock = _api.PyThread_allocate_lock()
    _api.PyThread_acquire_lock(lock, 1)
    return int(lock)


def open_lock(lock: int) -> None:
    """Open a lock of the interpreter."""
    _api.PyThread_release_lock(lock)


def lock_functions() -> tuple[int, int]:
    """Return the addresses of the functions (lock, 1) that closes a lock when it is open, and (lock) that opens it."""
    functions = _api.PyThread_acquire_lock, _api.PyThread_release_lock
    return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)  # type: ignore[return-value]


@Kernel
def thread_number(teller: int, number: int) -> int:
    """Return the number of a thread: OpenMP calls a member without one, and has a function at ``teller`` that tells it;
    where ``teller`` is 0, ``number`` is right."""
    return call_int(teller, 0, 0) if teller != 0 else number


@Kernel
def _serve(mail: int, number: int) -> None:
    lock = word(mail, _LOCKS + number)
    while True:
        call_int(word(mail, _CLOSE), lock, 1)
        call_at(word(mail, 0), word(mail, 1), number)
        if add_to_word(mail + 8 * 3, 1) + 2 == read_word(mail + 8 * 2):
            call_int(word(mail, _OPEN), word(mail, 4), 0)


@Kernel
def run_on_threads(mail: int, function: int, data: int, threads: int) -> None:
    """Call a function at an address with (data, number) on ``threads`` threads, of which this is number 0; of compiled
    code. No signal is handled meanwhile: what others write to must not go with the caller."""
    put_word(mail, 0, function)
    put_word(mail, 1, data)
    put_word(mail, 2, threads)
    put_word(mail, 3, 0)
    for number in range(1, threads):
        call_int(word(mail, _OPEN), word(mail, _LOCKS + number), 0)
    call_at(function, data, 0)
    call_int(word(mail, _CLOSE), word(mail, 4), 1)


class _Team:
    """The threads of this process; a forked child sees its parent's, and must not use them."""

    mail = array("q", bytes(8 * (_LOCKS + MOST)))
    address = mail.buffer_info()[0]
    started = 1
    lock = new_lock()


def mail_address() -> int:
    """Return the address by which compiled code finds the threads."""
    return _Team.address


def start_threads(threads: int) -> None:
    """Start threads up to ``threads``, the caller included; raise ``RuntimeError`` if the system has no more."""
    if threads > MOST:
        raise RuntimeError(f"kernels use {MOST} threads at most, got {threads}: set a lower number of threads")
    if _Team.started >= threads:
        return
    mail = _Team.mail
    with _Team.lock:
        if not mail[4]:
            mail[_CLOSE], mail[_OPEN] = lock_functions()
            mail[4] = closed_lock()
        for number in range(_Team.started, threads):
            mail[_LOCKS + number] = closed_lock()
            words = _Team.address, number
            threading.Thread(target=_serve, args=words, name=f"dglite-kernels-{number}", daemon=True).start()
            _Team.started = number + 1
