"""Tensors of PyTorch whose values are computed when something reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .base import Recipe

__all__ = ["Deferred", "values"]


class Deferred(torch.Tensor):
    """A tensor that knows how it is computed, and what a few functions make of that; all others get its values.

    It has shape, dtype, device and a gradient, but no memory until its values are read; from then on it stands for the
    tensor that has been computed, which may be changed in place.
    """

    recipe: Recipe
    computed: torch.Tensor | None

    @staticmethod
    def make(recipe: Recipe, dtype: torch.dtype) -> Deferred:
        """Return the tensor of a recipe."""
        if torch.is_grad_enabled() and any(x.requires_grad for x in recipe.sources):
            linked: Deferred = _Link.apply(recipe, dtype, *recipe.sources)
            return linked
        return _wrapper(recipe, dtype)

    def values(self) -> torch.Tensor:
        """Return the ordinary tensor that this stands for, which has the gradient of what it is computed from."""
        if self.computed is None:
            with torch.enable_grad():
                self.computed = self.recipe.compute(*self.recipe.sources)
        return self.computed

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FACTS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        change = _CHANGES.get(func)
        if change is not None and type(args[0]) is Deferred and args[0].computed is None:
            recipe = change(*args, **kwargs)
            if recipe is not None:
                return args[0] if recipe is args[0].recipe else Deferred.make(recipe, args[0].dtype)
        return func(*values(args), **values(kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Serve what reaches torch's own operations past its functions, as autograd does: with values."""
        return func(*values(args), **values(kwargs or {}))


def values(x: Any) -> Any:
    """Return ``x``, an argument or a collection of them, with ordinary tensors in place of deferred ones."""
    kind = type(x)
    if kind is Deferred:
        return x.values()
    if kind is tuple or kind is list:
        return kind([values(one) for one in x])
    if kind is dict:
        return {key: values(one) for key, one in x.items()}
    return x


def _wrapper(recipe: Recipe, dtype: torch.dtype) -> Deferred:
    made: Deferred = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        Deferred, tuple(recipe.shape), dtype=dtype, device=recipe.sources[0].device
    )
    made.recipe, made.computed = recipe, None
    return made


class _Link(torch.autograd.Function):
    """Leads the gradient to the sources where autograd meets the deferred tensor itself.

    Functions of torch never do: they get the values. A user's own ``torch.autograd.Function`` does.
    """

    @staticmethod
    def forward(ctx: Any, recipe: Recipe, dtype: torch.dtype, *sources: torch.Tensor) -> torch.Tensor:
        ctx.recipe = recipe
        return _wrapper(recipe, dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        recipe, needs = ctx.recipe, ctx.needs_input_grad[2:]
        with torch.enable_grad():
            wanted = [x for x, needed in zip(recipe.sources, needs, strict=True) if needed]
            copies = iter([x.view_as(x) for x in wanted])
            inputs = [next(copies) if needed else x for x, needed in zip(recipe.sources, needs, strict=True)]
            asked = [x for x, needed in zip(inputs, needs, strict=True) if needed]
            found = iter(torch.autograd.grad(recipe.compute(*inputs), asked, grad, create_graph=True))
        return (None, None, *[next(found) if needed else None for needed in needs])


# -- what is known without values --------------------------------------------------------------------------------------
def _leaky_relu(x: Deferred, negative_slope: float = 0.01, inplace: bool = False) -> Recipe | None:
    return None if inplace else x.recipe.leaky_relu(float(negative_slope))


def _dropout(x: Deferred, p: float = 0.5, training: bool = True, inplace: bool = False) -> Recipe | None:
    if not training or p == 0:
        return x.recipe
    return None if inplace else x.recipe.dropout(p)


_CHANGES: dict[Any, Callable[..., Recipe | None]] = {
    torch.nn.functional.leaky_relu: _leaky_relu,
    torch.nn.functional.dropout: _dropout,
    torch.dropout: _dropout,
}
"""The recipe of what a function makes of a deferred tensor, None where it needs the values."""

_FACTS = frozenset(
    [
        *(
            getattr(torch.Tensor, name).__get__
            for name in ("shape", "dtype", "device", "ndim", "requires_grad", "layout", "is_leaf", "is_cuda", "grad_fn")
        ),
        torch.Tensor.size,
        torch.Tensor.dim,
        torch.Tensor.numel,
        torch.Tensor.nelement,
        torch.Tensor.is_floating_point,
        torch.is_floating_point,
        torch.Tensor.__len__,
    ]
)
"""What answers without values."""
