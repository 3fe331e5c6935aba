"""Columns of a frame: their types, how missing rows are initialised, and rows that are gathered when first read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .backend import Tensor, active
from .errors import DGLError

Take = Callable[[Tensor, np.ndarray], Tensor]
"""``take(x, rows)`` returns the rows of a tensor."""
Initializer = Callable[[Sequence[int], Any, Any, slice], Tensor]
"""``init(shape, dtype, device, id_range)`` returns the features of the rows ``id_range``, a slice."""

if TYPE_CHECKING:

    class TensorOrDict(Tensor, Mapping[str, Tensor]):  # type: ignore[misc]
        """A tensor or, of a graph with several types, a dictionary of tensors by type."""

        def __getitem__(self, key: Any) -> Tensor: ...

    class Features(MutableMapping[str, Tensor]):
        """What ``g.ndata`` is: features by name, each a tensor or, with several types, a dictionary by type."""

        def __getitem__(self, name: str) -> TensorOrDict: ...
        def __setitem__(self, name: str, values: Tensor | Mapping[Any, Tensor]) -> None: ...
else:
    TensorOrDict, Features = Tensor, MutableMapping[str, Tensor]


class Scheme(NamedTuple):
    """Shape of one row of a column, and the column's dtype."""

    shape: tuple[int, ...]
    dtype: Any


def zeros(shape: Sequence[int], dtype: Any, device: Any, id_range: slice) -> Tensor:
    """Initialise features with zeros."""
    return active.full(shape, 0, str(dtype).rpartition(".")[2], device)


def as_columns(values: Any, label: str) -> dict[str, Tensor]:
    """Return a user's features by name as a dictionary. ``DGLError`` for what has no names, such as a tensor."""
    try:
        return dict(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DGLError(
            f"features of the {label}s must be a dictionary from name to tensor, got {type(values).__name__}; write "
            "{'h': tensor}, with the name of the feature"
        ) from error


def initialized(
    initializer: Initializer, name: str, id_range: slice, feat: Sequence[int], dtype: Any, device: Any
) -> Tensor:
    """Return the rows ``id_range`` of a column as its initializer makes them; ``DGLError`` if it makes others."""
    shape = (id_range.stop - id_range.start, *feat)
    rows = initializer(shape, dtype, device, id_range)
    if not active.is_tensor(rows) or tuple(active.shape(rows)) != shape or rows.dtype != dtype:
        description = f"{tuple(active.shape(rows))} {rows.dtype}" if active.is_tensor(rows) else type(rows).__name__
        raise DGLError(f"the initializer of feature {name!r} returned {description}; expected a tensor {shape} {dtype}")
    return rows


class LazyColumn:
    """Rows of a column that have not been gathered yet. Frames that share it share the gathered column.

    Without a source ``take`` knows where they come from.
    """

    __slots__ = ("rows", "source", "take", "value")

    def __init__(self, source: Tensor | LazyColumn | None, rows: np.ndarray, take: Take | None = None) -> None:
        self.source: Any = source
        self.rows, self.take = rows, take
        self.value: Tensor | None = None

    @property
    def storage(self) -> Tensor:
        """The tensor that rows are taken of."""
        source = self.source if self.value is None else self.value
        return source.storage if type(source) is LazyColumn else source

    @property
    def index(self) -> Tensor | None:
        """The rows of :attr:`storage`, None once they are gathered."""
        if self.value is not None:
            return None
        inner = self.source.index if type(self.source) is LazyColumn else None
        rows = active.from_numpy(self.rows)
        return rows if inner is None else active.take(inner, rows)

    def gather(self, take: Take | None = None) -> Tensor:
        """Return the rows, which are kept unless they lack the gradient that a later read would record."""
        source, value = self.source, self.value  # in this order: a thread that gathers drops the source last
        if value is None:
            whole = source.gather() if type(source) is LazyColumn else source
            take = self.take or take or active.take
            if getattr(whole, "requires_grad", False) and not active.requires_grad(whole):
                return take(whole, self.rows)
            if active.compiling():
                value = self.value = take(whole, self.rows)
            elif whole is not None and not active.are_read((whole,)):  # a transform's tensor is gone when it ends
                return take(whole, self.rows)
            else:
                with active.lasting():
                    value = self.value = take(whole, self.rows)
            self.source = None
        return value

    def like(self) -> Tensor:
        """Return a tensor with the column's dtype and trailing shape."""
        source, value = self.source, self.value
        if value is not None:
            return value
        if self.take is not None:
            return self.gather()
        return source.like() if type(source) is LazyColumn else source

    def __reduce__(self) -> tuple[Any, ...]:
        # Gathered first: a pickle of a sampled block must not hold the features of the graph that it came from.
        return _gathered, (self.gather(),)


def _gathered(value: Tensor) -> LazyColumn:
    """Return a column whose rows have been gathered."""
    column = LazyColumn(None, np.empty(0, np.int64))
    column.value = value
    return column
