"""Registered operations inside transforms of ``torch.func``: vmap, grad, jacrev and what is made of them.

The dispatcher's rules for gradients do not know these transforms, an ``autograd.Function`` with ``setup_context`` does.
Levels are taken off one by one; below the last one the operation runs on ordinary tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._functorch import TransformType

from .protocols import RESULT, TransformedOp
from .torch_library import call_both, fold_batch
from .torch_plain import is_transformed, needs_operator, unwrapped

_LEVELS = torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode
"""The dispatcher's key that has operations go through the transforms; a level excludes it while it runs one."""


def transformed(op: TransformedOp, inputs: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Run ``op``, made as if all inputs needed a gradient, under the active transform; None without one."""
    if not is_transformed():
        return None
    if torch._C._dispatch_tls_is_dispatch_key_excluded(_LEVELS):
        return op.composed(*inputs)  # an operator that a program calls is composed at one of the levels
    levels = {level.key() for level in torch._C._functorch.get_interpreter_stack()}
    if TransformType.Functionalize in levels:  # which has no rule for functions, and needs none for operators
        return op.composed(*inputs) if len(levels) > 1 else _call(op, inputs)[0]
    return _Transformed.apply(op, *inputs)[0]  # type: ignore[no-any-return]


def _call(op: TransformedOp, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    tensors = [unwrapped(x) for x in op.adj.tensors]
    return call_both(op.name, inputs, tensors, (op.adj.num_src, op.adj.num_dst), op.recipe())


class _Transformed(torch.autograd.Function):
    @staticmethod
    def forward(op: TransformedOp, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not op.is_real or needs_operator(inputs):
            return _call(op, inputs)
        result = op.forward(*inputs)
        return result, result.new_empty(0, dtype=torch.uint8) if op.aux is None else op.aux

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        op, *tensors = inputs
        result, aux = output
        ctx.mark_non_differentiable(aux)
        ctx.op, ctx.shapes = op, [tuple(x.shape) for x in tensors]
        ctx.save_for_backward(*[result if i == RESULT else tensors[i] for i in op.saved], aux)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        *saved, aux = ctx.saved_tensors
        op = ctx.op.again()
        op.shapes, op.aux = ctx.shapes, aux
        read: list[torch.Tensor | None] = [None] * (len(ctx.shapes) + 1)
        for i, x in zip(op.saved, saved, strict=True):
            read[i] = x
        return None, *op.backward(read, grad, ctx.needs_input_grad[1:])

    @staticmethod
    def vmap(info: Any, in_dims: Any, op: TransformedOp, *inputs: torch.Tensor) -> tuple[Any, tuple[Any, Any]]:
        result, aux = _Transformed.apply(op.again(), *fold_batch(info.batch_size, inputs, in_dims[1:], op.alike))
        return (result, aux), (op.batch_axis, None if aux.dtype is torch.uint8 else op.batch_axis)
