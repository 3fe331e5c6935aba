"""A safetensors container: arrays and a JSON header in one file, memory-mapped when read, without code.

That arrays lie inside the file and do not overlap is checked when it is opened; what they mean is checked here and by
those who read them. Layout: docs/file_format.md.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, TensorSpec, safe_open, serialize_file

from ..backend import Tensor, active, native
from ..errors import DGLError
from ..structure.ids import LARGEST_COUNT, largest_unsigned
from .atomic import replacing
from .mapped import ArrayRows, MappedFile, UnsoundFileError

VERSION, PACKED_VERSION = 1, 2
"""Version of the layout that is written, and of one with compressed structures; files of later versions are refused."""

DGL_MAGIC = (0xDD2E4FF046B4A13F).to_bytes(8, "little")
"""The first bytes of a graph file of DGL."""

_KEY = "dglite"
_NUMPY = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)


# -- writing -----------------------------------------------------------------------------------------------------------
def local_path(filename: Any) -> Path:
    """Return the path that a file's name means.

    Raises ``DGLError``: the name is neither a string nor a path, or that of a remote store.
    """
    if not isinstance(filename, str | os.PathLike):
        raise DGLError(f"a file is given by its name, got {type(filename).__name__}")
    text = os.fspath(filename)
    if isinstance(text, str) and "://" in text:
        raise DGLError(f"{text} is not on this machine; copy it to a local disk, remote stores are not read or written")
    return Path(os.fsdecode(text))


def write_container(
    filename: Any, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Tensor | np.ndarray]
) -> None:
    """Write arrays and a header. A file of that name is replaced when the new one is complete, never before.

    Raises ``DGLError``: the name is a folder, an array has a dtype that the container has no name for, or the disk
    refuses.
    """
    path = local_path(filename)
    if path.is_dir():
        raise DGLError(f"{path} is a folder; give the name of a file")
    specs, owners, complex128 = {}, [], []
    for name, values in arrays.items():
        spec, owner = _spec(name, values)
        if str(values.dtype).endswith("complex128"):
            complex128.append(name)
        specs[name] = spec
        owners.append(owner)  # the specs hold addresses only
    about = {"kind": kind, "version": VERSION, "complex128": complex128, **header}
    try:
        with replacing(path, parents=True) as part:
            serialize_file(specs, part, {_KEY: json.dumps(about)})
    except (OSError, SafetensorError) as error:
        raise DGLError(f"{path} cannot be written: {error}") from error


def _spec(name: str, values: Tensor | np.ndarray) -> tuple[TensorSpec, Any]:
    """Return the stored form of one array, and the object that owns the memory."""
    dtype = str(values.dtype).rpartition(".")[2]
    shape = list(values.shape)
    owner: Any
    if isinstance(values, np.ndarray) or _in_numpy(dtype):
        array = values if isinstance(values, np.ndarray) else active.to_numpy(values)
        owner = np.ascontiguousarray(array).reshape(array.shape)
        address, size = owner.ctypes.data, owner.nbytes
    else:  # bfloat16 and its like
        owner = active.contiguous(active.to_device(active.detach(values), active.cpu()))
        address, size = active.address(owner), math.prod(shape) * values.dtype.itemsize
    if dtype == "complex128":
        dtype, shape = "float64", [*shape, 2]
    try:
        return TensorSpec(dtype=dtype, shape=shape, data_ptr=address, data_len=size), owner
    except SafetensorError as error:
        raise DGLError(f"{name} has dtype {dtype}, which a file cannot hold ({error}); convert it first") from error


def _in_numpy(dtype: str) -> bool:
    # Not np.dtype(name): other packages register bfloat16 with NumPy, which tensors do not convert to.
    return dtype in _NUMPY


# -- reading -----------------------------------------------------------------------------------------------------------
def first_bytes(path: Path) -> bytes:
    """Return the first 8 bytes of a file.

    Raises ``DGLError``: there is no such file, or it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except FileNotFoundError:
        raise _no_file(path) from None
    except OSError as error:
        raise DGLError(f"{path} cannot be read: {error}") from error


def _no_file(path: Path) -> DGLError:
    return DGLError(f"File {path} does not exist.")


