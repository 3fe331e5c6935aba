"""Matrix products of NumPy, small ones on one OpenBLAS thread.

NumPy's BLAS is OpenBLAS mostly, whose threads wait for their next product by spinning, some 30 ms long. Meanwhile they
take cores from dglite's kernels, which come right after: on two cores a kernel takes three times as long.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WORTH_THREADS = 1 << 28
"""Minimum number of multiplications at which threads are faster in spite of waiting: 10 ms on one core."""
_NAMES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")


class _Threads(NamedTuple):
    """OpenBLAS's functions that tell and set its number of threads."""

    get: Any
    set: Any


def product(x: Any, y: Any) -> Any:
    """Return ``x @ y``."""
    threads = _threads() if type(x) is np.ndarray else None
    if threads is None or x.size * y.shape[-1] >= WORTH_THREADS:
        return x @ y
    before = threads.get()
    if before == 1:
        return x @ y
    threads.set(1)
    try:
        return x @ y
    finally:
        threads.set(before)


@cache
def _threads() -> _Threads | None:
    """Return the functions of the OpenBLAS in this process; None without one, or if its threads are set already.

    Looked for on Linux alone: elsewhere NumPy comes with other libraries, or no list of what is loaded.
    """
    maps = Path("/proc/self/maps")
    if "OPENBLAS_NUM_THREADS" in os.environ or not maps.is_file():
        return None
    files = {line.split(maxsplit=5)[-1] for line in maps.read_text(encoding="utf-8").splitlines() if "openblas" in line}
    numpys = Path(np.__file__).parents[1] / "numpy.libs"
    for path in sorted(files, key=lambda file: not file.startswith(str(numpys))):  # SciPy may bring another one
        library = ctypes.CDLL(path)
        for name in _NAMES:
            functions = [getattr(library, name.format(verb), None) for verb in ("get", "set")]
            if None not in functions:
                return _Threads(*functions)
    return None
