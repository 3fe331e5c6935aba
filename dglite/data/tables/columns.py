"""Columns of tables as features: numbers, booleans, times, categories and lists of one length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import DGLError
from .source import Batch, arrow

TIME_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Units that times may be given in, in nanoseconds."""


class TableFeature:
    """A feature of nodes or edges that is made of columns of a table, batch after batch.

    Attributes
    ----------
    name
        of the feature.
    columns
        of the table: one, or several that are put side by side.
    dtype, shape
        of the values of one row; known after the first batch, for lists whose type has no length.
    categories
        texts of the codes 0, 1, 2, ..., in order of appearance; None for numbers.
    """

    def __init__(self, name: str, columns: Sequence[str], schema: Any, options: Mapping[str, Any]) -> None:
        self.name, self.columns = name, list(columns)
        self._options = options
        kinds = [_kind(schema.field(column).type, column, options) for column in self.columns]
        self.kind = kinds[0]
        if len(kinds) > 1 and not {*kinds} <= {"number", "bool"}:
            raise DGLError(
                f"feature {name!r} is made of the columns {self.columns}, which are {kinds}; only numbers can be put "
                "side by side"
            )
        self.dtype = _dtype(self.kind, schema.field(self.columns[0]).type)
        if len(kinds) > 1:
            self.dtype = np.dtype(np.float32)
        self.shape: tuple[int, ...] | None = () if len(kinds) == 1 else (len(kinds),)
        if self.kind == "list":
            listed = schema.field(self.columns[0]).type
            self.shape = (listed.list_size,) if arrow().types.is_fixed_size_list(listed) else None
        self.categories: list[str] | None = [] if self.kind == "category" else None
        self._codes: dict[str, int] = {}

    def values(self, batch: Batch) -> np.ndarray:
        """Return the feature of a batch's rows, (rows, *shape).

        Raises ``DGLError``: a number, a time or a list is missing and the table says no value for it, a list has
        another length, or a category of a split is not train, val or test; the place is named.
        """
        arrays = [self._column(batch, column) for column in self.columns]
        return arrays[0] if len(arrays) == 1 else np.stack([array.astype(self.dtype) for array in arrays], axis=1)

    def _column(self, batch: Batch, column: str) -> np.ndarray:
        values = batch.columns.column(column)
        if self.kind == "category":
            return self._encoded(values)
        if self.kind == "list":
            return self._lists(values, batch, column)
        fill = self._options["fill"].get(column)
        if values.null_count and fill is not None:
            values = values.fill_null(fill)
        if self.kind == "number" and self.dtype.kind == "f":
            array: np.ndarray = values.to_numpy(zero_copy_only=False)
            return np.ascontiguousarray(array, self.dtype)
        if values.null_count:
            row = int(np.asarray(values.is_null()).argmax())
            raise DGLError(
                f"{batch.place(column, row)}: there is no value, and {values.type} has no NaN; fill it, for instance "
                f"by Table(..., fill={{{column!r}: -1}})"
            )
        if self.kind == "time":
            return _times(values, self._options["time_unit"])
        return np.ascontiguousarray(values.to_numpy(zero_copy_only=False), self.dtype)

    def _lists(self, values: Any, batch: Batch, column: str) -> np.ndarray:
        lengths = np.asarray(values.value_lengths().fill_null(-1)) if len(values) else np.zeros(0, np.int64)
        if self.shape is None and len(lengths):
            self.shape = (int(lengths[0]),)
        width = self.shape[0] if self.shape else 0
        wrong = lengths != width
        if wrong.any() or values.null_count:
            row = int((wrong | np.asarray(values.is_null())).argmax())
            raise DGLError(
                f"{batch.place(column, row)}: the list has {max(int(lengths[row]), 0)} elements; expected {width}, as "
                "in the first row"
            )
        flat = values.flatten().to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(flat, self.dtype).reshape(len(values), width)

    def _encoded(self, values: Any) -> np.ndarray:
        """Return codes of categories, -1 for missing values; new categories are numbered as they come."""
        if not arrow().types.is_dictionary(values.type):
            values = values.dictionary_encode()
        for text in values.dictionary.to_pylist():
            if text is not None and str(text) not in self._codes:
                self._codes[str(text)] = len(self._codes)
                assert self.categories is not None
                self.categories.append(str(text))
        code_of = np.array([self._codes.get(str(text), -1) for text in values.dictionary.to_pylist()] + [-1], np.int64)
        indices = values.indices.fill_null(len(code_of) - 1)
        return code_of[np.asarray(indices)]

    def restore(self, categories: Sequence[str] | None, shape: Sequence[int] | None) -> None:
        """Continue with the categories and the shape of batches that were read before."""
        if shape is not None:
            self.shape = tuple(shape)
        if categories is not None:
            self.categories = list(categories)
            self._codes = {text: i for i, text in enumerate(categories)}


def features_of(schema: Any, ids: Sequence[str], options: Mapping[str, Any], label: str) -> list[TableFeature]:
    """Return the features of a table: those that a user names, or all columns that can be numbers.

    Raises ``DGLError``: a column does not exist, or cannot be a feature.
    """
    names = list(schema.names)
    request = options["features"]
    if request is None:
        usable = [name for name in names if name not in ids and is_feature(schema.field(name).type, name, options)]
        request = {name: [name] for name in usable}
    elif isinstance(request, str):
        request = {request: [request]}
    elif not isinstance(request, Mapping):
        request = {name: [name] for name in request}
    request = {name: [columns] if isinstance(columns, str) else list(columns) for name, columns in request.items()}
    if (time := options["time"]) is not None and [time] not in request.values():
        request[time] = [time]
    for columns in request.values():
        for column in columns:
            if column not in names:
                raise DGLError(f"{label} has no column {column!r}; there are {names}")
    return [TableFeature(name, columns, schema, options) for name, columns in request.items()]


def is_feature(kind: Any, name: str, options: Mapping[str, Any]) -> bool:
    """Return whether a column of an Arrow type can be a feature."""
    try:
        _kind(kind, name, options)
    except DGLError:
        return False
    return True


def _kind(kind: Any, column: str, options: Mapping[str, Any]) -> str:
    types = arrow().types
    if types.is_dictionary(kind) or column in options["categories"]:
        return "category"
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind) or types.is_floating(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if listed and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)):
        return "list"
    if column == options["time"]:
        raise DGLError(f"column {column!r} is {kind}; times are numbers, timestamps or dates")
    raise DGLError(
        f"column {column!r} is {kind}, which is no feature; name it in categories=, or leave it out of features="
    )


def _dtype(kind: str, of_column: Any) -> np.dtype:
    """Return the dtype of a feature: float16 and float32 stay, float64 becomes float32, integers int64."""
    if kind == "bool":
        return np.dtype(bool)
    element = of_column.value_type if kind == "list" else of_column
    if kind in ("number", "list") and arrow().types.is_floating(element):
        return np.dtype(np.float16 if arrow().types.is_float16(element) else np.float32)
    return np.dtype(np.int64)


def _times(values: Any, unit: str) -> np.ndarray:
    """Return times as int64 of a unit since 1970, rounded down."""
    pyarrow = arrow()
    if pyarrow.types.is_date(values.type):
        values = values.cast(pyarrow.timestamp("s"))
    numbers = np.asarray(values.cast(pyarrow.int64()), np.int64)
    step, target = TIME_UNITS[values.type.unit], TIME_UNITS[unit]
    return numbers * (step // target) if step >= target else numbers // (target // step)
