"""torch tensors in memory of the pool: a storage returns its block when its last reference goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from .memory import LARGE, pool, with_room
from .torch_deferred import DeferredTensor
from .torch_plain import is_recorded, is_watched, needs_operator

PLAIN = (torch.Tensor, torch.nn.Parameter, DeferredTensor)
"""Classes whose results are ordinary tensors; others, such as those without values, make their own."""
_IN_NUMPY: Mapping[torch.dtype, np.dtype] = {
    **{
        getattr(torch, name): np.dtype(name)
        for name in "float32 float64 float16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()
    },
    torch.bfloat16: np.dtype(np.int16),
}


def is_large(count: int) -> bool:
    """Whether ``count`` elements take memory of the pool; never in a program, which would be for such sizes only."""
    return not is_recorded() and type(count) is int and count >= LARGE


def empty(shape: Sequence[int], dtype: torch.dtype, device: Any) -> torch.Tensor:
    """Return an uninitialised tensor, on the CPU of memory of the pool."""

    def fresh() -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, device=device)

    if torch.device(device).type != "cpu" or torch.compiler.is_compiling() or is_watched():
        return fresh()
    nbytes = prod(shape) * dtype.itemsize
    array = pool.lend(shape, _IN_NUMPY[dtype], nbytes)
    if array is None:
        return with_room(fresh, nbytes)  # type: ignore[no-any-return]
    tensor = torch.from_numpy(array)
    if tensor.dtype is dtype:
        return tensor
    # Not by view(dtype): to autograd that would be a view of another tensor.
    return torch.empty(0, dtype=dtype).set_(tensor.untyped_storage(), 0, tensor.shape, tensor.stride())


# -- torch's operations with results of our memory ---------------------------------------------------------------------
def times(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return ``x * y``, ``y`` being stretched to the shape of ``x``."""
    if not is_large(x.numel()) or not _ordinary(x, y) or _recorded(x, y):
        return x * y
    return torch.mul(x, y, out=empty(x.shape, x.dtype, x.device))


def relu_gradient(grad: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Return ``grad``, 0 where ``result``, a ReLU's, is 0."""
    backward = torch.ops.aten.threshold_backward
    if not is_large(grad.numel()) or not _ordinary(grad, result) or _recorded(grad, result):
        return backward(grad, result, 0)  # type: ignore[no-any-return]
    out = empty(result.shape, grad.dtype, grad.device)
    return backward.grad_input(grad, result, 0, grad_input=out)  # type: ignore[no-any-return]


def is_pooled(*tensors: torch.Tensor) -> bool:
    """Whether products of these are made in memory of the pool; further ones are of matrices made of the first."""
    x = tensors[0]
    return x.ndim == 2 and is_large(x.shape[0] * max([y.shape[-1] for y in tensors])) and _ordinary(*tensors)


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, relu: bool = False) -> torch.Tensor:
    """Return ``x @ weight + bias`` of matrices, with ``relu`` its ReLU."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if x.ndim != 2 or not is_large(x.shape[0] * weight.shape[1]) or not _ordinary(*tensors) or _recorded(*tensors):
        result = x.matmul(weight) if bias is None else torch.nn.functional.linear(x, weight.T, bias)
        return result.relu() if relu else result
    out = empty((x.shape[0], weight.shape[1]), x.dtype, x.device)
    result = torch.mm(x, weight, out=out) if bias is None else torch.addmm(bias, x, weight, out=out)
    return result.relu_() if relu else result


def add_product(total: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return ``total + x @ weight`` of matrices, written to a ``total`` that is large; no gradient is recorded."""
    if x.ndim == 2 and is_large(total.numel()) and _ordinary(total, x, weight):
        return total.addmm_(x, weight)
    return total + product(x, weight, None)


def _ordinary(*tensors: torch.Tensor) -> bool:
    """Whether these are tensors with values on the CPU of which torch makes one of their dtype."""
    dtype = tensors[0].dtype
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or needs_operator(tensors):
        return False
    for x in tensors:
        if type(x) not in PLAIN[:2] or x.dtype is not dtype or not x.is_cpu or x.layout is not torch.strided:
            return False
    return True


def _recorded(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
