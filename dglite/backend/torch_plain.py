"""Which tensors kernels may read: the one place that tells plain tensors from those that torch's machinery handles.

A kernel reads memory by its address. Where torch traces a program, transforms a function or wraps a tensor it would
not notice, so the operation has to be one that torch knows: see :mod:`.torch_library`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from torch._guards import detect_fake_mode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_innermost_proxy_mode, get_proxy_slot, has_proxy_slot
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from ..errors import DGLError
from .torch_deferred import DeferredTensor

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Classes of ordinary tensors."""

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
is_transformed = torch._C._are_functorch_transforms_active
_tracing_state = torch._C._get_tracing_state
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_unwrapped_if_dead = torch._C._functorch.unwrap_if_dead
_compiler: Any = torch.compiler
if not hasattr(_compiler, "_is_exporting_flag"):  # torch 2.4 has no such flag
    _compiler = SimpleNamespace(_is_exporting_flag=False)
_is_compiled = torch.compiler.is_dynamo_compiling
_is_legacy_batch = torch._C._functorch.is_legacy_batchedtensor


def is_watched() -> bool:
    """Whether torch traces or transforms what this thread computes."""
    return (
        _dispatch_modes() > 0
        or forward_ad._current_level >= 0
        or is_transformed()
        or _tracing_state() is not None
        or (_function_modes() > 0 and _has_function_mode())
    )


def is_recorded() -> bool:
    """Whether a program is compiled or exported of what this thread computes."""
    return _compiler._is_exporting_flag or _is_compiled()


def is_exporting() -> bool:
    """Whether a program is exported: by torch's flag, since older versions let Dynamo take its function for true."""
    return _compiler._is_exporting_flag


def is_symbol(value: Any) -> bool:
    """Whether a number may stand for any, since a program is exported: Dynamo calls its symbols integers."""
    return _compiler._is_exporting_flag and isinstance(value, int | torch.SymInt)


def are_read(xs: Sequence[torch.Tensor]) -> bool:
    """Whether the values of tensors may be read: no program is recorded, and each is memory with values."""
    if is_recorded() or _tracing_state() is not None or get_innermost_proxy_mode() is not None:
        return False
    return all(has_memory(type(x)) and not x.is_meta and not _is_wrapped(x) and not _is_legacy_batch(x) for x in xs)


def needs_operator(xs: Sequence[torch.Tensor]) -> bool:
    """Whether operations on these have to be registered ones, because torch looks on or handles one of the tensors."""
    if (  # is_watched(), without a call: every operation asks
        _dispatch_modes()
        or forward_ad._current_level >= 0
        or is_transformed()
        or _tracing_state() is not None
        or (_function_modes() and _has_function_mode())
    ):
        return True
    for x in xs:
        kind = type(x)
        if kind not in PLAIN:
            if not has_memory(kind):
                return True
            continue
        try:
            if not x.data_ptr() and x.is_meta:
                return True
        except RuntimeError:  # no memory to point to
            if _is_legacy_batch(x):
                return True
    return False


def is_forward_mode(xs: Sequence[torch.Tensor]) -> bool:
    """Whether operations have to be composed of torch's own: for tangents, and for gradients in batches."""
    if forward_ad._current_level >= 0:
        return True
    if torch.compiler.is_compiling():
        return False
    return any(_is_legacy_batch(x) for x in xs if isinstance(x, torch.Tensor))


@lru_cache(maxsize=256)
def has_memory(kind: type) -> bool:
    """Whether tensors of a class are memory with values, and no wrappers that handle each operation themselves."""
    if not issubclass(kind, torch.Tensor) or issubclass(kind, DeferredTensor):
        return True
    dispatch = kind.__torch_dispatch__
    return dispatch is torch._C._disabled_torch_dispatch_impl or dispatch == torch.Tensor.__torch_dispatch__


