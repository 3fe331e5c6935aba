"""``dgl.utils``: functions over containers, read-only mappings, and cached results."""

from __future__ import annotations

import functools
from collections import ChainMap, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..dataloading.collator import TypedItems as FlattenedDict

__all__ = [
    "CtxCachedObject",
    "FlattenedDict",
    "HybridDict",
    "LazyDict",
    "ReadOnlyDict",
    "alias_func",
    "apply_each",
    "cached_member",
    "group_as_dict",
    "is_dict_like",
    "is_iterable",
    "is_listlike",
    "maybe_flatten_dict",
    "recursive_apply",
    "recursive_apply_pair",
    "retry_method_with_fix",
]


# -- functions over containers -----------------------------------------------------------------------------------------
def is_dict_like(obj: object) -> bool:
    """Whether ``obj`` is a mapping."""
    return isinstance(obj, Mapping)


def is_iterable(obj: object) -> bool:
    """Whether ``obj`` can be iterated over."""
    return isinstance(obj, Iterable)


def is_listlike(data: object) -> bool:
    """Whether ``data`` is a sequence, such as a list, tuple or range, but no string."""
    return isinstance(data, Sequence) and not isinstance(data, str)


def apply_each(data: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return ``fn(x, *args, **kwargs)`` of each value of a mapping or list, in a dict or list, or of ``data``."""
    if isinstance(data, Mapping):
        return {key: fn(x, *args, **kwargs) for key, x in data.items()}
    if is_listlike(data):
        return [fn(x, *args, **kwargs) for x in data]
    return fn(data, *args, **kwargs)


def recursive_apply(data: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return nested dicts, lists and tuples, ``fn(x, *args, **kwargs)`` in place of each other value ``x``."""
    if isinstance(data, Mapping):
        return {key: recursive_apply(x, fn, *args, **kwargs) for key, x in data.items()}
    if is_listlike(data):
        parts = [recursive_apply(x, fn, *args, **kwargs) for x in data]
        if hasattr(data, "_fields"):  # a named tuple
            return type(data)(*parts)
        return tuple(parts) if isinstance(data, tuple) else parts
    return fn(data, *args, **kwargs)


def recursive_apply_pair(data1: Any, data2: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return :func:`recursive_apply` of a function of two over two containers of one structure."""
    if isinstance(data1, Mapping) and isinstance(data2, Mapping):
        return {key: recursive_apply_pair(x, data2[key], fn, *args, **kwargs) for key, x in data1.items()}
    if is_listlike(data1) and is_listlike(data2):
        kind = tuple if isinstance(data1, tuple) and isinstance(data2, tuple) else list
        pairs = zip(data1, data2, strict=True)
        return kind(recursive_apply_pair(x, y, fn, *args, **kwargs) for x, y in pairs)
    return fn(data1, data2, *args, **kwargs)


def group_as_dict(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """Return the values of each key in (key, value) pairs, in their order."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


# -- mappings ----------------------------------------------------------------------------------------------------------
class LazyDict(Mapping[Any, Any]):
    """A mapping whose value for a key is computed by ``fn(key)`` each time it is read."""

    def __init__(self, fn: Callable[[Any], Any], keys: Collection[Any]) -> None:
        self._fn, self._keys = fn, keys

    def __getitem__(self, key: Any) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self._fn(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def HybridDict(*dict_like_list: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a view of several mappings as one; of those with a key, the first counts."""
    return MappingProxyType(ChainMap(*dict_like_list))  # type: ignore[arg-type]  # which it does not change


ReadOnlyDict = MappingProxyType


def maybe_flatten_dict(data: Any) -> Any:
    """Return a mapping as a :class:`FlattenedDict`, anything else as it is."""
    return FlattenedDict(data) if isinstance(data, Mapping) else data


# -- remembered results ------------------------------------------------------------------------------------------------
CtxCachedObject = functools.cache
"""Of a function of a device: one that is called once for each."""


def cached_member(cache: str, prefix: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of methods that keeps results in the dict attribute ``cache``, by prefix and arguments."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def remembered(self: Any, *args: Any, **kwargs: Any) -> Any:
            results = getattr(self, cache)
            key = prefix, tuple(map(str, args)), tuple((name, str(x)) for name, x in kwargs.items())
            if key not in results:
                results[key] = method(self, *args, **kwargs)
            return results[key]

        return remembered

    return decorate


def alias_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what ``func`` does and says so."""

    @functools.wraps(func)
    def alias(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    alias.__doc__ = f"Alias of :func:`dgl.{func.__name__}`."
    return alias


def retry_method_with_fix(fix_method: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of methods: one that raises is called again after ``fix_method(self)``."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def retried(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except Exception:
                fix_method(self)
                return method(self, *args, **kwargs)

        return retried

    return decorate
