"""``dgl.base``: names that scripts import from there."""

from __future__ import annotations

import warnings

from ..errors import DGLError, DGLWarning
from ..frame import EID, ETYPE, NID, NTYPE
from ..structure import ALL, ids

__all__ = [
    "ALL",
    "EID",
    "ETYPE",
    "NID",
    "NTYPE",
    "SLICE_FULL",
    "DGLError",
    "DGLWarning",
    "dgl_warning",
    "is_all",
    "is_internal_column",
]

SLICE_FULL = slice(None)
"""``[:]``."""


def is_all(arg: object) -> bool:
    """Whether an argument is ``ALL``, which stands for every node or edge."""
    return ids.is_all(arg)


def is_internal_column(name: str) -> bool:
    """Whether a column holds ids or types that dglite itself has written."""
    return name in (NID, EID, NTYPE, ETYPE)


def dgl_warning(message: str, category: type[Warning] = DGLWarning, stacklevel: int = 2) -> None:
    """Give a warning, of category ``DGLWarning`` by default."""
    warnings.warn(message, category, stacklevel)
