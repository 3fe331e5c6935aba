"""Edge types as strings, compressed columns, and GraphBolt's small functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ...dataloading.transfer import moved
from ...random import seed as seed_dglite
from ...structure.distinct import contains
from .errors import InputError

__all__ = [
    "CANONICAL_ETYPE_DELIMITER",
    "ORIGINAL_EDGE_ID",
    "CSCFormatBase",
    "etype_str_to_tuple",
    "etype_tuple_to_str",
    "expand_indptr",
    "get_device_to_host_uva_stream",
    "get_host_to_device_uva_stream",
    "index_select",
    "indptr_edge_ids",
    "isin",
    "numpy_save_aligned",
    "seed",
    "seed_type_str_to_ntypes",
]

CANONICAL_ETYPE_DELIMITER = ":"
"""Between the parts of an edge type that is a string."""
ORIGINAL_EDGE_ID = "_ORIGINAL_EDGE_ID"
"""The edge attribute with the ids that edges had before they were ordered by destination."""

_PAGE = 4096
"""Bytes of a page, at which aligned arrays begin in their files."""


# -- types -------------------------------------------------------------------------------------------------------------
def etype_tuple_to_str(c_etype: tuple[str, str, str]) -> str:
    """Return ``"source:relation:destination"`` for a canonical edge type.

    Raises DGLError: it has not three parts.
    """
    if not isinstance(c_etype, tuple) or len(c_etype) != 3:
        raise InputError(f"edge type {c_etype!r:.80} must be a tuple (source, relation, destination)")
    return CANONICAL_ETYPE_DELIMITER.join(c_etype)


def etype_str_to_tuple(c_etype: str | tuple[str, str, str]) -> tuple[str, str, str]:
    """Return the canonical edge type that ``"source:relation:destination"`` names; a tuple as it is.

    Raises DGLError: the string has not three parts.
    """
    parts = c_etype if isinstance(c_etype, tuple) else tuple(c_etype.split(CANONICAL_ETYPE_DELIMITER))
    if len(parts) != 3:
        raise InputError(f"edge type {c_etype!r} must be of the form 'source:relation:destination'")
    return parts


def seed_type_str_to_ntypes(seed_type: str, seed_size: int) -> list[str]:
    """Return the node type of each column of seeds: of pairs from an edge type, else the parts of the string.

    Examples
    --------
    >>> seed_type_str_to_ntypes("user:like:item", 2)
    ['user', 'item']
    >>> seed_type_str_to_ntypes("query:user:item", 3)
    ['query', 'user', 'item']
    """
    if seed_size == 2:
        source, _, destination = etype_str_to_tuple(seed_type)
        return [source, destination]
    ntypes = seed_type.split(CANONICAL_ETYPE_DELIMITER)
    if len(ntypes) != seed_size:
        raise InputError(
            f"seeds of type {seed_type!r} have {seed_size} columns; expected {len(ntypes)}, one for each type"
        )
    return ntypes


def by_type(function: Callable[..., Any], *values: Any) -> Any:
    """Return ``function(*values)``; where the first value is a dictionary, one of the results for its keys.

    The others are dictionaries then, too, or None; what they lack of a key is None.
    """
    if not isinstance(values[0], Mapping):
        return function(*values)
    return {key: function(*(None if x is None else x.get(key) for x in values)) for key in values[0]}


# -- objects -----------------------------------------------------------------------------------------------------------
class Movable:
    """Base of objects whose attributes are moved to a device together."""

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """Move tensors and graphs to a device, in place; return the object."""
        self.__dict__.update({name: _moved(value, device) for name, value in self.__getstate__().items()})
        return self

    def pin_memory(self) -> Self:
        """Move tensors to page-locked memory, where there is a GPU; return the object."""
        if torch.cuda.is_available():
            self.__dict__.update({name: _pinned(value) for name, value in self.__getstate__().items()})
        return self

    def is_pinned(self) -> bool:
        """Whether all tensors lie in page-locked memory."""
        tensors = list(_tensors(self.__getstate__()))
        return bool(tensors) and all(x.is_pinned() for x in tensors)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in vars(self)}  # what is read later is read now


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, Movable):
        return value.to(device)
    if isinstance(value, list | tuple) and any(isinstance(x, Movable) for x in value):
        return type(value)(_moved(x, device) for x in value)
    if isinstance(value, Mapping) and any(isinstance(x, Movable) for x in value.values()):
        return {key: _moved(x, device) for key, x in value.items()}
    return moved(value, device)


def _pinned(value: Any) -> Any:
    if torch.is_tensor(value) or isinstance(value, Movable):
        return value.pin_memory()
    if isinstance(value, Mapping):
        return {key: _pinned(x) for key, x in value.items()}
    return type(value)(_pinned(x) for x in value) if isinstance(value, list | tuple) else value


def _tensors(value: Any) -> Any:
    if torch.is_tensor(value):
        yield value
    elif isinstance(value, Movable):
        yield from _tensors(value.__getstate__())
    elif isinstance(value, Mapping | list | tuple):
        for x in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(x)


def shown(name: str, fields: Mapping[str, Any], end: str = ")") -> str:
    """Return an object as text: a field a line."""
    margin = "\n" + " " * (len(name) + 1)
    lines = [f"{key}=" + str(value).replace("\n", margin + " " * (len(key) + 1)) for key, value in fields.items()]
    return f"{name}({(',' + margin).join(lines)},{end}"


def shown_inside(name: str, fields: Mapping[str, Any]) -> str:
    """Return an object as text: a field a line, each further in than the name."""
    lines = [f"    {key}=" + str(value).replace("\n", "\n" + " " * (len(key) + 5)) for key, value in fields.items()]
    return "\n".join([f"{name}(", *(f"{line}," for line in lines), ")"])


class Later:
    """An attribute of objects: of a function that it is set to, it has what that returns when it is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return None
        value = owner.__dict__.get(self._name)
        if callable(value):
            value = owner.__dict__[self._name] = value()
        return value

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self._name] = value


