"""What a script ends with: gradients of parameters from what the backward sweep left, and the optimizer's formulas.

A weight that occurs in one product, under plain gradient descent, is changed as the product of gradients and inputs is
summed up, tile by tile in registers: its gradient is never stored. Any other gradient is, in memory kept for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ...expr import Constant, Expr, compact
from ...kernels.cpu.dynamic.kernels import CLEAR
from ...kernels.cpu.dynamic.script import ALONGSIDE, CONTINUES, FOLLOWS, touched_rows
from ...kernels.render.rows import StepSpec
from ..batching.execution.matrices import Lookup, Product
from ..batching.recording.recorded import ProgramCall
from ..batching.recording.signatures import DTYPES, operand
from .layout import StepLayout
from .rules import Trained, UpdateRule

__all__ = ["Listing", "Updates"]


Numbers = Callable[[UpdateRule], Sequence[float]]
"""What gives numbers of a rule."""


class Listing:
    """Rows (operation, place of its words, work, how it goes with the rows before, see add), and the words.

    What differs from step to step is listed: ``numbers`` (whose rule they follow from, and how), ``sized`` (place of
    the number of rows), ``programs`` (place of the words, which part) of each, ``scattered`` (addresses of rows, number
    of the lookup, address and row stride of the table).
    """

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.words: list[int] = []
        self.keep: list[Any] = []
        self.numbers: list[tuple[Trained, Numbers, np.ndarray]] = []
        self.sized: list[int] = []
        self.programs: dict[int, list[tuple[int, int]]] = {}
        self._of_programs: list[tuple[int, np.ndarray, np.ndarray]] | None = None
        self.scattered: list[tuple[np.ndarray, int, int, int]] = []

    def add(self, words: Sequence[int], work: int, how: int = ALONGSIDE, apart: bool = True) -> None:
        """Add an operation; the first of its words is its kernel. ``apart`` tells that no two rows are the same."""
        self.rows.append((words[0], len(self.words), work, how, int(apart)))
        self.words += words

    def numbers_of(self, one: Trained, of: Numbers) -> np.ndarray:
        """Return numbers of a parameter's rule, which will be those of later steps, too."""
        made = np.array(of(one.rule), DTYPES[one.parameter.dtype])
        self.numbers.append((one, of, made))
        return made

    @property
    def arrays(self) -> list[np.ndarray]:
        """All arrays that words lie in or refer to."""
        return [self.array, *self.keep, *(numbers for _, _, numbers in self.numbers)]

    def of_programs(self) -> Iterable[tuple[int, np.ndarray, np.ndarray]]:
        """Return, for each vertex program, its number, where the words of its parts' counts and places are, and which
        parts these are."""
        if self._of_programs is None:
            self._of_programs = []
            for number, pairs in self.programs.items():
                at, parts = np.array(pairs, np.int64).T
                self._of_programs.append((number, at[:, None] + np.array([1, 4, 8]), parts))
        return self._of_programs

    def placed(self) -> np.ndarray:
        """Return the rows with addresses of words."""
        self.array = words = np.array(self.words, np.int64)
        rows = np.array(self.rows, np.int64).reshape(-1, 5)
        rows[:, 1] = rows[:, 1] * 8 + words.ctypes.data
        return rows


class _GradientSource(NamedTuple):
    """What gives part of a gradient: a product of rows (its kernel, how many, the addresses and strides of both), or,
    of form ``rows``, the gradients ``y`` of looked-up rows."""

    form: str
    rows: int
    x: tuple[int, int]
    y: tuple[int, int]
    looked: np.ndarray | None = None
    source: tuple[int, int] = (-1, 0)
    """Which signature it comes from, and, of a vertex program, which of its parts it is."""


def _parts(layout: StepLayout) -> dict[int, list[_GradientSource]]:
    """Return what the products give to each weight and bias, by their ids."""
    found: dict[int, list[_GradientSource]] = {}
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
                found.setdefault(id(product.shared[part.shared]), []).append(product_of_rows)
        elif isinstance(product, Lookup):
            known, row_bytes = layout.lookups[number], product.table.shape[1] * product.table.element_size()
            looked = _looked(known.rows, product.padding)
            of_rows = _GradientSource("rows", len(looked), (0, 0), (known.grad, row_bytes), looked, (number, 0))
            found.setdefault(id(product.table), []).append(of_rows)
        if not isinstance(product, Product):
            continue
        given = layout.inputs(number)[0]
        rows = given.kind.numel // product.kinds[0].shape[-1]
        item, count = given.kind.item, layout.counts[number] * rows
        x = given.address, given.distance if rows == 1 else given.kind.shape[-1] * item
        y = int(layout.starts[number]) + layout.shift, product.results[0].shape[-1] * item
        pair = (x, y) if product.turned else (y, x)
        found.setdefault(id(product.weight), []).append(_GradientSource("outer", count, *pair))
        if product.bias is not None:
            found.setdefault(id(product.bias), []).append(_GradientSource("totals", count, y, y))
    return found


