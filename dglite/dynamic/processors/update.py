"""What a script ends with: gradients of parameters from what the backward sweep left, and the optimizer's formulas.

A weight that occurs in one product, under plain gradient descent, is changed as the product of gradients and inputs is
summed up, tile by tile in registers: its gradient is never stored. Any other gradient is, in memory kept for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...expr import Constant, Expr, compact
from ...kernels.cpu.matrix import matrix_kernel
from ...kernels.cpu.rowwise import CLEAR
from ...kernels.cpu.script import ALONGSIDE, CONTINUES, FOLLOWS, touched_rows
from ...kernels.cpu.steps import step_kernel
from ..batching.matrices import Lookup, Product
from ..batching.signatures import DTYPES, operand
from ..recorded import ProgramCall
from .layout import Layout
from .rules import Rule

__all__ = ["Listing", "Trained", "updates"]


class Trained:
    """A parameter, the group of the optimizer that it is in, and, where it is needed, memory for its gradient.

    ``dirty`` tells that this memory will not be zeros after the last step that was planned.
    """

    def __init__(self, parameter: Tensor, group: dict[str, Any]) -> None:
        self.parameter, self.group = parameter, group
        self.dirty = False
        self._grad: Tensor | None = None

    @property
    def grad(self) -> Tensor:
        """The memory of the gradient, zeros at first."""
        if self._grad is None:
            shape, dtype = self.parameter.shape, self.parameter.dtype
            # One element more, since memory is cleared in words of 8 bytes.
            self._grad = torch.zeros(shape.numel() + 1, dtype=dtype)[:-1].view(shape)
        return self._grad

    def clear(self) -> None:
        """Set the gradient to zeros, if it has memory."""
        if self._grad is not None:
            self._grad.zero_()
        self.dirty = False


class Listing:
    """Rows (operation, place of its words, work, how it goes with the rows before), and the words."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.words: list[int] = []
        self.keep: list[Any] = []

    def add(self, words: Sequence[int], work: int, how: int = ALONGSIDE) -> None:
        """Add an operation; the first of its words is its kernel."""
        self.rows.append((words[0], len(self.words), work, how))
        self.words += words

    def placed(self) -> np.ndarray:
        """Return the rows with addresses of words."""
        words = np.array(self.words, np.int64)
        self.keep.append(words)
        rows = np.array(self.rows, np.int64).reshape(-1, 4)
        rows[:, 1] = rows[:, 1] * 8 + words.ctypes.data
        return rows


class _Part(NamedTuple):
    """What gives part of a gradient: a product of rows (its kernel, how many, the addresses and strides of both), or,
    of form ``rows``, the gradients ``y`` of looked-up rows."""

    form: str
    rows: int
    x: tuple[int, int]
    y: tuple[int, int]
    looked: np.ndarray | None = None


def _parts(layout: Layout) -> dict[int, list[_Part]]:
    """Return what the products give to each weight and bias, by their ids."""
    found: dict[int, list[_Part]] = {}
    for number, signature in enumerate(layout.signatures):
        product = signature.matrices
        if not layout.reached[number]:
            continue
        if isinstance(product, ProgramCall):
            for part in layout.programs[number].parts:
                found.setdefault(id(product.shared[part.index]), []).append(_Part(*part[1:]))
        elif isinstance(product, Lookup):
            made, width = layout.lookups[number], product.table.shape[1] * product.table.element_size()
            rows = made.rows if product.padding is None else np.where(made.rows == product.padding, -1, made.rows)
            part = _Part("rows", len(rows), (0, 0), (made.grad, width), rows)
            found.setdefault(id(product.table), []).append(part)
        if not isinstance(product, Product):
            continue
        given, rows = layout.inputs[number][0], layout.inputs[number][0].kind.numel // product.kinds[0].shape[-1]
        item, count = given.kind.item, layout.counts[number] * rows
        x = given.address, given.distance if rows == 1 else given.kind.shape[-1] * item
        y = int(layout.starts[number]) + layout.shift, product.results[0].shape[-1] * item
        pair = (x, y) if product.turned else (y, x)
        found.setdefault(id(product.weight), []).append(_Part("outer", count, *pair))
        if product.bias is not None:
            found.setdefault(id(product.bias), []).append(_Part("totals", count, y, y))
    return found


