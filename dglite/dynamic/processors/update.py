"""What a script ends with: gradients of parameters from what the backward sweep left, and the optimizer's formulas.

A weight that occurs in one product, under plain gradient descent, is changed as the product of gradients and inputs is
summed up, tile by tile in registers: its gradient is never stored. Any other gradient is, in memory kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ...expr import Constant, Expr, compact
from ...kernels.cpu.dynamic.kernels import CLEAR
from ...kernels.cpu.dynamic.script import ALONGSIDE, CONTINUES, FOLLOWS, touched_rows
from ...kernels.render.rows import StepSpec
from ...structure.distinct import distinct
from ..batching.execution.matrices import EmbeddingLookup, WeightProduct
from ..batching.recording.kinds import DTYPES
from ..batching.recording.recorded import ProgramCall
from ..batching.recording.signatures import operand
from .layout import StepLayout, place_rows
from .rules import TrainedParameter, UpdateRule

_SET, _ADD, _RULE = 0, 2, 4
"""Where numbers of a parameter are: what is kept of its gradient's memory and the scale of what is added, to set it and
to add to it; then those of its rule."""


class OperationList:
    """Rows (operation, place of its words, work, how it goes with the rows before, see add), and the words.

    What differs from step to step is listed: ``sized`` (place of the number of rows), ``programs`` (place of the words,
    which part) of each, ``scattered`` (addresses of rows, number of the lookup, address and row stride of the table).
    """

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.words: list[int] = []
        self.keep: list[np.ndarray] = []
        self.sized: list[int] = []
        self.programs: dict[int, list[tuple[int, int]]] = {}
        self.scattered: list[tuple[np.ndarray, int, int, int]] = []

    def add(self, words: Sequence[int], work: int, order: int = ALONGSIDE, apart: bool = True) -> None:
        """Add an operation; the first of its words is its kernel. ``apart`` tells that no two rows are the same."""
        self.rows.append((words[0], len(self.words), work, order, int(apart)))
        self.words += words

    def clear(self, grad: Tensor, rows: np.ndarray | None) -> None:
        """Set a gradient to zeros, or some rows of it."""
        if rows is None:
            self.add([CLEAR, grad.data_ptr(), (grad.nbytes + 7) // 8 * 8], grad.numel())
            return
        spec = StepSpec((Constant(0.0),), (), False, False, DTYPES[grad.dtype])
        words = [self.machine.step(spec, late=False), len(rows), grad[0].numel(), *self.places_of(grad, rows)]
        self.add(words, len(rows) * grad[0].numel())

    def places_of(self, x: Tensor, rows: np.ndarray | None) -> tuple[int, int, int]:
        """Return the words that tell a kernel where some rows of a tensor are, or all of it as one row."""
        if rows is None:
            return x.data_ptr(), 0, 0
        self.keep.append(x.data_ptr() + rows * (x.stride(0) * x.element_size()))
        return 0, 0, self.keep[-1].ctypes.data

    @property
    def arrays(self) -> list[np.ndarray]:
        """All arrays that words lie in or refer to."""
        return [self.array, *self.keep]

    def placed(self) -> np.ndarray:
        """Return the rows with addresses of words."""
        self.array = words = np.array(self.words, np.int64)
        rows = np.array(self.rows, np.int64).reshape(-1, 5)
        rows[:, 1] = rows[:, 1] * 8 + words.ctypes.data
        return rows

    def refill(self, layout: StepLayout) -> None:
        """Take addresses and numbers of rows from a layout that was refilled."""
        for number, places in self.programs.items():
            parts = layout.programs[number].filled.parts.tolist()
            for at, i in places:
                self.array[at + 1], self.array[at + 4], self.array[at + 8] = parts[i][0], parts[i][1], parts[i][3]
        for addresses, number, table, row_bytes in self.scattered:
            rows = layout.lookups[number].counted
            place_rows(addresses[: len(rows)], rows, table, row_bytes)


class _GradientSource(NamedTuple):
    """What gives part of a gradient: a product of rows (its kernel, how many, the addresses and strides of both), or,
    of form ``rows``, the gradients ``y`` of looked-up rows."""

    form: str
    rows: int
    x: tuple[int, int]
    y: tuple[int, int]
    lookup_rows: np.ndarray | None = None
    source: tuple[int, int] = (-1, 0)
    """Which signature it comes from, and, of a vertex program, which of its parts it is."""


def _parts(layout: StepLayout) -> dict[int, list[_GradientSource]]:
    """Return what the products give to each weight and bias, by their ids."""
    sources: dict[int, list[_GradientSource]] = {}
    for number, signature in enumerate(layout.signatures):
        product = signature.matrices
        if not layout.reached[number]:
            continue
        if isinstance(product, ProgramCall):
            program = layout.programs[number]
            for i, (part, row) in enumerate(zip(program.script.parts, program.filled.parts.tolist(), strict=True)):
                product_of_rows = _GradientSource(
                    part.form, row[0], (row[1], row[2]), (row[3], row[4]), source=(number, i)
                )
                sources.setdefault(id(product.shared[part.shared]), []).append(product_of_rows)
        elif isinstance(product, EmbeddingLookup):
            lookup, row_bytes = layout.lookups[number], product.table.shape[1] * product.table.element_size()
            numbers = lookup.counted
            of_rows = _GradientSource("rows", len(numbers), (0, 0), (lookup.grad, row_bytes), numbers, (number, 0))
            sources.setdefault(id(product.table), []).append(of_rows)
        if not isinstance(product, WeightProduct):
            continue
        operand_rows = layout.inputs(number)[0]
        rows = operand_rows.kind.numel // product.kinds[0].shape[-1]
        item, count = operand_rows.kind.item, layout.counts[number] * rows
        x = operand_rows.address, operand_rows.distance if rows == 1 else operand_rows.kind.shape[-1] * item
        y = int(layout.starts[number]) + layout.shift, product.results[0].shape[-1] * item
        pair = (x, y) if product.turned else (y, x)
        sources.setdefault(id(product.weight), []).append(_GradientSource("outer", count, *pair))
        if product.bias is not None:
            sources.setdefault(id(product.bias), []).append(_GradientSource("totals", count, y, y))
    return sources


class ParameterUpdates:
    """What is done ``before`` the step, and ``after`` the backward sweep.

    ``reached`` are the parameters that a gradient reaches; ``given`` has the nodes of those that operations read
    directly, by their ids. ``repeats`` tells whether other values of the same operations change the same memory.
    """

    def __init__(self, layout: StepLayout, reached: Sequence[TrainedParameter], nodes: dict[int, int]) -> None:
        self.before, self.after, self.repeats = OperationList(layout.machine), OperationList(layout.machine), True
        self._reached, self._rules = reached, [trained.rule for trained in reached]
        self._numbers = [np.array([0, 1, 1, 1, *x.rule.numbers], DTYPES[x.parameter.dtype]) for x in reached]
        formulas, after, parts = list[tuple[TrainedParameter, np.ndarray | None, int]](), self.after, _parts(layout)
        after.keep += self._numbers
        for trained, numbers in zip(reached, self._numbers, strict=True):
            parameter, rule, sources = trained.parameter, trained.rule, parts.get(id(trained.parameter), [])
            to_set, to_add, of_rule = (numbers.ctypes.data + i * numbers.itemsize for i in (_SET, _ADD, _RULE))
            node = nodes.get(id(parameter))
            lookups = [part.lookup_rows for part in sources if part.lookup_rows is not None]
            if node is None and layout.machine.fuse(after, trained, sources, of_rule):
                continue
            if rule.direct and sources and node is None and (rule.local or not lookups):
                _add_parts(after, sources, parameter, parameter, of_rule, of_rule + 2 * numbers.itemsize)
                continue
            added = node is not None or bool(lookups)
            rows = _touched(layout, parameter, node, lookups) if rule.local and len(lookups) == len(sources) else None
            if added:
                self.before.clear(trained.grad, rows)
            self.repeats &= not (added and rule.local)
            _add_parts(after, sources, parameter, trained.grad, to_add if added else to_set, to_add)
            formulas.append((trained, rows, of_rule))
        for i, (trained, rows, of_rule) in enumerate(formulas):
            _add_formulas(after, trained, rows, of_rule, ALONGSIDE if i else FOLLOWS)

    def refill(self, layout: StepLayout) -> bool:
        """Take addresses and numbers from another session of the same operations; return whether rules are alike."""
        rules = [trained.rule for trained in self._reached]
        if any(not _alike(old, new) for old, new in zip(self._rules, rules, strict=True)):
            return False
        for numbers, old, new in zip(self._numbers, self._rules, rules, strict=True):
            if old.numbers != new.numbers:
                numbers[_RULE:] = new.numbers
        self._rules = rules
        self.after.refill(layout)
        return True


def _alike(old: UpdateRule, new: UpdateRule) -> bool:
    """Whether rules differ in numbers only."""
    if old.formulas is not new.formulas or old.local != new.local:
        return False
    return all(x is y for x, y in zip(old.states, new.states, strict=True))


def _add_parts(
    listing: OperationList, parts: Sequence[_GradientSource], parameter: Tensor, into: Tensor, first: int, further: int
) -> None:
    """Change ``into``, of the shape of a parameter, to ``keep * into + scale * gradient``, part by part.

    Both numbers of the first part lie at ``first``, those of further ones at ``further``.
    """
    for i, part in enumerate(parts):
        # Tasks of one form share a matrix out alike, so each goes on where it has been.
        order = ALONGSIDE if not i else CONTINUES if part.form == parts[i - 1].form != "rows" else FOLLOWS
        add = _add_product if part.lookup_rows is None else _add_rows
        add(listing, part, parameter, into, further if i else first, order)


def _add_rows(
    listing: OperationList, part: _GradientSource, parameter: Tensor, into: Tensor, numbers: int, order: int
) -> None:
    """Add gradients of looked-up rows, scaled, where these lie; those of row -1 are left out."""
    assert part.lookup_rows is not None
    item, row = into.element_size(), into.stride(0) * into.element_size()
    kernel = listing.machine.step(StepSpec((operand(0) * operand(1),), (False, True), True, False, DTYPES[into.dtype]))
    places = np.empty(part.rows, np.int64)
    place_rows(places, part.lookup_rows, into.data_ptr(), row)
    listing.keep.append(places)
    listing.scattered.append((places, part.source[0], into.data_ptr(), row))
    listing.sized.append(len(listing.words) + 1)
    words = [kernel, part.rows, into.shape[1], 0, 0, places.ctypes.data, *part.y, 0, numbers + item, 0, 0]
    listing.add(words, part.rows * into.shape[1], order, apart=False)


def _add_product(
    listing: OperationList, part: _GradientSource, parameter: Tensor, into: Tensor, numbers: int, order: int
) -> None:
    """Add a product of rows, or a sum of them."""
    height, width = parameter.shape if part.form == "outer" else (1, parameter.numel())
    if part.source[0] < 0:
        listing.sized.append(len(listing.words) + 1)
    else:
        listing.programs.setdefault(part.source[0], []).append((len(listing.words), part.source[1]))
    kernel, row = listing.machine.matrix(part.form, DTYPES[into.dtype]), into.stride(0) * into.element_size()
    words = [kernel, part.rows, height, width, *part.x, into.data_ptr(), row, *part.y, numbers]
    listing.add(words, part.rows * height * width, order)


def _touched(
    layout: StepLayout, parameter: Tensor, node: int | None, lookups: Sequence[np.ndarray]
) -> np.ndarray | None:
    """Return the rows of a table that have a gradient; None where most have."""
    if parameter.dim() < 2 or not parameter[0].numel():
        return None
    touched = [rows[rows >= 0] for rows in lookups]
    if node is not None:
        size = parameter.stride(0) * parameter.element_size()
        touched.append(touched_rows(layout.sweep(True), node, parameter.shape[0], size))
    rows = touched[0] if len(touched) == 1 and not lookups else distinct(np.concatenate(touched)) if touched else None
    return rows if rows is not None and 2 * len(rows) < parameter.shape[0] else None


@cache
def _reads(formula: Expr, num_tensors: int) -> tuple[Expr, tuple[int, ...], tuple[bool, ...]]:
    """Return a formula of ``num_tensors`` tensors and of numbers, the operands that it reads, and which are numbers."""
    compacted, slots = compact(formula)
    return compacted, tuple(slots), tuple(slot >= num_tensors for slot in slots)


def _add_formulas(
    listing: OperationList, trained: TrainedParameter, rows: np.ndarray | None, numbers: int, order: int
) -> None:
    """Add the formulas of a rule, for some rows of a table or for everything; its numbers lie at an address."""
    parameter, rule, dtype = trained.parameter, trained.rule, DTYPES[trained.parameter.dtype]
    count, width = (1, parameter.numel()) if rows is None else (len(rows), parameter[0].numel())
    places = [listing.places_of(x, rows) for x in (parameter, trained.grad, *rule.states)]
    num_tensors = len(places)
    places += [(numbers + i * parameter.element_size(), 0, 0) for i in range(len(rule.numbers))]
    for target, formula in rule.formulas:
        compacted, slots, spread = _reads(formula, num_tensors)
        kernel = listing.machine.step(StepSpec((compacted,), spread, False, False, dtype))
        words = [kernel, count, width, *places[target]]
        for slot in slots:
            words += places[slot]
        listing.add(words, count * width, order)
        order = CONTINUES
