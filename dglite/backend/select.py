"""The backends there are: their modules, what they need, and whose tensors are whose."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, NamedTuple

from ..errors import DGLError
from .base import Backend

__all__ = ["foreign", "load"]


class _Entry(NamedTuple):
    """Where a backend is defined, the package that it needs and how to get that."""

    final_class: str
    package: str
    how: str


_BACKENDS = {
    "torch": _Entry("TorchBackend", "torch", "pip install torch"),
    "numpy": _Entry("NumpyBackend", "numpy", "pip install numpy"),
    "cupy": _Entry("CupyBackend", "cupy", "pip install dglite[cupy], with an NVIDIA GPU"),
}


def load(name: str) -> Backend:
    """Import and construct the backend called ``name``.

    Raises
    ------
    DGLError
        There is none of this name, or its package is not installed or does not work; the message lists what does.
    """
    entry = _BACKENDS.get(name)
    if entry is None:
        raise DGLError(f"unknown backend {name!r}; {_choices()}")
    try:
        module = importlib.import_module(f".{name}", __package__)
    except ImportError as error:
        raise DGLError(f"backend {name!r} cannot be loaded ({error}); {_choices()}") from error
    backend: Backend = getattr(module, entry.final_class)()
    return backend


def _choices() -> str:
    installed = {name: importlib.util.find_spec(entry.package) is not None for name, entry in _BACKENDS.items()}
    here = ", ".join(name for name, found in installed.items() if found)
    others = "; ".join(f"{name} by {_BACKENDS[name].how}" for name, found in installed.items() if not found)
    return (
        f"expected one of {', '.join(_BACKENDS)}. Installed: {here}{f'. To get {others}' if others else ''}. Choose by "
        "DGLITE_BACKEND, DGLBACKEND or ~/.dglite/config.json"
    )


def foreign(x: Any, active: Backend) -> str | None:
    """Return what kind of tensor ``x`` is if it is one of another library than ``active``'s, else None."""
    kind = type(x)
    for base in kind.__mro__[:-1]:
        package, name = base.__module__.partition(".")[0], base.__name__
        known = (package in ("torch", "jax", "tensorflow") and name == "Tensor") or (package, name) == (
            "cupy",
            "ndarray",
        )
        ours = base.__module__ == "dglite.backend.autograd" and name == "Tensor"
        if (known or ours) and not issubclass(active.tensor_type, base):
            return "dglite.backend.autograd.Tensor" if ours else f"{package}.{name}"
    return None
