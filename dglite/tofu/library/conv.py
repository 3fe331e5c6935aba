"""Convolutions and their gradients.

By rows of space, a part needs its rows and a halo. Where those reach over the edge of the tensor, the padding of the
operator goes on; elsewhere the neighbours' rows stand in its place. So a part runs with a padding of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..tdl import Expression, Opaque, Over, Place, Sum, TensorSymbol, describe, over
from .common import index_names

aten = torch.ops.aten

NOTHING = over([], lambda: Place(0, slice(None)))
"""A gradient that is not asked for."""


def _space(call: OperatorCall) -> int:
    return len(call.shape("input")) - 2


def _sequence(value: Sequence[int], count: int) -> list[int]:
    return list(value) * count if len(value) == 1 else list(value)


def _geometry(call: OperatorCall) -> tuple[list[int], list[int], list[int]]:
    """Return stride, padding and dilation of each dimension of space."""
    count = _space(call)
    stride, padding, dilation = (_sequence(call[name], count) for name in ("stride", "padding", "dilation"))
    return stride, padding, dilation


@rule(aten.convolution)
def convolution(call: OperatorCall) -> SplitRule:
    if call["groups"] > 1:
        return _in_groups(call)
    count = _space(call)
    stride, padding, dilation = _geometry(call)
    transposed, bias = call["transposed"], call["bias"] is not None
    space, taps = index_names(count, "x"), index_names(count, "k")

    def reads(x: Sequence[Any], k: Sequence[Any]) -> tuple[Any, ...]:
        if transposed:
            return tuple((x[d] + padding[d] - k[d] * dilation[d]) / stride[d] for d in range(count))
        return tuple(x[d] * stride[d] + k[d] * dilation[d] - padding[d] for d in range(count))

    def element(data: TensorSymbol, filters: TensorSymbol, *added: TensorSymbol) -> Over:
        def at(b: Any, co: Any, *x: Any) -> Expression:
            def product(ci: Any, *k: Any) -> Expression:
                channels = (ci, co) if transposed else (co, ci)
                return data[(b, ci, *reads(x, k))] * filters[(*channels, *k)]

            total = Sum(over(["ci", *taps], product))
            return added[0][co] + total if bias else total

        return over(["b", "co", *space], at)

    description = describe(element, ("data", "filters", "bias")[: len(call.inputs)])
    return SplitRule(description, keep=taps, additive=True, local=_transposed if transposed else _convolution)


def _in_groups(call: OperatorCall) -> SplitRule:
    """Return the rule of a grouped convolution: by samples, whole groups, and rows of space."""
    count, groups = _space(call), call["groups"]
    stride, padding, dilation = _geometry(call)
    transposed = call["transposed"]
    space, taps = index_names(count, "x"), index_names(count, "k")
    channels_in, channels_out = call.shape("input")[1] // groups, call.outputs[0][1] // groups
    filter_rows = call.shape("weight")[0] // groups

    def element(data: TensorSymbol, filters: TensorSymbol, *added: TensorSymbol) -> Over:
        def at(b: Any, g: Any, *x: Any) -> Any:
            def product(*k: Any) -> Expression:
                reads: tuple[Any, ...] = (slice(None),) * count
                if not transposed:
                    reads = tuple(x[d] * stride[d] + k[d] * dilation[d] - padding[d] for d in range(count))
                block = data[(b, _block(g, channels_in), *reads)]
                biases = (one[_block(g, channels_out)] for one in added)
                return Opaque("group")(block, filters[(_block(g, filter_rows), slice(None), *k)], *biases)

            made = (slice(None),) * count if transposed else x
            return Place(Sum(over(taps, product)), b, _block(g, channels_out), *made)

        return over(["b", "g", *(() if transposed else space)], at)

    description = describe(element, ("data", "filters", "bias")[: len(call.inputs)])
    return SplitRule(description, extents={"g": groups}, keep=taps, local=_convolution)


def _block(index: Any, size: int) -> slice:
    return slice(index * size, index * size + size)


def _convolution(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    count = _space(part.call)
    changed: dict[str, Any] = {}
    if part.index == "g":
        changed["groups"] = part.size
    elif part.index == "ci" and not part.adds:
        changed["bias"] = None
    elif part.index.startswith("x"):
        d = int(part.index[1:])
        (first, last), (start, stop) = part.rows("input", 2 + d), part.unclipped("input", 2 + d)
        padding = _sequence(arguments["padding"], count)
        # windows all in the padding have no rows
        left, right = (first - start, stop - last) if first < last else (stop - start, 0)
        padding[d] = 0
        changed["padding"] = padding
        if left == right:
            padding[d] = left
        else:
            changed["input"] = _pad(arguments["input"], count, d, left, right)
    return part.run(arguments, **changed)


def _pad(tensor: torch.Tensor, count: int, d: int, left: int, right: int) -> torch.Tensor:
    """Add zeros before and after the rows of a dimension of space; negative numbers drop rows."""
    widths = [0, 0] * count
    widths[2 * (count - 1 - d) : 2 * (count - d)] = [left, right]
    return functional.pad(tensor, widths)


def _transposed(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    count = _space(part.call)
    if part.index == "ci" and not part.adds:
        return part.run(arguments, bias=None)
    if not part.index.startswith("x"):
        return part.run(arguments)
    d = int(part.index[1:])
    stride, padding, _ = _geometry(part.call)
    first, last = part.rows("input", 2 + d)
    low, high = part.output_rows(0, 2 + d)
    padding[d] = 0
    extra = _sequence(arguments["output_padding"], count)
    extra[d] = 0
    if first == last:  # rows of the output padding alone
        made = arguments["input"].new_zeros(part.shape())
    else:
        made = part.run(arguments, bias=None, padding=padding, output_padding=extra)
        begin = first * stride[d] - _geometry(part.call)[1][d]  # which row of the whole output its first row is
        made = _window(made, count, d, low - begin, high - begin)
    bias = arguments["bias"]
    return made if bias is None else made + bias.view(-1, *[1] * count)


def _window(tensor: torch.Tensor, count: int, d: int, low: int, high: int) -> torch.Tensor:
    """Return the rows ``[low, high)`` of a dimension of space, zeros where it has none."""
    left, right = max(0, -low), max(0, high - tensor.shape[2 + d])
    return _pad(tensor, count, d, left, right).narrow(2 + d, low + left, high - low)


@rule(aten.convolution_backward)
def convolution_backward(call: OperatorCall) -> SplitRule | None:
    asked, count = call["output_mask"], _space(call)
    if not (asked[0] or asked[1]):
        return None
    if call["groups"] > 1:
        return _in_groups_backward(call)
    _, padding, dilation = _geometry(call)
    kernel, rows = call.shape("weight")[2:], call.shape("input")[2:]
    taps, space = index_names(count, "k"), index_names(count, "x")
    extents = dict(zip(taps, kernel, strict=True)) | dict(zip(space, rows, strict=True))
    # rows of the gradient that see padding only would be nobody's share of the bias
    beyond = [space[d] for d in range(count) if padding[d] > (kernel[d] - 1) * dilation[d] and asked[2]]
    description = describe(_gradients(call, taps, [] if call["transposed"] else space))
    return SplitRule(description, extents=extents, keep=[*taps, *beyond], local=_backward)


def _gradients(call: OperatorCall, taps: list[str], space: list[str]) -> Callable[..., tuple[Over, ...]]:
    """Return the description: all three gradients by samples, channels, and rows of the input.

    Each reads all tensors, since ATen wants them to fit whichever gradients are asked for.
    """
    count, transposed = _space(call), call["transposed"]
    stride, padding, dilation = _geometry(call)
    whole = (slice(None),) * count
    read = Opaque("product")

    def outputs(grad: TensorSymbol, data: TensorSymbol, filters: TensorSymbol) -> tuple[Over, ...]:
        def product(b: Any, co: Any, ci: Any, x: Sequence[Any], k: Sequence[Any]) -> Expression:
            windows = tuple((i + p - j * e) / s for i, j, s, p, e in zip(x, k, stride, padding, dilation, strict=False))
            channels = (ci, co) if transposed else (co, ci)
            at = grad[(b, co, *(windows or whole))], data[(b, ci, *(x or whole))], filters[(*channels, *k)]
            return read(*at)

        def of_data(b: Any, ci: Any, *x: Any) -> Any:
            return Place(Sum(over(["co", *taps], lambda co, *k: product(b, co, ci, x, k))), b, ci, *(x or whole))

        def of_filters(co: Any, ci: Any, *k: Any) -> Any:
            total = Sum(over(["b", *space], lambda b, *x: product(b, co, ci, x, k)))
            return Place(total, *((ci, co) if transposed else (co, ci)), *k)

        def of_bias(co: Any) -> Expression:
            # a row of the gradient is in the share of the part with the row of the input under the first tap
            def row(b: Any, *x: Any) -> Expression:
                return grad[(b, co, *(tuple(i / s for i, s in zip(x, stride, strict=True)) if x else whole))]

            return Sum(over(["b", *space], row))

        made = over(["b", "ci", *space], of_data), over(["co", "ci", *taps], of_filters), over(["co"], of_bias)
        return tuple(one if wanted else NOTHING for one, wanted in zip(made, call["output_mask"], strict=True))

    return outputs


def _backward(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    grad, mask = arguments["grad_output"], arguments["output_mask"]
    if not part.index.startswith("x"):
        sizes = [grad.shape[1]] if arguments["bias_sizes"] else arguments["bias_sizes"]
        return part.run(arguments, bias_sizes=sizes)
    d, count = int(part.index[1:]), _space(part.call)
    stride, padding, dilation = _geometry(part.call)
    first, last = part.rows("grad_output", 2 + d)
    # zeros around the input put its first row where the first row of the gradient begins
    left = part.lo + padding[d] - first * stride[d]
    kernel = part.call.shape("weight")[2 + d]
    right = max(0, (last - first - 1) * stride[d] + (kernel - 1) * dilation[d] + 1 - part.size - left)
    padding[d] = 0
    data = _pad(arguments["input"], count, d, left, right)
    made = part.run(arguments, input=data, padding=padding, bias_sizes=None, output_mask=[mask[0], mask[1], False])
    of_data, of_filters, of_bias = made
    if mask[0]:
        of_data = of_data.narrow(2 + d, left, part.size)
    if mask[2]:
        low = min(-(-part.lo // stride[d]), last) - first
        high = (last if part.hi == part.strategy.extent else min(-(-part.hi // stride[d]), last)) - first
        of_bias = grad.narrow(2 + d, low, high - low).sum([0, *range(2, 2 + count)])
    return of_data, of_filters, of_bias


def _in_groups_backward(call: OperatorCall) -> SplitRule:
    """Return the rule of a grouped convolution's gradient: by samples and by whole groups."""
    count, groups, asked = _space(call), call["groups"], call["output_mask"]
    whole = (slice(None),) * count
    sizes = (call.shape("grad_output")[1], call.shape("input")[1], call.shape("weight")[0])
    out, in_, rows = (size // groups for size in sizes)

    def element(grad: TensorSymbol, data: TensorSymbol, filters: TensorSymbol) -> tuple[Over, ...]:
        def read(b: Any, g: Any) -> Expression:
            return Opaque("gradient")(
                grad[(b, _block(g, out), *whole)],
                data[(b, _block(g, in_), *whole)],
                filters[(_block(g, rows), slice(None), *whole)],
            )

        def of_filters(g: Any) -> Any:
            return Place(Sum(lambda b: read(b, g)), _block(g, rows), slice(None), *whole)

        made = (
            over("bg", lambda b, g: Place(read(b, g), b, _block(g, in_), *whole)),
            over("g", of_filters),
            over("g", lambda g: Place(Sum(lambda b: read(b, g)), _block(g, out))),
        )
        return tuple(one if wanted else NOTHING for one, wanted in zip(made, asked, strict=True))

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        bias = [arguments["grad_output"].shape[1]] if arguments["bias_sizes"] else arguments["bias_sizes"]
        return part.run(arguments, bias_sizes=bias, groups=part.size if part.index == "g" else arguments["groups"])

    return SplitRule(describe(element), extents={"g": groups}, local=local)
