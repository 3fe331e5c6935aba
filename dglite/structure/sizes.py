"""Amounts of memory, as users write them."""

from __future__ import annotations

import os
import re

from ..errors import DGLError
from .ids import count_of

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_LEAST = 1 << 22


def memory_limit(memory: int | str | None, least: int = _LEAST) -> int:
    """Return a limit in bytes: of a number, a text such as ``"4 GB"``, or None for half of the free memory.

    Raises
    ------
    DGLError
        It is no such text, or below ``least`` bytes, which no batch of rows fits in.
    """
    if memory is None:
        return max(free_memory() // 2, least)
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(i?B)?\s*", memory, re.IGNORECASE)
        if match is None or match[1].count(".") > 1 or match[1] == ".":
            raise DGLError(f'memory must be a number of bytes or a text such as "4 GB", got {memory!r}')
        memory = int(float(match[1]) * _UNITS[match[2].upper()])
    return count_of(memory, "memory", least, remark=" bytes, since a batch of rows must fit")


def bytes_of(count: int) -> str:
    """Return a number of bytes as text."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError


def free_memory() -> int:
    """Return the bytes of memory that are free."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) << 10  # type: ignore[index]
    except (OSError, TypeError):  # not Linux
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**32
