"""Two tensor libraries in one process: each backend call is dispatched on the type of its tensor.

A process begins with one backend, whose methods are called as they are. When a tensor of another library is given,
that library's backend becomes its guest: methods of the instance then look at the tensors, or without tensors at the
device, before they ask one of the two. So a process that never meets a second library pays nothing for this.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import DGLError
from .base import Backend
from .library import mixture
from .protocols import DifferentiableOp, Recipe, Tensor, TransformedOp

Method = Callable[..., Any]
Chooser = Callable[[Iterable[Any]], bool]
"""Whether the tensors among some values are the guest's; ``DGLError`` where some are and some are not."""

_BY_TENSOR = (
    "to_numpy traits shape dtype device on_cpu version address contiguous copy is_sparse sparse_parts new_empty "
    "to_device astype take reshape broadcast_to unbind split swap_last segment_mm segment_outer dropout_mask dropout "
    "sum max min prod require can_defer recipe_of pass_by watched detach structure_of"
).split()
"""The first argument is a tensor, and the only one, beside ids."""
_BY_TENSORS = (
    "put",
    "linear",
    "product",
    "add_product",
    "relu_gradient",
    "is_pooled",
    "times",
    "sparse_coo",
    "put_sum",
    "put_extreme",
    "pick",
    "requires_grad",
    "any_deferred",
)
"""Several arguments are tensors."""
_BY_SEQUENCE = ("concat", "stack", "dense", "needs_grad", "needs_operator", "is_forward_mode", "are_read")
"""The first argument is a sequence of tensors."""
_BY_DEVICE = {"empty": 2, "full": 3, "from_numpy": 1, "stream": 0}
"""Places of the device among the arguments."""
_BY_LAYER = ("layers_in",)
_HOME = (
    "cpu compiling out_of_memory register left_to_python arrays_on structure_tensors autocast_dtype draw_seed "
    "num_threads set_num_threads plain signature exporting is_symbol register_container dynamic_shapes export lasting"
).split()
"""Asked of the backend that the process began with: about no tensor, or None for a guest's."""
_BY_HAND = "is_tensor is_layer asarray apply defer call transformed gradients random_state restore_random_state".split()
"""Written out below."""

DISPATCH = frozenset([*_BY_TENSOR, *_BY_TENSORS, *_BY_SEQUENCE, *_BY_DEVICE, *_BY_LAYER, *_HOME, *_BY_HAND])
"""All methods of the contract."""


def pair(home: Backend, guest: Backend) -> None:
    """Make ``home`` answer for the tensors of ``guest`` too."""
    guests = _chooser(home, guest)
    methods: dict[str, Any] = _own_methods(home, guest, guests)
    for name in _BY_TENSOR:
        methods[name] = _by_tensor(getattr(home, name), getattr(guest, name), guest.tensor_type)
    for name in _BY_TENSORS:
        methods[name] = _by_tensors(getattr(home, name), getattr(guest, name), guests)
    for name in _BY_SEQUENCE:
        methods[name] = _by_sequence(getattr(home, name), getattr(guest, name), guests)
    for name, place in _BY_DEVICE.items():
        methods[name] = _by_device(getattr(home, name), getattr(guest, name), place, guest.device_type)
    for name in _BY_LAYER:
        methods[name] = _by_layer(getattr(home, name), getattr(guest, name), guest)
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


def _by_tensor(ours: Method, theirs: Method, kind: type) -> Method:
    def call(x: Tensor, *args: Any, **options: Any) -> Any:
        return theirs(x, *args, **options) if isinstance(x, kind) else ours(x, *args, **options)

    return call


def _by_tensors(ours: Method, theirs: Method, guests: Chooser) -> Method:
    def call(*args: Any) -> Any:
        return theirs(*args) if guests(args) else ours(*args)

    return call


def _by_sequence(ours: Method, theirs: Method, guests: Chooser) -> Method:
    def call(xs: Sequence[Tensor], *axis: int, **options: int) -> Any:
        return (theirs if guests(xs) else ours)(xs, *axis, **options)

    return call


def _by_device(ours: Method, theirs: Method, place: int, kind: type) -> Method:
    def call(*args: Any) -> Any:
        return theirs(*args) if len(args) > place and isinstance(args[place], kind) else ours(*args)

    return call


def _by_layer(ours: Method, theirs: Method, guest: Backend) -> Method:
    def call(layer: Any) -> Any:
        return theirs(layer) if guest.is_layer(layer) else ours(layer)

    return call


def _own_methods(home: Backend, guest: Backend, guests: Chooser) -> dict[str, Method]:
    """Return the methods that choose between the two by rules of their own."""
    theirs, either = guest.tensor_type, (home.tensor_type, guest.tensor_type)
    our_asarray, our_apply, our_defer = home.asarray, home.apply, home.defer
    our_call, our_gradients, our_is_layer = home.call, home.gradients, home.is_layer
    our_transformed = home.transformed
    our_state, restore_ours = home.random_state, home.restore_random_state

    def is_tensor(x: object) -> bool:
        return isinstance(x, either)

    def is_layer(x: object) -> bool:
        return our_is_layer(x) or guest.is_layer(x)

    def asarray(x: object, dtype: str | None = None, device: object = None) -> Tensor:
        is_guest = isinstance(x, theirs) if isinstance(x, either) else isinstance(device, guest.device_type)
        return (guest.asarray if is_guest else our_asarray)(x, dtype, device)

    def apply(op: DifferentiableOp, *inputs: Tensor) -> Tensor:
        return (guest.apply if guests(inputs) else our_apply)(op, *inputs)

    def defer(recipe: Recipe) -> Tensor:
        return (guest.defer if guests(recipe.sources) else our_defer)(recipe)

    def call(name: str, inputs: Sequence[Tensor], *rest: Any) -> Tensor:
        return (guest.call if guests(inputs) else our_call)(name, inputs, *rest)

    def transformed(op: TransformedOp, inputs: Sequence[Tensor]) -> Tensor | None:
        return (guest.transformed if guests(inputs) else our_transformed)(op, inputs)

    def gradients(function: Method, inputs: Sequence[Tensor], *rest: Any) -> list[Tensor | None]:
        return (guest.gradients if guests(inputs) else our_gradients)(function, inputs, *rest)

    def random_state() -> bytes:
        return pickle.dumps((our_state(), guest.random_state()))

    def restore_random_state(state: bytes) -> None:
        ours, other = pickle.loads(state)
        restore_ours(ours)
        guest.restore_random_state(other)

    methods = (
        is_tensor,
        is_layer,
        asarray,
        apply,
        defer,
        call,
        transformed,
        gradients,
        random_state,
        restore_random_state,
    )
    return {method.__name__: method for method in methods}
