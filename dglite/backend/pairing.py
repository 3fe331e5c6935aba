"""Two tensor libraries in one process: each backend call is dispatched on the type of its tensor.

A process begins with one backend, whose methods are called as they are. When a tensor of another library is given,
that library's backend becomes its guest: methods of the instance then look at the tensors, or without tensors at the
device, before they ask one of the two. So a process that never meets a second library pays nothing for this.

Which arguments they look at is in the annotations of :class:`Backend`: a ``Tensor``, several, the first sequence of
tensors, or else ``device``. A method without any is asked of the backend that the process began with.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import DGLError
from .base import Backend
from .library import mixture
from .programs import ProgramInterface
from .protocols import Recipe, Tensor

Method = Callable[..., Any]
Chooser = Callable[[Iterable[Any]], bool]
"""Whether the tensors among some values are the guest's; ``DGLError`` where some are and some are not."""

_HOME = {"plain", "signature", "arrays_on"}
"""Methods that are not dispatched: they answer None for the guest's tensors and devices."""


def pair(home: Backend, guest: Backend) -> None:
    """Make ``home`` answer for the tensors of ``guest`` too."""
    guests = _chooser(home, guest)
    methods: dict[str, Any] = {}
    for name, declared in {**vars(ProgramInterface), **vars(Backend)}.items():
        if inspect.isfunction(declared) and not name.startswith("_") and name not in _HOME:
            method = _dispatched(declared, getattr(home, name), getattr(guest, name), guests, guest)
            if method is not None:
                methods[name] = method
    methods |= {method.__name__: method for method in _own_methods(home, guest, guests)}
    methods["functions"] = {
        name: _by_tensors(function, guest.functions[name], guests) for name, function in home.functions.items()
    }
    # Of the instance: `active` has been imported by name everywhere, and its class is final.
    home.__dict__.update(methods, guest=guest)


def _chooser(home: Backend, guest: Backend) -> Chooser:
    theirs, either = guest.tensor_type, (home.tensor_type, guest.tensor_type)

    def guests(values: Iterable[Any]) -> bool:
        are_guests = {isinstance(x, theirs) for x in values if isinstance(x, either)}
        if len(are_guests) == 2:
            raise DGLError(mixture(home.name, guest.name))
        return True in are_guests

    return guests


def _dispatched(declared: Method, ours: Method, theirs: Method, guests: Chooser, guest: Backend) -> Method | None:
    """Return the method that chooses by the arguments which ``declared`` annotates, None if there are none."""
    parameters = list(inspect.signature(declared).parameters.values())[1:]
    sequences = [i for i, p in enumerate(parameters) if p.annotation.startswith("Sequence[Tensor")]
    tensors = [i for i, p in enumerate(parameters) if p.annotation.startswith("Tensor")]
    devices = [i for i, p in enumerate(parameters) if p.name == "device"]
    if sequences:
        return _by_sequence(ours, theirs, sequences[0], guests)
    if tensors == [0] and parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return _by_tensor(ours, theirs, guest.tensor_type)
    if tensors:
        return _by_tensors(ours, theirs, guests)
    return _by_device(ours, theirs, devices[0], guest.device_type) if devices else None


def _by_tensor(ours: Method, theirs: Method, kind: type) -> Method:
    def call(x: Tensor, *args: Any, **options: Any) -> Any:
        return theirs(x, *args, **options) if isinstance(x, kind) else ours(x, *args, **options)

    return call


def _by_tensors(ours: Method, theirs: Method, guests: Chooser) -> Method:
    def call(*args: Any) -> Any:
        return theirs(*args) if guests(args) else ours(*args)

    return call


def _by_sequence(ours: Method, theirs: Method, place: int, guests: Chooser) -> Method:
    def call(*args: Any, **options: Any) -> Any:
        return (theirs if guests(args[place]) else ours)(*args, **options)

    return call


def _by_device(ours: Method, theirs: Method, place: int, kind: type) -> Method:
    def call(*args: Any) -> Any:
        return theirs(*args) if len(args) > place and isinstance(args[place], kind) else ours(*args)

    return call


def _own_methods(home: Backend, guest: Backend, guests: Chooser) -> Iterable[Method]:
    """Return the methods that choose between the two by rules of their own."""
    theirs, either = guest.tensor_type, (home.tensor_type, guest.tensor_type)
    our_asarray, our_defer, our_is_layer, our_layers_in = home.asarray, home.defer, home.is_layer, home.layers_in
    our_state, restore_ours = home.random_state, home.restore_random_state

    def is_tensor(x: object) -> bool:
        return isinstance(x, either)

    def is_layer(x: object) -> bool:
        return our_is_layer(x) or guest.is_layer(x)

    def layers_in(layer: Any) -> Iterable[Any]:
        return (guest.layers_in if guest.is_layer(layer) else our_layers_in)(layer)

    def asarray(x: object, dtype: str | None = None, device: object = None) -> Tensor:
        is_guest = isinstance(x, theirs) if isinstance(x, either) else isinstance(device, guest.device_type)
        return (guest.asarray if is_guest else our_asarray)(x, dtype, device)

    def defer(recipe: Recipe) -> Tensor:
        return (guest.defer if guests(recipe.sources) else our_defer)(recipe)

    def random_state() -> bytes:
        return pickle.dumps((our_state(), guest.random_state()))

    def restore_random_state(state: bytes) -> None:
        ours, other = pickle.loads(state)
        restore_ours(ours)
        guest.restore_random_state(other)

    return is_tensor, is_layer, layers_in, asarray, defer, random_state, restore_random_state
