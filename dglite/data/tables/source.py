"""Tables as streams of Arrow record batches: pandas, Polars and Arrow tables, Parquet and CSV files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...backend import active
from ...errors import DGLError

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv", ".txt")
_EXPECTED = "a pandas, Polars or Arrow table, a dictionary of columns, or the names of Parquet or CSV files"
_CSV_CELL = 12
"""Bytes of a CSV file that a cell takes, where nothing has been read yet."""


def arrow() -> ModuleType:
    """Return pyarrow with its readers; ``ImportError`` says how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("tables need pyarrow: pip install 'dglite[tables]'", name="pyarrow") from error
    return pyarrow


class Batch(NamedTuple):
    """Rows of a table, and where they are from.

    Attributes
    ----------
    columns
        a record batch.
    start
        number of its first row in the whole table.
    origin
        the file, or the argument, it is from.
    group
        its row group in a Parquet file, else None.
    first_row
        number of its first row in the row group, or in the file.
    unit
        number of the batch in the table; readers start at any of them.
    rows
        which rows of the batch were not dropped; None for all.
    """

    columns: Any
    start: int
    origin: str
    group: int | None
    first_row: int
    unit: int
    rows: np.ndarray | None = None

    def place(self, column: str, row: int) -> str:
        """Return words for a cell: the file, the row group, the row and the column."""
        group = "" if self.group is None else f", row group {self.group}"
        row = row if self.rows is None else int(self.rows[row])
        return f"{self.origin}{group}, row {self.first_row + row}, column {column!r}"

    @property
    def num_rows(self) -> int:
        """Number of rows, without those that were dropped."""
        return int(self.columns.num_rows)


