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
from ...kernels.cpu.rowwise import CLEAR
from ...kernels.cpu.script import ALONGSIDE, CONTINUES, FOLLOWS, touched_rows
from ..batching.matrices import Product
from ..batching.signatures import DTYPES
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
            self._grad = torch.zeros(shape.numel() + 1, dtype=dtype, device=self.parameter.device)[:-1].view(shape)
        return self._grad

    def clear(self) -> None:
        """Set the gradient to zeros, if it has memory."""
        if self._grad is not None:
            self._grad.zero_()
        self.dirty = False


class Listing:
    """Rows (operation, place of its words, work, how it goes with the rows before), and the words."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
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
    """A product whose rows give part of a gradient: kernel, number of rows, and the addresses and strides of both."""

    form: str
    rows: int
    x: tuple[int, int]
    y: tuple[int, int]


def _parts(layout: Layout) -> dict[int, list[_Part]]:
    """Return what the products give to each weight and bias, by their ids."""
    found: dict[int, list[_Part]] = {}
    for number, signature in enumerate(layout.signatures):
        product = signature.matrices
        if not isinstance(product, Product) or not layout.reached[number]:
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
    before, after = Listing(layout.machine), Listing(layout.machine)
    formulas = list[tuple[Trained, Rule, np.ndarray | None]]()
    parts = _parts(layout)
    for one, rule in trained:
        parameter, own = one.parameter, parts.get(id(one.parameter), [])
        node = given.get(id(parameter))
        if node is None and layout.machine.fuse(after, one, rule, own):
            continue
        if rule.product is not None and len(own) == 1 and node is None:
            _add_part(after, own[0], parameter, parameter, rule.product, ALONGSIDE)
            continue
        rows = _touched(layout, parameter, node) if rule.local and node is not None and not own else None
        if node is not None and (rows is None or one.dirty):
            before.add([CLEAR, one.grad.data_ptr(), (one.grad.nbytes + 7) // 8 * 8], one.grad.numel())
        one.dirty = rows is None
        for i, part in enumerate(own):
            keep = 0.0 if node is None and not i else 1.0
            _add_part(after, part, parameter, one.grad, (keep, 1.0), FOLLOWS if i else ALONGSIDE)
        formulas.append((one, rule, rows))
    for i, (one, rule, rows) in enumerate(formulas):
        _add_formulas(after, one, rule, rows, ALONGSIDE if i else FOLLOWS)
    return before, after


def _add_part(
    listing: Listing, part: _Part, parameter: Tensor, into: Tensor, factors: tuple[float, float], how: int
) -> None:
    """Add the product that changes ``into``, of the shape of a parameter, to ``keep * into + scale * gradient``."""
    height, width = parameter.shape if part.form == "outer" else (1, parameter.shape[0])
    dtype = DTYPES[parameter.dtype]
    numbers = np.array(factors, dtype)
    listing.keep.append(numbers)
    row = into.stride(0) * into.element_size()
    words = [listing.machine.matrix(part.form, dtype), part.rows, height, width, *part.x, into.data_ptr(), row]
    listing.add([*words, *part.y, numbers.ctypes.data], part.rows * height * width, how)


def _touched(layout: Layout, parameter: Tensor, node: int) -> np.ndarray | None:
    """Return the rows of a table that have a gradient; None where most have."""
    if parameter.dim() < 2 or not parameter[0].numel():
        return None
    batches = layout.order, layout.bounds, layout.batch_kinds, *layout.templates[True]
    graph = layout.session.argptr, layout.session.args, layout.grads
    rows = touched_rows(*batches, *graph, node, parameter.shape[0], parameter.stride(0) * parameter.element_size())
    return rows if 2 * len(rows) < parameter.shape[0] else None


@cache
def _reads(formula: Expr, num_tensors: int) -> tuple[Expr, tuple[int, ...], tuple[bool, ...]]:
    """Return a formula of so many tensors, and numbers from there on, which of them it reads, and which are numbers."""
    compacted, slots = compact(formula)
    return compacted, tuple(slots), tuple(slot >= num_tensors for slot in slots)


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
        compacted, slots, spread = _reads(formula, len(tensors))
        kernel = listing.machine.step((compacted,), spread, False, False, dtype)
        words = [kernel, count, width, *places[target]]
        for slot in slots:
            words += places[slot]
        listing.add(words, count * width, how)
        how = CONTINUES
