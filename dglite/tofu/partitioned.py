"""Parameters and buffers of a module whose elements lie on several workers: they refuse to be used as if whole.

From the first step on a parameter's own memory is this worker's part. ``optimizer.step()`` works on that; a module's
forward pass would compute with a part and say nothing. So the tensors change their class to one that answers for the
whole tensor what needs no elements (its shape, its dtype), gives a DTensor to ``state_dict()`` and a whole tensor to an
`AveragedModel` of ordinary ones, takes whole tensors from ``load_state_dict()``, and raises for all else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from ..backend.torch_dtensor import DTensor
from ..errors import DGLError


def _attributes(*names: str) -> set[Any]:
    """Return what reads and sets attributes of tensors, as ``__torch_function__`` gets them."""
    attributes = [getattr(torch.Tensor, name) for name in names]
    return {getattr(attribute, accessor) for attribute in attributes for accessor in ("__get__", "__set__")}


_WHOLE = _attributes("shape", "dtype", "ndim", "layout", "itemsize", "nbytes")
_WHOLE |= {getattr(torch.Tensor, name) for name in ("size", "dim", "numel", "nelement", "stride", "element_size")}
_WHOLE |= {torch.Tensor.is_floating_point, torch.Tensor.is_complex, torch.Tensor.__len__}
_WHOLE |= {torch.is_floating_point, torch.is_complex, torch.numel}
"""What needs no elements: answered for the whole tensor."""

_FLAGS = _attributes("requires_grad", "is_leaf", "is_meta", "device", "_backward_hooks", "_post_accumulate_grad_hooks")
_FLAGS |= {torch.Tensor.requires_grad_}
"""What a tensor in parts and the whole have in common."""

_GRADIENT = _attributes("grad")
_WITHOUT_GRADIENT = _attributes("grad_fn") | {torch.Tensor.requires_grad_}


@dataclass(frozen=True)
class PartAccess:
    """How to read and write a tensor of which this worker has a part.

    Attributes
    ----------
    name : str
    whole : Tensor
        On the meta device: shape and dtype of all of it.
    read : callable
        Returns it as a DTensor.
    write : callable
        Takes the values of a whole tensor or a DTensor.
    """

    name: str
    whole: torch.Tensor
    read: Callable[[], DTensor]
    write: Callable[[torch.Tensor], None]


class _Partitioned:
    """What parameters and buffers in parts have in common."""

    access: PartAccess

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        x = next(x for x in _flat((args, kwargs or {})) if isinstance(x, _Partitioned))
        access = x.access
        if func in _FLAGS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if func in _WHOLE:
            return func(access.whole, *args[1:], **(kwargs or {}))
        if func is torch.Tensor.detach:
            averaged = sys._getframe(1).f_code is AveragedModel.update_parameters.__code__
            return access.read().full_tensor() if averaged else access.read()
        if func is torch.Tensor.copy_ and args[0] is x:
            access.write(args[1])
            return x
        if func in _GRADIENT:
            return _gradient(x, *args[1:])
        # reading an attribute calls its descriptor's __get__
        name = getattr(getattr(func, "__self__", func), "__name__", func)
        raise DGLError(
            f"{access.name!r} is in parts on the workers since the first step, so {name} of all of it cannot be"
            " computed here. Evaluate the module by step.forward(...); step.gather() returns whole tensors,"
            " and module.load_state_dict(step.gather(), assign=True) makes the module whole"
        )

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"<{self.access.name}: {tuple(self.access.whole.shape)}, in parts on several workers>"


class _PartitionedGradient(torch.Tensor):
    """The gradient of a parameter in parts: ``zero_grad`` clears it, other uses raise."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _WITHOUT_GRADIENT:
            return None
        if func is torch.Tensor.zero_:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args)
        raise DGLError(
            "gradients are in parts on the workers, too: clip by step.clip_grad_norm_() between step.backward() and"
            " step.update(), which updates and clears them"
        )


def _gradient(x: Any, *new: None) -> torch.Tensor | None:
    """Return the gradient of a parameter in parts, or clear it."""
    with torch._C.DisableTorchFunctionSubclass():
        if new:
            if new[0] is not None:
                raise DGLError("gradients are in parts on the workers: let step.backward() make them")
            x.grad = None
        return None if x.grad is None else x.grad.as_subclass(_PartitionedGradient)


class PartitionedParameter(_Partitioned, nn.Parameter):  # type: ignore[misc]
    """A parameter in parts."""


class PartitionedBuffer(_Partitioned, torch.Tensor):  # type: ignore[misc]
    """A buffer in parts."""


def _flat(value: Any) -> Any:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def partition(tensor: torch.Tensor, part: torch.Tensor, access: PartAccess) -> torch.Tensor:
    """Return a parameter or buffer with ``part`` as its memory, in parts: the same object, unless it is a DTensor."""
    is_parameter = isinstance(tensor, nn.Parameter)
    kind = PartitionedParameter if is_parameter else PartitionedBuffer
    if type(tensor) in (torch.Tensor, nn.Parameter) and torch._has_compatible_shallow_copy_type(tensor, part):
        tensor.data, tensor.grad = part, None
        tensor.__class__ = kind
    else:
        new = nn.Parameter(part, requires_grad=tensor.requires_grad) if is_parameter else part.view_as(part)
        new.__class__ = kind
        if isinstance(tensor, DTensor):
            tensor = new
        else:  # on the meta device
            torch.utils.swap_tensors(tensor, new)
    tensor.access = access  # type: ignore[attr-defined]
    return tensor


def is_partitioned(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is in parts."""
    return isinstance(tensor, _Partitioned)


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return this worker's part of a parameter or buffer: a plain tensor of its memory."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.detach()
