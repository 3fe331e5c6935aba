"""Stages made ready for one call: functions of the number of a step, with every address and slice worked out.

What a step of the sweep costs besides its arithmetic is one call of a compiled kernel, or of a product into memory that
is there.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..kernels import compiled
from .ir import Domain, Kind
from .layout import Chain, Layout, SharedSource, StateSource, TableSource, Words
from .memory import Memory
from .order import Order
from .recipe import Buffer, Heavy

__all__ = ["Call", "Run", "Steps", "addresses", "bind"]

_DTYPES = {torch.float32: "float32", torch.float64: "float64"}

Run = Callable[[int], Any]
"""Runs one step of a stage."""


@dataclass
class Call:
    """What all classes share in one call."""

    order: Order
    states: list[torch.Tensor]
    shared: list[torch.Tensor]
    slots: int
    threads: int
    shared_grads: dict[int, torch.Tensor] = field(default_factory=dict)
    tables: dict[tuple[int, bool], Any] = field(default_factory=dict)


@dataclass
class Steps:
    """Runs of rows of one class and their edges, as (first, last)."""

    rows: Sequence[Sequence[int]]
    edges: Sequence[Sequence[int]]

    def of(self, domain: Domain) -> Sequence[Sequence[int]]:
        """Return the runs of rows, or of edges."""
        return self.rows if domain is Domain.VERTEX else self.edges

    def parts(self, tensor: torch.Tensor, domain: Domain) -> Sequence[torch.Tensor]:
        """Return the rows of each step of a tensor with the rows of the class."""
        runs = self.of(domain)
        return (tensor,) if len(runs) == 1 else tensor.split([last - first for first, last in runs])


def bind(stage: Chain | Heavy, memory: Memory, words: Words, call: Call, steps: Steps) -> Run:
    """Return what runs a stage for each step."""
    if isinstance(stage, Chain):
        return _bind_chain(stage, words, call.threads, steps.of(stage.domain))
    return _BINDERS[stage.node.kind](stage, memory, call, steps)


def _bind_chain(chain: Chain, words: Words, threads: int, runs: Sequence[Sequence[int]]) -> Run:
    """Return what runs row kernels for a step's rows."""
    at, array, start, work = words.address + 8 * chain.start, words.array, chain.start, chain.work
    stop, run_chain = start + 2, compiled("cell").run_chain

    def run(step: int) -> None:
        first, last = array[start:stop] = runs[step]
        run_chain(at, (last - first) * work, threads)

    return run


def addresses(layout: Layout, memory: Memory, call: Call) -> list[int]:
    """Return the address of each source of a layout's words."""
    order, slots, found = call.order, layout.slots, memory.addresses
    tables, states, shared = call.tables, call.states, call.shared
    find = {
        Buffer: found.__getitem__,
        str: lambda name: order.address(name, slots),
        StateSource: lambda source: states[source.state].data_ptr(),
        SharedSource: lambda source: shared[source.index].data_ptr(),
        TableSource: lambda source: tables[source.state, source.by_slot].ctypes.data,
    }
    return [find[type(source)](source) for source in layout.sources]


