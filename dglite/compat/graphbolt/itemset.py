"""Items that batches are made of: nodes, pairs of nodes, and what belongs to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ...dataloading.items import by_kind
from ...errors import DGLError

__all__ = ["HeteroItemSet", "ItemSet", "ItemSetDict"]


class ItemSet:
    """Items: rows of one or several tensors, which batches have as attributes of the given names.

    Parameters
    ----------
    items
        a tensor, array or list (num_items, ...), or a tuple of several; a number n for the ids 0 to n - 1, int64 or of
        the dtype of a scalar tensor.
    names
        a name for each: ``"seeds"``, ``"labels"``, ``"indexes"``; or those of DGL 2.1: ``"seed_nodes"``,
        ``"node_pairs"``, ``"negative_dsts"``.

    Raises
    ------
    DGLError
        Tensors have different lengths, or there are not as many names.
    """

    def __init__(self, items: Any, names: str | tuple[str, ...] | None = None) -> None:
        if isinstance(items, int):
            items = torch.tensor(items)
        if torch.is_tensor(items) and items.ndim == 0:
            items = torch.arange(int(items), dtype=items.dtype)
        self._items = tuple(torch.as_tensor(x) for x in (items if isinstance(items, tuple) else (items,)))
        self.names = (names,) if isinstance(names, str) else None if names is None else tuple(names)
        if len({len(x) for x in self._items}) > 1:
            raise DGLError(f"items have {[len(x) for x in self._items]} rows; expected as many in all tensors")
        if self.names is not None and len(self.names) != len(self._items):
            raise DGLError(f"{len(self.names)} names, {list(self.names)}, for {len(self._items)} tensors of items")

    def __len__(self) -> int:
        return len(self._items[0])

    def __getitem__(self, index: Any) -> Any:
        """Return the items at some positions: rows of the tensor, or a tuple of rows of each of several."""
        found = tuple(x[index] for x in self._items)
        return found[0] if len(found) == 1 else found


class HeteroItemSet:
    """Item sets by node type, or by edge type as a string; all with the same names. In DGL 2.1 ``ItemSetDict``.

    Raises
    ------
    DGLError
        The sets have different names, or there are none.
    """

    def __init__(self, itemsets: Mapping[str, ItemSet]) -> None:
        self._itemsets = dict(itemsets)
        names = {x.names for x in self._itemsets.values()}
        if len(names) != 1:
            raise DGLError(f"item sets of types {list(itemsets)} have names {names}; expected the same in all")
        (self.names,) = names
        self._offsets = np.cumsum([0, *(len(x) for x in self._itemsets.values())])
        self._positions = np.arange(self._offsets[-1])

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> dict[str, Any]:
        """Return the items at some positions by type, without types of which there are none; one for an integer."""
        positions = self._positions[index]
        own = by_kind(np.atleast_1d(positions), self._offsets, self._itemsets)
        rows = {key: torch.from_numpy(ids) if positions.ndim else ids[0] for key, ids in own.items()}
        return {key: self._itemsets[key][index] for key, index in rows.items()}


ItemSetDict = HeteroItemSet
