"""Interrupts, as Ctrl-C sends them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest


def interrupted(work: Callable[[], object], after: Callable[[], object]) -> float:
    """Call a function in the main thread, and interrupt it when ``after()``, called in another thread, returns.

    Return the seconds of processor time from then on; unlike time they are the same on a busy machine. Python's handler
    is restored meanwhile: processes in the background of a shell, and their children, inherit that SIGINT is ignored.
    """
    sent: list[float] = []
    returned = False

    def interrupt() -> None:
        after()
        sent.append(time.process_time())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            work()
            returned = True
            thread.join()
        seconds = time.process_time() - sent[0]
        thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not returned, "it returned before it was interrupted"
    return seconds
