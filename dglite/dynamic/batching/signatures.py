"""What lazy tensors are like (kinds), and what recorded operations have in common (signatures).

Operations of one signature can be done as one batch. What a batch does is either a list of element-wise steps, written
as formulas here and compiled as kernels, or one operation on whole matrices (see :mod:`.matrices`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from ...expr import Call, Constant, Expr, Operand, Side, compact, derivative
from ...kernels.cpu import program
from ...kernels.cpu.steps import step_kernel

__all__ = [
    "DTYPES",
    "Kind",
    "Matrices",
    "Part",
    "Pointwise",
    "Signature",
    "copies",
    "kind_of",
    "operand",
    "pointwise",
    "result",
]
__all__ += ["gathers", "shared", "shared_signature", "template_table"]

DTYPES = {torch.float32: "float32", torch.float64: "float64"}
"""The dtypes that element-wise kernels compute in."""

_RESULT, _GRAD = 1000, 2000
Template = list[int]


class Kind:
    """Shape and dtype of a lazy tensor; one object for each pair."""

    __slots__ = ("dtype", "item", "nbytes", "numel", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self.numel, self.item = math.prod(shape), dtype.itemsize
        self.nbytes = self.numel * self.item

    def __repr__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


_kinds: dict[tuple[tuple[int, ...], torch.dtype], Kind] = {}


def kind_of(shape: Sequence[int], dtype: torch.dtype) -> Kind:
    """Return the kind."""
    key = tuple(shape), dtype
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds[key] = Kind(*key)
    return kind


class Matrices(Protocol):
    """An operation on whole batches. ``inputs`` (n, *shape) and results are views of memory that others lay out."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What it reads."""

    @property
    def results(self) -> tuple[Kind, ...]:
        """What it gives."""

    @property
    def wants(self) -> bool:
        """Whether it has parameters that want a gradient."""

    def forward(self, inputs: list[torch.Tensor], results: list[torch.Tensor], keep: bool) -> Any:
        """Compute ``results``; return what the gradient will need, if it is to be kept."""

    def backward(
        self,
        kept: Any,
        inputs: list[torch.Tensor],
        grads: list[torch.Tensor],
        into: list[torch.Tensor | None],
        add: Sequence[bool],
        gradients: Any,
    ) -> None:
        """Write (or add) the gradients of the inputs; parameters' go to ``gradients``."""


class Part(NamedTuple):
    """A run of a formula's columns: of argument ``slot`` from element ``start`` on; ``spread`` if it is one value."""

    slot: int
    start: int = 0
    spread: bool = False


class Pointwise(NamedTuple):
    """Formulas over parts of the arguments, each ``width`` columns of the result. A formula may use those before it."""

    formulas: tuple[Expr, ...]
    parts: tuple[Part, ...]
    width: int
    dtype: torch.dtype


@dataclass(eq=False)
class Signature:
    """What a recorded operation does. ``number`` is 0 or more where all sessions share it, else below 0."""

    name: str
    arity: int
    nbytes: int
    forward: list[Template] = field(default_factory=list)
    backward: list[Template] = field(default_factory=list)
    matrices: Matrices | None = None
    number: int = 0
    formulas: Pointwise | None = None

    def __repr__(self) -> str:
        return self.name


shared: list[Signature] = []
"""Signatures without parameters, by number. The first is that of what is given."""


def shared_signature(signature: Signature) -> Signature:
    """Give a signature without parameters its number."""
    signature.number = len(shared)
    shared.append(signature)
    return signature


shared_signature(Signature("given", 0, 0))


# -- templates of steps ------------------------------------------------------------------------------------------------
def operand(number: int) -> Operand:
    """Return the formula's operand for its ``number``-th part."""
    return Operand(Side.E, number)


def result(number: int) -> Operand:
    """Return the operand for the ``number``-th formula's result."""
    return Operand(Side.E, _RESULT + number)


def _template(
    formula: Expr,
    width: int,
    dtype: torch.dtype,
    into: tuple[int, int, int],
    places: Mapping[int, tuple[int, int, int, bool]],
    add: bool = False,
    total: bool = False,
    gather: int = 0,
) -> Template:
    """Return the words of one step; ``into`` and ``places[slot]`` are (role, slot, bytes[, spread])."""
    compacted, slots = compact(formula)
    used = [places[slot] for slot in slots]
    if len(used) > program.MOST_OPERANDS:
        raise ValueError(f"a formula of {len(used)} operands; at most {program.MOST_OPERANDS} fit")
    kernel = step_kernel(compacted, tuple(place[3] for place in used), add, total, DTYPES[dtype])
    words = [kernel, width, int(total), *into, len(used), dtype.itemsize, gather]
    for place in used:
        words += [*place[:3], int(place[3])]
    return words + [0] * (program.TEMPLATE_WORDS - len(words))


