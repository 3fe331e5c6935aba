"""Tensors of a captured step: they have shapes and a device, but no values."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import DGLError

aten = torch.ops.aten

SAME = {aten.detach.default, aten.alias.default, aten.lift_fresh.default}
"""Operators that return their operand."""


class SymbolicTensor(torch.Tensor):
    """A tensor without values that says it is on another device than ``meta``.

    Attributes
    ----------
    shapes : Tensor
        The same on the meta device.
    claimed : torch.device
        The device that it says it is on.
    """

    shapes: torch.Tensor
    claimed: torch.device

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, shapes: torch.Tensor, device: torch.device) -> SymbolicTensor:
        tensor = torch.Tensor._make_subclass(cls, shapes, False, dispatch_device=True, device_for_backend_keys=device)
        tensor.shapes, tensor.claimed = shapes, device
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func is torch.ops.prim.device.default:
            return args[0].claimed
        if func in SAME:  # autograd makes such copies when a graph is freed
            return cls(func(args[0].shapes), args[0].claimed)
        raise DGLError(f"{func} is called with a tensor of a captured step outside of it: do not keep such tensors")


def shapes_of(arg: Any) -> Any:
    """Return an argument with its tensors on the meta device."""
    if isinstance(arg, SymbolicTensor):
        return arg.shapes
    if isinstance(arg, torch.Tensor):
        return arg if arg.device.type == "meta" or not arg.dim() else arg.to("meta")
    if isinstance(arg, list | tuple):
        return type(arg)(shapes_of(a) for a in arg)
    return arg
