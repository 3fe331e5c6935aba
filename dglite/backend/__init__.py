"""Tensor libraries behind one contract. A tensor's own type decides; the environment decides where there is none."""

from __future__ import annotations

import importlib
from typing import Any

from ..config import backend_name
from ..errors import DGLError
from .base import RESULT, Backend, DifferentiableOp, Tensor

__all__ = ["RESULT", "Backend", "DifferentiableOp", "Tensor", "active", "backend_of", "name"]

_CLASSES = {"torch": "TorchBackend"}
"""Module and final class of each backend."""


def load(name: str) -> Backend:
    """Import and construct the backend called ``name``."""
    if name not in _CLASSES:
        raise DGLError(f"unknown backend {name!r}; expected one of {', '.join(_CLASSES)} (set DGLITE_BACKEND)")
    try:
        module = importlib.import_module(f".{name}", __name__)
    except ImportError as error:
        raise DGLError(
            f"backend {name!r} needs a package that is not installed ({error}); pip install {name}"
        ) from error
    backend: Backend = getattr(module, _CLASSES[name])()
    return backend


active: Backend = load(backend_name())
"""The backend that serves lists, files, NetworkX graphs and layers."""

name: str = active.name
"""The active backend's name."""


def backend_of(x: Any) -> Backend | None:
    """Return the backend whose tensor ``x`` is, or None for a list, an array or a number."""
    return active if active.is_tensor(x) else None
