"""Operations of dglite in torch's autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .protocols import RESULT, DifferentiableOp
from .torch_deferred import values
from .torch_plain import PLAIN, needs_operator

_PLAIN = frozenset(PLAIN)


def apply(op: DifferentiableOp, *inputs: torch.Tensor) -> torch.Tensor:
    """Run an operation and record its gradient if an input requires one: see :meth:`.base.Backend.apply`."""
    if torch.is_grad_enabled():
        for x in inputs:
            if x.requires_grad:
                if not _PLAIN.issuperset(map(type, inputs)):
                    return _record_as_plain(op, values(inputs))
                return _record(op, *map(_unwrapped, inputs))
    return op.forward(*inputs)


class _Recorded(torch.autograd.Function):
    """Carries one :class:`DifferentiableOp` through torch's autograd, keeping only the inputs that it reads."""

    @staticmethod
    def forward(ctx: Any, op: DifferentiableOp, *inputs: torch.Tensor) -> torch.Tensor:
        result = op.forward(*inputs)
        ctx.op, ctx.num_inputs = op, len(inputs)
        ctx.save_for_backward(*[result if i == RESULT else inputs[i] for i in op.saved])
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        read: list[torch.Tensor | None] = [None] * (ctx.num_inputs + 1)
        for i, x in zip(ctx.op.saved, ctx.saved_tensors, strict=True):
            read[i] = x
        return (None, *ctx.op.backward(read, grad, ctx.needs_input_grad[1:]))


# What torch's own ``apply`` of a function comes to without functional transforms, less twelve calls in Python.
_record = super(torch.autograd.Function, _Recorded).apply
_unwrapped = torch._C._functorch.unwrap_if_dead


def _record_as_plain(op: DifferentiableOp, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Record an operation on tensors of classes that have memory, of which the result is one, too.

    Made in the function, a result of such a class would be a view, which no one may write to in place.
    """
    kind = next((type(x) for x in inputs if type(x) not in PLAIN), torch.Tensor)
    plain = [x if type(x) in PLAIN else x.as_subclass(torch.Tensor) for x in inputs]
    result: torch.Tensor = _record(op, *map(_unwrapped, plain))
    return result if kind is torch.Tensor else result.as_subclass(kind)


def unbind(x: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return x[0], x[1], ...: see :meth:`.base.Backend.unbind`."""
    if needs_operator((x,)):
        return x.unbind()
    return _Unbind.apply(x) if x.requires_grad and torch.is_grad_enabled() else _rows_of(x)  # type: ignore[no-any-return]


def _rows_of(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return x[0], x[1], ... as tensors that are not views: torch refuses to write into views of ``unbind``."""
    memory, start, step = x.untyped_storage(), x.storage_offset(), x.stride(0)
    return tuple(x.new_empty(0).set_(memory, start + i * step, x.shape[1:], x.stride()[1:]) for i in range(len(x)))


class _Unbind(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _rows_of(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return torch.stack(grads)
