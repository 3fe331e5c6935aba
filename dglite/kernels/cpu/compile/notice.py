"""A line on stderr where compiling kernels takes more than two seconds, on terminals and in notebooks only."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

DELAY, PAUSE = 2.0, 1.0
"""Seconds after which the line is written, and between kernels that are compiled for different calls."""


class _Burst:
    """Kernels that are compiled one after the other, as the first call of a model needs them."""

    start = end = float("-inf")
    written = False


_burst = _Burst()


def _write() -> None:
    if not _burst.written:
        _burst.written = True
        print(
            "dglite compiles kernels for this model; they are kept in DGLITE_CACHE_DIR for later runs",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def noticed() -> Iterator[None]:
    """Compile a kernel inside a ``with`` block; the line is written once for kernels that follow each other."""
    now = time.perf_counter()
    if now - _burst.end > PAUSE:
        _burst.start, _burst.written = now, False
    watched = "ipykernel" in sys.modules or bool(getattr(sys.stderr, "isatty", bool)())
    timer = threading.Timer(max(0.0, _burst.start + DELAY - now), _write) if watched else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
        _burst.end = time.perf_counter()
