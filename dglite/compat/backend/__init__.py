"""``dgl.backend``: functions of the tensor library under common names, which scripts import as ``F``.

The dtypes of ``data_type_dict`` are attributes, too: ``F.float32``. They exist for torch; under another backend of
dglite, importing this module says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import backend as _active

if _active.name != "torch":
    raise ImportError(
        f"dgl.backend has functions of torch tensors only, and dglite runs on {_active.name}; unset DGLITE_BACKEND, or "
        "use the library's own functions"
    )

from ..top import backend_name, load_backend, set_default_backend
from . import functions, graphs, tensors, wrappers
from .functions import *  # noqa: F403 - a hundred names, which each module lists
from .graphs import *  # noqa: F403
from .tensors import *  # noqa: F403
from .tensors import data_type_dict
from .wrappers import *  # noqa: F403

__all__ = [
    "backend_name",
    "get_preferred_backend",
    "is_enabled",
    "load_backend",
    "set_default_backend",
    *data_type_dict,
    *functions.__all__,
    *graphs.__all__,
    *tensors.__all__,
    *wrappers.__all__,
]

globals().update(data_type_dict)

if TYPE_CHECKING:  # the names of tables

    def __getattr__(name: str) -> Any: ...


def get_preferred_backend() -> str:
    """Return the name of the backend: "pytorch"."""
    return backend_name


def is_enabled(api: str) -> bool:
    """Whether a function exists in this backend."""
    return api in globals()
