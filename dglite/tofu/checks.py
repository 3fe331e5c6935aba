"""What is checked of a module and its loss when a step is captured."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.fx import Graph

from ..errors import DGLError, DGLWarning

MANY_OPERATORS = 20_000
"""Operators of a forward pass that take a minute to plan."""


def check_whole(module: nn.Module) -> None:
    """Raise if a module is not made yet, or wrapped for another way of training."""
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
        raise DGLError("the module has lazy parameters without a shape: call it once before, as module(x)")
    if isinstance(module, nn.parallel.DistributedDataParallel):
        raise DGLError("the module is a DistributedDataParallel: pass what it wraps, as ddp.module")


def keep_hooks(name: str, p: torch.Tensor, symbolic: torch.Tensor) -> None:
    """Give the hooks of a parameter to the tensor that stands for it."""
    if p._post_accumulate_grad_hooks:  # type: ignore[attr-defined]
        raise DGLError(
            f"the parameter {name!r} has a hook of register_post_accumulate_grad_hook, but parameters accumulate no"
            " gradients here: use register_hook, which becomes part of the step, or step.backward() and step.update()"
        )
    for hook in (p._backward_hooks or {}).values():
        symbolic.register_hook(hook)


def check_loss(value: Any) -> None:
    """Raise if a loss is not one floating point number that depends on parameters."""
    if not isinstance(value, torch.Tensor):
        raise DGLError(f"the loss is a {type(value).__name__}: return a tensor of one number, or pass `loss=`")
    if value.numel() != 1 or not value.is_floating_point():
        raise DGLError(f"the loss has shape {tuple(value.shape)} and {value.dtype}: reduce it to one number")
    if not value.requires_grad:
        raise DGLError("the loss depends on no parameter that requires a gradient")


def warn_of_loops(graph: Graph) -> None:
    """Name the module with the most operators if there are enough for planning to take minutes."""
    count = Counter(node.meta["module"] for node in graph.nodes if node.op == "call_function")
    if count.total() > MANY_OPERATORS:
        name, most = count.most_common(1)[0]
        warnings.warn(
            f"the forward pass has {count.total():,} operators, {most:,} of them in module {name!r}: a loop in Python"
            " is recorded round by round, and planning takes about a minute for each 20,000 operators. Write the loop"
            " as operators over whole tensors, or plan for shorter sequences",
            DGLWarning,
            stacklevel=3,
        )
