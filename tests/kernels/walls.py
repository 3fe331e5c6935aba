"""Arrays that end where memory does: to read behind one is a crash."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

__all__ = ["at_a_wall"]


def at_a_wall(array: np.ndarray) -> np.ndarray:
    """Return a copy that ends where a page that nobody may read begins; on Windows, which has other calls, any copy."""
    if sys.platform == "win32":
        return array.copy()
    room = -(-max(array.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, room + mmap.PAGESIZE)
    wall = np.frombuffer(pages, np.uint8).ctypes.data + room
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(wall), mmap.PAGESIZE, 0) == 0
    copy = np.frombuffer(pages, np.uint8, array.nbytes, room - array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
