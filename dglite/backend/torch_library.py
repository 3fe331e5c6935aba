"""Operations registered in ``torch.library``, which ``torch.compile`` keeps in its graphs.

Each operation is ``dglite::<name>(Tensor[] inputs, SymInt[] structure, str recipe, Tensor? keeper) -> (result, kept)``.
It is made of its ``RegisteredOp`` alone, so what it computes is written once, for programs that are compiled and for
those that are not. Eager programs do not come this way: torch's dispatcher costs more than a small kernel.

The memory of ``kept`` holds on to the structure, of which the program has the number only. Operations of the gradient
take it as their ``keeper``: that is why it is saved until they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .protocols import RESULT, MakeOp, RegisteredOp

__all__ = ["OPS", "register"]

_LIBRARY = torch.library.Library("dglite", "DEF")
_SIGNATURE = "(Tensor[] inputs, SymInt[] structure, str recipe, Tensor? keeper) -> (Tensor, Tensor)"
_NOTHING = ((0,), "uint8")

OPS: dict[str, Any] = {}
"""The registered operations by name."""


def register(name: str, make: MakeOp, dtypes: Mapping[str, torch.dtype]) -> None:
    """Register the operation that ``make`` makes, with its description (a fake kernel) and its gradient."""

    def compute(inputs: list[torch.Tensor], structure: Sequence[int], recipe: str, keeper: Any) -> tuple[Any, Any]:
        op = make(structure, recipe, (False,) * len(inputs), True, None)
        return op.forward(*inputs), _held(op)

    def describe(inputs: list[torch.Tensor], structure: Sequence[int], recipe: str, keeper: Any) -> tuple[Any, ...]:
        described = make(structure, recipe, (False,) * len(inputs), False, None).describe(*inputs)
        return tuple(
            torch.empty(tuple(shape), dtype=dtypes[dtype], device="cpu")
            for shape, dtype in (one or _NOTHING for one in described)
        )

    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        tensors, ctx.structure, ctx.recipe, _ = inputs
        needs = tuple(ctx.needs_input_grad[: len(tensors)])
        op = make(ctx.structure, ctx.recipe, needs, False, None)
        ctx.shapes = [tuple(x.shape) for x in tensors]
        ctx.save_for_backward(*[output[0] if i == RESULT else tensors[i] for i in op.saved], output[1])

    def differentiate(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
        needs = tuple(ctx.needs_input_grad[0])
        *saved, kept = ctx.saved_tensors
        op = make(ctx.structure, ctx.recipe, needs, False, kept)
        op.shapes, op.kept = ctx.shapes, kept
        read: list[torch.Tensor | None] = [None] * (len(needs) + 1)
        for i, x in zip(op.saved, saved, strict=True):
            read[i] = x
        return list(op.backward(read, grad, needs)), None, None, None

    _LIBRARY.define(name + _SIGNATURE, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"dglite::{name}", describe, lib=_LIBRARY)
    torch.library.register_autograd(f"dglite::{name}", differentiate, setup_context=save, lib=_LIBRARY)
    OPS[name] = getattr(torch.ops.dglite, name).default


class _Held(np.ndarray):
    """Memory of a tensor that keeps an object alive: ``owner``."""

    owner: object


def _held(op: RegisteredOp) -> torch.Tensor:
    """Return what ``op`` keeps as a tensor whose memory holds on to the op's owner.

    The gradient's inputs are tensors only, so this is how a structure outlives its graph until the gradient is known.
    """
    array = (np.empty(0, np.uint8) if op.kept is None else op.kept.numpy()).view(_Held)
    array.owner = op.owner
    return torch.from_numpy(array)
