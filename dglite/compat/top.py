"""Names of ``dgl`` itself that dglite does not have, or has with another value."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from .. import backend
from ..dataloading import set_dst_lazy_features, set_edge_lazy_features, set_node_lazy_features, set_src_lazy_features
from ..graph import DGLGraph
from .base import dgl_warning
from .containers import apply_each

__all__ = [
    "DGLHeteroGraph",
    "__version__",
    "apply_each",
    "backend_name",
    "dgl_warning",
    "enable_verbose_logging",
    "is_libxsmm_enabled",
    "load_backend",
    "set_default_backend",
    "set_dst_lazy_features",
    "set_edge_lazy_features",
    "set_node_lazy_features",
    "set_src_lazy_features",
    "use_libxsmm",
]

__version__ = "2.1.0"
"""The version of DGL whose names and behaviour this is, for scripts that ask."""

DGLHeteroGraph = DGLGraph

backend_name = "pytorch" if backend.name == "torch" else backend.name
"""What DGL calls the tensor library."""


def load_backend(mod_name: str) -> None:
    """Accept the backend that is loaded; raise ``ImportError`` for another one, which has to be chosen before."""
    if mod_name != backend_name:
        raise ImportError(f"the backend is {backend_name}; to use {mod_name}, set DGLITE_BACKEND before the import")


def set_default_backend(default_dir: str | Path, backend_name: str) -> None:
    """Write the tensor library that is used by default to ``config.json`` in a folder, ``~/.dglite`` for dglite."""
    folder = Path(default_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"backend": backend_name.lower()}), encoding="utf-8")


_libxsmm = [False]


def use_libxsmm(flag: bool) -> None:
    """Note the flag; it changes nothing: kernels are compiled for this machine, there are no others to choose."""
    _libxsmm[0] = bool(flag)


def is_libxsmm_enabled() -> bool:
    """Return the last argument of :func:`use_libxsmm`; False before any call."""
    return _libxsmm[0]


def enable_verbose_logging() -> None:
    """Let the logger ``dgl-core`` show debug messages."""
    logging.getLogger("dgl-core").setLevel(logging.DEBUG)
