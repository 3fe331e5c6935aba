"""Windows of convolutions and poolings: what lies under them, and how a part by rows of space is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from ..operator import OperatorCall, OperatorPart, RunPart
from .common import index_names


class Windows:
    """Windows over the last ``count`` dimensions of a tensor.

    Attributes
    ----------
    kernel, stride, padding, dilation : list of int
        For each of these dimensions.
    space, taps : list of str
        Names of the indices of windows, ``x0``, ``x1``, ..., and of the elements under one, ``k0``, ``k1``, ...
    """

    def __init__(self, call: OperatorCall, kernel: Sequence[int], count: int):
        self.count = count
        self.kernel = self.each(kernel)
        self.stride = self.each(call["stride"]) or self.kernel
        self.padding = self.each(call["padding"])
        self.dilation = self.each(call.arguments.get("dilation", [1]))
        self.space, self.taps = index_names(count, "x"), index_names(count, "k")
        self.extents = dict(zip(self.taps, self.kernel, strict=True))

    def each(self, value: Sequence[int]) -> list[int]:
        """Return a number for each dimension of space, where one may stand for all."""
        return list(value) * self.count if len(value) == 1 else list(value)

    def inputs(self, i: Sequence[Any], k: Sequence[Any]) -> tuple[Any, ...]:
        """Return the element of the input under the tap ``k`` of the window ``i``; its leading indices are kept."""
        lead, each = len(i) - self.count, range(self.count)
        return (*i[:lead], *(i[lead + d] * self.stride[d] + k[d] * self.dilation[d] - self.padding[d] for d in each))

    def windows(self, i: Sequence[Any], k: Sequence[Any]) -> tuple[Any, ...]:
        """Return the window whose tap ``k`` lies on the element ``i`` of the input; its leading indices are kept."""
        lead, each = len(i) - self.count, range(self.count)
        at = ((i[lead + d] + self.padding[d] - k[d] * self.dilation[d]) / self.stride[d] for d in each)
        return (*i[:lead], *at)

    def pad(self, tensor: torch.Tensor, d: int, left: int, right: int, value: float = 0) -> torch.Tensor:
        """Add rows before and after a dimension of space; negative numbers drop rows."""
        widths = [0, 0] * self.count
        widths[2 * (self.count - 1 - d) : 2 * (self.count - d)] = [left, right]
        return functional.pad(tensor, widths, value=value)

    def padding_but(self, d: int, width: int = 0) -> list[int]:
        """Return the padding, with another width in one dimension."""
        return [width if e == d else p for e, p in enumerate(self.padding)]


def by_rows(
    local: Callable[[OperatorPart, dict[str, Any], int], Any],
    other: RunPart = lambda part, arguments: part.run(arguments),
) -> RunPart:
    """Return how to run a part: ``local(part, arguments, d)`` by rows of dimension ``d`` of space, else ``other``."""

    def run(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        return local(part, arguments, int(part.index[1:])) if part.index.startswith("x") else other(part, arguments)

    return run
