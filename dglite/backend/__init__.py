"""Tensor libraries behind one contract, chosen by the environment: see docs/backends.md."""

from __future__ import annotations

from typing import Any

from ..config import backend_name
from ..errors import DGLError
from .base import RESULT, Backend, DifferentiableOp, Tensor
from .select import foreign, load

__all__ = [
    "RESULT",
    "Backend",
    "DifferentiableOp",
    "Tensor",
    "active",
    "backend_of",
    "framework",
    "load",
    "name",
    "refuse_foreign",
]

active: Backend = load(backend_name())
"""The backend that serves lists, files, NetworkX graphs and layers."""

name: str = active.name
"""The active backend's name."""

framework: Any = active.framework
"""What layers and scripts use beside dglite, under torch's names: torch itself, or as much of it as dglite has."""


def backend_of(x: Any) -> Backend | None:
    """Return the backend whose tensor ``x`` is, or None for a list, an array or a number."""
    return active if active.is_tensor(x) else None


def refuse_foreign(x: Any, what: str) -> None:
    """Raise :class:`DGLError` if ``x`` is a tensor of another library: frameworks are not mixed."""
    found = foreign(x, active)
    if found is not None:
        raise DGLError(
            f"{what} is a {found}, but this process computes with {name}; give NumPy arrays or {name} tensors, or "
            "choose the other backend by DGLITE_BACKEND before dglite is imported"
        )