class Container:
    """A file that is open for reading. Arrays are read when they are used, page after page, by the system.

    Attributes
    ----------
    size
        Length of the file in bytes.
    header
        What the writer said about the arrays. As trustworthy as whoever made the file: take fields by :meth:`field`.
    """

    def __init__(self, path: Path, kind: str) -> None:
        """Open a container of ``kind``; any other file, kind or version raises ``DGLError``."""
        self.path = path
        try:
            self._file = MappedFile(path)
        except FileNotFoundError:
            raise _no_file(path) from None
        except UnsoundFileError as error:
            raise DGLError(f"{path} is not read: {_guess(error.start)} ({error})") from error
        except OSError as error:
            raise DGLError(f"{path} cannot be read: {error}") from error
        self.size, self.names = self._file.size, self._file.names
        self.header = self._parsed(self._file.metadata.get(_KEY))
        file_kind, version = self.header.get("kind"), self.header.get("version")
        if file_kind != kind:
            raise self.damaged(f"it holds {file_kind!r}, not {kind!r}")
        if type(version) is not int or not 1 <= version <= PACKED_VERSION:
            raise DGLError(f"{path} is of version {version!r}; this dglite reads up to {PACKED_VERSION}: update it")
        self._complex128 = frozenset(map(str, self.field(self.header, "complex128", list)))

    def _parsed(self, text: str | None) -> dict[str, Any]:
        if text is None:
            raise DGLError(
                f"{self.path} is not read: it is a safetensors file, but not one of dglite's; "
                "its tensors are read by safetensors.torch.load_file"
            )
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"its header is not JSON ({error})") from error
        if not isinstance(header, dict):
            raise self.damaged("its header is not a JSON object")
        return header

    def damaged(self, why: str) -> DGLError:
        """Return the error that says why the file is not read."""
        return DGLError(f"{self.path} is not read, it is damaged or was not written by dglite: {why}")

    def field(self, record: Any, name: str, kind: type | tuple[type, ...]) -> Any:
        """Return ``of[name]``, which must be of type ``kind``."""
        value = record.get(name) if isinstance(record, dict) else None
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) not in kinds:
            raise self.damaged(f"field {name!r} of its header is missing or of the wrong type")
        return value

    def names_of(self, values: Any) -> list[str]:
        """Return ``values`` if they are a list of strings."""
        if not isinstance(values, list) or not all(isinstance(x, str) for x in values):
            raise self.damaged(f"{values!r:.60} should be a list of names")
        return values

    def rows(self, name: str, few: bool = False) -> FileRows:
        """Return an array with a first axis, to be cut; with ``few``, into few pieces."""
        if few and self._is_cut(name):
            return FileRows(self._file.rows(name))
        values = self.tensor(name)
        if not len(active.shape(values)):
            raise self.damaged(f"array {name!r} has no axes")
        return FileRows(values)

    def _is_cut(self, name: str) -> bool:
        """Whether pieces of an array can be read as they are."""
        file = self._file
        return name in self.names and name not in self._complex128 and file.is_in_numpy(name) and file.shape(name) != ()

    def tensor(self, name: str) -> Tensor:
        """Return an array of the file as a tensor. Its memory is the file's, privately: writing changes no file."""
        values = self._get(name)
        if name not in self._complex128:
            return _separate(values)
        pairs = active.to_numpy(values)
        if pairs.dtype != np.float64 or pairs.shape[-1:] != (2,):
            raise self.damaged(f"complex array {name!r} is not made of pairs of float64")
        return active.from_numpy(native(np.ascontiguousarray(pairs).view(np.complex128)[..., 0]))

    def array(self, name: str, kinds: str = "i", ndim: int = 1, few: bool = False) -> Any:
        """Return an array of integers (kind ``i``, 32 or 64 bits, by default); with ``few``, to be cut into few pieces.

        A NumPy array, or of an array to be cut its :class:`ArrayRows`.
        """
        array = self._file.rows(name) if few and self._is_cut(name) else self._numpy(name)
        if array.dtype.kind not in kinds or array.dtype.itemsize < 4 or array.ndim != ndim:
            raise self.damaged(f"array {name!r} is {array.dtype} with {array.ndim} axes; expected {ndim} of integers")
        return array

    def counts(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of numbers from 0 up to a sane limit, int64 of ``shape``."""
        array = self.array(name, ndim=len(shape))
        if array.shape != shape:
            raise self.damaged(f"array {name!r} has shape {array.shape}; expected {shape}")
        largest = largest_unsigned(array) if array.size else 0
        if largest > LARGEST_COUNT:
            raise self.damaged(f"array {name!r} holds a number outside 0 .. 2**48")
        if largest * array.size > 2**62 and array.sum(dtype=np.float64) > 2.0**62:
            raise self.damaged(f"the numbers in {name!r} sum to more than 2**62")
        return array.astype(np.int64)

    def _numpy(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise self.damaged(f"array {name!r} is missing")
        try:
            return self._file.get_tensor(name)
        except (OSError, TypeError, ValueError) as error:
            raise self.damaged(f"array {name!r} cannot be read ({error})") from error

    def _get(self, name: str) -> Tensor:
        if active.name != "torch" or name not in self.names or self._file.is_in_numpy(name):
            return active.asarray(self._numpy(name))
        try:
            return active.asarray(safe_open(self.path, framework="torch").get_tensor(name))
        except (OSError, SafetensorError, RuntimeError, TypeError, ValueError) as error:
            raise self.damaged(f"array {name!r} cannot be read ({error})") from error


class FileRows:
    """An array of a file that is cut by rows."""

    __slots__ = ("_array", "_tensor", "num_rows")

    def __init__(self, values: Tensor | ArrayRows) -> None:
        self._tensor = values
        self._array: Any = None
        if isinstance(values, ArrayRows):
            self.num_rows, self._array = len(values), values
            return
        self.num_rows = int(active.shape(values)[0])
        if _in_numpy(_dtype_name(values)):
            self._array = active.to_numpy(values)

    def __getitem__(self, rows: slice) -> Tensor:
        if self._array is not None:
            return active.from_numpy(self._array[rows])
        return active.concat([self._tensor[rows]])


def _dtype_name(values: Any) -> str:
    return str(values.dtype).rpartition(".")[2]


def _separate(values: Tensor) -> Tensor:
    """Return a tensor whose storage is its own elements.

    The library gives views of one storage, the file: pickling such a tensor, to a worker say, would send all of it.
    """
    if _in_numpy(_dtype_name(values)):
        return active.from_numpy(active.to_numpy(values))
    return active.reshape(active.concat([active.reshape(values, (-1,))]), active.shape(values))


def _guess(start: bytes) -> str:
    if start == DGL_MAGIC:
        return "it is a graph file of DGL"
    if start[:1] == b"\x80":
        return "it looks like a pickle, which could run code; write its content again with dglite or safetensors"
    if start[:2] == b"PK":
        return "it looks like a zip archive, such as torch.save and numpy.savez write"
    return "it is damaged, cut short, or was not written by dglite"