def pointwise(
    signature: Signature,
    formulas: Sequence[Expr],
    parts: Sequence[Part],
    width: int,
    dtype: torch.dtype,
    total: bool = False,
) -> Signature:
    """Add the steps of ``formulas``, and those of their gradients; see :class:`Pointwise`.

    With ``total`` the one formula's columns are summed.
    """
    item = dtype.itemsize
    values = {i: (program.ARG, p.slot, p.start * item, p.spread) for i, p in enumerate(parts)}
    values |= {_RESULT + j: (program.OWN, 0, j * width * item, False) for j in range(len(formulas))}
    values |= {_GRAD + j: (program.OWN_GRAD, 0, j * width * item, total) for j in range(len(formulas))}
    for j, formula in enumerate(formulas):
        into = program.OWN, 0, j * width * item
        signature.forward.append(_template(formula, width, dtype, into, values, total=total))
    for j in reversed(range(len(formulas))):
        for slot, slope in _slopes(formulas[j], j, total).items():
            formula = Operand(Side.E, _GRAD + j) * slope
            if formula == Constant(0.0):
                continue
            role, of, place, spread = values[slot]
            into = (program.ARG_GRAD if role == program.ARG else program.OWN_GRAD), of, place
            signature.backward.append(_template(formula, width, dtype, into, values, add=True, total=spread))
    if not total:
        signature.formulas = Pointwise(tuple(formulas), tuple(parts), width, dtype)
    return signature


def _slopes(formula: Expr, number: int, total: bool) -> dict[int, Expr]:
    """Return the derivative by each operand, written with the formula's own result where it occurs."""
    compacted, slots = compact(formula)
    found = {}
    for i, slot in enumerate(slots):
        slope = _restored(derivative(compacted, operand(i)), slots)
        found[slot] = slope if total else _replaced(slope, formula, result(number))
    return found


def _restored(expr: Expr, slots: Sequence[int]) -> Expr:
    if isinstance(expr, Operand):
        return operand(slots[expr.slot])
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_restored(arg, slots) for arg in expr.args))
    return expr


def _replaced(expr: Expr, part: Expr, by: Expr) -> Expr:
    if expr == part:
        return by
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_replaced(arg, part, by) for arg in expr.args))
    return expr


def copies(signature: Signature, widths: Sequence[int], dtype: torch.dtype) -> Signature:
    """Add the steps that put the arguments side by side."""
    at = 0
    for slot, width in enumerate(widths):
        if width:
            own = at * dtype.itemsize
            signature.forward.append(
                _template(operand(0), width, dtype, (program.OWN, 0, own), {0: (program.ARG, slot, 0, False)})
            )
            signature.backward.append(
                _template(
                    operand(0),
                    width,
                    dtype,
                    (program.ARG_GRAD, slot, 0),
                    {0: (program.OWN_GRAD, 0, own, False)},
                    add=True,
                )
            )
        at += width
    return signature


def gathers(signature: Signature, kinds: Sequence[Kind]) -> Signature:
    """Add the steps that copy the arguments of an operation on matrices into rows one after the other, and back."""
    for slot, kind in enumerate(kinds):
        # Values that are not float32 or float64 are moved as such: 8 bytes (or 4) are 8 bytes.
        moved = kind.dtype if kind.dtype in DTYPES else _MOVED_AS[kind.item]
        into, place = (program.INPUT, slot, 0), {0: (program.ARG, slot, 0, False)}
        signature.forward.append(_template(operand(0), kind.numel, moved, into, place, gather=slot + 1))
        if kind.dtype in DTYPES:
            into, place = (program.ARG_GRAD, slot, 0), {0: (program.INPUT_GRAD, slot, 0, False)}
            signature.backward.append(
                _template(operand(0), kind.numel, kind.dtype, into, place, add=True, gather=slot + 1)
            )
    return signature


_MOVED_AS = {4: torch.float32, 8: torch.float64}


def template_table(templates: Sequence[Sequence[Template]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the templates of several signatures below each other, and where each signature's begin."""
    ends = np.cumsum([0, *map(len, templates)])
    rows = [template for several in templates for template in several]
    return np.array(rows, np.int64).reshape(len(rows), program.TEMPLATE_WORDS), ends
