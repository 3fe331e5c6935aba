"""Pooling over windows, split by samples, channels, and spatial rows with a halo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..tdl import ElementWise, Expression, Max, Opaque, Over, Sum, TensorSymbol, describe, over
from .common import index_names

aten = torch.ops.aten


class _Windows:
    """The windows of a pooling: where they lie, and which dimensions of space can be split."""

    def __init__(self, call: OperatorCall):
        self.count = 3 if "3d" in str(call.target) else 2
        self.lead = len(call.shape("self")) - self.count
        self.kernel = self._each(call["kernel_size"])
        self.stride = self._each(call["stride"]) or self.kernel
        self.padding = self._each(call["padding"])
        self.dilation = self._each(call.arguments.get("dilation", [1]))
        self.space, self.taps = index_names(self.count, "x"), index_names(self.count, "k")
        # windows that reach over the end, or count the padding out, depend on where the tensor ends
        ends = call["ceil_mode"] or (any(self.padding) and not call.arguments.get("count_include_pad", True))
        self.keep = [*self.taps, *(self.space if ends else [])]
        self.names = [*index_names(self.lead, "n"), *self.space]
        self.extents = dict(zip(self.taps, self.kernel, strict=True))

    def _each(self, value: Sequence[int]) -> list[int]:
        return list(value) * self.count if len(value) == 1 else list(value)

    def inputs(self, i: Sequence[Any], k: Sequence[Any]) -> tuple[Any, ...]:
        """Return the element of the input under the tap ``k`` of the window ``i``."""
        x = i[self.lead :]
        at = (x[d] * self.stride[d] + k[d] * self.dilation[d] - self.padding[d] for d in range(self.count))
        return (*i[: self.lead], *at)

    def windows(self, i: Sequence[Any], k: Sequence[Any]) -> tuple[Any, ...]:
        """Return the window whose tap ``k`` lies on the element ``i`` of the input."""
        x = i[self.lead :]
        at = ((x[d] + self.padding[d] - k[d] * self.dilation[d]) / self.stride[d] for d in range(self.count))
        return (*i[: self.lead], *at)

    def pad(self, tensor: torch.Tensor, d: int, left: int, right: int, value: float) -> torch.Tensor:
        """Add rows before and after a dimension of space; negative numbers drop rows."""
        widths = [0, 0] * self.count
        widths[2 * (self.count - 1 - d) : 2 * (self.count - d)] = [left, right]
        return functional.pad(tensor, widths, value=value)

    def without_padding(self, d: int) -> list[int]:
        """Return the padding, none in a dimension."""
        return [0 if e == d else p for e, p in enumerate(self.padding)]


def _split(part: OperatorPart) -> int | None:
    """Return the dimension of space that is split."""
    return int(part.index[1:]) if part.index.startswith("x") else None


@rule(aten.max_pool2d_with_indices, aten.max_pool3d_with_indices, aten.avg_pool2d, aten.avg_pool3d)
def pool(call: OperatorCall) -> SplitRule:
    windows = _Windows(call)
    with_indices = len(call.outputs) > 1
    reduce = Max if with_indices else Sum

    def outputs(x: TensorSymbol) -> Any:
        def value(*i: Any) -> Expression:
            return reduce(over(windows.taps, lambda *k: x[windows.inputs(i, k)]))

        made = over(windows.names, value)
        return (made, over(windows.names, lambda *i: ElementWise("argmax")(value(*i)))) if with_indices else made

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        d = _split(part)
        if d is None:
            return part.run(arguments)
        dim = windows.lead + d
        (first, last), (start, stop) = part.rows("self", dim), part.unclipped("self", dim)
        x = arguments["self"]
        fill = (-torch.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min) if with_indices else 0
        padded = windows.pad(x, d, first - start, stop - last, fill)
        made = part.run(arguments, self=padded, padding=windows.without_padding(d))
        if not with_indices:
            return made
        sizes = call.inputs[0][windows.lead :]
        where = _unravel(made[1], padded.shape[windows.lead :])
        where[d] = where[d] + start
        return made[0], _ravel(where, sizes)

    return SplitRule(describe(outputs), extents=windows.extents, keep=windows.keep, local=local)


def _unravel(flat: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
    """Return the indices in each dimension of positions in a row-major array."""
    where = []
    for size in reversed(sizes):
        where.append(flat % size)
        flat = flat // size
    return where[::-1]


def _ravel(where: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    flat = where[0]
    for one, size in zip(where[1:], sizes[1:], strict=True):
        flat = flat * size + one
    return flat


@rule(aten.avg_pool2d_backward, aten.avg_pool3d_backward)
def avg_pool_backward(call: OperatorCall) -> SplitRule:
    windows = _Windows(call)

    def element(grad: TensorSymbol, x: TensorSymbol) -> Over:
        def at(*i: Any) -> Expression:
            return Sum(over(windows.taps, lambda *k: Opaque("share")(grad[windows.windows(i, k)], x[i])))

        return over(windows.names, at)

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        d = _split(part)
        if d is None:
            return part.run(arguments)
        dim, stride = windows.lead + d, windows.stride[d]
        first, last = part.rows("grad_output", dim)
        # the input is only asked for its shape: that of all windows that lie on the part
        left = part.lo + windows.padding[d] - first * stride
        covered = (last - first - 1) * stride + windows.kernel[d]
        padded = windows.pad(arguments["self"], d, left, max(0, covered - part.size - left), 0)
        made = part.run(arguments, self=padded, padding=windows.without_padding(d))
        return made.narrow(dim, left, part.size).clone()

    return SplitRule(describe(element), extents=windows.extents, keep=windows.keep, local=local)


@rule(aten.max_pool2d_with_indices_backward, aten.max_pool3d_with_indices_backward)
def max_pool_backward(call: OperatorCall) -> SplitRule:
    windows = _Windows(call)

    def element(grad: TensorSymbol, x: TensorSymbol, indices: TensorSymbol) -> Over:
        def at(*i: Any) -> Expression:
            def share(*k: Any) -> Expression:
                window = windows.windows(i, k)
                return Opaque("share")(grad[window], indices[window], x[i])

            return Sum(over(windows.taps, share))

        return over(windows.names, at)

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        d = _split(part)
        if d is None:
            return part.run(arguments)
        grad, lead = arguments["grad_output"], windows.lead
        where = _unravel(arguments["indices"], part.call.shape("self")[lead:])
        inside = (where[d] >= part.lo) & (where[d] < part.hi)
        where[d] = (where[d] - part.lo).clamp(0, part.size - 1)
        flat = _ravel(where, part.shape()[lead:]).flatten(lead)
        made = grad.new_zeros(part.shape()).flatten(lead)
        return made.scatter_add(lead, flat, (grad * inside).flatten(lead)).view(part.shape())

    return SplitRule(describe(element), extents=windows.extents, keep=windows.keep, local=local)
