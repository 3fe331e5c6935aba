"""``dgl.utils``: the ``Index`` of DGL's older code, renumbering, and filters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ...errors import DGLError
from ...structure.distinct import contains, distinct
from .. import backend as F
from ..ndarray import NDArray

__all__ = [
    "Filter",
    "InconsistentDtypeException",
    "Index",
    "build_relabel_dict",
    "build_relabel_map",
    "compensate",
    "make_invmap",
    "relabel",
    "reorder",
    "reorder_index",
    "set_diff",
    "toindex",
    "zero_index",
]

Tensor = torch.Tensor


class InconsistentDtypeException(DGLError):
    """Raised where ids have another dtype than the graph's."""


class Index:
    """A vector of ids, made of a number, list, array, tensor, ``NDArray`` or slice, and read as either of these.

    Raises InconsistentDtypeException: a tensor has another dtype than ``dtype``, "int64" or "int32", or more than one
    axis; DGLError: the data are no ids.
    """

    def __init__(self, data: Any, dtype: str = "int64") -> None:
        self.dtype = dtype
        self._slice = None
        if isinstance(data, slice):
            if data.step not in (None, 1):
                raise DGLError(f"an Index takes slices of step 1, got {data}")
            self._slice = slice(data.start, data.stop)
            self._ids = torch.arange(data.start or 0, data.stop, dtype=F.data_type_dict[dtype])
        else:
            self._ids = self._checked(data.data if isinstance(data, NDArray) else data)

    def _checked(self, data: Any) -> Tensor:
        dtype = F.data_type_dict[self.dtype]
        if not F.is_tensor(data):
            try:
                data = torch.from_numpy(np.asarray(data, dtype=self.dtype))
            except (TypeError, ValueError) as error:
                raise DGLError(f"expected ids, got {data!r:.80}") from error
        if data.dtype != dtype or data.dim() > 1:
            raise InconsistentDtypeException(
                f"expected one-dimensional {self.dtype} ids, got {data.dtype} of shape {tuple(data.shape)}"
            )
        checked: Tensor = data.reshape(-1)
        return checked

    def __reduce__(self) -> tuple[Any, ...]:
        return Index, (self._ids if self._slice is None else self._slice, self.dtype)

    def __setstate__(self, state: Any) -> None:  # of DGL's pickles
        self.__init__(state)  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids.tolist())

    def __getitem__(self, i: int) -> int:
        return int(self._ids[i])

    def __repr__(self) -> str:
        return f"Index({self._ids.tolist()}, dtype={self.dtype!r})"

    def tonumpy(self) -> np.ndarray:
        """Return the ids as an array."""
        return F.asnumpy(self._ids)

    def tousertensor(self, ctx: Any = None) -> Tensor:
        """Return the ids as a tensor on device ``ctx``, the CPU by default."""
        return self._ids.to(ctx or F.cpu())

    def todgltensor(self) -> NDArray:
        """Return the ids as an ``NDArray``."""
        return F.zerocopy_to_dgl_ndarray(self.tousertensor())

    def slice_data(self) -> slice | None:
        """Return the slice that the ids were made of, or None."""
        return self._slice

    def is_slice(self, start: int, stop: int) -> bool:
        """Whether the ids were made of this slice."""
        return self._slice == slice(start, stop)

    def get_items(self, index: Index) -> Index:
        """Return the ids at positions."""
        return Index(F.gather_row(self._ids, index._ids), self.dtype)

    def set_items(self, index: Index, value: int | Index) -> Index:
        """Return the ids with others at positions."""
        new = value._ids if isinstance(value, Index) else torch.full_like(index._ids, value)
        return Index(F.scatter_row(self._ids, index._ids, new.to(self._ids.dtype)), self.dtype)

    def append_zeros(self, num: int) -> Index:
        """Return the ids with ``num`` zeros after them."""
        return Index(torch.cat([self._ids, self._ids.new_zeros(num)]), self.dtype)

    def nonzero(self) -> Index:
        """Return the positions of ids that are not 0, int64."""
        return Index(F.nonzero_1d(self._ids))

    def has_nonzero(self) -> bool:
        """Whether some id is not 0."""
        return bool(self._ids.any())


def toindex(data: Any, dtype: str = "int64") -> Index:
    """Return ``data`` as an :class:`Index`, itself where it is one."""
    return data if isinstance(data, Index) else Index(data, dtype)


def zero_index(size: int, dtype: str = "int64") -> Index:
    """Return ``size`` zeros."""
    return Index(np.zeros(size, dtype), dtype)


def set_diff(ar1: Index, ar2: Index) -> Index:
    """Return the distinct ids of the first that are not in the second, in ascending order."""
    ids = distinct(ar1.tonumpy())
    return toindex(ids[~contains(ar2.tonumpy(), ids)])


class Filter:
    """Tells apart ids that are in a set from those that are not, by their positions.

    Examples
    --------
    >>> Filter(torch.tensor([3, 2, 9])).find_included_indices(torch.tensor([0, 2, 8, 9]))
    tensor([1, 3])
    """

    def __init__(self, ids: Tensor) -> None:
        self._ids = ids

    def find_included_indices(self, test: Tensor) -> Tensor:
        """Return the positions of those ids of ``test`` that are in the set."""
        return F.nonzero_1d(torch.isin(test, self._ids))

    def find_excluded_indices(self, test: Tensor) -> Tensor:
        """Return the positions of those ids of ``test`` that are not in the set."""
        return F.nonzero_1d(torch.isin(test, self._ids, invert=True))


# -- renumbering -------------------------------------------------------------------------------------------------------
def relabel(x: Tensor) -> tuple[Tensor, Tensor]:
    """Number the distinct ids of ``x`` from 0, in ascending order.

    Returns the ids by new number, and the new numbers by id, 0 for what is not in ``x``, (max(x) + 1,).
    """
    old = torch.unique(x)
    new = old.new_zeros(int(old[-1]) + 1 if len(old) else 0)
    new[old.long()] = torch.arange(len(old), dtype=old.dtype, device=old.device)
    return old, new


def build_relabel_map(x: Any, is_sorted: bool = False) -> tuple[Tensor, Tensor]:
    """Return :func:`relabel` of an :class:`Index` or of what makes one."""
    return relabel(toindex(x).tousertensor())


def build_relabel_dict(x: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return the position of each id."""
    return {old: new for new, old in enumerate(x)}


def make_invmap(array: Any, use_numpy: bool = True) -> tuple[Any, dict[Any, int], np.ndarray]:
    """Return the distinct elements, the position of each among them, and the array as positions."""
    elements = distinct(np.asarray(array)) if use_numpy else list(dict.fromkeys(array))
    positions = {element: i for i, element in enumerate(elements)}
    return elements, positions, np.array([positions[element] for element in array])


def compensate(ids: Tensor, origin_ids: Tensor) -> Tensor:
    """Return those of ``origin_ids`` that are not in ``ids``, in their order."""
    return origin_ids[torch.isin(origin_ids, ids, invert=True)]


def reorder(dict_like: Mapping[str, Tensor], index: Index) -> dict[str, Tensor]:
    """Return the rows ``index`` of each column."""
    return {name: F.gather_row(column, index.tousertensor(column.device)) for name, column in dict_like.items()}


def reorder_index(idx: Index, order: Index) -> Index:
    """Return the ids in the order given."""
    return idx.get_items(order)
