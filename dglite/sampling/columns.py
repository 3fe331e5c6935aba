"""What samplers derive from a column of edge features, cached for each relation until the column changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from ..backend import active
from ..locks import new_lock
from ..structure import Adjacency

Value = TypeVar("Value")


class ColumnCache(Generic[Value]):
    """One value for each relation, of one tensor, its version and options; another of them replaces it.

    Attributes
    ----------
    lock
        held while a value is made; hold it to change one.
    """

    def __init__(self) -> None:
        self.lock = new_lock()
        self._values: weakref.WeakKeyDictionary[Adjacency, tuple[Any, Hashable, Value]] = weakref.WeakKeyDictionary()

    def get(self, adjacency: Adjacency, column: Any, make: Callable[[], Value], *options: Hashable) -> Value:
        """Return the value of a column, made by ``make`` where it is not cached; hold ``lock``.

        A column whose changes cannot be seen is not cached.
        """
        version = active.version(column) if active.is_tensor(column) else None
        if version is None:
            return make()
        entry = self._values.get(adjacency)
        if entry is None or entry[0] is not column or entry[1] != (version, *options):
            entry = self._values[adjacency] = column, (version, *options), make()
        return entry[2]
