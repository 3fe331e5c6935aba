"""All settings from environment variables and ``~/.dglite/config.json``, read in one place.

======================  ==============================================================================
``DGLITE_BACKEND``      tensor backend: ``torch``, ``numpy`` or ``cupy``; default: ``torch`` where it is installed, else
                        ``numpy``. ``DGLBACKEND=pytorch`` is understood too
``DGLITE_DATA_DIR``     folder with datasets; read where it has them, written to by downloads.
                        ``DGL_DOWNLOAD_DIR`` is understood too
``DGLITE_CACHE_DIR``    folder of compiled kernels; default: the user's cache folder of this platform.
                        It must be this user's own: not writable by others
``DGLITE_CACHE_SIZE``   megabytes that compiled kernels may take there, about; default 1024. What was not used for
                        longest is removed beyond that; ``0`` keeps nothing
``DGLITE_CPU_NAME``     the CPU that kernels are compiled for, by LLVM's name (``generic``); default: this one.
                        ``DGLITE_CPU_FEATURES`` lists what it has: ``+f16c,-avx``. ``NUMBA_CPU_NAME`` and
                        ``NUMBA_CPU_FEATURES`` are understood too
``DGLITE_POOL``         bytes that the memory pool may hold: a number, or one with ``K``, ``M`` or ``G`` behind it;
                        ``0``: no pool. Default: half of the memory that this process can have
``DGLITE_DEBUG``        ``1`` verifies every plan after each rewrite and prints what waits for a GPU, ``2`` also prints
                        sources of kernels
======================  ==============================================================================
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from .errors import DGLError

with suppress(ImportError):  # Windows
    import resource

_BACKEND_ALIASES = {"pytorch": "torch"}


def backend_name() -> str:
    """Return the backend asked for: ``DGLITE_BACKEND``, ``DGLBACKEND``, the configuration file.

    Where none is, it is torch if that is installed, else numpy.
    """
    name = os.environ.get("DGLITE_BACKEND") or os.environ.get("DGLBACKEND") or _config_file().get("backend")
    if not name:
        return "torch" if find_spec("torch") else "numpy"
    return _BACKEND_ALIASES.get(name.lower(), name.lower())


def _config_file() -> dict[str, str]:
    try:
        path = Path.home() / ".dglite" / "config.json"
        if not path.is_file():
            return {}
    except (PermissionError, RuntimeError):  # no home, or another user's
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DGLError(f'{path} is not readable as JSON ({error}); expected {{"backend": "torch"}}') from error
    if not isinstance(content, dict):
        raise DGLError(f'{path} holds {type(content).__name__}; expected an object such as {{"backend": "torch"}}')
    return content


def cache_dir() -> Path:
    """Return the folder that holds rendered kernels and their compiled code."""
    setting = os.environ.get("DGLITE_CACHE_DIR")
    return Path(setting) if setting else Path(platformdirs.user_cache_dir("dglite", appauthor=False))


def cache_limit() -> int:
    """Return how many bytes the cache folder may hold."""
    value = os.environ.get("DGLITE_CACHE_SIZE", "1024")
    if not (value.isascii() and value.isdigit()):
        raise DGLError(f"DGLITE_CACHE_SIZE={value!r} is not understood; expected a number of megabytes, such as 1024")
    return int(value) << 20


def data_dir() -> Path:
    """Return the folder in which datasets are looked for, and into which they are downloaded."""
    setting = os.environ.get("DGLITE_DATA_DIR") or os.environ.get("DGL_DOWNLOAD_DIR")
    return Path(setting) if setting else Path(platformdirs.user_data_dir("dglite", appauthor=False))


def cpu_name() -> str:
    """Return LLVM's name of the CPU that kernels are compiled for, ``""`` for this one."""
    return os.environ.get("DGLITE_CPU_NAME") or os.environ.get("NUMBA_CPU_NAME", "")


def cpu_features() -> str | None:
    """Return the list of the features of the CPU that kernels are compiled for, or None: those of this one."""
    default = "" if cpu_name() == "generic" else None
    return os.environ.get("DGLITE_CPU_FEATURES", os.environ.get("NUMBA_CPU_FEATURES", default))


def debug_level() -> int:
    """Return 0 (quiet), 1 (verify plans) or 2 (also print kernel sources)."""
    value = os.environ.get("DGLITE_DEBUG", "0")
    if value not in ("0", "1", "2"):
        raise DGLError(f"DGLITE_DEBUG={value!r} is not understood; expected 0, 1 or 2")
    return int(value)


def num_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_MOST_UNKNOWN = 4 << 30
"""Bytes that a pool may hold where the system does not say how much memory it has."""


def pool_limit() -> int:
    """Return how many bytes the memory pool may hold, 0 for none."""
    value = os.environ.get("DGLITE_POOL", "")
    if not value:
        return _memory() // 2 if _memory() else _MOST_UNKNOWN
    limit = bytes_in(value)
    if limit is None:
        raise DGLError(
            f"DGLITE_POOL={value!r} is not understood; expected bytes, such as 4G, 500M or 2000000, or 0 for no pool"
        )
    return limit


def bytes_in(text: str) -> int | None:
    """Return the bytes that a text such as ``"4 GB"`` or ``"500M"`` says, None if it says no such number."""
    number = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
    match = re.fullmatch(number + r"\s*([KMGT]?)(?:i?B)?", text.strip(), re.ASCII | re.IGNORECASE)
    return None if match is None else int(float(match[1]) * (1 << _SHIFTS[match[2].upper()]))


def _memory() -> int:
    """Return the bytes of memory that this process can have, 0 where that is not known."""
    limits = []
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # not on Windows
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of the container
        try:
            text = Path("/sys/fs/cgroup", name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        limits += [int(text)] if text.isdigit() else []
    return min(limits, default=0)


def available_memory() -> int | None:
    """Return how many bytes of memory this process can still have, None where the system does not say."""
    limits = [_memory()] if _memory() else []
    with suppress(OSError):  # as Linux tells them
        words = Path("/proc/meminfo").read_text(encoding="ascii").split()
        limits.append(int(words[words.index("MemAvailable:") + 1]) * 1024)
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [] if limit == resource.RLIM_INFINITY else [max(limit - used, 0)]
    return min(limits, default=None)
