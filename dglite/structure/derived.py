"""Values derived from an adjacency's structure: cached with it under declared, typed keys, and gone when it is.

A key is declared beside the function that computes its value, and read by that function alone::

    LONGEST_ROW: CacheKey[int] = cache_key("longest row", "the largest in-degree")
    longest = adjacency.cache.get(LONGEST_ROW)

Keys are strings when the program runs, and a type checker knows the type of the value behind each. ``KEYS`` lists all
that have been declared.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import DGLError

Value = TypeVar("Value")
KEYS: dict[str, str] = {}
"""Each declared key, and what is cached under it."""

if TYPE_CHECKING:

    class CacheKey(Generic[Value]):
        """The key of a derived value of one type."""

    class DerivedCache:
        """The values derived from one adjacency, by key: a dictionary."""

        def get(self, key: CacheKey[Value], /) -> Value | None: ...
        def setdefault(self, key: CacheKey[Value], value: Value, /) -> Value: ...
        def __getitem__(self, key: CacheKey[Value], /) -> Value: ...
        def __setitem__(self, key: CacheKey[Value], value: Value, /) -> None: ...
        def __contains__(self, key: CacheKey[Any], /) -> bool: ...
else:
    CacheKey, DerivedCache = str, dict


def cache_key(name: str, description: str) -> Any:
    """Declare the key of a derived value; annotate it as ``CacheKey[type of the value]``.

    Raises ``DGLError``: the name is declared already.
    """
    if name in KEYS:
        raise DGLError(f"the cache key {name!r} is declared already, for {KEYS[name]}")
    KEYS[name] = description
    return name


def variant(key: CacheKey[Value], *parameters: Hashable) -> CacheKey[Value]:
    """Return the key of one of several values of a kind, such as those of two sides or of several dtypes."""
    return (key, *parameters)  # type: ignore[return-value]
