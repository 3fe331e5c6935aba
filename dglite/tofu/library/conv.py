"""Convolutions and their gradients.

By rows of space, a part needs its rows and a halo. Where those reach over the edge of the tensor, the padding of the
operator goes on; elsewhere the neighbours' rows stand in its place. So a part runs with a padding of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..tdl import Expression, IndexedFunction, Opaque, Place, Sum, TensorSymbol, describe, over
from .common import NOTHING
from .windows import Windows, by_rows

aten = torch.ops.aten


def _windows(call: OperatorCall) -> Windows:
    return Windows(call, call.shape("weight")[2:], len(call.shape("input")) - 2)


@rule(aten.convolution)
def convolution(call: OperatorCall) -> SplitRule:
    if call["groups"] > 1:
        return _in_groups(call)
    windows, transposed = _windows(call), call["transposed"]
    reads = windows.windows if transposed else windows.inputs

    def element(data: TensorSymbol, filters: TensorSymbol, *bias: TensorSymbol) -> IndexedFunction:
        def at(b: Any, co: Any, *x: Any) -> Expression:
            def product(ci: Any, *k: Any) -> Expression:
                channels = (ci, co) if transposed else (co, ci)
                return data[(b, ci, *reads(x, k))] * filters[(*channels, *k)]

            total = Sum(over(["ci", *windows.taps], product))
            return bias[0][co] + total if bias else total

        return over(["b", "co", *windows.space], at)

    description = describe(element, ("data", "filters", "bias")[: len(call.inputs)])
    return SplitRule(description, keep=windows.taps, additive=True, local=TRANSPOSED if transposed else CONVOLUTION)


def _in_groups(call: OperatorCall) -> SplitRule:
    """Return the rule of a grouped convolution: by samples, whole groups, and rows of space."""
    windows, groups, transposed = _windows(call), call["groups"], call["transposed"]
    whole = (slice(None),) * windows.count
    channels_in, channels_out = call.shape("input")[1] // groups, call.outputs[0][1] // groups
    filter_rows = call.shape("weight")[0] // groups

    def element(data: TensorSymbol, filters: TensorSymbol, *added: TensorSymbol) -> IndexedFunction:
        def at(b: Any, g: Any, *x: Any) -> Any:
            def product(*k: Any) -> Expression:
                block = data[(b, _block(g, channels_in), *(whole if transposed else windows.inputs(x, k)))]
                biases = (bias[_block(g, channels_out)] for bias in added)
                return Opaque("group")(block, filters[(_block(g, filter_rows), slice(None), *k)], *biases)

            return Place(Sum(over(windows.taps, product)), b, _block(g, channels_out), *(x or whole))

        return over(["b", "g", *(() if transposed else windows.space)], at)

    description = describe(element, ("data", "filters", "bias")[: len(call.inputs)])
    return SplitRule(description, extents={"g": groups}, keep=windows.taps, local=CONVOLUTION)


def _block(index: Any, size: int) -> slice:
    return slice(index * size, index * size + size)


def _whole_rows(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    """Run a part of a convolution by channels, groups or samples."""
    if part.index == "g":
        return part.run(arguments, groups=part.size)
    return part.run(arguments, bias=None) if part.index == "ci" and not part.adds else part.run(arguments)


def _rows(part: OperatorPart, arguments: dict[str, Any], d: int) -> Any:
    windows = _windows(part.call)
    (first, last), (start, stop) = part.rows("input", 2 + d), part.unclipped("input", 2 + d)
    # windows all in the padding have no rows
    left, right = (first - start, stop - last) if first < last else (stop - start, 0)
    if left == right:
        return part.run(arguments, padding=windows.padding_but(d, left))
    return part.run(arguments, input=windows.pad(arguments["input"], d, left, right), padding=windows.padding_but(d))


def _transposed_rows(part: OperatorPart, arguments: dict[str, Any], d: int) -> Any:
    windows, dim = _windows(part.call), 2 + d
    first, last = part.rows("input", dim)
    if first == last:  # rows of the output padding alone
        out = arguments["input"].new_zeros(part.shape())
    else:
        extra = windows.each(arguments["output_padding"])
        extra[d] = 0
        out = part.run(arguments, bias=None, padding=windows.padding_but(d), output_padding=extra)
        # rows of the whole output, counted from the first one that was made
        low, high = (row - first * windows.stride[d] + windows.padding[d] for row in part.output_rows(0, dim))
        left = max(0, -low)
        out = windows.pad(out, d, left, max(0, high - out.shape[dim])).narrow(dim, low + left, high - low)
    bias = arguments["bias"]
    return out if bias is None else out + bias.view(-1, *[1] * windows.count)


CONVOLUTION, TRANSPOSED = by_rows(_rows, _whole_rows), by_rows(_transposed_rows, _whole_rows)
"""How a part of a convolution is run."""


@rule(aten.convolution_backward)
def convolution_backward(call: OperatorCall) -> SplitRule | None:
    mask, windows = call["output_mask"], _windows(call)
    if not (mask[0] or mask[1]):
        return None
    if call["groups"] > 1:
        description = describe(_gradients_in_groups(call, windows))
        return SplitRule(description, extents={"g": call["groups"]}, local=_gradients_of_part)
    padding, reach = windows.padding, [(k - 1) * e for k, e in zip(windows.kernel, windows.dilation, strict=True)]
    # rows of the gradient that see padding only would be nobody's share of the bias
    beyond = [name for name, p, taps in zip(windows.space, padding, reach, strict=True) if p > taps and mask[2]]
    extents = windows.extents | dict(zip(windows.space, call.shape("input")[2:], strict=True))
    description = describe(_gradients(call, windows))
    return SplitRule(description, extents=extents, keep=[*windows.taps, *beyond], local=BACKWARD)


def _masked(call: OperatorCall, *outputs: IndexedFunction) -> tuple[IndexedFunction, ...]:
    """Return the outputs, nothing for those that are not asked for."""
    return tuple(output if needed else NOTHING for output, needed in zip(outputs, call["output_mask"], strict=True))


def _gradients(call: OperatorCall, windows: Windows) -> Callable[..., tuple[IndexedFunction, ...]]:
    """Return the description: all three gradients by samples, channels, and rows of the input.

    Each reads all tensors, since ATen wants them to fit whichever gradients are asked for.
    """
    transposed, taps, stride = call["transposed"], windows.taps, windows.stride
    space = [] if transposed else windows.space
    whole = (slice(None),) * windows.count
    read = Opaque("product")

    def outputs(grad: TensorSymbol, data: TensorSymbol, filters: TensorSymbol) -> tuple[IndexedFunction, ...]:
        def product(b: Any, co: Any, ci: Any, x: Sequence[Any], k: Sequence[Any]) -> Expression:
            channels = (ci, co) if transposed else (co, ci)
            rows = windows.windows(x, k) if x else whole
            return read(grad[(b, co, *rows)], data[(b, ci, *(x or whole))], filters[(*channels, *k)])

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

        return _masked(
            call, over(["b", "ci", *space], of_data), over(["co", "ci", *taps], of_filters), over(["co"], of_bias)
        )

    return outputs


def _gradients_of_part(part: OperatorPart, arguments: dict[str, Any]) -> Any:
    """Run a part of the gradients by channels, groups or samples."""
    sizes = [arguments["grad_output"].shape[1]] if arguments["bias_sizes"] else arguments["bias_sizes"]
    return part.run(arguments, bias_sizes=sizes, groups=part.size if part.index == "g" else arguments["groups"])


def _gradients_of_rows(part: OperatorPart, arguments: dict[str, Any], d: int) -> Any:
    grad, mask, windows = arguments["grad_output"], arguments["output_mask"], _windows(part.call)
    stride, reach = windows.stride[d], (windows.kernel[d] - 1) * windows.dilation[d]
    first, last = part.rows("grad_output", 2 + d)
    # zeros around the input put its first row where the first row of the gradient begins
    left = part.lo + windows.padding[d] - first * stride
    right = max(0, (last - first - 1) * stride + reach + 1 - part.size - left)
    data, padding = windows.pad(arguments["input"], d, left, right), windows.padding_but(d)
    gradients = part.run(arguments, input=data, padding=padding, bias_sizes=None, output_mask=[mask[0], mask[1], False])
    of_data, of_filters, of_bias = gradients
    if mask[0]:
        of_data = of_data.narrow(2 + d, left, part.size)
    if mask[2]:
        low = min(-(-part.lo // stride), last) - first
        high = (last if part.hi == part.strategy.extent else min(-(-part.hi // stride), last)) - first
        of_bias = grad.narrow(2 + d, low, high - low).sum([0, *range(2, 2 + windows.count)])
    return of_data, of_filters, of_bias


BACKWARD = by_rows(_gradients_of_rows, _gradients_of_part)


def _gradients_in_groups(call: OperatorCall, windows: Windows) -> Callable[..., tuple[IndexedFunction, ...]]:
    """Return the description of a grouped convolution's gradients: by samples and by whole groups."""
    whole = (slice(None),) * windows.count
    sizes = (call.shape("grad_output")[1], call.shape("input")[1], call.shape("weight")[0])
    out, in_, rows = (size // call["groups"] for size in sizes)

    def outputs(grad: TensorSymbol, data: TensorSymbol, filters: TensorSymbol) -> tuple[IndexedFunction, ...]:
        def read(b: Any, g: Any) -> Expression:
            return Opaque("gradient")(
                grad[(b, _block(g, out), *whole)],
                data[(b, _block(g, in_), *whole)],
                filters[(_block(g, rows), slice(None), *whole)],
            )

        def summed(g: Any, *where: Any) -> Any:
            return Place(Sum(lambda b: read(b, g)), *where)

        return _masked(
            call,
            over("bg", lambda b, g: Place(read(b, g), b, _block(g, in_), *whole)),
            over("g", lambda g: summed(g, _block(g, rows), slice(None), *whole)),
            over("g", lambda g: summed(g, _block(g, out))),
        )

    return outputs
