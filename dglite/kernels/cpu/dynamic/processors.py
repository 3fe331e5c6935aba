"""Processors: threads that run a script of kernels without returning to Python, and wait for each other by numbers.

A *script* is what processors do in a job: instructions of four words (operation, words, who does it, what is not read
here). An operation is the address of a kernel, called as ``kernel(words, task, tasks)``: by one processor as the only
task, or, where it is nobody's alone (-1), by all of them; or ``WAIT``, which signals that all before it is done and
waits until all processors have signalled as often; or ``CHECK``, which ends the script if a kernel has reported an
error. Khorasani et al., "Exploiting dynamic computation graphs by virtual persistent processor
specialization" (MICRO 2018), run such scripts on a GPU.

Threads block in the interpreter's own locks, which need no GIL, so a job starts and ends while Python goes on. They are
not those of OpenMP, whose pools serve one thread at a time and do not outlive a fork.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from ..compile.written import Kernel
from ..lanes.atomic import add_to_word, call_at, call_int
from ..lanes.simd import word
from ..run.launch import openmp
from ..run.threads import closed_lock, lock_functions, open_lock
from .schedule import wait_for, yield_address

WAIT, CHECK = 0, 1
INSTRUCTION_WORDS = 4
SIGNALS, FINISHED = 0, 8
PROCESSORS, ERROR, SCRIPT, LENGTH, JOB_WORDS = range(16, 21)
"""Words of a job. Signals and finished scripts are counted in cache lines of their own."""
_LOOKS = 2000
"""How often a processor looks for the signals of the others before it lets other threads have its core."""


# -- scripts -----------------------------------------------------------------------------------------------------------
@Kernel
def _run_script(job: int, processor: int, yield_: int) -> None:
    processors = word(job, PROCESSORS)
    for i in range(word(job, LENGTH)):
        at = word(job, SCRIPT) + 8 * INSTRUCTION_WORDS * i
        operation, owner = word(at, 0), word(at, 2)
        if operation == WAIT:
            add_to_word(job + 8 * SIGNALS, 1)
            wait_for(job + 8 * SIGNALS, word(at, 1) * processors, _LOOKS, yield_)
        elif operation == CHECK:
            if word(job, ERROR) != 0:
                return
        elif owner < 0:
            call_at(operation, word(at, 1), processor, processors)
        elif owner == processor:
            call_at(operation, word(at, 1), 0, 1)


@Kernel
def _serve(mail: int, processor: int, lock: int, acquire: int, release: int, yield_: int) -> None:
    """Run scripts as they come. Words of ``mail``: the job (0: end), the lock of those who wait for its end."""
    while True:
        call_int(acquire, lock, 1)
        job = word(mail, 0)
        if job == 0:
            return
        done, processors = word(mail, 1), word(job, PROCESSORS)
        _run_script(job, processor, yield_)
        if add_to_word(job + 8 * FINISHED, 1) + 1 == processors:
            call_int(release, done, 0)


@Kernel
def _block(acquire: int, lock: int) -> None:
    call_int(acquire, lock, 1)


# -- threads -----------------------------------------------------------------------------------------------------------
class ProcessorJob:
    """A script, and all memory that it uses."""

    def __init__(self) -> None:
        self.words = np.zeros(JOB_WORDS, np.int64)
        self.error_address = self.words.ctypes.data + 8 * ERROR
        self._arrays: Any = None

    def give(self, processors: int, script: np.ndarray, *arrays: Any) -> None:
        """Take over the script (instructions, 4) of ``processors``."""
        self.words[PROCESSORS], self.words[SCRIPT], self.words[LENGTH] = processors, script.ctypes.data, len(script)
        self._arrays = script, arrays

    def reset(self) -> None:
        """Let a job that has ended begin anew."""
        self.words[:PROCESSORS] = 0
        self.words[ERROR] = 0

    @property
    def error(self) -> int:
        """What a kernel has written to report an error, 0 without one."""
        return int(self.words[ERROR])

    def start(self) -> None:
        """Start on the process's processors; a job that still runs is waited for."""
        _processors.start(self)

    def wait(self) -> None:
        """Wait until all processors have finished."""
        _processors.finish(self)


class _ProcessorThreads:
    """The threads of this process. One job runs at a time."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Start anew, without threads."""
        self.mail = np.zeros(2, np.int64)
        self.locks: list[int] = []
        self.threads: list[threading.Thread] = []
        self.running: ProcessorJob | None = None

    def start(self, job: ProcessorJob) -> None:
        """Start a job when the one that runs has ended."""
        with self.mutex:
            self.finish()
            count = int(job.words[PROCESSORS])
            self._make(count)
            _dismiss_pool()
            self.running, self.mail[0] = job, job.words.ctypes.data
            for lock in self.locks[:count]:
                open_lock(lock)

    def finish(self, job: ProcessorJob | None = None) -> None:
        """Wait for a job if it runs, without one for whatever runs."""
        with self.mutex:
            running = self.running
            if running is not None and job in (None, running):
                _block(lock_functions()[0], int(self.mail[1]))
                running._arrays = self.running = None

    def _make(self, count: int) -> None:
        if not self.mail[1]:
            self.mail[1] = closed_lock()
        if len(self.threads) >= count:
            return
        while len(self.threads) < count:
            processor, lock = len(self.threads), closed_lock()
            words = (self.mail.ctypes.data, processor, lock, *lock_functions(), yield_address())
            thread = threading.Thread(target=_serve, args=words, name=f"dglite-processor-{processor}", daemon=True)
            self.locks.append(lock)
            self.threads.append(thread)
            thread.start()
        self._part()

    def _part(self) -> None:
        """Give each thread a core of its own, if there are as many.

        Left alone, Linux wakes two of them on one core where the other core is not idle, and they take turns at every
        wait: a step took twice as long. Processes begin at different cores.
        """
        if not hasattr(os, "sched_setaffinity") or len(self.threads) < 2:
            return
        cores = sorted(os.sched_getaffinity(0))
        first = os.getpid() * len(self.threads)
        if len(cores) >= len(self.threads):
            with suppress(OSError):  # a container, or a policy, may refuse it; threads run all the same
                for i, thread in enumerate(self.threads):
                    assert thread.native_id is not None
                    os.sched_setaffinity(thread.native_id, {cores[(first + i) % len(cores)]})

    def rest(self) -> None:
        """Wait for what runs, as before a fork."""
        self.mutex.acquire()
        self.finish()

    def close(self) -> None:
        """End the threads."""
        with self.mutex:
            self.finish()
            self.mail[0] = 0
            for lock in self.locks:
                open_lock(lock)
            for thread in self.threads:
                thread.join()
            self.forget()


@cache
def _pausing() -> Any:
    pause = openmp("omp_pause_resource_all")
    return None if pause is None else ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(pause[0])


def _dismiss_pool() -> None:
    """Let the OpenMP threads of the caller end; its next parallel region starts new ones.

    After a parallel region they spin, for milliseconds, on the cores that processors need: a step took three times as
    long behind an operation of torch on two threads. Where there are none this does nothing.
    """
    pause = _pausing()
    if pause is not None:
        pause(_SOFT)


_SOFT = 1


_processors = _ProcessorThreads()

wait_for_all = _processors.finish


def _after_fork() -> None:
    _processors.mutex = threading.RLock()
    _processors.forget()


atexit.register(_processors.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_processors.rest, after_in_parent=lambda: _processors.mutex.release(), after_in_child=_after_fork
    )
