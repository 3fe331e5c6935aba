"""Frames: the features of the nodes or edges of one type, by name, with one row per node or edge.

Writing never changes a tensor in place: a whole column is replaced, a partial write makes a new column. So gradients
stay right and frames may share columns.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, KeysView, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import hints
from .backend import Tensor, active, admit, require_one_library
from .column import Initializer, LazyColumn, Scheme, Take, as_columns, initialized, zeros
from .errors import DGLError, MissingFeatureError

NID = EID = "_ID"
"""Column that holds the ids which nodes and edges had in the graph they were taken from."""
NTYPE = ETYPE = "_TYPE"
"""Column that holds the type numbers which nodes and edges had before types were merged."""


class Frame(MutableMapping[str, Tensor]):
    """A mapping from column names to tensors of shape (num_rows, *feat).

    Attributes
    ----------
    num_rows
        rows of every column.
    label
        ``"node"`` or ``"edge of type 'follows'"``.
    device
        where the columns live; None takes any device.
    """

    __slots__ = ("_columns", "_initializers", "_label", "device", "num_rows")

    def __init__(
        self, num_rows: int, columns: Mapping[str, Tensor] | None = None, label: str = "row", device: Any = None
    ) -> None:
        self.num_rows, self._label, self.device = num_rows, label, device
        self._columns: dict[str, Any] = {}
        self._initializers: dict[str | None, Initializer] | None = None
        if columns:
            self.update(columns)

    if not TYPE_CHECKING:
        __getattr__ = hints.attributes_of("features are read by name, ['{name}'], not .{name}")

    @property
    def label(self) -> str:
        """What a row is, for messages."""
        return self._label

    def __deepcopy__(self, memo: dict[int, Any]) -> Frame:
        """Copy the columns, too. Raises ``DGLError`` for one that has a history of operations, as torch's copy does."""
        frame = Frame(self.num_rows, label=self.label, device=self.device)
        memo[id(self)] = frame
        frame._initializers = copy.deepcopy(self._initializers, memo)
        for name, column in self._columns.items():
            try:
                frame._columns[name] = copy.deepcopy(column, memo)
            except (RuntimeError, DGLError) as error:
                if getattr(self[name], "is_leaf", True):
                    raise
                raise DGLError(
                    f"feature {name!r} on the {self.label}s has a history of operations, since it requires a gradient, "
                    "that copy.deepcopy does not copy: use g.clone(), which shares features, or store x.detach()"
                ) from error
        return frame

    def put(self, columns: Mapping[str, Tensor]) -> None:
        """Set columns of the frame's number of rows and device without a check: what a compiled program holds."""
        self._columns.update(columns)

    # -- mapping ------------------------------------------------------------------------------------------------
    def __getitem__(self, name: str) -> Tensor:
        try:
            column = self._columns[name]
        except (KeyError, TypeError):
            raise self._missing(name) from None
        if type(column) is LazyColumn:
            value = column.gather()
            if (
                column.value is value and self._columns.get(name) is column
            ):  # else another thread has written to it meanwhile
                self._columns[name] = value
            return value
        return column

    def gathered(self, name: str, take: Take) -> Tensor:
        """Return a column; rows that are not gathered yet are taken by ``take``."""
        column = self._columns.get(name)
        if type(column) is LazyColumn:
            column.gather(take)
        return self[name]

    def wait(self, name: str, rows: np.ndarray, take: Take) -> None:
        """Set a lazy column: ``take(None, rows)`` computes all its rows when it is first read."""
        self._columns[name] = LazyColumn(None, rows, take)

    def __setitem__(self, name: str, values: Tensor) -> None:
        self._columns[name] = self.checked(name, values)

    def __delitem__(self, name: str) -> None:
        if name not in self._columns:
            raise self._missing(name)
        del self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def keys(self) -> KeysView[str]:
        """Return the names of the columns."""
        return self._columns.keys()

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def require(self, name: str) -> str:
        """Return ``name`` if there is such a column, else raise KeyError."""
        if name not in self._columns:
            raise self._missing(name)
        return name

    def _missing(self, name: str) -> KeyError:
        if not isinstance(name, str | int | tuple):
            return KeyError(f"features of the {self.label}s are read by name, such as 'h', got {type(name).__name__}")
        return KeyError(f"no feature {name!r:.60} on the {self.label}s; there are {sorted(self._columns) or 'none'}")

    def update(self, other: Any = (), /, **more: Tensor) -> None:  # type: ignore[override]
        """Set several columns, or none if one of them is wrong."""
        columns = as_columns(other, self.label)
        columns.update(more)
        self._columns.update({name: self.checked(name, values) for name, values in columns.items()})

    def change(self, changes: Mapping[str, Tensor | None]) -> None:
        """Set columns, and remove those that are None; none is changed if one of them is wrong."""
        self.update({name: values for name, values in changes.items() if values is not None})
        for name in [name for name, values in changes.items() if values is None]:
            self._columns.pop(name, None)

    def clear(self) -> None:
        """Drop every column."""
        self._columns.clear()

    def peek(self, name: str) -> Tensor | None:
        """Return a column, or None when there is none of this name."""
        column = self._columns.get(name)
        return self[name] if type(column) is LazyColumn else column

    @property
    def schemes(self) -> dict[str, Scheme]:
        """The shape of a row and the dtype of each column; gathers nothing."""
        result = {}
        for name, column in self._columns.items():
            like = column.like() if type(column) is LazyColumn else column
            result[name] = Scheme(tuple(active.shape(like)[1:]), like.dtype)
        return result

    # -- checks -------------------------------------------------------------------------------------------------
    def checked(self, name: str, values: Tensor, num_rows: int | None = None) -> Tensor:
        """Return ``values`` as a tensor if it can be ``num_rows`` rows (all by default) of column ``name``.

        Raises ``DGLError``: the name is not a string, the first dimension is not the number of rows, or the device is
        not the frame's.
        """
        traits = active.traits(values)
        if traits is None:
            values = self._converted(name, values)
            traits = active.traits(values)
            assert traits is not None
        if active.guest is not None:
            self._check_library(name, values)
        if type(name) is not str and not isinstance(name, str):
            raise DGLError(f"a feature's name must be a string, got {name!r:.60}")
        shape, _, device = traits
        expected = self.num_rows if num_rows is None else num_rows
        if len(shape) == 0 or shape[0] != expected:
            raise DGLError(
                f"feature {name!r} has shape {tuple(shape)}; its first dimension must be {expected}, "
                f"one row for each {self.label}" + ("" if num_rows is None else " that is written")
            )
        if self.device is not None and device != self.device:
            raise DGLError(
                f"feature {name!r} is on {device}, but the graph is on {self.device}; "
                f"move one of them, e.g. g.to({str(device)!r})"
            )
        return values

    def _converted(self, name: str, values: Any) -> Tensor:
        admitted = admit(values, f"feature {name!r} of the {self.label}s")
        if admitted is not None:
            return admitted if self.device is None else active.to_device(admitted, self.device)
        try:
            like = next(self.features(name), None)
            return active.asarray(values, device=self.device if like is None else active.device(like))
        except (TypeError, ValueError, RuntimeError) as error:
            raise DGLError(
                f"feature {name!r} of the {self.label}s must be a tensor, got {type(values).__name__}"
                + ("; write torch.from_numpy(table.to_numpy())" if hasattr(values, "to_numpy") else "")
            ) from error

    def features(self, but: str = NID) -> Iterator[Tensor]:
        """Yield what is like each column ``but`` one; not those of ids and types, which dglite makes."""
        for name, column in self._columns.items():
            if name not in (but, NID, NTYPE):
                yield column.like() if type(column) is LazyColumn else column

    def _check_library(self, name: str, values: Tensor) -> None:
        """Raise DGLError for a tensor of another library than the other columns are of."""
        other = next(self.features(name), None)
        if other is not None and name not in (NID, NTYPE):
            try:
                require_one_library((other, values))
            except DGLError as error:
                raise DGLError(f"feature {name!r}: {error}") from None

    def _check_like(self, name: str, values: Tensor, like: Tensor) -> None:
        if active.guest is not None:
            require_one_library((like, values))
        if values.dtype != like.dtype or tuple(active.shape(values)[1:]) != tuple(active.shape(like)[1:]):
            raise DGLError(
                f"rows of feature {name!r} of the {self.label}s are {tuple(active.shape(like)[1:])} {like.dtype}; "
                f"got {tuple(active.shape(values)[1:])} {values.dtype}"
            )

    # -- rows ---------------------------------------------------------------------------------------------------
    def get_rows(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Return every column at the given rows."""
        return {name: active.take(self[name], rows) for name in self._columns}

    def rows_of(self, name: str, rows: np.ndarray) -> Tensor:
        """Return one column at the given rows."""
        return active.take(self[name], rows)

    def set_rows(self, rows: np.ndarray, values: Mapping[str, Tensor]) -> None:
        """Write ``values[name][i]`` to row ``rows[i]``, out of place.

        A column that does not exist starts from the initializer. Nothing is written when one of the values is wrong.

        Raises ``DGLError``: values have another number of rows, another shape or dtype than the column, or another
        device.
        """
        written = {}
        for name, value in values.items():
            value = self.checked(name, value, len(rows))
            column = self.peek(name)
            if column is None:
                column = self.initial(name, self.num_rows, active.shape(value)[1:], value.dtype, active.device(value))
            self._check_like(name, value, column)
            written[name] = active.put(column, rows, value)
        self._columns.update(written)

    def take(self, rows: np.ndarray) -> Frame:
        """Return the frame of the given rows. A column is gathered when it is first read."""
        result = self._empty_like(len(rows))
        result._columns = {name: LazyColumn(column, rows) for name, column in self._columns.items()}
        return result

    def copy(self) -> Frame:
        """Return a frame with the same columns. Changing the set of columns of one leaves the other unchanged."""
        other = self._empty_like(self.num_rows)
        other._columns = self._columns.copy()
        return other

    def _empty_like(self, num_rows: int) -> Frame:
        other = Frame.__new__(Frame)
        other.num_rows, other._label, other.device = num_rows, self._label, self.device
        other._columns = {}
        other._initializers = self._initializers
        return other

    def append(self, num: int, values: Mapping[str, Tensor] | None = None) -> None:
        """Add ``num`` rows. Where ``values`` has no column for them, or had none before, the initializer fills in.

        Raises ``DGLError``: values have another number of rows than ``num``, or another shape, dtype or device than
        their column.
        """
        named = {} if values is None else as_columns(values, self.label)
        added = {name: self.checked(name, value, num) for name, value in named.items()}
        first, total = self.num_rows, self.num_rows + num
        columns = {}
        for name in dict.fromkeys([*self._columns, *added]):
            old, new = self.peek(name), added.get(name)
            if old is None:
                assert new is not None
                old = self._filled(name, new, slice(0, first))
            elif new is None:
                new = self._filled(name, old, slice(first, total))
            else:
                self._check_like(name, new, old)
            columns[name] = active.concat([old, new])
        self._columns, self.num_rows = columns, total

    def join(self, parts: Sequence[Frame | None], counts: Sequence[int], names: Sequence[str] | None = None) -> None:
        """Set columns ``names`` (all by default) to those of ``parts``, rows after rows.

        Part i has ``counts[i]`` rows; None has no columns. Parts without rows need not have the columns.

        Raises ``DGLError``: a part lacks a column or has one that others lack, or its shape or dtype differs.
        """
        filled = [part for part, count in zip(parts, counts, strict=True) if count] or [x for x in parts if x][:1]
        if not filled:
            return
        columns = [{} if part is None else part._columns for part in filled]
        if names is None:
            names = list(columns[0])
            other = next((frame for frame in columns if frame.keys() != columns[0].keys()), None)
            if other is not None:
                raise DGLError(
                    f"the {self.label}s of one graph have features {sorted(columns[0])}, those of another "
                    f"{sorted(other)}; give them the same, or name those that all have"
                )
        for name in names:
            if any(name not in frame for frame in columns):
                common = sorted(set.intersection(*map(set, columns)))
                raise MissingFeatureError(f"feature {name!r} is not on all of the {self.label}s; on all are {common}")
            self._columns[name] = self._joined(name, [part[name] for part in filled if part is not None])

    def _joined(self, name: str, columns: Sequence[Tensor]) -> Tensor:
        kinds = [(column.dtype, tuple(active.shape(column)[1:])) for column in columns]
        if kinds != kinds[:1] * len(kinds):
            for column in columns:
                self._check_like(name, column, columns[0])
        return active.concat(columns)

    def split(self, counts: Sequence[int]) -> list[Frame]:
        """Return the frames of the first ``counts[0]`` rows, of the next ``counts[1]``, ...; columns are views."""
        parts = [self._empty_like(count) for count in counts]
        for name in self._columns:
            for part, column in zip(parts, active.split(self[name], counts), strict=True):
                part._columns[name] = column
        return parts

    def keep(self, rows: np.ndarray) -> None:
        """Keep only the given rows, in the given order."""
        self._columns, self.num_rows = self.take(rows)._columns, len(rows)

    def to_device(self, device: Any, non_blocking: bool = False) -> Frame:
        """Return the frame with every column on ``device``; ``non_blocking`` is that of the backend's ``to_device``."""
        moved = self._empty_like(self.num_rows)
        moved.device = device
        moved._columns = {name: active.to_device(column, device, non_blocking) for name, column in self.items()}
        return moved

    # -- initializers -------------------------------------------------------------------------------------------
    def initializer(self, name: str) -> Initializer:
        """Return what fills rows of column ``name`` that were not set: its own, the frame's, or zeros."""
        initializers = self._initializers
        if initializers is None:
            return zeros
        return initializers.get(name) or initializers.get(None) or zeros

    @property
    def has_initializers(self) -> bool:
        """Whether some initializer was set, so that missing rows may be something else than zeros."""
        return self._initializers is not None

    def set_initializer(self, initializer: Initializer | None, field: str | None = None) -> None:
        """Set the initializer of column ``field``, or of every column without one of its own; None goes back to zeros.

        Raises ``DGLError``: the initializer cannot be called.
        """
        if initializer is not None and not callable(initializer):
            raise DGLError(f"an initializer is called as init(shape, dtype, device, id_range); got {initializer!r}")
        initializers = dict(self._initializers or {})
        initializers[field] = initializer or zeros
        self._initializers = initializers

    def initial(self, name: str, num_rows: int, like_shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
        """Return the initial values (num_rows, *like_shape) of column ``name``."""
        return initialized(self.initializer(name), name, slice(0, num_rows), like_shape, dtype, device)

    def _filled(self, name: str, like: Tensor, id_range: slice) -> Tensor:
        return initialized(
            self.initializer(name), name, id_range, active.shape(like)[1:], like.dtype, active.device(like)
        )


_WRITE = "g.ndata['{name}'] = tensor, g.edata['{name}'] = tensor for edges"
hints.refuse_assignments(Frame, ("label",), "write " + _WRITE.format(name="label"))
hints.refuse_features(Frame, _WRITE)
