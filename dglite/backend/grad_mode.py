"""Whether operations of the tape are recorded, in each thread."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator


class _Mode(threading.local):
    enabled = True


mode = _Mode()


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread."""
    return mode.enabled


class set_grad_enabled(ContextDecorator):
    """Record operations inside the block, or not; also decorates a function."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(mode.enabled)
        mode.enabled = self._enabled

    def __exit__(self, *exc: object) -> None:
        mode.enabled = self._before.pop()


class no_grad(set_grad_enabled):
    """Do not record operations inside the block."""

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(set_grad_enabled):
    """Record operations inside the block."""

    def __init__(self) -> None:
        super().__init__(True)
