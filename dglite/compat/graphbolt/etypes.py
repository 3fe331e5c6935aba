"""Edge types as strings, and values that are dictionaries by type where a graph has several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import DGLError

__all__ = ["by_type", "etype_str_to_tuple", "etype_tuple_to_str"]


def etype_tuple_to_str(c_etype: tuple[str, str, str]) -> str:
    """Return ``"source:relation:destination"`` for a canonical edge type."""
    return ":".join(c_etype)


def etype_str_to_tuple(c_etype: str | tuple[str, str, str]) -> tuple[str, str, str]:
    """Return the canonical edge type that ``"source:relation:destination"`` names; a tuple as it is.

    Raises
    ------
    DGLError
        The string has not three parts.
    """
    parts = c_etype if isinstance(c_etype, tuple) else tuple(c_etype.split(":"))
    if len(parts) != 3:
        raise DGLError(f"edge type {c_etype!r} must be of the form 'source:relation:destination'")
    return parts


def by_type(function: Callable[..., Any], *values: Any) -> Any:
    """Return ``function(*values)``; where the first value is a dictionary, one of the results for its keys.

    The others are dictionaries then, too, or None; what they lack of a key is None.
    """
    if not isinstance(values[0], Mapping):
        return function(*values)
    return {key: function(*(None if x is None else x.get(key) for x in values)) for key in values[0]}
