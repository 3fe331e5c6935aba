"""Arrays of ids where a graph's structure is: NumPy's on the host, the tensor library's on a device.

What makes one structure of another is written once, with the functions of such an object, by NumPy's names and with
NumPy's results. Indexing, arithmetic and comparison are the arrays' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..backend import active
from .ids import as_ids


@final
class HostArrays:
    """Arrays of NumPy."""

    def asarray(self, x: Any, dtype: Any = None) -> np.ndarray:
        return np.asarray(x, dtype)

    def astype(self, x: np.ndarray, dtype: Any) -> np.ndarray:
        return x.astype(dtype, copy=False)

    def arange(self, count: int, dtype: Any = "int64") -> np.ndarray:
        return np.arange(count, dtype=dtype)

    def full(self, count: int, value: Any, dtype: Any = "int64") -> np.ndarray:
        return np.full(count, value, dtype)

    def concatenate(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts)

    def repeat(self, x: np.ndarray, counts: np.ndarray, total: int) -> np.ndarray:
        """Return ``x[i]`` ``counts[i]`` times, for each i; ``total`` values."""
        return np.repeat(x, counts)

    def cumsum(self, x: np.ndarray) -> np.ndarray:
        return np.cumsum(x, dtype=np.int64)

    def nonzero(self, mask: np.ndarray) -> np.ndarray:
        """Return where ``mask`` is true."""
        return mask.nonzero()[0]

    def first(self, mask: np.ndarray) -> np.integer:
        """Return where ``mask`` is true first."""
        return mask.argmax()

    def argsort(self, x: np.ndarray) -> np.ndarray:
        """Return the stable order."""
        return x.argsort(kind="stable")

    def floats(self, x: np.ndarray) -> np.ndarray:
        """Return numbers as float64; as float32 on a device that has no wider ones."""
        return x.astype(np.float64)

    def log(self, x: np.ndarray) -> np.ndarray:
        return np.log(x)

    def read(self, *numbers: Any) -> list[int]:
        """Return numbers, each an array of one, as Python's; of a device, the host waits for them."""
        return [int(x) for x in numbers]


HOST = HostArrays()


def arrays_on(device: Any) -> Any:
    """Return what makes arrays of ids for a graph on ``device``."""
    return HOST if device == active.cpu() else active.arrays_on(device) or HOST


def place_of(device: Any) -> Any:
    """Return what to keep a tensor on ``device`` under: on a GPU other streams may be ahead of what made it."""
    return device if device == active.cpu() else (device, active.stream(device))


def ids_in(arrays: Any, ids: Any, count: int, label: str = "node") -> Any:
    """Return the int64 ids that ``ids`` selects out of ``count``, as an array of ``arrays``, after checking them.

    Ids on the device stay there; the host waits for one number, which says whether they exist.

    Raises ``DGLError``: as :func:`~.ids.as_ids`.
    """
    if arrays is HOST:
        return as_ids(ids, count, label).astype(np.int64, copy=False)
    there = active.is_tensor(ids) and active.device(ids) == arrays.device and len(active.shape(ids)) == 1
    dtype = active.dtype(ids) if there else ""
    if dtype == "bool" and active.shape(ids)[0] == count:
        return arrays.nonzero(ids)
    is_list = dtype in ("int32", "int64")
    if is_list and not (active.shape(ids)[0] and arrays.read(((ids < 0) | (ids >= count)).any())[0]):
        return arrays.astype(ids, "int64")
    return arrays.asarray(as_ids(ids, count, label).astype(np.int64, copy=False))


def expand_ranges(arrays: Any, first: Any, counts: Any, total: int) -> Any:
    """Return ``first[0], first[0] + 1, ...`` (``counts[0]`` numbers), then the same for each further range."""
    ends = arrays.cumsum(counts)
    return arrays.repeat(first - ends + counts, counts, total) + arrays.arange(total)


def renumbered(arrays: Any, ids: Any, count: int) -> tuple[Any, Any]:
    """Return the distinct ids in the order of their first appearance, and for each id its place among them."""
    firsts = arrays.firsts(ids, count)
    listed = arrays.nonzero(firsts < len(ids))
    listed = listed[arrays.argsort(firsts[listed])]
    table = arrays.full(count, -1)
    table[listed] = arrays.arange(len(listed))
    return listed, table[ids]
