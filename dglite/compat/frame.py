"""``dgl.frame``: frames and columns with DGL 2's methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from .. import frame as frames
from ..backend import Tensor, active
from ..column import Initializer, zeros
from ..errors import DGLError
from ..structure.ids import as_ids
from .base import dgl_warning


class Scheme(frames.Scheme):
    """Shape of one row of a column, and the column's dtype."""

    __slots__ = ()

    @classmethod
    def _reconstruct_scheme(cls, shape: tuple[int, ...], dtype: str) -> Scheme:  # of DGL's pickles
        return cls(shape, dtype)


def infer_scheme(tensor: Tensor) -> Scheme:
    """Return the shape of a row of a tensor, and its dtype."""
    return Scheme(tuple(active.shape(tensor)[1:]), tensor.dtype)


class Column:
    """A feature of many nodes or edges: rows ``index`` of a tensor, all by default. They are gathered when read."""

    def __init__(self, storage: Tensor, scheme: Scheme | None = None, index: Tensor | None = None) -> None:
        self.storage, self.index = storage, index
        self.scheme = scheme or infer_scheme(storage)

    def __setstate__(self, state: dict[str, Any]) -> None:  # of DGL's pickles, too
        self.__init__(state.get("storage", state.get("data")), None, state.get("index"))  # type: ignore[misc]

    @staticmethod
    def create(data: Any) -> Column:
        """Return a tensor as a column; a column stays as it is."""
        return data if isinstance(data, Column) else Column(active.asarray(data))

    @property
    def data(self) -> Tensor:
        """The rows, (num_rows, *feat)."""
        if self.index is not None:
            self.storage, self.index = active.take(self.storage, self.index), None
        return self.storage

    @data.setter
    def data(self, values: Tensor) -> None:
        self.storage, self.index = values, None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a row."""
        return self.scheme.shape

    @property
    def dtype(self) -> Any:
        """Dtype of the rows."""
        return self.scheme.dtype

    def __len__(self) -> int:
        return len(self.storage if self.index is None else self.index)

    def __repr__(self) -> str:
        return repr(self.data)

    def __getitem__(self, rowids: Any) -> Tensor:
        """Return rows by number."""
        return active.take(self.data, as_ids(rowids, len(self), "row"))

    def __setitem__(self, rowids: Any, feats: Tensor) -> None:
        self.update(rowids, feats)

    def update(self, rowids: Any, feats: Tensor) -> None:
        """Write rows, out of place; raises ``DGLError`` if shape or dtype differ from the column's."""
        self._check(feats)
        self.data = active.put(self.data, as_ids(rowids, len(self), "row"), feats)

    def extend(self, feats: Tensor, feat_scheme: Scheme | None = None) -> None:
        """Add rows at the end; raises ``DGLError`` if shape or dtype differ from the column's."""
        self._check(feats)
        self.data = active.concat([self.data, feats])

    def _check(self, feats: Tensor) -> None:
        if infer_scheme(feats) != self.scheme:
            raise DGLError(f"the column has rows {self.scheme}; got {infer_scheme(feats)}")

    def astype(self, dtype: Any) -> Column:
        """Return the column with rows of another dtype, a framework's or its name."""
        name = np.dtype(dtype).name if isinstance(dtype, type) else str(dtype).rpartition(".")[2]
        return Column(active.astype(self.data, name))

    def subcolumn(self, rowids: Tensor) -> Column:
        """Return the column of some rows; nothing is gathered yet."""
        rows = rowids if self.index is None else active.take(self.index, rowids)
        return Column(self.storage, self.scheme, rows)

    def clone(self) -> Column:
        """Return a column of the same tensor."""
        return Column(self.storage, self.scheme, self.index)

    def deepclone(self) -> Column:
        """Return a column of a copy of the tensor."""
        return Column(active.copy(self.data))

    def to(self, device: Any) -> Column:
        """Return the column on a device."""
        return Column(active.to_device(self.data, device))


