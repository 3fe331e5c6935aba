"""Features with a cache of rows that were read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...dataloading.row_cache import RowCache
from .errors import InputError
from .features import Feature

__all__ = [
    "CPUCachedFeature",
    "CPUFeatureCache",
    "GPUCachedFeature",
    "GPUFeatureCache",
    "bytes_to_number_of_items",
    "cpu_cached_feature",
    "gpu_cached_feature",
    "wrap_with_cached_feature",
]


class _RowsByKey:
    """Rows by key; see :class:`dglite.dataloading.row_cache.RowCache`."""

    def __init__(self, cache_shape: Sequence[int], dtype: torch.dtype, policy: str, device: Any = "cpu") -> None:
        if len(cache_shape) < 1 or cache_shape[0] < 0:
            raise InputError(f"cache_shape must begin with the number of rows, got {tuple(cache_shape)}")
        self._rows = torch.empty(tuple(cache_shape), dtype=dtype, device=device)
        self._places = RowCache(cache_shape[0], policy)

    def is_pinned(self) -> bool:
        """Whether the rows lie in page-locked memory."""
        return self._rows.is_pinned()

    @property
    def max_size_in_bytes(self) -> int:
        """The size of all rows that there is room for."""
        return self._rows.numel() * self._rows.element_size()

    @property
    def miss_rate(self) -> float:
        """The share of queried keys that were not there; 1 before the first query."""
        queries = self._places.hits + self._places.misses
        return self._places.misses / queries if queries else 1.0

    def clear(self) -> None:
        """Give up all rows."""
        with self._places.lock:
            self._places.clear()

    def find(self, keys: torch.Tensor, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows by key, of arbitrary content for those that lack, and the positions of these."""
        values = self._rows.new_empty((len(keys), *self._rows.shape[1:]))
        with self._places.lock:
            slots = torch.from_numpy(self._places.find(keys.cpu().numpy() + offset))
            places = (slots >= 0).nonzero().flatten()
            values[places.to(values.device)] = self._rows[slots[places].to(values.device)]
        return values, (slots < 0).nonzero().flatten()

    def replace(self, keys: torch.Tensor, values: torch.Tensor, offsets: Any = None, offset: int = 0) -> None:
        """Put rows ``values`` under ``keys``, in the place of others if there is no room; ``offsets`` is accepted."""
        if len(keys) != len(values):
            raise InputError(f"there are {len(keys)} keys and {len(values)} rows")
        with self._places.lock:
            slots = torch.from_numpy(self._places.insert(keys.cpu().numpy() + offset))
            places = (slots >= 0).nonzero().flatten().to(self._rows.device)
            self._rows[slots.to(places.device)[places]] = values.to(self._rows)[places]


class CPUFeatureCache(_RowsByKey):
    """A cache in the host's memory.

    Raises DGLError: the policy has another name.

    Parameters
    ----------
    cache_shape, dtype
        rows there is room for and the shape of one; dtype of the rows.
    policy
        "s3-fifo", "sieve" (the default), "lru" or "clock".
    num_parts
        accepted: the cache is one.
    pin_memory
        page-locked memory, where there is a GPU.
    """

    def __init__(
        self,
        cache_shape: Sequence[int],
        dtype: torch.dtype,
        policy: str | None = None,
        num_parts: int | None = None,
        pin_memory: bool = False,
    ) -> None:
        super().__init__(cache_shape, dtype, policy or "sieve")
        if pin_memory and torch.cuda.is_available():
            self._rows = self._rows.pin_memory()

    def query(self, keys: torch.Tensor, offset: int = 0) -> tuple[torch.Tensor, ...]:
        """Return rows, positions of the keys that lack, these keys, and their offsets, all 0."""
        values, missing = self.find(keys, offset)
        return values, missing, keys[missing.to(keys.device)], torch.zeros_like(missing)

    def query_and_replace(
        self, keys: torch.Tensor, reader_fn: Callable[[torch.Tensor], torch.Tensor], offset: int = 0
    ) -> torch.Tensor:
        """Return rows by key; those that lack are read by ``reader_fn(keys)`` and put into the cache."""
        return _read_through(self, keys, reader_fn, offset)


class GPUFeatureCache(_RowsByKey):
    """A cache in the memory of the current GPU, or of the host without a GPU; the rows read last stay."""

    def __init__(self, cache_shape: Sequence[int], dtype: torch.dtype) -> None:
        super().__init__(cache_shape, dtype, "lru", "cuda" if torch.cuda.is_available() else "cpu")

    def query(self, keys: torch.Tensor, async_op: bool = False) -> tuple[torch.Tensor, ...]:
        """Return rows, positions of the keys that lack, and these keys."""
        values, missing = self.find(keys, 0)
        return values, missing.to(keys.device), keys[missing.to(keys.device)]


def _read_through(cache: _RowsByKey, keys: torch.Tensor, reader_fn: Any, offset: int) -> torch.Tensor:
    values, missing = cache.find(keys, offset)
    if len(missing):
        lacking = keys[missing.to(keys.device)]
        rows = reader_fn(lacking).to(values)
        values[missing.to(values.device)] = rows
        cache.replace(lacking, rows, offset=offset)
    return values


