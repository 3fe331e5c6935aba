"""Features by name, which stages of a pipe read."""

from __future__ import annotations

from typing import Any, Self

import torch

from ...errors import DGLError

__all__ = ["BasicFeatureStore", "TorchBasedFeature", "TorchBasedFeatureStore"]


class TorchBasedFeature:
    """A feature of shape (num_rows, *feat): a tensor, or an array that may be mapped from a file."""

    def __init__(self, torch_feature: Any) -> None:
        self._values = torch_feature

    def read(self, ids: torch.Tensor | None = None) -> torch.Tensor:
        """Return the rows of some ids, (len(ids), *feat), or all."""
        return torch.as_tensor(self._values if ids is None else self._values[ids])

    def size(self) -> torch.Size:
        """Return the shape of a row."""
        return torch.Size(self._values.shape[1:])

    def update(self, value: torch.Tensor, ids: torch.Tensor | None = None) -> None:
        """Write ``value`` to the rows of some ids, in place; or put it in the feature's place, of any shape.

        Raises
        ------
        DGLError
            With ids, ``value`` is not of shape (len(ids), *feat).
        """
        if ids is None:
            self._values = value
            return
        if value.shape != (len(ids), *self.size()):
            raise DGLError(f"values have shape {tuple(value.shape)}; expected {(len(ids), *self.size())}")
        self._values[ids] = value


class BasicFeatureStore(dict[tuple[str, str | None, str], Any]):
    """Features by (domain, type, name): domain is "node" or "edge", type None in a homogeneous graph.

    All methods raise KeyError where there is no such feature.
    """

    def __missing__(self, key: Any) -> Any:
        raise KeyError(f"there is no feature {key}; there are {list(self)}")

    def read(self, domain: str, type_name: str | None, feature_name: str, ids: Any = None) -> torch.Tensor:
        """Return a feature's rows of some ids, or all; see :meth:`TorchBasedFeature.read`."""
        return self[domain, type_name, feature_name].read(ids)

    def size(self, domain: str, type_name: str | None, feature_name: str) -> torch.Size:
        """Return the shape of a feature's row."""
        return self[domain, type_name, feature_name].size()

    def update(  # type: ignore[override]
        self, domain: str, type_name: str | None, feature_name: str, value: torch.Tensor, ids: Any = None
    ) -> None:
        """Write a feature's rows of some ids, or put another in its place; see :meth:`TorchBasedFeature.update`."""
        self[domain, type_name, feature_name].update(value, ids)

    def to(self, device: Any = None) -> Self:
        """Return the store, whose features stay where they are: batches are copied."""
        return self

    pin_memory_ = to


TorchBasedFeatureStore = BasicFeatureStore
