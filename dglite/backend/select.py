"""The available backends: their modules, their requirements, and which tensors belong to which."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, NamedTuple

from ..errors import DGLError
from .base import Backend


class _Entry(NamedTuple):
    """Where a backend is defined, the package that it needs, and how to install that."""

    final_class: str
    package: str
    install: str


_BACKENDS = {
    "torch": _Entry("TorchBackend", "torch", "pip install dglite[torch]"),
    "numpy": _Entry("NumpyBackend", "numpy", "pip install numpy"),
    "cupy": _Entry("CupyBackend", "cupy", "pip install dglite[cupy], with an NVIDIA GPU"),
}


def load(name: str) -> Backend:
    """Import and construct the backend called ``name``.

    Raises ``DGLError``: the name is unknown, or its package is not installed or does not work; the message lists those
    that do.
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
    here = ", ".join(name for name, is_there in installed.items() if is_there)
    others = "; ".join(f"{name} by {_BACKENDS[name].install}" for name, is_there in installed.items() if not is_there)
    return (
        f"expected one of {', '.join(_BACKENDS)}. Installed: {here}{f'. To get {others}' if others else ''}. Choose by "
        "DGLITE_BACKEND, DGLBACKEND or ~/.dglite/config.json"
    )


def owner(x: Any) -> str | None:
    """Return the name of the library whose tensor or array ``x`` is, None for what is of none: lists, numbers."""
    for base in type(x).__mro__[:-1]:
        package, name = base.__module__.partition(".")[0], base.__name__
        if (package, name) in _TENSORS:
            return package
        if base.__module__ == "dglite.backend.autograd" and name == "Tensor":
            return owner(x.data)
    return None


_TENSORS = {
    *((package, "Tensor") for package in ("torch", "tensorflow")),
    *((package, "ndarray") for package in ("numpy", "cupy")),
    ("jax", "Array"),
    ("jaxlib", "Array"),
    ("jaxlib", "ArrayImpl"),
}
"""Classes of tensors and arrays by package and name; nothing is imported to know them."""
