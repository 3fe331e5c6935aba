"""The indices of a loader by position: one tensor, or a tensor for each type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..backend import Backend, Tensor, active, backend_of
from ..errors import DGLError
from ..structure.ids import integer_array


class Items:
    """Ids of nodes or edges, or other items that a sampler takes.

    Raises DGLError: something else is given: no integers, a mask, more than one dimension.

    Parameters
    ----------
    indices
        a tensor, array or list of integers, or a dictionary of them by type.
    """

    def __init__(self, indices: Any) -> None:
        self.types: list[Any] | None = None
        if isinstance(indices, Mapping):
            self.types = list(indices)
            parts = [_TypeItems(indices[key], f"indices of type {key!r}") for key in self.types]
        else:
            parts = [_TypeItems(indices, "indices")]
        self._parts = parts
        self._offsets = np.cumsum([0, *(len(part.ids) for part in parts)])

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def at(self, positions: np.ndarray) -> Tensor | dict[Any, Tensor]:
        """Return the ids at some positions; by type if they were given so, types without any left out."""
        if self.types is None:
            return self._parts[0].at(positions)
        parts = dict(zip(self.types, self._parts, strict=True))
        return {key: parts[key].at(rows) for key, rows in by_kind(positions, self._offsets, parts).items()}


def by_kind(positions: np.ndarray, offsets: np.ndarray, kinds: Iterable[Any]) -> dict[Any, np.ndarray]:
    """Return positions inside each kind's items, which follow each other from ``offsets`` on; no kind without any."""
    result, at = {}, np.searchsorted(offsets, positions, "right") - 1
    for i, kind in enumerate(kinds):
        kind_positions = positions[at == i]
        if len(kind_positions):
            result[kind] = kind_positions - offsets[i]
    return result


class _TypeItems:
    """The ids of one type, and the library and device that batches of them are for."""

    def __init__(self, values: Any, argument: str) -> None:
        # Arrays become tensors of the active library, as in DGL; a tensor of another one stays that.
        library = backend_of(values)
        self._library: Backend = active if library is None else library
        self._device = None if library is None or library.on_cpu(values) else library.device(values)
        self.ids = integer_array(values, argument)
        if self.ids.dtype.kind == "b":
            raise DGLError(f"{argument} are a mask; give the ids that it selects, mask.nonzero().flatten() or the like")
        if self.ids.ndim != 1:
            raise DGLError(f"{argument} must be one-dimensional, got shape {self.ids.shape}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_library": self._library is active}  # a backend is of its process

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _library=active if state["_library"] else active.guest or active)

    def at(self, positions: np.ndarray) -> Tensor:
        return self._library.from_numpy(self.ids[positions], self._device)
