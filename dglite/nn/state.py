"""Parameters in files that every backend can read: train with torch, deploy with NumPy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ..backend import Tensor, active
from ..errors import DGLError
from ..io.atomic import replacing
from ..io.npz import read_npz, write_npz

_SUFFIXES = (".npz", ".safetensors")


def save_state_dict(state_dict: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write parameters by name, as ``module.state_dict()`` gives them, to a file ``*.npz`` or ``*.safetensors``.

    bfloat16 is written as float32. A file of that name is replaced when the new one is complete. Nothing in either
    kind of file is run when it is read.

    Raises DGLError: the name ends otherwise, a value is no tensor, or the file cannot be written.
    """
    target = _checked(path)
    for name, x in state_dict.items():
        if not active.is_tensor(x):
            raise DGLError(f"{name!r} is a {type(x).__name__}; expected the tensors of module.state_dict()")
    arrays: dict[str, Any] = {name: np.require(active.to_numpy(x), requirements="C") for name, x in state_dict.items()}
    try:
        if target.suffix == ".npz":
            write_npz(target, arrays)
        else:
            with replacing(target) as part:
                save_file(arrays, part)
    except (OSError, SafetensorError) as error:
        raise DGLError(f"{target} cannot be written: {error}") from error


def load_state_dict(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the parameters in a file by name, tensors of the active backend, for ``module.load_state_dict(...)``.

    Reads what :func:`save_state_dict` writes, and what ``numpy.savez`` and ``safetensors.torch.save_file`` do.

    Raises DGLError: there is no such file, its name ends otherwise than in ``.npz`` or ``.safetensors``, or it is
    damaged.
    """
    source = _checked(path)
    try:
        arrays = read_npz(source) if source.suffix == ".npz" else load_file(source)
    except FileNotFoundError:
        raise DGLError(f"there is no file {source}") from None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, SafetensorError) as error:
        raise DGLError(f"{source} is not read as {source.suffix}: {error}") from error
    return {name: active.asarray(array) for name, array in arrays.items()}


def _checked(path: str | os.PathLike[str]) -> Path:
    checked = Path(path)
    if checked.suffix not in _SUFFIXES:
        raise DGLError(f"{checked} ends in {checked.suffix or 'nothing'}; expected {' or '.join(_SUFFIXES)}")
    return checked
