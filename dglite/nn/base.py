"""``nn``: ``torch.nn``, or the part of it that the active backend has; ``Layer``: the base of all layers.

To type checkers ``nn`` is torch's, so that a layer is known to be a ``torch.nn.Module``, and calling a layer takes and
returns what its ``forward`` does.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from .. import hints
from ..arguments import UNPLANNED, explain_constructors, misfitting, require_bound
from ..backend import active, framework
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
            explain_constructors(cls, of_layer=True)

        names_its_layers = False
        """Whether errors of its layers say which of them it is: of several in one call."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except UNPLANNED as error:
                _explain(self, error, args, kwargs)
                raise
            except DGLError as error:
                if self.names_its_layers:
                    _name_layer(self, error)
                raise

        def __prepare_scriptable__(self) -> Any:
            refuse_script(self)


def refuse_script(layer: Any) -> None:
    """Refuse ``torch.jit.script``, which asks modules for ``__prepare_scriptable__``."""
    raise DGLError(
        f"torch.jit.script compiles no layer of dglite, such as {type(layer).__name__}: export the model, "
        "dglite.export(model, g, x), for other processes and for C++, or compile it, torch.compile(model)"
    )


def _explain(layer: Any, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error that says more, if a call failed for its arguments or for tensors on several devices."""
    if any(map(hints.is_stand_in, (*args, *kwargs.values()))):
        raise DGLError(hints.SYMBOLIC_TRACE) from error
    name, signature = type(layer).__name__, inspect.signature(layer.forward)
    if type(error) is TypeError:
        require_bound(name, signature, args, kwargs, of_layer=True)
    if type(error) is RuntimeError:
        _explain_module(layer, error)
        _explain_devices(layer, error, signature.bind(*args, **kwargs).arguments)
    better = misfitting(name, signature, args, kwargs, error)
    if better is not None:
        raise better from error


def _explain_devices(layer: Any, error: Exception, arguments: dict[str, Any]) -> None:
    devices = {str(getattr(parameter, "device", "")) for parameter in layer.parameters()}
    places = [f"{name} on {value.device}" for name, value in arguments.items() if hasattr(value, "device")]
    if len(devices) == 1 and not all(place.endswith(f" on {min(devices)}") for place in places):
        raise DGLError(
            f"{type(layer).__name__}: the parameters are on {min(devices)}, but {', '.join(places)}; move the layer, "
            "layer.to(device), or the others to one device"
        ) from error


def _called_modules(layer: Any, error: Exception) -> Iterator[tuple[str, Any, FrameType]]:
    """Yield name, module and frame of the calls of a layer's modules in which an error came, the outermost first."""
    names = {id(module): name for name, module in layer.named_modules() if name}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "forward":  # torch 2.4 on Python 3.11 ends the process for its own frames
            module = trace.tb_frame.f_locals.get("self")
            if id(module) in names:
                yield names[id(module)], module, trace.tb_frame
        trace = trace.tb_next


def _name_layer(layer: Any, error: DGLError) -> None:
    """Add to an error which of a layer's layers was called."""
    name = next((name for name, module, _ in _called_modules(layer, error) if isinstance(module, Layer)), "")
    if name and len(error.args) == 1:
        error.args = (f"{error.args[0]} ({name} of {type(layer).__name__})",)


def _explain_module(layer: Any, error: RuntimeError) -> None:
    """Raise ``DGLError`` with its name and sizes if a user's module that the layer holds was called and failed."""
    calls = [call for call in _called_modules(layer, error) if not isinstance(call[1], Layer)]
    if not calls:
        return
    name, module, frame = calls[-1]
    arguments = frame.f_code.co_varnames[1 : frame.f_code.co_argcount]
    shapes = [getattr(frame.f_locals.get(argument), "shape", None) for argument in arguments]
    shape = next((tuple(each) for each in shapes if each is not None), None)
    expected, width = getattr(module, "in_features", None), shape[-1] if shape else None
    hint = f"; give it in_features={width}" if None not in (expected, width) and expected != width else ""
    raise DGLError(
        f"{type(layer).__name__}: its module {name}, {module!r:.120}, failed for an input of shape "
        f"{shape}{hint} ({error!s:.120})"
    ) from error


def require_torch(layer: Any) -> None:
    """Raise ``DGLError`` unless torch is the active backend, for a layer that is made of what only torch has."""
    if active.name != "torch":
        raise DGLError(
            f"{type(layer).__name__} needs torch, but the backend is {active.name}; set DGLITE_BACKEND=torch before "
            "dglite is imported"
        )


class TorchLayer(Layer):
    """A layer that is made of what only torch has: ``DGLError`` where another backend is active."""

    def __init__(self) -> None:
        super().__init__()
        require_torch(self)


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