class TableSource:
    """A table that is read in batches, as often as needed.

    Raises DGLError: it is no table; a file is missing, damaged or cut short, or has other columns or types than the
    first; ImportError: pyarrow is not installed.

    Parameters
    ----------
    data
        a pandas, Polars or Arrow table, a dictionary of columns; or a file, a folder, a pattern with ``*``, or a list
        of files, Parquet or CSV (``.csv``, ``.tsv``, ``.txt``, also compressed), which have the same columns.
    label
        what errors call a table that is not in a file.

    Attributes
    ----------
    files
        the files in order; empty for a table in memory.
    schema
        names and types of the columns, of the first file.
    """

    def __init__(self, data: Any, label: str) -> None:
        self.label, self.files = label, _files(data, label)
        self._arrow = arrow()
        self._table: Any = None if self.files else _arrow_table(data, label)
        self.schema = self._table.schema if self._table is not None else self._schema_of(self.files[0])
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise DGLError(
                f"{self.files[0] if self.files else label} has several columns named {twice[0]!r}; rename them"
            )
        for path in self.files[1:]:
            self._check_schema(path)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    @property
    def fingerprint(self) -> list[Any]:
        """Return what differs when the table has changed: files with sizes and times, or counts."""
        if not self.files:
            return [self.num_rows, *map(str, self.schema)]
        return [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in self.files]

    @cached_property
    def num_rows(self) -> int:
        """Number of rows; of CSV files an estimate from their first rows."""
        if self._table is not None:
            return int(self._table.num_rows)
        return sum(self._rows_of(path) for path in self.files)

    def _rows_of(self, path: Path) -> int:
        if _is_parquet(path):
            return int(self._footer(path).metadata.num_rows)
        with path.open("rb") as file:
            head = file.read(1 << 20)
        return path.stat().st_size * max(head.count(b"\n"), 1) // max(len(head), 1)

    def row_bytes(self, columns: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes in memory."""
        if self._table is not None:
            return max(self._table.select(columns).nbytes // max(self._table.num_rows, 1), 1)
        path = self.files[0]
        if not _is_parquet(path):
            return 2 * _CSV_CELL * max(len(columns), 1)
        meta = self._footer(path).metadata
        return max(sum(_group_bytes(meta, i, columns) for i in range(meta.num_row_groups)) // max(meta.num_rows, 1), 1)

    def read(self, columns: Sequence[str], batch_bytes: int = 1 << 26, first_unit: int = 0) -> Iterator[Batch]:
        """Yield the rows of some columns, in batches of about ``batch_bytes``; ``first_unit`` passes over batches.

        Raises ``DGLError``: a file cannot be read; a row group takes more than twice ``batch_bytes`` in memory before
        it is cut.
        """
        rows = max(batch_bytes // self.row_bytes(columns), 256)
        start = 0
        for unit, (batch, origin, group, first_row) in enumerate(self._batches(list(columns), rows, batch_bytes)):
            if unit >= first_unit:
                yield Batch(batch, start, origin, group, first_row, unit)
            start += batch.num_rows

    def _batches(self, columns: list[str], rows: int, batch_bytes: int) -> Iterator[tuple[Any, str, int | None, int]]:
        if self._table is not None:
            first = 0
            for batch in self._table.select(columns).to_batches(max_chunksize=rows):
                yield batch, self.label, None, first
                first += batch.num_rows
        for path in self.files:
            if _is_parquet(path):
                yield from self._parquet(path, columns, rows, batch_bytes)
            else:
                yield from self._csv(path, columns, batch_bytes)

    def _parquet(
        self, path: Path, columns: list[str], rows: int, batch_bytes: int
    ) -> Iterator[tuple[Any, str, int, int]]:
        file = self._footer(path)
        for group in range(file.metadata.num_row_groups):
            size = _group_bytes(file.metadata, group, columns)
            if size > 16 * batch_bytes:
                raise DGLError(
                    f"{path}, row group {group}: its columns {columns} take {size:,} bytes in memory, more than the "
                    f"limit leaves, which is {16 * batch_bytes:,}; raise the limit, or write smaller row groups"
                )
            first = 0
            try:
                for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
                    yield batch.select(columns), str(path), group, first
                    first += batch.num_rows
            except (OSError, self._arrow.ArrowException) as error:
                raise DGLError(f"{path}, row group {group} from row {first} on is damaged: {error}") from error

    def _csv(self, path: Path, columns: list[str], batch_bytes: int) -> Iterator[tuple[Any, str, None, int]]:
        csv, first = self._arrow.csv, 0
        options = csv.ConvertOptions(column_types={name: self.schema.field(name).type for name in columns})
        try:
            reader = self._csv_reader(path, options, min(max(batch_bytes // 4, 1 << 16), 1 << 26))
            for batch in reader:
                yield batch.select(columns), str(path), None, first
                first += batch.num_rows
        except (OSError, self._arrow.ArrowException) as error:
            raise DGLError(f"{path}, from row {first} on (rows are counted after the header): {error}") from error

    def _csv_reader(self, path: Path, options: Any, block: int = 1 << 20) -> Any:
        csv = self._arrow.csv
        plain = path.name.partition(".csv")[0].partition(".txt")[0]
        separator = "\t" if ".tsv" in path.name and plain == path.name else ","
        return csv.open_csv(
            path, csv.ReadOptions(block_size=block, use_threads=True), csv.ParseOptions(delimiter=separator), options
        )

    def _footer(self, path: Path) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(path)
        except (OSError, self._arrow.ArrowException) as error:
            raise DGLError(f"{path} is not read, it is cut short or is no Parquet file: {error}") from error

    def _schema_of(self, path: Path) -> Any:
        if _is_parquet(path):
            return self._footer(path).schema_arrow
        try:
            return self._csv_reader(path, self._arrow.csv.ConvertOptions()).schema
        except (OSError, self._arrow.ArrowException) as error:
            raise DGLError(f"{path} is not read as a CSV file: {error}") from error

    def _check_schema(self, path: Path) -> None:
        """Raise ``DGLError`` unless a file has the columns of the first, of the same types."""
        schema = self._schema_of(path)
        for field in self.schema:
            if field.name not in schema.names:
                raise DGLError(f"{path} has no column {field.name!r}, which {self.files[0]} has")
            other = schema.field(field.name).type
            if other != field.type and _is_parquet(path):
                raise DGLError(
                    f"column {field.name!r} is {other} in {path}, and {field.type} in {self.files[0]}; write both "
                    "files with one type"
                )


def _group_bytes(meta: Any, group: int, columns: Sequence[str]) -> int:
    """Return the bytes that some columns of a row group take when decoded."""
    row_group, total = meta.row_group(group), 0
    for i in range(row_group.num_columns):
        chunk = row_group.column(i)
        if chunk.path_in_schema.partition(".")[0] in columns:
            total += chunk.total_uncompressed_size
    return total


def _is_parquet(path: Path) -> bool:
    return path.suffix in _PARQUET


def _files(data: Any, label: str) -> list[Path]:
    """Return the files that a user names, none for a table in memory."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if path.is_dir():
            paths = sorted(p for p in path.rglob("*") if p.suffix in _PARQUET + _CSV and p.is_file())
        elif glob.has_magic(str(path)):
            paths = sorted(map(Path, glob.glob(str(path), recursive=True)))
        else:
            paths = [path]
        if not paths:
            raise DGLError(f"{label}: no Parquet or CSV file is in or matches {data}")
    elif isinstance(data, list | tuple) and data and all(isinstance(name, str | os.PathLike) for name in data):
        paths = [Path(name) for name in data]
    else:
        return []
    for path in paths:
        if not path.is_file():
            raise DGLError(f"{label}: there is no file {path}")
        if path.suffix not in _PARQUET and not any(suffix in _CSV for suffix in path.suffixes):
            raise DGLError(f"{label}: {path} is neither Parquet ({', '.join(_PARQUET)}) nor CSV ({', '.join(_CSV)})")
    return paths


def _arrow_table(data: Any, label: str) -> Any:
    """Return a table in memory as Arrow's."""
    pyarrow = arrow()
    try:
        if isinstance(data, pyarrow.Table):
            return data
        if isinstance(data, pyarrow.RecordBatch):
            return pyarrow.Table.from_batches([data])
        if isinstance(data, Mapping):
            return pyarrow.table({name: _arrow_column(values) for name, values in data.items()})
        if hasattr(data, "to_arrow"):
            return data.to_arrow()
        if hasattr(data, "iloc") and hasattr(data, "columns"):
            return pyarrow.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pyarrow.table(data)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise DGLError(f"{label} is not read as a table: {error}") from error
    raise DGLError(f"{label} must be {_EXPECTED}, got {type(data).__name__}")


def _arrow_column(values: Any) -> Any:
    if active.is_tensor(values):
        values = active.to_numpy(active.detach(values))
    if isinstance(values, np.ndarray) and values.ndim == 2:
        pyarrow = arrow()
        return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])
    return values
