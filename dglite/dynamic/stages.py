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
from ..kernels.render_cell import Rows
from .ir import Domain, Kind, Node
from .memory import Memory
from .order import Order
from .plan import Cell, Heavy, Place, Reading

__all__ = ["Call", "Run", "Steps", "bind"]

Run = Callable[[int], Any]
"""Runs one step of a stage."""

_DTYPES = {torch.float32: "float32", torch.float64: "float64"}


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


def bind(stage: Cell | Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    """Return what runs a stage for each step."""
    if isinstance(stage, Cell):
        return _bind_cell(stage, memory, call, steps)
    return _BINDERS[stage.node.kind](stage, memory, call, steps)


# -- kernels ---------------------------------------------------------------------------------------------------------
def _bind_cell(stage: Cell, memory: Memory, call: Call, steps: Steps) -> Run:
    cells = compiled("cell")
    rows = tuple(reading.rows for reading in stage.readings)
    kernel = cells.formula_kernel(stage.formulas, rows, _DTYPES[stage.dtype], stage.width)
    words = array("q", (0, 0, stage.width))
    for reading in stage.readings:
        words.extend(_operand_words(reading, memory, call, stage.domain))
    for place in stage.places:
        words.extend(memory.address(place))
    return _kernel_run(kernel, words, steps.of(stage.domain), stage.width * 8, call.threads)


def _kernel_run(kernel: int, words: array, runs: Sequence[Sequence[int]], work: int, threads: int) -> Run:
    """Return what runs a row kernel for a step's rows; ``work`` is about how much one row is."""
    at, run_rows_at = words.buffer_info()[0], compiled("cell").run_rows_at

    def run(step: int) -> None:
        first, last = runs[step]
        words[0], words[1] = first, last
        run_rows_at(kernel, at, (last - first) * work, threads)

    return run


def _operand_words(reading: Reading, memory: Memory, call: Call, domain: Domain) -> tuple[int, int, int, int]:
    """Return address, row stride, address of the index and its step."""
    order, source = call.order, reading.source
    if isinstance(source, Place):
        address, stride = memory.address(source)
        if reading.rows is Rows.SAME:
            return address, stride, 0, 0
        return address, stride, order.parents.ctypes.data, 1
    item = source.dtype.itemsize
    if source.kind is Kind.SHARED:
        return call.shared[source.attr].data_ptr() + reading.column * item, 0, 0, 0
    slot, state = source.attr if source.kind is Kind.GATHER else (0, source.attr)
    tensor = call.states[state]
    address, stride = tensor.data_ptr() + reading.column * item, tensor.stride(0) * item
    if source.kind is Kind.CHILD:
        return address, stride, order.children.ctypes.data, 1
    return address, stride, order.child_table(call.slots).ctypes.data + 8 * slot, call.slots


def _bind_sum(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    """Sum over the children."""
    order, x = call.order, stage.node.inputs[0]
    assert stage.place is not None
    if stage.places[0] is None:
        rows, index = Rows.INDEXED, order.children.ctypes.data
        tensor = call.states[x.attr]
        address, stride = tensor.data_ptr(), tensor.stride(0) * tensor.element_size()
    else:
        rows, index = Rows.SAME, 0
        address, stride = memory.address(stage.places[0])
    return _bind_sums(stage, memory, call, steps, rows, (order.bounds.ctypes.data, address, stride, index))


def _bind_collect(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    """Sum what the parents have handed on."""
    table, bounds = call.tables[stage.node.attr], call.order.parent_bounds.ctypes.data
    return _bind_sums(stage, memory, call, steps, Rows.ADDRESSED, (bounds, 0, 0, table.ctypes.data))


def _bind_sums(
    stage: Heavy, memory: Memory, call: Call, steps: Steps, rows: Rows, source: tuple[int, int, int, int]
) -> Run:
    assert stage.place is not None
    node = stage.node
    kernel = compiled("cell").sum_kernel(rows, _DTYPES[node.dtype], node.width)
    words = array("q", (0, 0, node.width, *source, *memory.address(stage.place)))
    return _kernel_run(kernel, words, steps.rows, node.width * 4, call.threads)


# -- products --------------------------------------------------------------------------------------------------------
def _bind_matmul(stage: Heavy, memory: Memory, call: Call, steps: Steps) -> Run:
    place, result = stage.places[0], stage.place
    assert place is not None and result is not None
    domain, weight = stage.node.domain, call.shared[stage.node.inputs[1].attr]
    weight = weight.t() if stage.node.attr else weight
    xs = steps.parts(memory.tensor(place), domain)
    outs = steps.parts(memory.tensor(result), domain)
    mm = torch.mm

    def run(step: int) -> None:
        mm(xs[step], weight, out=outs[step])

    return run


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
    Kind.SUM: _bind_sum,
    Kind.COLLECT: _bind_collect,
    Kind.WEIGHT_GRAD: _bind_weight_grad,
    Kind.COLUMN_SUM: _bind_column_sum,
    Kind.OPAQUE: _bind_opaque,
    Kind.VJP: _bind_vjp,
    Kind.RANDOM: _bind_random,
}