class Frame(MutableMapping[str, Tensor]):
    """Columns by name, all with one row per node or edge.

    Raises DGLError: columns have other numbers of rows.

    Parameters
    ----------
    data
        Tensors or columns by name.
    num_rows
        Number of rows; that of the columns by default, 0 without any.
    """

    def __init__(self, data: Mapping[str, Any] | None = None, num_rows: int | None = None) -> None:
        columns = {name: Column.create(values).data for name, values in (data or {}).items()}
        if num_rows is None:
            num_rows = len(next(iter(columns.values()))) if columns else 0
        self._frame = frames.Frame(num_rows, columns)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_columns" in state:  # of DGL's pickles
            state = vars(Frame(state["_columns"], state["_num_rows"]))
        self.__dict__.update(state)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._frame.num_rows

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self._frame)

    @property
    def schemes(self) -> dict[str, frames.Scheme]:
        """Shape of a row and dtype by column."""
        return self._frame.schemes

    def __getitem__(self, name: str) -> Tensor:
        return self._frame[name]

    def __setitem__(self, name: str, data: Any) -> None:
        self.update_column(name, data)

    def __delitem__(self, name: str) -> None:
        del self._frame[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame)

    def __len__(self) -> int:
        return self.num_columns

    def __repr__(self) -> str:
        return repr(dict(self))

    # -- rows and columns -----------------------------------------------------------------------------------------
    def update_column(self, name: str, data: Any) -> None:
        """Set a whole column, which must have the frame's number of rows."""
        self._frame[name] = Column.create(data).data

    def add_column(self, name: str, scheme: Scheme, ctx: Any) -> None:
        """Add a column of what the initializer gives; one of this name is replaced, with a warning."""
        if name in self:
            dgl_warning(f"there was a column {name!r}; it is replaced")
        self._frame[name] = self._frame.initial(name, self.num_rows, scheme.shape, scheme.dtype, ctx)

    def add_rows(self, num_rows: int) -> None:
        """Add rows of what the initializers give."""
        self._frame.append(num_rows)

    def update_row(self, rowids: Any, data: Mapping[str, Tensor]) -> None:
        """Write rows, out of place; other rows of new columns get what the initializer gives."""
        self._frame.set_rows(as_ids(rowids, self.num_rows, "row"), data)

    def append(self, other: Frame | Mapping[str, Tensor]) -> None:
        """Add the rows of another frame; where one has no column of the other, the initializer fills it."""
        other = other if isinstance(other, Frame) else Frame(other)
        self._frame.append(other.num_rows, dict(other))

    def clear(self) -> None:
        """Drop all columns and rows."""
        self._frame.clear()
        self._frame.num_rows = 0

    def set_initializer(self, initializer: Initializer | None, column: str | None = None) -> None:
        """Set what fills rows of a column, or of all columns, that were not set."""
        self._frame.set_initializer(initializer, column)

    def get_initializer(self, column: str | None = None) -> Initializer:
        """Return what fills rows of a column, or of columns without an initializer of their own."""
        return self._frame.initializer(column or "")

    # -- other frames ---------------------------------------------------------------------------------------------
    def subframe(self, rowids: Any) -> Frame:
        """Return the frame of some rows; columns are gathered when they are read."""
        return wrapped(self._frame.take(as_ids(rowids, self.num_rows, "row")))

    def clone(self) -> Frame:
        """Return a frame with the same columns."""
        return wrapped(self._frame.copy())

    def deepclone(self) -> Frame:
        """Return a frame with copies of the columns."""
        frame = self.clone()
        frame._frame.update({name: active.copy(column) for name, column in self.items()})
        return frame

    def to(self, device: Any) -> Frame:
        """Return the frame on a device."""
        return wrapped(self._frame.to_device(device))

    def bfloat16(self) -> Frame:
        """Return the frame with columns of real numbers as bfloat16."""
        return self._as_floats("bfloat16")

    def half(self) -> Frame:
        """Return the frame with columns of real numbers as float16."""
        return self._as_floats("float16")

    def float(self) -> Frame:
        """Return the frame with columns of real numbers as float32."""
        return self._as_floats("float32")

    def double(self) -> Frame:
        """Return the frame with columns of real numbers as float64."""
        return self._as_floats("float64")

    def _as_floats(self, dtype: str) -> Frame:
        frame = self.clone()
        real = {name: column for name, column in self.items() if "float" in active.dtype(column)}
        frame._frame.update({name: active.astype(column, dtype) for name, column in real.items()})
        return frame


def wrapped(inner: frames.Frame) -> Frame:
    """Return a frame of DGL's interface over one of dglite."""
    frame = Frame()
    frame._frame = inner
    return frame


def zero_initializer(shape: Sequence[int], dtype: Any, ctx: Any, id_range: slice) -> Tensor:
    """Return zeros for the rows ``id_range`` of a column: ``shape`` is (len(id_range), *feat)."""
    return zeros(shape, dtype, ctx, id_range)


def base_initializer(shape: Sequence[int], dtype: Any, ctx: Any, id_range: slice) -> Tensor:
    """Show what arguments an initializer takes; it is no initializer itself and raises ``NotImplementedError``."""
    raise NotImplementedError("base_initializer shows the arguments of an initializer; zero_initializer is one")
