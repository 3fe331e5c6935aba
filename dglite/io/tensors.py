"""``save_tensors`` and ``load_tensors``: tensors by name in one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backend import Tensor, active
from ..errors import DGLError
from .container import Container, local_path, write_container

_KIND = "tensors"


def save_tensors(filename: Any, tensor_dict: Mapping[str, Tensor]) -> bool:
    """Write tensors by name to a file, which is replaced when the new one is complete; return True.

    Raises
    ------
    DGLError
        A name is not a string, a value is no tensor, or the file cannot be written.
    """
    for name, values in tensor_dict.items():
        if not isinstance(name, str) or not active.is_tensor(values):
            raise DGLError(f"tensors are saved by name, got {name!r}: {type(values).__name__}")
    arrays = {str(i): values for i, values in enumerate(tensor_dict.values())}
    write_container(filename, _KIND, {"names": list(tensor_dict)}, arrays)
    return True


def load_tensors(filename: Any, return_dgl_ndarray: bool = False) -> dict[str, Any]:
    """Return the tensors that :func:`save_tensors` wrote, on the CPU; large ones are read when they are used.

    With ``return_dgl_ndarray`` they are NumPy arrays.

    Raises
    ------
    DGLError
        There is no such file, it is damaged, or it was not written by :func:`save_tensors`.
    """
    file = Container(local_path(filename), _KIND)
    names = file.names_of(file.field(file.header, "names", list))
    tensors = {name: file.tensor(str(i)) for i, name in enumerate(names)}
    return {name: active.to_numpy(x) for name, x in tensors.items()} if return_dgl_ndarray else tensors
