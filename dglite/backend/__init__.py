"""Tensor libraries behind one interface, chosen by the environment: see docs/backends.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..config import backend_name
from ..errors import DGLError
from ..locks import new_lock
from .base import Backend, native
from .library import mixture
from .memory import empty_cache, memory_summary
from .pairing import pair
from .protocols import RESULT, DifferentiableOp, Watch
from .select import load, owner

__all__ = [
    "RESULT",
    "Backend",
    "DifferentiableOp",
    "Tensor",
    "Watch",
    "active",
    "admit",
    "admitted",
    "backend_of",
    "empty_cache",
    "framework",
    "library_of",
    "load",
    "memory_summary",
    "name",
    "native",
    "require_one_library",
]

active: Backend = load(backend_name())
"""The backend of lists, files, NetworkX graphs and layers, and of tensors as long as there are no others."""

name: str = active.name
"""The active backend's name."""

if TYPE_CHECKING:
    import torch as framework
    from torch import Tensor
else:
    framework = active.framework
    from .protocols import Tensor
"""What layers and scripts use beside dglite, under torch's names: torch itself, or as much of it as dglite has."""


def backend_of(x: Any) -> Backend | None:
    """Return the backend whose tensor ``x`` is, or None for a list, an array or a number."""
    if active.guest is not None and active.guest.is_tensor(x):
        return active.guest
    return active if active.is_tensor(x) else None


def admit(x: Any, label: str) -> Tensor | None:
    """Return ``x`` as a tensor of its library, or None for lists, numbers and other objects.

    An array is a tensor of NumPy's or CuPy's without gradient. A library that is met for the first time becomes the
    guest of the active backend.

    Raises ``DGLError``: there is no backend for the library, or the process computes with another second one already.
    """
    name_ = owner(x)
    if name_ is None:
        return None
    if name_ == active.name or (active.name, name_) == ("cupy", "numpy"):
        return active.asarray(x)
    guest = active.guest
    if guest is None and not {active.name, name_} <= {"numpy", "cupy"}:
        try:
            guest = _welcome(name_)
        except DGLError as error:
            raise DGLError(f"{label} is a {_spelt(x)}, for which there is no backend here: {error}") from error
    if guest is None or guest.name != name_:
        computes = active.name if guest is None else f"{active.name} and {guest.name}"
        raise DGLError(
            f"{label} is a {_spelt(x)}, but this process computes with {computes}; convert it, or choose the backend "
            "by DGLITE_BACKEND before dglite is imported"
        )
    return guest.asarray(x)


_pairing = new_lock()


def _welcome(name_: str) -> Backend:
    """Return the guest of the active backend; if it has none, library ``name_`` becomes its guest."""
    with _pairing:  # threads that meet a second library at once would wrap each method twice
        guest: Backend | None = active.guest
        if guest is None:
            guest = load(name_)
            pair(active, guest)
    return guest


def admitted(x: Any, label: str) -> Any:
    """Return ``x`` as :func:`admit` does; an object of no library unchanged."""
    if active.is_tensor(x):
        return x
    tensor = admit(x, label)
    return x if tensor is None else tensor


def library_of(tensors: Iterable[Any]) -> Backend:
    """Return the backend of the first tensor, or the active one without tensors."""
    return next((library for library in map(backend_of, tensors) if library is not None), active)


def require_one_library(tensors: Iterable[Any]) -> None:
    """Raise :class:`DGLError` unless all are tensors of one library."""
    names = {library.name for library in map(backend_of, tensors) if library is not None}
    if len(names) > 1:
        raise DGLError(mixture(*sorted(names)))


def _spelt(x: Any) -> str:
    return f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}"