class CSCFormatBase(Movable):
    """Edges by destination: those of destination i come from ``indices[indptr[i]:indptr[i + 1]]``.

    Raises DGLError: ``indptr`` does not end with the number of edges.

    Parameters
    ----------
    indptr, indices
        integers (num_destinations + 1,) and (num_edges,).
    """

    indptr: torch.Tensor
    indices: torch.Tensor

    def __init__(self, indptr: torch.Tensor, indices: torch.Tensor, check: bool = True) -> None:
        if check and not indptr.is_cuda and (len(indptr) == 0 or int(indptr[-1]) != len(indices)):
            end = "nothing" if len(indptr) == 0 else int(indptr[-1])
            raise InputError(f"indptr ends with {end}; expected {len(indices)}, the number of indices")
        self.indptr, self.indices = indptr, indices

    def __repr__(self) -> str:
        return shown("CSCFormatBase", vars(self), "\n)")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CSCFormatBase):
            return NotImplemented
        return torch.equal(self.indptr, other.indptr) and torch.equal(self.indices, other.indices)

    __hash__ = None  # type: ignore[assignment]  # tensors may be written to


# -- tensors -----------------------------------------------------------------------------------------------------------
def seed(val: int) -> None:
    """Seed the random numbers of samplers and shuffling."""
    seed_dglite(val)


def isin(elements: torch.Tensor, test_elements: torch.Tensor) -> torch.Tensor:
    """Return whether each of ``elements``, (n,), is among ``test_elements``: bool (n,).

    Raises DGLError: a tensor has another number of dimensions than one.
    """
    for name, x in (("elements", elements), ("test_elements", test_elements)):
        if x.ndim != 1:
            raise InputError(f"{name} has shape {tuple(x.shape)}; expected one dimension")
    if elements.is_floating_point() or test_elements.is_floating_point() or elements.is_cuda:
        return torch.isin(elements, test_elements)
    return torch.from_numpy(contains(test_elements.numpy(), elements.numpy()))


