"""Tensors in shared memory: found by a name, or shared by the ranks of a group of processes on one machine."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Tensor, active, framework
from ..errors import DGLError
from .shared import forget_place, shared_place


def create_shared_array(name: str, shape: Sequence[int], dtype: Any) -> Tensor:
    """Return a tensor of zeros that other processes find by ``name`` as long as it lives.

    One of that name that was there before is replaced for those who ask from now on. Raises ``DGLError`` for a dtype
    that NumPy has not, and where there is not so much shared memory.
    """
    path, kind = _place(name), _dtype(dtype)
    try:
        path.unlink(missing_ok=True)  # who has mapped the older one keeps it
        with path.open("wb") as file:
            size = max(_size(shape, kind), 1)
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):  # or a write, long after, would end the process
                os.posix_fallocate(file.fileno(), 0, size)
    except (OSError, OverflowError) as error:
        path.unlink(missing_ok=True)
        raise DGLError(f"no shared memory for {name!r}, {tuple(shape)} of {kind}: {error}") from error
    mapped = np.memmap(path, np.uint8, "r+")
    weakref.finalize(mapped, forget_place, path, path.stat().st_ino, os.getpid())
    return _tensor(mapped, shape, kind)


def get_shared_array(name: str, shape: Sequence[int], dtype: Any) -> Tensor:
    """Return the tensor that another process, or this one, created by this name.

    Raises ``DGLError``: no tensor of that name is shared on this machine now, or it has another size.
    """
    path, kind = _place(name), _dtype(dtype)
    if not path.is_file():
        raise DGLError(f"no tensor is shared by the name {name!r} on this machine; its creator must keep it")
    if path.stat().st_size != max(_size(shape, kind), 1):
        raise DGLError(f"the tensor {name!r} has {path.stat().st_size} bytes, not {tuple(shape)} of {kind}")
    return _tensor(np.memmap(path, np.uint8, "r+"), shape, kind)


def unname_shared_array(name: str) -> None:
    """Forget a name: processes that hold the tensor keep it, and nothing is left when they have ended."""
    _place(name).unlink(missing_ok=True)


def has_shared_array(name: str) -> bool:
    """Whether a tensor of that name is shared now."""
    return _place(name).is_file()


def call_once_and_share(func: Callable[[], Any], shape: Sequence[int], dtype: Any, rank: int = 0) -> Tensor:
    """Call ``func`` on one rank of ``torch.distributed``'s group; return what it returns, shared by all ranks.

    All ranks of the group call this, with one shape and dtype, and run on one machine. What one of them writes, all
    see. Raises ``DGLError`` where a rank cannot reach the memory, and on the others when the call failed on ``rank``.
    """
    group = framework.distributed
    result, names = None, [""]
    if group.get_rank() == rank:
        name = f"shared-{uuid.uuid4().hex}"
        try:
            result = create_shared_array(name, shape, dtype)
            result[:] = func()
            names = [name]
        finally:
            group.broadcast_object_list(names, rank)
    else:
        group.broadcast_object_list(names, rank)
        if not names[0]:
            raise DGLError(f"rank {rank} could not make a shared tensor of shape {tuple(shape)}; its error says why")
    try:
        return get_shared_array(names[0], shape, dtype) if result is None else result
    finally:
        group.barrier()  # until then the memory has its name


def _place(name: str) -> Path:
    return shared_place(f"tensor {name}") if name and isinstance(name, str) else shared_place(name)


def _dtype(dtype: Any) -> np.dtype[Any]:
    try:
        return np.dtype(str(dtype).removeprefix("torch."))
    except TypeError:
        raise DGLError(f"tensors of {dtype} are not shared; NumPy has no such dtype") from None


def _size(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _tensor(mapped: np.ndarray, shape: Sequence[int], dtype: np.dtype[Any]) -> Tensor:
    """Return a tensor over the bytes of a file, of which there is one where the tensor has none."""
    return active.from_numpy(mapped[: _size(shape, dtype)].view(dtype).reshape(tuple(shape)))
