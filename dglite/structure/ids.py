"""Ids from users (numbers, lists, tensors, arrays, slices, masks, ``ALL``), checked once and turned into arrays.

Counts and other numbers, too, are checked here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..backend import Tensor, active, admit, native
from ..errors import DGLError, UnknownIdError

ALL = "__ALL__"
"""Stands for every node or every edge."""

SingleId: TypeAlias = int | np.integer
"""One id, for which queries return a number."""

Ids: TypeAlias = Tensor | np.ndarray | Sequence[Any] | slice
"""Several ids, for which queries return a tensor: a mask, a slice and ``ALL`` among them."""

LARGEST_COUNT = 1 << 48
"""No number of nodes or edges may exceed this; sums of such numbers then fit 64 bits."""

_EMPTY = np.empty(0, np.int64)


def count_of(value: Any, label: str, least: int = 0, most: int = LARGEST_COUNT, remark: str = "") -> int:
    """Return a number of things, which is an integer of Python's or NumPy's, or a tensor of one integer.

    Raises ``DGLError``: it is something else, a boolean or a float among them, or not in ``[least, most]``. The message
    calls it ``label``, and says ``remark`` about what was expected.
    """
    if active.is_symbol(value):  # the operators of the program compare it with the structure
        return value  # type: ignore[no-any-return]
    if type(value) is int and least <= value <= most:
        return value
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        number = None
    if number is None or not least <= number:
        raise DGLError(f"{label} must be an integer >= {least}{remark}, got {value!r:.60}")
    if number > most:
        raise DGLError(f"{label} must be at most {most}{remark}, got {value!r:.60}")
    return number


def number_of(value: Any, label: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a number that a user gives, in ``[least, most]``, as a float; ``DGLError`` for anything else, NaN too."""
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        number = math.nan
    if not least <= number <= most:
        limits = "" if least == -math.inf and most == math.inf else f" from {least:g} to {most:g}"
        limits = f" >= {least:g}" if most == LARGEST_COUNT else limits
        raise DGLError(f"{label} must be a number{limits}, got {value!r:.60}")
    return number


def array_of(values: Any, label: str) -> np.ndarray:
    """Return the array of numbers that a user gives as a tensor, an array or a list; ``DGLError`` for anything else."""
    try:
        return active.to_numpy(active.asarray(values))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise DGLError(f"{label} must be a tensor, an array or a list of numbers, got {values!r:.60}") from error


def is_all(ids: Any) -> bool:
    """Whether ``ids`` is :data:`ALL`."""
    return type(ids) is str and ids == ALL


def integer_array(values: Any, label: str = "ids") -> np.ndarray:
    """Return ``values`` as an array of integers or booleans of its own dtype; an empty list gives int64.

    Raises ``DGLError``: the values are not integers.
    """
    if active.is_tensor(values):
        array = active.to_numpy(values)
    elif isinstance(values, np.ndarray):
        array = native(values)
    else:
        admitted = admit(values, f"the argument with {label}")
        array = _from_sequence(values, label) if admitted is None else active.to_numpy(admitted)
    kind = array.dtype.kind
    if kind in "ib":
        return array
    if kind == "u":
        return array.astype(np.int64)
    if array.size == 0:
        return _EMPTY
    if array.dtype.kind in "OSUT":
        raise DGLError(
            f"{label} must be integers, got text or objects; number them first, by "
            "names, ids = numpy.unique(values, return_inverse=True) over the values of both ends, or use "
            "dglite.from_pandas, which numbers ids and keeps their names"
        )
    raise DGLError(f"{label} must be integers, got dtype {array.dtype}; convert them to int64 or int32 first")


def _from_sequence(values: Any, label: str) -> np.ndarray:
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step)
    try:
        array = np.asarray(values if hasattr(values, "__len__") or np.isscalar(values) else list(values))
    except (TypeError, ValueError) as error:
        raise DGLError(f"{label} must be integers, a list, a tensor or an array; got {values!r:.80}") from error
    if array.dtype == object and array.size:
        array = np.asarray([operator.index(x) if hasattr(x, "__index__") else x for x in array.ravel()])
    return array


def as_ids(ids: Any, count: int, label: str = "node") -> np.ndarray:
    """Return the ids that ``ids`` selects out of ``count``, a 1-D integer array, after checking them.

    ``ids`` is a number, list, tensor or array of ids, a slice, a boolean mask of length ``count``, or :data:`ALL`.

    Raises ``DGLError``: the ids are not integers, not one-dimensional or not in ``[0, count)``.
    """
    if type(ids) is int:
        if not 0 <= ids < count:
            raise _unknown(ids, count, label)
        return np.array([ids])
    if isinstance(ids, slice):
        return np.arange(*ids.indices(count))
    if is_all(ids):
        return np.arange(count)
    if isinstance(ids, str):
        every = "g.edges('eid')"
        if label.startswith("node"):
            every = "g.nodes(), and a graph of a table has the names of its nodes in g.node_names or g.id_maps"
        raise DGLError(f"{label} ids must be integers, got text, {ids!r:.40}; all ids are {every}")
    array = integer_array(ids, f"{label} ids")
    if array.ndim != 1:
        if array.ndim:
            hint = "; of pairs of nodes, pass g.edge_ids(u, v)" if label.startswith("edge") else ""
            raise DGLError(f"{label} ids must be one-dimensional, got shape {array.shape}{hint}")
        array = array.reshape(1)
    if array.dtype.kind == "b":
        if len(array) != count:
            raise DGLError(f"the {label} mask has {len(array)} entries; expected one for each of the {count} {label}s")
        return array.nonzero()[0]
    check_range(array, count, label)
    return array


def check_range(ids: np.ndarray, count: int, label: str = "node") -> None:
    """Raise :class:`DGLError` naming the first of ``ids`` outside ``[0, count)``."""
    size = ids.size
    if size == 0:
        return
    if size <= 32:
        values = ids.tolist()
        good = min(values) >= 0 and max(values) < count
    else:
        good = largest_unsigned(ids) < count
    if not good:
        raise _unknown(int(ids[(ids < 0) | (ids >= count)].flat[0]), count, label)


def largest_unsigned(ids: np.ndarray) -> int:
    """Return the maximum of ``ids`` read as unsigned: one pass finds the largest id and any negative one."""
    if not ids.flags.c_contiguous:
        ids = np.ascontiguousarray(ids)
    return int(np.maximum.reduce(ids.view(f"u{ids.itemsize}"), axis=None))


def _unknown(bad: int, count: int, label: str) -> DGLError:
    if bad < 0:
        return DGLError(f"{label} id {bad} is negative; ids run from 0 to {count - 1}")
    valid = f"ids run from 0 to {count - 1}" if count else f"there are no {label}s"
    return UnknownIdError(f"{label} id {bad} does not exist; {valid}")


def broadcast_pair(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return source and destination ids, as many of each; one id on a side goes with every id on the other.

    Raises ``DGLError``: there are different numbers of them, neither of which is one.
    """
    if len(u) != len(v):
        if len(u) != 1 and len(v) != 1:
            raise DGLError(f"{len(u)} source nodes but {len(v)} destination nodes; expected as many, or one of them")
        u, v = np.broadcast_arrays(u, v)
    return u, v


def positions_of(sought: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return where each of ``sought`` is in ``ids``, which are distinct; -1 where it is not."""
    order = np.argsort(ids, kind="stable")
    at = np.append(order, -1)[np.searchsorted(ids, sought, sorter=order)]
    positions: np.ndarray = np.where(np.append(ids, -1)[at] == sought, at, -1)
    return positions
