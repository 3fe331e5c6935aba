"""``nn``: ``torch.nn``, or the part of it that the active backend has.

To type checkers it is torch's, so that a layer is known to be a ``torch.nn.Module``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backend import framework
from ..ops import core
from ..structure.adjacency import Adjacency

if TYPE_CHECKING:
    from torch import nn
else:
    nn = framework.nn


class InEdgesRequired(nn.Module):
    """A layer that refuses graphs with nodes without in-edges, unless ``allow_zero_in_degree`` is set."""

    _allow_zero_in_degree: bool

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Allow or refuse nodes without in-edges."""
        self._allow_zero_in_degree = set_value

    def require_in_edges(self, adjacency: Adjacency) -> None:
        """Raise ``DGLError`` for nodes without in-edges, if they are refused."""
        if not self._allow_zero_in_degree:
            core.require_in_edges(adjacency)