def _looked(rows: np.ndarray, padding: int | None) -> np.ndarray:
    """Return rows whose gradient counts, -1 for others."""
    return rows if padding is None else np.where(rows == padding, -1, rows)


class Updates:
    """What is done ``before`` the step, and ``after`` the backward sweep.

    ``reached`` are the parameters that a gradient reaches; ``given`` has the nodes of those that operations read
    directly, by their ids. ``repeats`` tells whether other values of the same operations change the same memory.
    """

    def __init__(self, layout: StepLayout, reached: Sequence[Trained], given: dict[int, int]) -> None:
        self.before, self.after, self.repeats = Listing(layout.machine), Listing(layout.machine), True
        self._reached, self._rules = reached, [one.rule for one in reached]
        self._dirty: list[Trained] = []
        formulas, after, parts = list[tuple[Trained, np.ndarray | None]](), self.after, _parts(layout)
        for one in reached:
            parameter, rule, own = one.parameter, one.rule, parts.get(id(one.parameter), [])
            node, looked = given.get(id(parameter)), [part.looked for part in own if part.looked is not None]
            if node is None and layout.machine.fuse(after, one, own):
                continue
            if rule.product is not None and own and node is None and (rule.product[0] == 1.0 or not looked):
                _add_parts(after, own, one, parameter, _product)
                continue
            added = node is not None or bool(looked)
            rows = _touched(layout, parameter, node, looked) if rule.local and len(looked) == len(own) else None
            if added and (rows is None or one.dirty):
                self.before.add([CLEAR, one.grad.data_ptr(), (one.grad.nbytes + 7) // 8 * 8], one.grad.numel())
            self.repeats &= not (added and rule.local)
            one.dirty = rows is None
            self._dirty += [one] if one.dirty else []
            _add_parts(after, own, one, one.grad, _added if added else _set)
            formulas.append((one, rows))
        for i, (one, rows) in enumerate(formulas):
            _add_formulas(after, one, rows, ALONGSIDE if i else FOLLOWS)

    def refill(self, layout: StepLayout) -> bool:
        """Take addresses and numbers from another session of the same operations; return whether rules are alike."""
        rules = [one.rule for one in self._reached]
        if any(not _alike(old, new) for old, new in zip(self._rules, rules, strict=True)):
            return False
        for one in self._dirty:
            one.dirty = True
        after = self.after
        if any(old.numbers != new.numbers for old, new in zip(self._rules, rules, strict=True)):
            for one, of, numbers in after.numbers:
                numbers[:] = of(one.rule)
            self._rules = rules
        for number, at, rows in after.of_programs():
            parts = layout.programs[number].filled.parts
            after.array[at] = parts[rows][:, (0, 1, 3)]
        for places, number, address, row in after.scattered:
            looked = layout.lookups[number]
            _place_rows(places[: len(looked.rows)], _looked(looked.rows, looked.lookup.padding), address, row)
        return True


def _alike(old: UpdateRule, new: UpdateRule) -> bool:
    """Whether rules differ in numbers only."""
    if old.formulas is not new.formulas or old.local != new.local or len(old.states) != len(new.states):
        return False
    if any(x is not y for x, y in zip(old.states, new.states, strict=True)):
        return False
    if old.product is None or new.product is None:
        return old.product is new.product
    return (old.product[0] == 1.0) == (new.product[0] == 1.0)


def _product(rule: UpdateRule) -> tuple[float, float]:
    """Return what is kept of a parameter, and the scale of its gradient."""
    assert rule.product is not None
    return rule.product


def _set(rule: UpdateRule) -> tuple[float, float]:
    return 0.0, 1.0


def _added(rule: UpdateRule) -> tuple[float, float]:
    return 1.0, 1.0


def _further(of: Numbers, rule: UpdateRule) -> tuple[float, float]:
    """Return the numbers of parts after the first: all is kept."""
    return 1.0, of(rule)[1]


def _place_rows(places: np.ndarray, rows: np.ndarray, address: int, row_bytes: int) -> None:
    """Write the addresses of rows, 0 for row -1."""
    np.multiply(rows, row_bytes, out=places)
    places += address
    places[rows < 0] = 0


def _add_parts(listing: Listing, parts: Sequence[_GradientSource], one: Trained, into: Tensor, of: Numbers) -> None:
    """Change ``into`` to ``keep * into + scale * gradient``, part by part; ``of`` gives both numbers."""
    for i, part in enumerate(parts):
        # Tasks of one form share a matrix out alike, so each goes on where it has been.
        how = ALONGSIDE if not i else CONTINUES if part.form == parts[i - 1].form != "rows" else FOLLOWS
        numbers = listing.numbers_of(one, partial(_further, of) if i else of)
        if part.looked is None:
            _add_part(listing, part, one.parameter, into, numbers, how)
        else:
            _add_rows(listing, part, into, numbers, how)


def _add_rows(listing: Listing, part: _GradientSource, into: Tensor, numbers: np.ndarray, how: int) -> None:
    """Add gradients of looked-up rows, scaled, where these lie; those of row -1 are left out."""
    assert part.looked is not None
    item, row = into.element_size(), into.stride(0) * into.element_size()
    kernel = listing.machine.step(StepSpec((operand(0) * operand(1),), (False, True), True, False, DTYPES[into.dtype]))
    places = np.empty(part.rows, np.int64)
    _place_rows(places, part.looked, into.data_ptr(), row)
    listing.keep.append(places)
    listing.scattered.append((places, part.source[0], into.data_ptr(), row))
    scale = numbers.ctypes.data + item, 0, 0
    listing.sized.append(len(listing.words) + 1)
    words = [kernel, part.rows, into.shape[1], 0, 0, places.ctypes.data, *part.y, 0, *scale]
    listing.add(words, part.rows * into.shape[1], how, apart=False)


def _add_part(
    listing: Listing, part: _GradientSource, parameter: Tensor, into: Tensor, numbers: np.ndarray, how: int
) -> None:
    """Add the product that changes ``into``, of the shape of a parameter, to ``keep * into + scale * gradient``."""
    height, width = parameter.shape if part.form == "outer" else (1, parameter.numel())
    dtype = DTYPES[parameter.dtype]
    if part.source[0] < 0:
        listing.sized.append(len(listing.words) + 1)
    else:
        listing.programs.setdefault(part.source[0], []).append((len(listing.words), part.source[1]))
    row = into.stride(0) * into.element_size()
    words = [listing.machine.matrix(part.form, dtype), part.rows, height, width, *part.x, into.data_ptr(), row]
    listing.add([*words, *part.y, numbers.ctypes.data], part.rows * height * width, how)


def _touched(
    layout: StepLayout, parameter: Tensor, node: int | None, looked: Sequence[np.ndarray]
) -> np.ndarray | None:
    """Return the rows of a table that have a gradient; None where most have."""
    if parameter.dim() < 2 or not parameter[0].numel():
        return None
    found = [rows[rows >= 0] for rows in looked]
    if node is not None:
        size = parameter.stride(0) * parameter.element_size()
        found.append(touched_rows(*layout.sweep(True), node, parameter.shape[0], size))
    rows = found[0] if len(found) == 1 and not looked else np.unique(np.concatenate(found)) if found else None
    return rows if rows is not None and 2 * len(rows) < parameter.shape[0] else None


@cache
def _reads(formula: Expr, num_tensors: int) -> tuple[Expr, tuple[int, ...], tuple[bool, ...]]:
    """Return a formula of so many tensors, and numbers from there on, which of them it reads, and which are numbers."""
    compacted, slots = compact(formula)
    return compacted, tuple(slots), tuple(slot >= num_tensors for slot in slots)


def _add_formulas(listing: Listing, one: Trained, rows: np.ndarray | None, how: int) -> None:
    """Add the formulas of a rule, for some rows of a table or for everything."""
    parameter, rule, dtype = one.parameter, one.rule, DTYPES[one.parameter.dtype]
    tensors = [parameter, one.grad, *rule.states]
    numbers = listing.numbers_of(one, attrgetter("numbers"))
    count, width = 1, parameter.numel()
    places = [(x.data_ptr(), 0, 0) for x in tensors]
    if rows is not None:
        count, width = len(rows), parameter[0].numel()
        lists = [x.data_ptr() + rows * (x.stride(0) * x.element_size()) for x in tensors]
        listing.keep += lists
        places = [(0, 0, addresses.ctypes.data) for addresses in lists]
    places += [(numbers.ctypes.data + i * numbers.itemsize, 0, 0) for i in range(len(numbers))]
    clearing = [(1, Constant(0.0))] if rows is not None else []
    for target, formula in (*rule.formulas, *clearing):
        compacted, slots, spread = _reads(formula, len(tensors))
        kernel = listing.machine.step(StepSpec((compacted,), spread, False, False, dtype))
        words = [kernel, count, width, *places[target]]
        for slot in slots:
            words += places[slot]
        listing.add(words, count * width, how)
        how = CONTINUES