class _CachedFeature(Feature):
    """A feature whose rows are kept in a cache as they are read.

    Parameters
    ----------
    fallback_feature
        where other rows come from.
    cache
        a cache, which features of rows alike may share; or the size of a new one in bytes.
    offset
        added to ids before the cache is asked, so that features that share it have keys of their own.
    """

    _cache_type: Any = None

    def __init__(self, fallback_feature: Feature, cache: Any, offset: int = 0) -> None:
        self._fallback, self._offset = fallback_feature, offset
        self._cache = _cache_for(type(self), fallback_feature, cache) if isinstance(cache, int) else cache

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fallback!r}, cache_size_in_bytes={self.cache_size_in_bytes})"

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return the rows of some ids, (len(ids), *feat), or all."""
        if ids is None:
            return self._fallback.read()
        return _read_through(self._cache, ids, self._fallback.read, self._offset)

    def size(self) -> torch.Size:
        """Return the shape of a row."""
        return self._fallback.size()

    def count(self) -> int:
        """Return the number of rows."""
        return self._fallback.count()

    def update(self, value: torch.Tensor, ids: torch.Tensor | None = None) -> None:
        """Write ``value`` to the rows of some ids, in the cache, too; or put it in the feature's place."""
        self._fallback.update(value, ids)
        if ids is None:
            self._cache.clear()
        else:
            self._cache.replace(ids, value, offset=self._offset)

    def metadata(self) -> dict[str, Any]:
        """Return the feature's metadata, by name."""
        return self._fallback.metadata()

    def is_pinned(self) -> bool:
        """Whether the cache lies in page-locked memory."""
        return self._cache.is_pinned()  # type: ignore[no-any-return]

    @property
    def cache_size_in_bytes(self) -> int:
        """The size of all rows that the cache has room for."""
        return self._cache.max_size_in_bytes  # type: ignore[no-any-return]

    @property
    def miss_rate(self) -> float:
        """The share of rows that were not in the cache; 1 before any was read."""
        return self._cache.miss_rate  # type: ignore[no-any-return]


class CPUCachedFeature(_CachedFeature):
    __doc__ = _CachedFeature.__doc__
    _cache_type = CPUFeatureCache


class GPUCachedFeature(_CachedFeature):
    __doc__ = _CachedFeature.__doc__
    _cache_type = GPUFeatureCache


def bytes_to_number_of_items(cache_capacity_in_bytes: int, single_item: torch.Tensor) -> int:
    """Return how many rows like ``single_item``, (1, *feat), a cache of some bytes has room for."""
    return int(cache_capacity_in_bytes) // max(single_item.numel() * single_item.element_size(), 1)


def _cache_for(cached_feature_type: Any, feature: Feature, size: int, *args: Any, **kwargs: Any) -> Any:
    row = feature.read(torch.zeros(min(1, feature.count()), dtype=torch.int64))
    rows = bytes_to_number_of_items(size, row) if len(row) else 0
    return cached_feature_type._cache_type((rows, *feature.size()), row.dtype, *args, **kwargs)


def wrap_with_cached_feature(
    cached_feature_type: Any, fallback_features: Any, max_cache_size_in_bytes: int, *args: Any, **kwargs: Any
) -> Any:
    """Return a feature with a cache; for a dictionary of features, features that share one.

    Raises DGLError: rows of the features have different shapes or dtypes, or there are no features.

    Parameters
    ----------
    cached_feature_type
        :class:`CPUCachedFeature` or :class:`GPUCachedFeature`; other arguments are those of its cache.
    fallback_features
        a feature, or a dictionary by key of features whose rows have one shape and dtype.
    """
    single = not isinstance(fallback_features, Mapping)
    features = {None: fallback_features} if single else dict(fallback_features)
    sizes = {
        (feature.size(), feature.read(torch.arange(min(1, feature.count()))).dtype) for feature in features.values()
    }
    if len(sizes) != 1:
        raise InputError(
            f"features that share a cache must have rows alike; rows of these are {sorted(sizes, key=str)}"
        )
    first = next(iter(features.values()))
    cache = _cache_for(cached_feature_type, first, max_cache_size_in_bytes, *args, **kwargs)
    cached, offset = {}, 0
    for key, feature in features.items():
        cached[key], offset = cached_feature_type(feature, cache, offset), offset + feature.count()
    return cached[None] if single else cached


def cpu_cached_feature(
    fallback_features: Any, max_cache_size_in_bytes: int, policy: str | None = None, pin_memory: bool = False
) -> Any:
    """Return a feature, or a dictionary of features by key that share a cache, with a cache in the host's memory.

    Arguments are those of :class:`CPUFeatureCache` and :func:`wrap_with_cached_feature`.
    """
    options = {"policy": policy, "pin_memory": pin_memory}
    return wrap_with_cached_feature(CPUCachedFeature, fallback_features, max_cache_size_in_bytes, **options)


def gpu_cached_feature(fallback_features: Any, max_cache_size_in_bytes: int) -> Any:
    """Return a feature, or a dictionary of features by key that share a cache, with a cache on the current GPU."""
    return wrap_with_cached_feature(GPUCachedFeature, fallback_features, max_cache_size_in_bytes)
