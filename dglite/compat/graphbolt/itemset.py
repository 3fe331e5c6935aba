"""Items that batches are made of: nodes, pairs of nodes, and what belongs to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ...dataloading.items import by_kind
from ...errors import warn_deprecated
from .base import shown_inside
from .errors import InputError

__all__ = ["HeteroItemSet", "ItemSet", "ItemSetDict"]


class ItemSet:
    """Items: rows of one or several tensors or lists, which batches have as attributes of the given names.

    Raises DGLError: tensors or lists have different lengths, or there are not as many names.

    Parameters
    ----------
    items
        a tensor, array or list (num_items, ...), or a tuple of several; a number n for the ids 0 to n - 1, int64 or of
        the dtype of a scalar tensor. Lists of something else than numbers, such as graphs or dictionaries, stay lists.
    names
        a name for each: ``"seeds"``, ``"labels"``, ``"indexes"``; or those of DGL 2.1: ``"seed_nodes"``,
        ``"node_pairs"``, ``"negative_dsts"``.
    """

    def __init__(self, items: Any, names: str | tuple[str, ...] | None = None) -> None:
        if isinstance(items, int):
            items = torch.tensor(items)
        if torch.is_tensor(items) and items.ndim == 0:
            items = torch.arange(int(items), dtype=items.dtype)
        self._items = tuple(_column(x) for x in (items if isinstance(items, tuple) else (items,)))
        self._names = (names,) if isinstance(names, str) else None if names is None else tuple(names)
        if len({len(x) for x in self._items}) > 1:
            raise InputError(f"items have {[len(x) for x in self._items]} rows; expected as many in all of them")
        if self.names is not None and len(self.names) != len(self._items):
            raise InputError(f"{len(self.names)} names, {list(self.names)}, for {len(self._items)} tensors of items")

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the items are called, or None."""
        return self._names

    @property
    def num_items(self) -> int:
        """How many tensors or lists an item is made of."""
        return len(self._items)

    def __len__(self) -> int:
        return len(self._items[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return shown_inside("ItemSet", {"items": self._items, "names": self.names})

    def __getitem__(self, index: Any) -> Any:
        """Return the items at some positions: rows of the tensor, or a tuple of rows of each of several."""
        _check_index(index)
        rows = tuple(_rows(x, index) for x in self._items)
        return rows[0] if len(rows) == 1 else rows


def _check_index(index: Any) -> None:
    if isinstance(index, str) or not isinstance(index, int | np.integer | slice | Iterable):
        raise TypeError(f"items are found by an integer, a slice or a list of integers, got {index!r:.80}")


def _column(items: Any) -> Any:
    """Return a tensor of items that are numbers, else a list of them."""
    if torch.is_tensor(items):
        return items
    if not isinstance(items, Iterable):
        raise InputError(f"items must be a number, tensors or lists, got {type(items).__name__}")
    listed = items if hasattr(items, "__getitem__") and hasattr(items, "__len__") else list(items)
    if isinstance(listed, Mapping):
        raise InputError("items are a dictionary; give HeteroItemSet one of item sets by type")
    if isinstance(listed, np.ndarray | list | tuple | range):
        try:
            return torch.as_tensor(listed)
        except (TypeError, ValueError, RuntimeError):  # graphs, texts, tensors of different shapes
            return listed
    return listed


def _rows(items: Any, index: Any) -> Any:
    if torch.is_tensor(items):
        return items[index]
    if isinstance(index, slice):
        return [items[i] for i in range(*index.indices(len(items)))]
    if isinstance(index, Iterable) and not (torch.is_tensor(index) and index.ndim == 0):
        return [items[int(i)] for i in index]
    position = int(index)
    if not -len(items) <= position < len(items):
        raise IndexError(f"there is no item {position}; there are {len(items)}")
    return items[position]


class HeteroItemSet:
    """Item sets by node type, or by edge type as a string; all with the same names.

    Raises DGLError: the sets have different names, or there are none.
    """

    def __init__(self, itemsets: Mapping[str, ItemSet]) -> None:
        self._itemsets = dict(itemsets)
        names = {x.names for x in self._itemsets.values()}
        if len(names) != 1:
            raise InputError(f"item sets of types {list(itemsets)} have names {names}; expected the same in all")
        (self._names,) = names
        self._offsets = np.cumsum([0, *(len(x) for x in self._itemsets.values())])
        self._positions = np.arange(self._offsets[-1])

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the items are called, or None."""
        return self._names

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return shown_inside("HeteroItemSet", {"itemsets": self._itemsets, "names": self.names})

    def __getitem__(self, index: Any) -> dict[str, Any]:
        """Return the items at some positions by type, without types of which there are none; one for an integer."""
        _check_index(index)
        # As an array: NumPy takes a tensor of one number for that number.
        positions = self._positions[index.numpy() if torch.is_tensor(index) else index]
        rows_by_key = by_kind(np.atleast_1d(positions), self._offsets, self._itemsets)
        rows = {key: torch.from_numpy(ids) if positions.ndim else ids[0] for key, ids in rows_by_key.items()}
        return {key: self._itemsets[key][index] for key, index in rows.items()}


class ItemSetDict(HeteroItemSet):
    """A :class:`HeteroItemSet`, with a deprecation warning: its name in DGL 2.1."""

    def __init__(self, itemsets: Mapping[str, ItemSet]) -> None:
        warn_deprecated("ItemSetDict", "use HeteroItemSet")
        super().__init__(itemsets)
