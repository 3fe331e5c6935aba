"""Reads pickles of numbers and nothing else: NumPy arrays, SciPy matrices, dicts, lists, ints; Python 2's too.

The data sets of the field are distributed as pickles, and an ordinary unpickler runs whatever a file tells it to. This
one constructs no class that a file names. ``numpy.ndarray``, ``numpy.dtype`` and ``csr_matrix`` are stood in for by the
small records below, which keep the state that they are given and turn it into arrays by checked means; every other
name is refused.
"""

from __future__ import annotations

import collections
import io
import pickle
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import DGLError
from ..io.npz import zip_members

_SPARSEST = 256
"""The largest ratio of a matrix's memory when dense to when sparse. Data sets of bags of words are below 100."""


class _DType:
    """Stands in for ``numpy.dtype``: a kind and size such as ``f4``, then a byte order."""

    def __init__(self, code: str, *_copy_flags: object) -> None:
        if not (isinstance(code, str) and code[:1] in ("b", "i", "u", "f") and code[1:] in ("1", "2", "4", "8")):
            raise pickle.UnpicklingError(f"an array of dtype {code!r}; only numbers are read")
        self.resolved = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        self.resolved = self.resolved.newbyteorder("=" if state[1] == "|" else state[1])


class _Array:
    """Replaces ``numpy.ndarray``: a shape, a dtype and raw bytes."""

    values: np.ndarray

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, by_column, raw = state
        self.fill(raw, dtype, shape, "F" if by_column else "C")

    def fill(self, raw: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> None:
        """Take the content; with ``axes``, in the order of axes that it lies in."""
        if not (isinstance(dtype, _DType) and isinstance(raw, str | bytes)):
            raise pickle.UnpicklingError("an array whose content is not plain numbers")
        self._budget.take(len(raw))
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        values = np.frombuffer(content, dtype.resolved).reshape(shape, order="C" if order == "K" else order)
        values = values if axes is None else values.transpose(axes)
        self.values = values.astype(values.dtype.newbyteorder("="))


class _Budget:
    """The bytes that arrays may still take: the file's size, unless it refers to the same bytes repeatedly."""

    def __init__(self, size: int) -> None:
        self._left = 2 * size  # encoded once, then read once

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise pickle.UnpicklingError("arrays that are larger together than the file")

    def reconstruct(self, kind: type, *_shape_and_dtype: object) -> _Array:
        """Replace NumPy's constructor of an array; the state that follows has everything."""
        if kind is not _Array:
            raise pickle.UnpicklingError("an array of a class of its own")
        return _Array(self)

    def from_buffer(self, *content: Any) -> _Array:
        """Replace NumPy's constructor of protocol 5, the default of Python 3.14: bytes, a dtype, shape and order."""
        array = _Array(self)
        array.fill(*content)
        return array

    def scalar(self, dtype: Any, raw: Any) -> int | float | bool:
        """Replace NumPy's constructor of a number."""
        array = _Array(self)
        array.fill(raw, dtype, (), "C")
        number: int | float | bool = array.values.item()
        return number

    def encode(self, text: str, encoding: str) -> bytes:
        """Stand in for ``_codecs.encode``, by which Python 3 writes other bytes in the older protocols."""
        if not isinstance(text, str) or encoding != "latin1":
            raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
        self.take(len(text))
        return text.encode("latin1")


class CsrMatrix:
    """Stands in for ``scipy.sparse.csr_matrix``: its arrays and ``shape``, checked when read."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        shape = state["_shape"] if "_shape" in state else state["shape"]
        values, indices, indptr = (_array(state[key]) for key in ("data", "indices", "indptr"))
        self._set(values, indices, indptr, shape)
        self._check_density()

    @classmethod
    def from_parts(
        cls, values: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
    ) -> CsrMatrix:
        """Return the matrix of three one-dimensional arrays; raise ``ValueError`` where they contradict each other."""
        if any(part.ndim != 1 for part in (values, indices, indptr)) or {indices.dtype.kind, indptr.dtype.kind} - {
            *"iu"
        }:
            raise ValueError("a CSR matrix whose parts are not one-dimensional arrays, of integers where they count")
        matrix = cls()
        matrix._set(values, indices, indptr, shape)
        return matrix

    def _set(self, values: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> None:
        self.values, self.indices, self.indptr = values, indices, indptr
        num_rows, num_columns = shape
        self.shape = (int(num_rows), int(num_columns))
        rows_fit = len(self.indptr) == self.shape[0] + 1 and self.indptr[0] == 0 and (np.diff(self.indptr) >= 0).all()
        if not (rows_fit and len(self.indices) == len(self.values) == self.indptr[-1]):
            raise ValueError("a CSR matrix whose row pointers do not fit its entries")
        if ((self.indices < 0) | (self.indices >= self.shape[1])).any():
            raise ValueError("a CSR matrix with column numbers outside its shape")

    def _check_density(self) -> None:
        raw = self.values.nbytes + self.indices.nbytes + self.indptr.nbytes
        if self.shape[0] * self.shape[1] * self.values.itemsize > _SPARSEST * (raw + 1024):
            raise ValueError(f"a CSR matrix of shape {self.shape}, {_SPARSEST} times as large when dense")

    def toarray(self) -> np.ndarray:
        """Return the matrix as a dense array; entries given twice are added.

        Raises ``ValueError`` for one that takes far more memory then than its entries do.
        """
        self._check_density()
        dense = np.zeros(self.shape, self.values.dtype)
        np.add.at(dense, (np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)), self.indices), self.values)
        return dense


class CooMatrix:
    """Stands in for ``scipy.sparse.coo_matrix``: ``rows``, ``columns``, ``values`` and ``shape``, checked when read."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows, columns = state["coords"] if "coords" in state else (state["row"], state["col"])
        self.rows, self.columns, self.values = _array(rows), _array(columns), _array(state["data"])
        num_rows, num_columns = state["_shape"]
        self.shape = (int(num_rows), int(num_columns))
        ends = ((self.rows, self.shape[0]), (self.columns, self.shape[1]))
        if not len(self.rows) == len(self.columns) == len(self.values):
            raise ValueError("a COO matrix whose parts differ in length")
        if any(part.dtype.kind not in "iu" or ((part < 0) | (part >= end)).any() for part, end in ends):
            raise ValueError("a COO matrix with entries outside its shape")


def _array(record: Any) -> np.ndarray:
    if not isinstance(record, _Array) or record.values.ndim != 1:
        raise pickle.UnpicklingError("a matrix whose parts are not one-dimensional arrays")
    return record.values


def _no_bytes() -> bytes:
    """Stand in for ``bytes``, by which Python 3 writes an empty array's content in the older protocols."""
    return b""


_ADMITTED = {
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Budget.reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Budget.reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _Budget.from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _Budget.from_buffer,
    ("numpy.core.multiarray", "scalar"): _Budget.scalar,
    ("numpy._core.multiarray", "scalar"): _Budget.scalar,
    ("scipy.sparse.csr", "csr_matrix"): CsrMatrix,
    ("scipy.sparse._csr", "csr_matrix"): CsrMatrix,
    ("scipy.sparse.coo", "coo_matrix"): CooMatrix,
    ("scipy.sparse._coo", "coo_matrix"): CooMatrix,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("__builtin__", "bytes"): _no_bytes,
    ("_codecs", "encode"): _Budget.encode,
}
"""The classes and functions by their names in a file; modules have the names of old and new library versions."""


class _NumericUnpickler(pickle._Unpickler):
    """The unpickler that is written in Python; the other allocates what a file says before it has seen the bytes."""

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: pickle._Unpickler.dispatch[pickle.BINBYTES8[0]],
    }
    # Its own loader of bytearrays allocates, too; protocol 5 writes arrays' content so.

    def __init__(self, content: bytes, start: int = 0) -> None:
        file = io.BytesIO(content)
        file.seek(start)
        super().__init__(file, encoding="latin1")
        self._budget, self._file = _Budget(len(content)), file

    def place(self) -> int:
        """Return the position at which the loaded pickle ends."""
        return self._file.tell()

    def find_class(self, module: str, name: str) -> Any:
        try:
            admitted: Any = _ADMITTED[module, name]
            return partial(admitted, self._budget) if admitted in vars(_Budget).values() else admitted
        except KeyError:
            raise pickle.UnpicklingError(
                f"{module}.{name}, which is not a type of number, array, list or dict"
            ) from None


