"""``nn``: ``torch.nn``, or the part of it that the active backend has; ``Layer``: the base of all layers.

To type checkers ``nn`` is torch's, so that a layer is known to be a ``torch.nn.Module``, and calling a layer takes and
returns what its ``forward`` does.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from .. import hints
from ..backend import framework
from ..ops import core
from ..structure.adjacency import Adjacency

if TYPE_CHECKING:
    from torch import nn

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

    class HasForward(Protocol[P, R_co]):
        """A module whose ``forward`` has these parameters and this result."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    class Layer(nn.Module):
        """``nn.Module`` whose call has the types of ``forward``; torch declares that it returns anything."""

        def __call__(self: HasForward[P, R_co], *args: P.args, **kwargs: P.kwargs) -> R_co: ...
else:
    nn = framework.nn

    class Layer(nn.Module):
        """``nn.Module`` whose constructors name their own arguments where those of PyG are passed."""

        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            if "__init__" in vars(cls):
                cls.__init__ = _with_hints(cls.__init__)


def _with_hints(init: Any) -> Any:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            hints.require_arguments(type(self).__name__, init, kwargs)
        init(self, *args, **kwargs)

    return __init__


class InEdgesRequired(Layer):
    """A layer that refuses graphs with nodes without in-edges, unless ``allow_zero_in_degree`` is set."""

    _allow_zero_in_degree: bool

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Allow or refuse nodes without in-edges."""
        self._allow_zero_in_degree = set_value

    def require_in_edges(self, adjacency: Adjacency) -> None:
        """Raise ``DGLError`` for nodes without in-edges, if they are refused."""
        if not self._allow_zero_in_degree:
            core.require_in_edges(adjacency)
