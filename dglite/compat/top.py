"""Names of ``dgl`` itself that dglite does not have, or has with another value."""

from __future__ import annotations

import logging

from ..graph import DGLGraph
from .backend import backend_name, load_backend
from .base import dgl_warning
from .utils import apply_each

__all__ = [
    "DGLHeteroGraph",
    "__version__",
    "apply_each",
    "backend_name",
    "dgl_warning",
    "enable_verbose_logging",
    "is_libxsmm_enabled",
    "load_backend",
    "use_libxsmm",
]

__version__ = "2.1.0"
"""The version of DGL whose names and behaviour this is, for scripts that ask."""

DGLHeteroGraph = DGLGraph


def use_libxsmm(flag: bool) -> None:
    """Do nothing: kernels are compiled for this machine, there are no others to choose."""


def is_libxsmm_enabled() -> bool:
    """Return False: libxsmm is not used."""
    return False


def enable_verbose_logging() -> None:
    """Let the logger ``dgl-core`` show debug messages."""
    logging.getLogger("dgl-core").setLevel(logging.DEBUG)
