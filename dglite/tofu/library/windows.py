"""Windows of convolutions and poolings; pooling, resampling and padding of images, split by samples and channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from ..operator import OperatorCall, OperatorPart, RunPart, SplitRule, rule
from ..tdl import ElementWise, Expression, Max, Opaque, Sum, TensorSymbol, describe, over
from .common import IndexNames, index_names, slices


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


aten = torch.ops.aten


class _Pooling(Windows):
    """The windows of a pooling, whose tensors have ``lead`` dimensions before those of space."""

    def __init__(self, call: OperatorCall):
        super().__init__(call, call["kernel_size"], 3 if "3d" in str(call.target) else 2)
        self.lead = len(call.shape("self")) - self.count
        self.names = [*index_names(self.lead, "n"), *self.space]
        # windows that reach over the end, or count the padding out, depend on where the tensor ends
        ends = call["ceil_mode"] or (any(self.padding) and not call.arguments.get("count_include_pad", True))
        self.keep = [*self.taps, *(self.space if ends else [])]

    def rule(self, outputs: Callable[..., Any], local: Callable[[OperatorPart, dict[str, Any], int], Any]) -> SplitRule:
        """Return the rule of a description, and of what runs a part by rows of space."""
        return SplitRule(describe(outputs), extents=self.extents, keep=self.keep, local=by_rows(local))


@rule(aten.max_pool2d_with_indices, aten.max_pool3d_with_indices, aten.avg_pool2d, aten.avg_pool3d)
def pool(call: OperatorCall) -> SplitRule:
    windows = _Pooling(call)
    with_indices = len(call.outputs) > 1
    reduce = Max if with_indices else Sum

    def outputs(x: TensorSymbol) -> Any:
        def value(*i: Any) -> Expression:
            return reduce(over(windows.taps, lambda *k: x[windows.inputs(i, k)]))

        out = over(windows.names, value)
        return (out, over(windows.names, lambda *i: ElementWise("argmax")(value(*i)))) if with_indices else out

    def local(part: OperatorPart, arguments: dict[str, Any], d: int) -> Any:
        dim = windows.lead + d
        (first, last), (start, stop) = part.rows("self", dim), part.unclipped("self", dim)
        x = arguments["self"]
        fill = (-torch.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min) if with_indices else 0
        padded = windows.pad(x, d, first - start, stop - last, fill)
        out = part.run(arguments, self=padded, padding=windows.padding_but(d))
        if not with_indices:
            return out
        where = list(torch.unravel_index(out[1], padded.shape[windows.lead :]))
        where[d] = where[d] + start
        return out[0], _ravel(where, call.inputs[0][windows.lead :])

    return windows.rule(outputs, local)


def _ravel(where: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    """Undo ``torch.unravel_index``."""
    flat = where[0]
    for axis, size in zip(where[1:], sizes[1:], strict=True):
        flat = flat * size + axis
    return flat


@rule(aten.avg_pool2d_backward, aten.avg_pool3d_backward)
def avg_pool_backward(call: OperatorCall) -> SplitRule:
    windows = _Pooling(call)

    def outputs(grad: TensorSymbol, x: TensorSymbol) -> Any:
        def at(*i: Any) -> Expression:
            return Sum(over(windows.taps, lambda *k: Opaque("share")(grad[windows.windows(i, k)], x[i])))

        return over(windows.names, at)

    def local(part: OperatorPart, arguments: dict[str, Any], d: int) -> Any:
        dim, stride = windows.lead + d, windows.stride[d]
        first, last = part.rows("grad_output", dim)
        # the input is only asked for its shape: that of all windows that lie on the part
        left = part.lo + windows.padding[d] - first * stride
        covered = (last - first - 1) * stride + windows.kernel[d]
        padded = windows.pad(arguments["self"], d, left, max(0, covered - part.size - left))
        out = part.run(arguments, self=padded, padding=windows.padding_but(d))
        return out.narrow(dim, left, part.size).clone()

    return windows.rule(outputs, local)


@rule(aten.max_pool2d_with_indices_backward, aten.max_pool3d_with_indices_backward)
def max_pool_backward(call: OperatorCall) -> SplitRule:
    windows = _Pooling(call)

    def outputs(grad: TensorSymbol, x: TensorSymbol, indices: TensorSymbol) -> Any:
        def share(i: Sequence[Any], k: Sequence[Any]) -> Expression:
            window = windows.windows(i, k)
            return Opaque("share")(grad[window], indices[window], x[i])

        return over(windows.names, lambda *i: Sum(over(windows.taps, lambda *k: share(i, k))))

    def local(part: OperatorPart, arguments: dict[str, Any], d: int) -> Any:
        grad, lead = arguments["grad_output"], windows.lead
        where = list(torch.unravel_index(arguments["indices"], part.call.shape("self")[lead:]))
        inside = (where[d] >= part.lo) & (where[d] < part.hi)
        where[d] = (where[d] - part.lo).clamp(0, part.size - 1)
        flat = _ravel(where, part.shape()[lead:]).flatten(lead)
        out = grad.new_zeros(part.shape()).flatten(lead)
        return out.scatter_add(lead, flat, (grad * inside).flatten(lead)).view(part.shape())

    return windows.rule(outputs, local)


SPACE = {
    2: (
        aten._adaptive_avg_pool2d,
        aten._adaptive_avg_pool2d_backward,
        aten.replication_pad2d_backward,
        aten.upsample_bilinear2d,
    ),
    3: (aten._adaptive_avg_pool3d, aten._adaptive_avg_pool3d_backward),
}
"""Operators on images by the dimensions of space, which each reads as a whole."""


def _on_images(space: int) -> None:
    def make(call: OperatorCall) -> SplitRule:
        def names(rank: int) -> IndexNames:
            return [f"i{d}" for d in range(rank - space)] + [None] * space

        return slices(call, [names(len(s)) for s in call.inputs], [names(len(s)) for s in call.outputs])

    rule(*SPACE[space])(make)


for _space in SPACE:
    _on_images(_space)


@rule(aten.upsample_nearest2d_backward, aten.upsample_bilinear2d_backward)
def upsample_backward(call: OperatorCall) -> SplitRule:
    images: IndexNames = ["n", "c", None, None]

    return slices(call, [images], [images], local=lambda part, a: part.run(a, input_size=list(part.shape())))


@rule(aten.grid_sampler_2d)
def grid_sampler(call: OperatorCall) -> SplitRule:
    return slices(call, [["n", "c", None, None], ["n", None, None, None]], [["n", "c", None, None]])
