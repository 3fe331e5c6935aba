"""``save_tensors`` and ``load_tensors``: tensors by name in one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from .container import Container, first_bytes, local_path, write_container
from .dgl_file import Cursor

_KIND = "tensors"
_DGL_MAGIC = (0xDD5A9FBE3FA2443F).to_bytes(8, "little")
"""The first bytes of a file that DGL's ``save_tensors`` wrote."""


@explained
def save_tensors(filename: Any, tensor_dict: Mapping[str, Tensor]) -> bool:
    """Write tensors by name to a file, which is replaced when the new one is complete; return True.

    Raises DGLError: a name is not a string, a value is no tensor, or the file cannot be written.
    """
    for name, values in tensor_dict.items():
        if not isinstance(name, str) or not active.is_tensor(values):
            raise DGLError(f"tensors are saved by name, got {name!r}: {type(values).__name__}")
    arrays = {str(i): values for i, values in enumerate(tensor_dict.values())}
    write_container(filename, _KIND, {"names": list(tensor_dict)}, arrays)
    return True


@explained
def load_tensors(filename: Any, return_dgl_ndarray: bool = False) -> dict[str, Any]:
    """Return the tensors that :func:`save_tensors`, or DGL's, wrote, on the CPU; ours are read when they are used.

    With ``return_dgl_ndarray`` they are NumPy arrays.

    Raises DGLError: there is no such file, it is damaged, or it was not written by :func:`save_tensors`.
    """
    path = local_path(filename)
    if path.is_file() and first_bytes(path) == _DGL_MAGIC:
        tensors = _read_dgl(path)
        return {name: active.to_numpy(x) for name, x in tensors.items()} if return_dgl_ndarray else tensors
    file = Container(path, _KIND)
    names = file.names_of(file.field(file.header, "names", list))
    tensors = {name: file.tensor(str(i)) for i, name in enumerate(names)}
    return {name: active.to_numpy(x) for name, x in tensors.items()} if return_dgl_ndarray else tensors


def _read_dgl(path: Path) -> dict[str, Tensor]:
    """Read a file of DGL: the magic number, the number of tensors, and if there are any, a list of (name, array)."""
    cursor = Cursor(path, path.read_bytes(), len(_DGL_MAGIC))
    return cursor.tensors() if cursor.number() else {}