def as_in_mode(tensors: Sequence[torch.Tensor], inputs: Iterable[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Return tensors of a structure as an operator takes them with ``inputs``: without values where these have none.

    Raises ``DGLError``: a program is recorded from tensors without values, so the graph's would be lost.
    """
    mode = detect_fake_mode((*tensors, *inputs))
    if mode is None or not any(type(x) in PLAIN for x in tensors):
        return tensors
    if get_innermost_proxy_mode() is not None and not mode.allow_non_fake_inputs:
        raise DGLError(
            "a program is recorded from fake tensors, but its graph is not an input, so it would have no edges: "
            "pass the graph's edges in as tensors and construct it inside, as dglite.graph((src, dst), num_nodes=n)"
        )
    return tensors if mode.allow_non_fake_inputs else [mode.from_tensor(x) for x in tensors]


def unwrapped(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor whose values ``x`` has inside transforms of functions: ids have no gradient to lose.

    Raises ``DGLError``: it is a batch of vmap's.
    """
    while _is_wrapped(x):
        if torch._C._functorch.is_batchedtensor(x):
            raise DGLError(
                "vmap goes over values that dglite reads (ids, edges); it may go over features and parameters"
            )
        x = torch._C._functorch.get_unwrapped(x)
    return x


def ids_of(x: torch.Tensor) -> torch.Tensor:
    """Return ids out of the wrappers of transforms, of batches as they are: see :meth:`.base.Backend.ids_of`."""
    if is_recorded():  # Dynamo does not read what follows
        return x
    inner = x
    while _is_wrapped(inner):
        if torch._C._functorch.is_batchedtensor(inner) or torch._C._functorch.is_functionaltensor(inner):
            return x  # of a function that is made functional, torch asks for the wrappers again
        inner = torch._C._functorch.get_unwrapped(inner)
    return inner


def innermost(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor inside of all wrappers of transforms: of a batch, all of its values."""
    while _is_wrapped(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


def has_gradient_inside(x: torch.Tensor) -> bool:
    """Whether a tensor inside of wrappers of transforms requires a gradient: vmap's batches do not say so."""
    while _is_wrapped(x):
        x = torch._C._functorch.get_unwrapped(x)
        if x.requires_grad:
            return True
    return False


def readable(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor with the values of ``x``, for NumPy to read while torch looks on.

    Raises ``DGLError``: there are no values, vmap goes over them, or a program is recorded that computes them from its
    inputs.
    """
    x = unwrapped(x)
    if x.is_meta or not has_memory(type(x)) or _is_legacy_batch(x):
        refuse(x)
    if _tracing_state() is not None:
        computed = _comes_from(
            [torch._C._get_value_trace(x)],  # type: ignore[attr-defined]
            lambda value: value.unique(),
            lambda value: () if value.node().kind() == "aten::size" else value.node().inputs(),
            lambda value: value.node().kind() == "prim::Param",
        )
    elif (mode := get_innermost_proxy_mode()) is not None and has_proxy_slot(x, mode.tracer):
        nodes = [get_proxy_slot(x, mode.tracer).proxy.node]
        computed = _comes_from(
            nodes, lambda node: node, lambda node: node.all_input_nodes, lambda node: node.op == "placeholder"
        )
    else:
        computed = False
    if computed:
        raise DGLError(
            "a program is recorded, and this reads values that it computes from its inputs (to sort by them, or as "
            "ids), which would be those of the example in every call: compute it before, and pass the result in"
        )
    return x


def _comes_from(
    values: list[Any], key: Callable[[Any], Any], inputs: Callable[[Any], Iterable[Any]], ends: Callable[[Any], bool]
) -> bool:
    """Whether one of the values, of their inputs, of these inputs' inputs, and so on, is one that ``ends`` names."""
    keys = set()
    while values:
        value = values.pop()
        if key(value) in keys:
            continue
        if ends(value):
            return True
        keys.add(key(value))
        values.extend(inputs(value))
    return False


def address(x: torch.Tensor) -> int:
    """Return where a tensor lies: kernels read there, so this is the door that tensors without memory do not pass."""
    if type(x) not in PLAIN and not has_memory(type(x)):
        refuse(x)
    try:
        place = x.data_ptr()
    except RuntimeError:
        inner = _unwrapped_if_dead(x)  # torch.func.vjp returns a function that is called when its transform is over
        if inner is x:
            refuse(x)
        return address(inner)
    if not place and x.numel():
        refuse(x)
    return place


def refuse(x: torch.Tensor) -> NoReturn:
    """Raise :class:`DGLError` about a tensor without memory."""
    raise DGLError(
        f"got a tensor of the class {type(x).__module__}.{type(x).__name__}, {why_not_plain(x)}. dglite's kernels read "
        "values in memory: pass an ordinary tensor"
    )


def refuse_class(tensors: Iterable[torch.Tensor], operation: str, error: Exception) -> None:
    """Raise :class:`DGLError` for an error of an operation if a tensor is of a class that handles it by itself."""
    strange = next((x for x in tensors if not has_memory(type(x))), None)
    if strange is None or isinstance(error, DGLError):
        return
    raise DGLError(
        f"got a tensor of the class {type(strange).__module__}.{type(strange).__name__}, {why_not_plain(strange)}, "
        f"and this class does not run {operation}: convert it to an ordinary tensor, as x.to_local() or "
        f"x.full_tensor() does with a DTensor ({error})"
    ) from error


def why_not_plain(x: torch.Tensor) -> str:
    """Return what kind of tensor ``x`` is, after a comma."""
    if x.is_meta:
        return "which has a shape but no values (it is on the meta device)"
    if x.is_nested:
        return "which is a nested tensor, with rows of several lengths"
    if x.layout is not torch.strided:
        return f"whose layout is {x.layout}"
    if torch._C._functorch.is_functorch_wrapped_tensor(x) or _is_legacy_batch(x):
        return "which a transform (torch.func, vmap, is_grads_batched) has wrapped"
    if x._is_zerotensor():
        return "which is a tensor of zeros without memory"
    if not has_memory(type(x)):
        return "which wraps other tensors or has no values"
    return "which has no memory"


def _has_function_mode() -> bool:
    """Whether a mode sees functions of torch other than to choose a device."""
    modes: list[Any] = _get_current_function_mode_stack()
    return any(not isinstance(mode, DeviceContext) for mode in modes)
