"""What a trace keeps of a function, and torch functions that are called again with other values in their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .ir import Node, RowDomain


@dataclass(frozen=True)
class SharedTensor:
    """A tensor without rows: one that F refers to, or what ``function`` makes of others, the ``inputs``.

    One that ``is_constant`` belongs to the trace, not to F.
    """

    tensor: torch.Tensor | None = None
    function: Callable[[Sequence[torch.Tensor]], Any] | None = None
    inputs: Sequence[int] = ()
    is_constant: bool = False


@dataclass
class TracedFunction:
    """What F does: its results, and what it reads besides its vertices."""

    states: list[Node] = field(default_factory=list)
    pushes: list[Node] = field(default_factory=list)
    shared: list[SharedTensor] = field(default_factory=list)
    slots: int = 0
    gathers_all: bool = False


def filler(call: Any, is_place: Callable[[Any], bool]) -> Callable[[Sequence[Any]], Any]:
    """Return what puts values in the places of a call's arguments that ``is_place`` tells, and keeps all others."""
    leaves, spec = pytree.tree_flatten(call)
    places = [i for i, x in enumerate(leaves) if is_place(x)]
    constants = [None if is_place(x) else x for x in leaves]

    def filled(values: Sequence[Any]) -> Any:
        every = list(constants)
        for place, value in zip(places, values, strict=True):
            every[place] = value
        return pytree.tree_unflatten(every, spec)

    return filled


def batch_filler(call: Any, nodes: Sequence[Node], rows: int) -> Callable[[Sequence[torch.Tensor], int], Any]:
    """Return what puts batches of rows in the places of made-up ones, and their number where that was given."""

    def is_count(x: Any) -> bool:
        return type(x) is int and x == rows

    counts = [is_count(x) for x in pytree.tree_leaves(call) if is_count(x) or isinstance(x, torch.Tensor)]
    filled = filler(call, lambda x: is_count(x) or isinstance(x, torch.Tensor))
    shapes = [None if node.domain is RowDomain.SHARED else node.shape for node in nodes]

    def arguments(values: Sequence[torch.Tensor], num_rows: int) -> Any:
        pairs = zip(values, shapes, strict=True)
        rows_of = (x if shape is None else x.reshape(num_rows, *shape) for x, shape in pairs)
        return filled([num_rows if counted else next(rows_of) for counted in counts])

    return arguments


def expanded(values: Sequence[torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor:
    """Return a shared tensor with the elements of a row of this shape, flat."""
    (x,) = values
    x = x.reshape(x.shape[x.dim() - len(shape) :]) if x.dim() > len(shape) else x
    return x.expand(shape).reshape(-1)


def on_copy(function: Callable[..., Any], written: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return what an in-place operator makes of a tensor, which others may still read."""
    return function(written.clone(), *args, **kwargs)


def converted(values: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """Return a shared tensor in another dtype."""
    return values[0].to(dtype)


def outputs_of(result: Any) -> list[Any]:
    """Return the results of a function that returns one or several."""
    return list(result) if isinstance(result, list | tuple) else [result]


INNER = slice(2, -1)
"""Rows that must come out alike when they are alone: scans see those before or after, and a reversal moves them."""


def inner_rows_alike(whole: Any, part: Any) -> bool:
    """Whether what a function gives for all rows has in the ``INNER`` ones what it gives for these alone."""
    pairs = zip(outputs_of(whole), outputs_of(part), strict=True)
    return all(
        x[INNER].shape == y.shape
        and torch.allclose(x[INNER].double(), y.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
        for x, y in pairs
        if isinstance(x, torch.Tensor) and x.dim() and x.numel()
    )


def is_tensor(x: Any) -> bool:
    """Whether a leaf of a call's arguments is a tensor."""
    return isinstance(x, torch.Tensor)