def updates(layout: Layout, trained: Iterable[tuple[Trained, Rule]], given: dict[int, int]) -> tuple[Listing, Listing]:
    """Return what is done before the step, and after the backward sweep.

    ``trained`` are the parameters that a gradient reaches, with their rules; ``given`` has the nodes of those that
    operations read directly, by their ids.
    """
    before, after, formulas = Listing(), Listing(), list[tuple[Trained, Rule, np.ndarray | None]]()
    parts = _parts(layout)
    for one, rule in trained:
        parameter, own = one.parameter, parts.get(id(one.parameter), [])
        node = given.get(id(parameter))
        looked = [part.looked for part in own if part.looked is not None]
        if rule.product is not None and own and node is None and (rule.product[0] == 1.0 or not looked):
            _add_parts(after, own, parameter, parameter, *rule.product)
            continue
        added = node is not None or bool(looked)
        rows = _touched(layout, parameter, node, looked) if rule.local and len(looked) == len(own) else None
        if added and (rows is None or one.dirty):
            before.add([CLEAR, one.grad.data_ptr(), (one.grad.nbytes + 7) // 8 * 8], one.grad.numel())
        one.dirty = rows is None
        _add_parts(after, own, parameter, one.grad, 1.0 if added else 0.0, 1.0)
        formulas.append((one, rule, rows))
    for i, (one, rule, rows) in enumerate(formulas):
        _add_formulas(after, one, rule, rows, ALONGSIDE if i else FOLLOWS)
    return before, after


def _add_parts(
    listing: Listing, parts: Sequence[_Part], parameter: Tensor, into: Tensor, keep: float, scale: float
) -> None:
    """Change ``into`` to ``keep * into + scale * gradient``, part by part."""
    for i, part in enumerate(parts):
        # Tasks of one form share a matrix out alike, so each goes on where it has been.
        how = ALONGSIDE if not i else CONTINUES if part.form == parts[i - 1].form != "rows" else FOLLOWS
        if part.looked is None:
            _add_part(listing, part, parameter, into, (1.0 if i else keep, scale), how)
        else:
            _add_rows(listing, part, into, scale, how)


def _add_rows(listing: Listing, part: _Part, into: Tensor, scale: float, how: int) -> None:
    """Add gradients of looked-up rows, scaled, where these lie; those of row -1 are left out."""
    assert part.looked is not None
    dtype, item = DTYPES[into.dtype], into.element_size()
    kernel = step_kernel((operand(0) * operand(1),), (False, True), True, False, dtype)
    places = np.where(part.looked < 0, 0, into.data_ptr() + part.looked * (into.stride(0) * item))
    number = np.array([scale], dtype)
    listing.keep += [places, number]
    words = [kernel, part.rows, into.shape[1], 0, 0, places.ctypes.data, *part.y, 0, number.ctypes.data, 0, 0]
    listing.add(words, part.rows * into.shape[1], how)


def _add_part(
    listing: Listing, part: _Part, parameter: Tensor, into: Tensor, factors: tuple[float, float], how: int
) -> None:
    """Add the product that changes ``into``, of the shape of a parameter, to ``keep * into + scale * gradient``."""
    height, width = parameter.shape if part.form == "outer" else (1, parameter.numel())
    dtype = DTYPES[parameter.dtype]
    numbers = np.array(factors, dtype)
    listing.keep.append(numbers)
    row = into.stride(0) * into.element_size()
    words = [matrix_kernel(part.form, dtype), part.rows, height, width, *part.x, into.data_ptr(), row]
    listing.add([*words, *part.y, numbers.ctypes.data], part.rows * height * width, how)


def _touched(
    layout: Layout, parameter: Tensor, node: int | None, looked: Sequence[np.ndarray]
) -> np.ndarray | None:
    """Return the rows of a table that have a gradient; None where most have."""
    if parameter.dim() < 2 or not parameter[0].numel():
        return None
    found = [rows[rows >= 0] for rows in looked]
    if node is not None:
        batches = layout.order, layout.bounds, layout.batch_kinds, *layout.templates[True]
        graph = layout.session.argptr, layout.session.args, layout.grads
        size = parameter.stride(0) * parameter.element_size()
        found.append(touched_rows(*batches, *graph, node, parameter.shape[0], size))
    rows = found[0] if len(found) == 1 and not looked else np.unique(np.concatenate(found)) if found else None
    return rows if rows is not None and 2 * len(rows) < parameter.shape[0] else None


@cache
def _kernel(formula: Expr, num_tensors: int, dtype: str) -> tuple[int, tuple[int, ...]]:
    """Return the kernel of a formula of so many tensors, and numbers from there on, and which of them it reads."""
    compacted, slots = compact(formula)
    return step_kernel((compacted,), tuple(slot >= num_tensors for slot in slots), False, False, dtype), tuple(slots)


def _add_formulas(listing: Listing, one: Trained, rule: Rule, rows: np.ndarray | None, how: int) -> None:
    """Add the formulas of a rule, for some rows of a table or for everything."""
    parameter, dtype = one.parameter, DTYPES[one.parameter.dtype]
    tensors = [parameter, one.grad, *rule.states]
    numbers = np.array(rule.numbers, dtype)
    listing.keep.append(numbers)
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
        kernel, slots = _kernel(formula, len(tensors), dtype)
        words = [kernel, count, width, *places[target]]
        for slot in slots:
            words += places[slot]
        listing.add(words, count * width, how)
        how = CONTINUES