def read_numeric_pickle(path: str | Path) -> Any:
    """Return the object in the pickle at ``path``: an array, a :class:`CsrMatrix`, a dict, a list or a number.

    Raises ``DGLError`` for anything else, for a damaged file and for a matrix that contradicts itself; no code that
    the file names is run.
    """
    try:
        content = _NumericUnpickler(Path(path).read_bytes()).load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything: IndexError, TypeError, UnicodeDecodeError ...
        raise DGLError(
            f"{path} is not read: it holds {error or type(error).__name__}; "
            "expected a pickle of NumPy arrays, SciPy CSR and COO matrices, dicts, lists and ints only"
        ) from error
    return content.values if isinstance(content, _Array) else content


def read_numeric_pt(path: str | Path) -> Any:
    """Return the object that ``torch.save`` wrote, with arrays for tensors: dicts, lists, numbers, strings and arrays.

    A file of arrays is read without PyTorch, one of tensors by its reader of weights only. Raises ``DGLError`` for
    anything else, and for a damaged file; no code that the file names is run.
    """
    content = Path(path).read_bytes()
    try:
        return plain(_pt_pickle(content))
    except Exception as error:
        fault = error
    try:
        import torch  # only tensors need it

        return plain(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    except Exception as error:  # also where it is not installed
        raise DGLError(
            f"{path} is not read: it holds {fault or type(fault).__name__}, and no tensors alone "
            f"({type(error).__name__}); expected dicts, lists, numbers and arrays that torch.save wrote"
        ) from error


def _pt_pickle(content: bytes) -> Any:
    """Return the object in a file of ``torch.save``: a .zip archive, or after three other pickles, as until 2020."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = zip_members(archive, len(content))
            (name,) = (member.filename for member in members if member.filename.endswith("/data.pkl"))
            return _NumericUnpickler(archive.read(name)).load()
    start = 0
    for _ in range(4):
        unpickler = _NumericUnpickler(content, start)
        loaded = unpickler.load()
        start = unpickler.place()
    return loaded


def plain(item: Any) -> Any:
    """Return dicts, lists and tuples with arrays in place of placeholders and tensors."""
    if isinstance(item, dict):
        return {key: plain(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [plain(value) for value in item] if any(isinstance(x, _HOLDERS) for x in item) else list(item)
    if isinstance(item, _Array):
        return item.values
    if item is None or isinstance(item, int | float | str):
        return item
    values = np.asarray(item)
    if values.dtype.kind not in "biuf":
        raise pickle.UnpicklingError(f"{type(item).__name__}; only numbers are read")
    return values


_HOLDERS = (dict, list, tuple, _Array)
