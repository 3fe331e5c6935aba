"""Features by name, which stages of a pipe read: tensors, and files of which only some rows are read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from ...data.raw import npy_of
from ...dataloading.features import MappedFeatures, take_rows
from ...errors import DGLError
from ...structure.ids import as_ids
from .base import shown_inside
from .compact import Ready
from .errors import InputError, ReadOnlyError

__all__ = [
    "BasicFeatureStore",
    "DiskBasedFeature",
    "Feature",
    "FeatureKey",
    "FeatureStore",
    "TorchBasedFeature",
    "TorchBasedFeatureStore",
]


class FeatureKey(NamedTuple):
    """What a feature is found by; ``type`` is None in a graph of one type."""

    domain: str
    type: str | None
    name: str


class Feature:
    """Base of features: a row for each node or edge."""

    _metadata: dict[str, Any] | None = None

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return the rows of some ids, (len(ids), *feat), or all."""
        raise NotImplementedError(f"{type(self).__name__} must define read(ids=None)")

    def read_async(self, ids: torch.Tensor) -> Iterator[Any]:
        """Yield an object whose ``wait()`` returns the rows of some ids."""
        yield Ready(self.read(ids))

    def read_async_num_stages(self, ids_device: Any) -> int:
        """Return 1, the number of objects that :meth:`read_async` yields."""
        return 1

    def size(self) -> torch.Size:
        """Return the shape of a row."""
        raise NotImplementedError(f"{type(self).__name__} must define size()")

    def count(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError(f"{type(self).__name__} must define count()")

    def update(self, value: torch.Tensor, ids: torch.Tensor | None = None) -> None:
        """Write ``value`` to the rows of some ids, or put it in the feature's place."""
        raise NotImplementedError(f"{type(self).__name__} must define update(value, ids=None)")

    def metadata(self) -> dict[str, Any]:
        """Return the feature's metadata, by name."""
        return self._metadata or {}

    def is_pinned(self) -> bool:
        """Whether the rows lie in page-locked memory."""
        return False

    def pin_memory_(self) -> Self:
        """Return the feature; one in memory is moved to page-locked memory where there is a GPU."""
        return self

    def to(self, device: Any) -> Any:
        """Return the feature on a device; one that is no tensor stays where it is."""
        return self


class TorchBasedFeature(Feature):
    """A feature of shape (num_rows, *feat): a tensor, or an array that may be mapped from a file.

    Raises DGLError: it is no tensor with rows.

    Parameters
    ----------
    torch_feature
        the tensor or array.
    metadata
        further properties of it, by name.
    """

    def __init__(self, torch_feature: Any, metadata: dict[str, Any] | None = None) -> None:
        if not isinstance(torch_feature, torch.Tensor | np.ndarray) or torch_feature.ndim == 0:
            raise InputError(f"a feature is a tensor or array with rows, got {type(torch_feature).__name__}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of arrays that must not be written to, see update
            self._values, self._metadata = torch.as_tensor(torch_feature), metadata
        self._fixed = isinstance(torch_feature, np.ndarray) and not torch_feature.flags.writeable

    def __repr__(self) -> str:
        return shown_inside("TorchBasedFeature", {"feature": self._values, "metadata": self.metadata()})

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        values = self._values
        if ids is None:
            return values
        if values.is_cuda:
            return values[ids.to(values.device).long()]
        return take_rows(values, as_ids(ids, len(values), "row"))  # type: ignore[no-any-return]

    def size(self) -> torch.Size:
        return torch.Size(self._values.shape[1:])

    def count(self) -> int:
        return len(self._values)

    def update(self, value: torch.Tensor, ids: torch.Tensor | None = None) -> None:
        """Write ``value`` to the rows of some ids, in place; or put it in the feature's place, of any shape.

        Raises DGLError: with ids: ``value`` is not of shape (len(ids), *feat), or the feature is a read-only array.
        """
        if ids is None:
            self._values, self._fixed = value, False
            return
        if self._fixed:
            raise InputError("the feature is an array that must not be written to; give a copy of it")
        if value.shape != (len(ids), *self.size()):
            raise InputError(f"values have shape {tuple(value.shape)}; expected {(len(ids), *self.size())}")
        self._values[ids.to(self._values.device).long()] = value.to(self._values)

    def is_pinned(self) -> bool:
        return self._values.is_pinned()

    def pin_memory_(self) -> Self:
        """Move the tensor to page-locked memory, where there is a GPU; return the feature."""
        if torch.cuda.is_available():
            self._values = self._values.pin_memory()
        return self

    def to(self, device: Any) -> TorchBasedFeature:
        """Return the feature on a device."""
        moved = self._values.to(device)
        return self if moved is self._values else TorchBasedFeature(moved, self._metadata)


class DiskBasedFeature(Feature):
    """A feature in a NumPy file, of which only the requested rows are read: see ``MappedFeatures``.

    Raises DGLError: there is no such file, or it is no such array.

    Parameters
    ----------
    path
        a ``.npy`` file of shape (num_rows, *feat).
    metadata
        further properties of it, by name.
    num_threads
        accepted; threads that wait for the disk are started as they are needed.
    """

    def __init__(self, path: Any, metadata: dict[str, Any] | None = None, num_threads: int | None = None) -> None:
        self._path, self._metadata, self._rows = Path(path), metadata, MappedFeatures(path, widen=False)

    def __repr__(self) -> str:
        shape = (self.count(), *self.size())
        return shown_inside("DiskBasedFeature", {"path": repr(str(self._path)), "shape": shape})

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        if ids is None:
            return torch.from_numpy(npy_of(self._path))
        return self._rows.rows(ids.cpu())  # type: ignore[no-any-return]

    def size(self) -> torch.Size:
        return torch.Size(self._rows.shape)

    def count(self) -> int:
        return self._rows.num_rows

    def update(self, value: torch.Tensor, ids: torch.Tensor | None = None) -> None:
        """Raise :class:`DGLError`: the file is not written to."""
        raise ReadOnlyError(f"{self._path} is only read; read_into_memory() gives a feature that can be updated")

    def read_into_memory(self) -> TorchBasedFeature:
        """Return the feature in memory."""
        return TorchBasedFeature(self.read(), self._metadata)


def _of_feature(name: str) -> Any:
    """Return a method of stores that finds a feature and calls its method of the same name."""

    def call(self: Any, domain: str, type_name: str | None, feature_name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self[domain, type_name, feature_name], name)(*args, **kwargs)

    call.__name__, call.__doc__ = name, f"Call :meth:`Feature.{name}` of the feature (domain, type_name, feature_name)."
    return call


class FeatureStore:
    """Base of stores of features by (domain, type, name): domain is "node" or "edge", type None for one type.

    All methods raise KeyError where there is no such feature.
    """

    def __getitem__(self, feature_key: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(feature_key)")

    def keys(self) -> Any:
        """Return the keys of the features."""
        raise NotImplementedError(f"{type(self).__name__} must define keys()")

    read, size, count, metadata, update = map(_of_feature, ("read", "size", "count", "metadata", "update"))


class BasicFeatureStore(FeatureStore):
    """A store of the features in a dictionary by (domain, type, name)."""

    def __init__(self, features: Mapping[Any, Any]) -> None:
        for key in features:
            if not isinstance(key, tuple) or len(key) != 3:
                raise InputError(
                    f"features are found by (domain, type, name), such as ('node', None, 'x'); got {key!r}"
                )
        self._features = dict(features)

    def __repr__(self) -> str:
        lines = str(self._features).replace("\n", "\n    ")
        return f"{type(self).__name__}(\n    {lines}\n)"

    def __len__(self) -> int:
        return len(self._features)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._features)

    def __contains__(self, key: object) -> bool:
        return key in self._features

    def __getitem__(self, feature_key: Any) -> Any:
        try:
            return self._features[feature_key]
        except KeyError:
            raise KeyError(f"there is no feature {tuple(feature_key)}; there are {list(self._features)}") from None

    def __setitem__(self, feature_key: Any, feature: Any) -> None:
        self._features[feature_key] = feature

    def keys(self) -> list[Any]:
        return list(self._features)

    def items(self) -> Any:
        """Return keys with features."""
        return self._features.items()

    def is_pinned(self) -> bool:
        """Whether all features lie in page-locked memory."""
        return bool(self._features) and all(feature.is_pinned() for feature in self._features.values())

    def pin_memory_(self) -> Self:
        """Move features in memory to page-locked memory, where there is a GPU; return the store."""
        for feature in self._features.values():
            feature.pin_memory_()
        return self

    def to(self, device: Any = "cpu") -> BasicFeatureStore:
        """Return a store of the features on a device; those in files stay there."""
        return BasicFeatureStore({key: feature.to(device) for key, feature in self._features.items()})


class TorchBasedFeatureStore(BasicFeatureStore):
    """A store of the features that descriptions, :class:`OnDiskFeatureData`, name; or of those in a dictionary."""

    def __init__(self, feat_data: Any) -> None:
        if isinstance(feat_data, Mapping):
            super().__init__(feat_data)
            return
        super().__init__(
            {
                (str(x.domain), x.type, x.name): feature_of(Path(x.path), x.format, x.in_memory, x.extra_fields)
                for x in feat_data
            }
        )


def feature_of(
    path: Any, form: str, in_memory: bool, metadata: Mapping[str, Any] | None, at_least_2d: bool = False
) -> Feature:
    """Return the feature in a file, ``form`` "numpy" or "torch"; one that is not in memory is read as it is needed.

    Raises DGLError: the file is missing or damaged, or cannot stay on disk.
    """
    more = dict(metadata or {}) or None
    if form == "torch" and not in_memory:
        raise InputError(f"{path} is of torch.save, which is read into memory; leave out in_memory, or use numpy.save")
    if not in_memory:
        mapped = DiskBasedFeature(path, more)
        if at_least_2d and not mapped.size():
            mapped._rows.shape = (1,)
        return mapped
    values = torch_file(path) if form == "torch" else torch.from_numpy(npy_of(path))
    return TorchBasedFeature(values[:, None] if at_least_2d and values.ndim == 1 else values, more)


def torch_file(path: Any) -> torch.Tensor:
    """Return the tensor in a file that ``torch.save`` wrote.

    Raises DGLError: there is no such file, or it holds something else.
    """
    if not Path(path).is_file():
        raise DGLError(f"{path} does not exist")
    try:
        tensor = torch.load(path, weights_only=True)
    except Exception as error:  # of a damaged file nearly anything: UnpicklingError, RuntimeError, EOFError ...
        raise DGLError(f"{path} is not read as a tensor that torch.save wrote: {error!r:.200}") from error
    if not torch.is_tensor(tensor) or not tensor.ndim:
        raise DGLError(f"{path} holds {type(tensor).__name__}; expected a tensor with rows")
    return tensor