def index_select(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return ``tensor[index]``: rows, for a one-dimensional index."""
    if index.ndim != 1:
        raise InputError(f"index has shape {tuple(index.shape)}; expected one dimension")
    return tensor[index.long().to(tensor.device)]


def expand_indptr(
    indptr: torch.Tensor,
    dtype: torch.dtype | None = None,
    node_ids: torch.Tensor | None = None,
    output_size: int | None = None,
) -> torch.Tensor:
    """Return for each edge its destination, (num_edges,): the place in ``indptr``, or ``node_ids`` of it.

    Examples
    --------
    >>> import torch
    >>> expand_indptr(torch.tensor([0, 2, 3]), dtype=torch.int64)
    tensor([0, 0, 1])
    """
    if dtype is None and node_ids is None:
        raise InputError("give dtype, of the result, or node_ids, whose dtype it has")
    dtype = node_ids.dtype if dtype is None and node_ids is not None else dtype
    if node_ids is None:
        node_ids = torch.arange(len(indptr) - 1, dtype=dtype, device=indptr.device)
    return node_ids.to(dtype).repeat_interleave(indptr.diff(), output_size=output_size)


def indptr_edge_ids(
    indptr: torch.Tensor,
    dtype: torch.dtype | None = None,
    offset: torch.Tensor | None = None,
    output_size: int | None = None,
) -> torch.Tensor:
    """Return for each edge its place among those of its destination, plus ``offset`` of the destination, (num_edges,).

    Examples
    --------
    >>> import torch
    >>> indptr_edge_ids(torch.tensor([0, 2, 5, 7]), offset=torch.tensor([0, 100, 200]))
    tensor([  0,   1, 100, 101, 102, 200, 201])
    """
    first = indptr[:-1] if offset is None else indptr[:-1] - offset.to(indptr.dtype)
    count = int(indptr[-1]) if output_size is None else output_size
    ids = torch.arange(count, dtype=indptr.dtype, device=indptr.device)
    ids -= first.repeat_interleave(indptr.diff(), output_size=count)
    dtype = dtype or (indptr.dtype if offset is None else offset.dtype)
    return ids.to(dtype)


def numpy_save_aligned(file: Any, arr: Any, *args: Any, **kwargs: Any) -> None:
    """Write an array as ``numpy.save`` does, with its first byte at a multiple of 4096 in the file.

    Parameters
    ----------
    file
        a path, which gets the suffix ``.npy`` if it lacks it, or a file that is open for writing.
    arr
        an array, or what NumPy makes one of; no array of Python objects.
    """
    array = np.asanyarray(arr)
    if array.dtype.hasobject:
        raise InputError("an array of Python objects has no bytes to align; use numpy.save")
    if hasattr(file, "write"):
        _write_aligned(file, array)
        return
    path = Path(file)
    with open(path if path.suffix == ".npy" else f"{path}.npy", "wb") as opened:
        _write_aligned(opened, array)


def _write_aligned(file: Any, array: np.ndarray) -> None:
    by_column = array.flags.f_contiguous and not array.flags.c_contiguous
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": by_column, "shape": array.shape}
    text = str(header).encode("latin1")
    fixed = 12  # the magic string, the version 2.0, and the header's length in four bytes
    padding = -(fixed + len(text) + 1) % _PAGE
    file.write(b"\x93NUMPY\x02\x00" + (len(text) + padding + 1).to_bytes(4, "little"))
    file.write(text + b" " * padding + b"\n")
    file.write(array.tobytes("F" if by_column else "C"))


def get_host_to_device_uva_stream() -> Any:
    """Return None: batches are copied on a stream of the loader's own."""


def get_device_to_host_uva_stream() -> Any:
    """Return None: batches are copied on a stream of the loader's own."""
