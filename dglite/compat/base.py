"""``dgl.base``: names that scripts import from there."""

from __future__ import annotations

from ..errors import DGLError, DGLWarning
from ..frame import EID, ETYPE, NID, NTYPE
from ..structure import ALL

__all__ = ["ALL", "EID", "ETYPE", "NID", "NTYPE", "DGLError", "DGLWarning", "is_internal_column"]


def is_internal_column(name: str) -> bool:
    """Whether a column holds ids or types that dglite itself has written."""
    return name in (NID, EID, NTYPE, ETYPE)
