"""Ids of nodes as they are in tables, and the numbers of the nodes: looked up both ways, in memory or mapped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...backend import active
from ...errors import DGLError
from ...kernels import compiled
from ...structure.ids import as_ids
from ..raw import npy_of
from .source import Batch, arrow

Keys = tuple[np.ndarray, np.ndarray | None]
"""Ids as the hash table takes them: (int64 numbers, None), or (uint8 text, int64 offsets)."""


class NodeIds:
    """The ids of one node type: node i has the id ``ids.names([i])[0]``, and ``ids.numbers([id])[0]`` is i.

    Attributes
    ----------
    is_text
        whether ids are texts; else they are integers.

    Examples
    --------
    >>> ids = NodeIds.from_values(np.array([40, 7, 12]))  # doctest: +SKIP
    >>> ids.numbers([12, 40]), ids.names([1])  # doctest: +SKIP
    (array([2, 0]), array([7]))
    """

    def __init__(self, keys: Keys, slots: np.ndarray | None) -> None:
        self._keys, self._slots = keys, slots
        self.is_text = keys[1] is not None

    @classmethod
    def from_values(cls, values: Any, label: str = "the ids") -> NodeIds:
        """Make the look-up of distinct ids, which are numbered in their order.

        Raises DGLError: an id is missing, is neither an integer nor text, or occurs twice.
        """
        return cls.from_keys(key_arrays(arrow().array(values), lambda row: f"{label}, row {row}"), label)

    @classmethod
    def from_keys(cls, keys: Keys, label: str) -> NodeIds:
        """Make the look-up of ids that :func:`key_arrays` returned; errors are those of :meth:`from_values`."""
        values, offsets = keys
        count = len(values) if offsets is None else len(offsets) - 1
        if offsets is None and count and values[0] == 0 and values[-1] == count - 1 and (np.diff(values) == 1).all():
            return cls(keys, None)  # the ids are the numbers
        slots = np.full(1 << max(2 * count, 2).bit_length(), -1, np.int32 if count < 2**31 else np.int64)
        twice = np.full(2, -1)
        if offsets is None:
            _kernels().insert_numbers(np.asarray(values), slots, twice)
        else:
            _kernels().insert_keys(np.asarray(values), np.asarray(offsets), slots, twice)
        self = cls(keys, slots)
        if twice[1] >= 0:
            raise DGLError(
                f"{label} has the id {self.names(twice[1:]).tolist()[0]!r} twice, in its rows {twice[0]} and "
                f"{twice[1]}; remove one of them"
            )
        return self

    def __len__(self) -> int:
        return len(self._keys[0] if self._keys[1] is None else self._keys[1][1:])

    def __repr__(self) -> str:
        return f"NodeIds({len(self)} {'texts' if self.is_text else 'integers'})"

    def numbers(self, ids: Any) -> np.ndarray:
        """Return the numbers of the nodes with some ids, int64.

        Raises DGLError: no node has an id, or the ids are integers for texts, or texts for integers.
        """
        values = arrow().array(ids)
        rows = self.find(key_arrays(values, lambda row: f"id {row}"))
        if len(rows) and rows.min() < 0:
            missing = int((rows < 0).argmax())
            raise DGLError(f"no node has the id {values[missing].as_py()!r}; there are {self._sample()}")
        return rows

    def find(self, keys: Keys) -> np.ndarray:
        """Return the numbers of ids, -1 for an id that no node has; ``DGLError`` if these are of another kind."""
        values, offsets = keys
        count = len(values) if offsets is None else len(offsets) - 1
        if count and (offsets is not None) != self.is_text and len(self):
            kinds = ["integers", "texts"]
            raise DGLError(
                f"ids are {kinds[offsets is not None]} here, and {kinds[self.is_text]} in the table of nodes "
                f"({self._sample()}); write both as one type"
            )
        if self._slots is None:
            return np.where((values >= 0) & (values < len(self)), values, -1)
        rows, threads, run = np.empty(count, np.int64), active.num_threads(), compiled("run.rows").run_rows
        table, table_offsets = self._keys
        if table_offsets is None or offsets is None:
            run(_kernels().find_numbers, count, 4 * count, threads, table, self._slots, values, rows)
        else:
            arguments = table, table_offsets, self._slots, values, offsets, rows
            run(_kernels().find_keys, count, 16 * count, threads, *arguments)
        return rows

    def names(self, numbers: Any) -> np.ndarray:
        """Return the ids of some nodes, an array of int64 or of str; a number beyond the nodes raises ``DGLError``."""
        values, offsets = self._keys
        rows = as_ids(numbers, len(self))
        if offsets is None:
            return np.asarray(values[rows])
        texts = [values[offsets[row] : offsets[row + 1]].tobytes().decode(errors="replace") for row in rows.tolist()]
        return np.array(texts, dtype=object)

    def _sample(self) -> str:
        names = self.names(np.arange(min(len(self), 3))).tolist()
        return ", ".join(map(repr, names)) + (", ..." if len(self) > 3 else "") if len(self) else "no nodes"

    # -- files ---------------------------------------------------------------------------------------------------------
    def save(self, folder: Path) -> None:
        """Write the ids and the look-up to a folder, as NumPy files."""
        values, offsets = self._keys
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "ids.npy", values)
        if offsets is not None:
            np.save(folder / "offsets.npy", offsets)
        self.save_slots(folder)

    def save_slots(self, folder: Path) -> None:
        """Write the look-up to a folder that has the ids."""
        if self._slots is not None:
            np.save(folder / "slots.npy", self._slots)

    @classmethod
    def load(cls, folder: Path) -> NodeIds:
        """Map what :meth:`save` wrote; ``DGLError`` names a file that is missing or damaged."""
        offsets, slots = (
            npy_of(path, mapped=True) if (path := folder / f"{name}.npy").exists() else None
            for name in ("offsets", "slots")
        )
        return cls((npy_of(folder / "ids.npy", mapped=True), offsets), slots)


def id_values(batch: Batch, column: str) -> Keys:
    """Return a column of ids of a batch for the hash table; a missing id raises ``DGLError`` with its place."""
    return key_arrays(batch.columns.column(column), lambda row: batch.place(column, row))


def key_arrays(values: Any, place: Any) -> Keys:
    """Return an Arrow array of integers or texts for the hash table.

    Raises ``DGLError``: a value is missing, or the type is another. ``place(row)`` says where.
    """
    pyarrow = arrow()
    types = pyarrow.types
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if types.is_null(values.type) and not len(values):
        values = values.cast(pyarrow.int64())
    if types.is_floating(values.type):  # pandas' integers of which some are missing
        values = _whole_numbers(values, place)
    if values.null_count:
        row = int(np.asarray(values.is_null()).argmax())
        raise DGLError(f"{place(row)}: the id is missing; drop such rows, or fill it")
    if types.is_integer(values.type):
        try:
            return np.asarray(values.cast(pyarrow.int64())), None
        except pyarrow.ArrowInvalid as error:
            raise DGLError(f"{place(0)} and later: ids beyond 63 bits ({error}); write them as texts") from error
    texts = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    if not any(is_text(values.type) for is_text in texts):
        try:
            values = values.cast(pyarrow.large_string())
        except pyarrow.ArrowException as error:
            raise DGLError(f"{place(0)}: ids are integers or texts, not {values.type}") from error
    values = values.cast(pyarrow.large_binary())
    _, offsets, text = values.buffers()
    bounds = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    if not len(bounds):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    content = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)[first:last]
    return content, bounds - first


def _whole_numbers(values: Any, place: Any) -> Any:
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
    wrong = ~(np.isfinite(numbers) & (numbers == np.floor(numbers)))
    if wrong.any():
        row = int(wrong.argmax())
        raise DGLError(f"{place(row)}: {values[row].as_py()} is no id; ids are integers or texts")
    return arrow().array(numbers.astype(np.int64))


def _kernels() -> SimpleNamespace:
    module: Any = compiled("rows.keys")
    return module  # type: ignore[no-any-return]
