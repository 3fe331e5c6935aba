"""``nn``: ``torch.nn``, or the part of it that the active backend has; ``Layer``: the base of all layers.

To type checkers ``nn`` is torch's, so that a layer is known to be a ``torch.nn.Module``, and calling a layer takes and
returns what its ``forward`` does.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from .. import hints
from ..backend import framework
from ..errors import DGLError
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
        """``nn.Module`` whose constructors and calls name their own arguments where others, or none, are passed."""

        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            if "__init__" in vars(cls):
                cls.__init__ = _with_hints(cls.__init__)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except (TypeError, RuntimeError) as error:
                _explain(self, error, args, kwargs)
                raise

        def __prepare_scriptable__(self) -> Any:
            refuse_script(self)


def refuse_script(layer: Any) -> None:
    """Refuse ``torch.jit.script``, which asks modules for ``__prepare_scriptable__``."""
    raise DGLError(
        f"torch.jit.script compiles no layer of dglite, such as {type(layer).__name__}: export the model, "
        "dglite.export(model, g, x), for other processes and for C++, or compile it, torch.compile(model)"
    )


def _with_hints(init: Any) -> Any:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            hints.require_arguments(type(self).__name__, init, kwargs)
        init(self, *args, **kwargs)

    return __init__


def _explain(layer: Any, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error that says more, if a call failed for missing arguments or for tensors on several devices."""
    if type(error) is TypeError:
        hints.require_bound(layer, args, kwargs)
    if type(error) is not RuntimeError:
        return
    devices = {str(getattr(parameter, "device", "")) for parameter in layer.parameters()}
    arguments = inspect.signature(layer.forward).bind(*args, **kwargs).arguments
    places = [f"{name} on {value.device}" for name, value in arguments.items() if hasattr(value, "device")]
    if len(devices) == 1 and not all(place.endswith(f" on {min(devices)}") for place in places):
        raise DGLError(
            f"{type(layer).__name__}: the parameters are on {min(devices)}, but {', '.join(places)}; move the layer, "
            "layer.to(device), or the others to one device"
        ) from error


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