# -- products --------------------------------------------------------------------------------------------------------
def _bind_matmul(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    place, result = stage.places[0], stage.place
    assert place is not None and result is not None
    domain, weight = stage.node.domain, call.shared[stage.node.inputs[1].attr]
    x, out = memory.tensor(place), memory.tensor(result)
    weight = weight.t() if stage.node.attr else weight
    most, run_few = _bind_few_rows(x, weight, out, call.threads)
    runs, start, mm = steps.of(domain), memory.span.first(domain), torch.mm

    def run(step: int) -> None:
        first, last = runs[step]
        if last - first <= most:
            run_few(first - start, last - first)
        else:
            mm(x[first - start : last - start], weight, out=out[first - start : last - start])

    return run


def _bind_few_rows(
    x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, threads: int
) -> tuple[int, Callable[[int, int], None]]:
    """Return up to how many rows, -1 where only a GEMM can, and what runs (first, count) rows of ``x @ weight``."""
    products = compiled("product")
    turned = weight.stride(1) != 1
    matrix = weight.t() if turned else weight
    kernel = 0
    if matrix.stride(1) == 1 and matrix.numel():
        kernel = products.product_kernel(_DTYPES[x.dtype], matrix.shape[1], turned)
    item, work = x.element_size(), matrix.numel()
    x_stride, out_stride = x.stride(0) * item, out.stride(0) * item
    x_start, out_start = x.data_ptr(), out.data_ptr()
    middle = (*matrix.shape, x_start, x_stride, matrix.data_ptr(), matrix.stride(0) * item, out_start, out_stride)
    words = array("q", (0, *middle))
    at, run_product = words.buffer_info()[0], products.run_product

    def run(first: int, count: int) -> None:
        words[0], words[3], words[7] = count, x_start + first * x_stride, out_start + first * out_stride
        run_product(kernel, at, work, threads)

    return (products.MOST_ROWS if kernel else -1), run


def _bind_weight_grad(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    """Add ``x.T @ gradient``, in the layout of the weight."""
    x, gradient = (memory.tensor(place) for place in stage.places if place is not None)
    domain, index = stage.node.inputs[0].domain, stage.node.attr
    weight = call.shared[index]
    turned = weight.stride(0) == 1 and weight.shape[0] > 1
    left, right = (gradient, x) if turned else (x, gradient)
    lefts, rights = steps.parts(left, domain), steps.parts(right, domain)

    def run(step: int) -> None:
        known = call.shared_grads.get(index)
        if known is None:
            made = torch.mm(lefts[step].t(), rights[step])
            call.shared_grads[index] = made.t() if turned else made
        else:
            (known.t() if turned else known).addmm_(lefts[step].t(), rights[step])

    return run


def _bind_column_sum(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    assert stage.places[0] is not None
    index = stage.node.attr
    parts = steps.parts(memory.tensor(stage.places[0]), stage.node.inputs[0].domain)

    def run(step: int) -> None:
        _accumulate(call, index, parts[step].sum(0))

    return run


def _accumulate(call: Call, index: int, term: torch.Tensor) -> None:
    known = call.shared_grads.get(index)
    if known is None:
        call.shared_grads[index] = term.view(call.shared[index].shape) if not term.is_sparse else term
    elif known.is_sparse or term.is_sparse:
        call.shared_grads[index] = known + term
    else:
        known += term.view(known.shape)


# -- torch functions -------------------------------------------------------------------------------------------------
def _input_parts(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> list[Any]:
    """Return, for each input, its rows by step; the same tensor for each step where it is shared."""
    parts: list[Any] = []
    for x, place in zip(stage.node.inputs, stage.places, strict=True):
        if place is None:
            parts.append([call.shared[x.attr]] * len(steps.rows))
        else:
            parts.append(steps.parts(memory.tensor(place), x.domain))
    return parts


def _bind_opaque(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    assert stage.place is not None
    node = stage.node
    parts = _input_parts(stage, memory, call, steps)
    outs = steps.parts(memory.tensor(stage.place), node.domain)

    def run(step: int) -> None:
        out = outs[step]
        out.copy_(node.attr([part[step] for part in parts], len(out)).reshape(out.shape))

    return run


def _bind_vjp(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    function, wanted = stage.node.attr
    *parts, gradients = _input_parts(stage, memory, call, steps)
    outs = None if stage.place is None else steps.parts(memory.tensor(stage.place), stage.node.domain)

    def run(step: int) -> None:
        values = [part[step].detach() for part in parts]
        gradient = gradients[step]
        with torch.enable_grad():
            target = values[wanted] = values[wanted].requires_grad_()
            result = function(values, len(gradient))
        (found,) = torch.autograd.grad(result, target, gradient.reshape(result.shape))
        if outs is None:
            _accumulate(call, stage.node.inputs[wanted].attr, found)
        else:
            outs[step].copy_(found)

    return run


def _bind_random(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    assert stage.place is not None
    outs = steps.parts(memory.tensor(stage.place), stage.node.domain)

    def run(step: int) -> None:
        outs[step].bernoulli_(stage.node.attr)

    return run


_BINDERS = {
    Kind.MATMUL: _bind_matmul,
    Kind.WEIGHT_GRAD: _bind_weight_grad,
    Kind.COLUMN_SUM: _bind_column_sum,
    Kind.OPAQUE: _bind_opaque,
    Kind.VJP: _bind_vjp,
    Kind.RANDOM: _bind_random,
}
