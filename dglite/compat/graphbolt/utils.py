"""GraphBolt's helpers for containers, warnings and files."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..containers import is_listlike, recursive_apply

__all__ = [
    "GBWarning",
    "built_with_cuda",
    "gb_warning",
    "gb_warning_format",
    "get_attributes",
    "get_nonproperty_attributes",
    "is_listlike",
    "is_wsl",
    "recursive_apply",
    "recursive_apply_reduce_all",
]


class GBWarning(UserWarning):
    """A warning of GraphBolt."""


def gb_warning(message: str, category: type[Warning] = GBWarning, stacklevel: int = 2) -> None:
    """Give a warning, of category :class:`GBWarning` unless told."""
    warnings.warn(message, category, stacklevel)


def gb_warning_format(message: Any, category: type[Warning], filename: str, lineno: int, line: Any = None) -> str:
    """Return a warning as text: its category and message."""
    return f"{category.__name__}: {message}\n"


def built_with_cuda() -> bool:
    """Whether GPUs are used: torch has some."""
    return torch.cuda.is_available()


def is_wsl(v: str | None = None) -> bool:
    """Whether a version of Linux, this machine's if None, is Windows' subsystem."""
    return (platform.uname().release if v is None else v).endswith("-Microsoft")


def recursive_apply_reduce_all(data: Any, fn: Callable[..., bool], *args: Any, **kwargs: Any) -> bool:
    """Return whether ``fn(x, ...)`` is true for every x in lists, tuples and dictionaries."""
    if isinstance(data, Mapping):
        return all(recursive_apply_reduce_all(x, fn, *args, **kwargs) for x in data.values())
    if is_listlike(data):
        return all(recursive_apply_reduce_all(x, fn, *args, **kwargs) for x in data)
    return fn(data, *args, **kwargs)


def get_nonproperty_attributes(_obj: Any) -> list[str]:
    """Return the names of an object's attributes that are no methods, no properties and not special."""
    of_class = type(_obj)
    return [name for name in get_attributes(_obj) if not isinstance(getattr(of_class, name, None), property)]


def get_attributes(_obj: Any) -> list[str]:
    """Return the names of an object's attributes that are no methods and not special."""
    return [name for name in dir(_obj) if not name.startswith("__") and not callable(getattr(_obj, name))]
