"""Tensors of a captured step: without values, with shapes and a device; and those that it reads beside its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..errors import DGLError
from .decompositions import tensors_in

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
        raise DGLError(
            f"{func} is called with a tensor that a forward pass or a loss function has made and kept (a cache, a"
            " running mean, the scale of a GradScaler): it has no values, as the step runs on several workers. Keep"
            " such values in buffers, and train in bfloat16 instead of with a GradScaler"
        )


def shapes_of(arg: Any) -> Any:
    """Return an argument with its tensors on the meta device."""
    if isinstance(arg, SymbolicTensor):
        return arg.shapes
    if isinstance(arg, torch.Tensor):
        return arg if arg.device.type == "meta" or not arg.dim() else arg.to("meta")
    if isinstance(arg, list | tuple):
        return type(arg)(shapes_of(a) for a in arg)
    return arg


_LIBRARIES = tuple(str(path) for path in (Path(torch.__file__).parent, Path(__file__).parents[1]))


def users_line(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Return the first line among frames, with their line numbers, that is neither torch's nor dglite's, or ``""``."""
    for frame, line in frames:
        if not frame.f_code.co_filename.startswith((*_LIBRARIES, "<frozen")):
            return f"line {line} of {frame.f_code.co_filename}"
    return ""


class SourceTensors:
    """Tensors that were there before a step was captured, with the versions that the step has read.

    Attributes
    ----------
    versions : list of (Tensor, int)
    """

    def __init__(self) -> None:
        self.versions: list[tuple[torch.Tensor, int]] = []
        self._noted: set[int] = set()
        self._results: dict[int, torch.Tensor] = {}

    def note(self, tensor: torch.Tensor) -> None:
        """Note that the step contains the values of a tensor."""
        if id(tensor) not in self._noted and id(tensor) not in self._results and not tensor.is_inference():
            self._noted.add(id(tensor))
            self.versions.append((tensor, tensor._version))

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator whose operands all have values; its results are constants of the step."""
        if func._schema.is_mutable and isinstance(args[0], torch.Tensor) and id(args[0]) not in self._results:
            raise DGLError(
                f"the forward pass writes into a tensor that is neither a parameter nor a buffer, by {func}: a"
                " partitioned step would not; let the module have it by register_buffer"
            )
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, torch.Tensor):
                self.note(x)
        out = func(*args, **kwargs)
        # results change with their operands only; they are kept so that no id is used again
        self._results.update((id(x), x) for x in tensors_in(out))
        return out


def tensors_changed(versions: Sequence[tuple[torch.Tensor, int]]) -> bool:
    """Return whether tensors were written since their versions were noted."""
    return any(x._version != version for x, version in versions)
