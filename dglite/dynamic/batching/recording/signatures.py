"""What recorded operations have in common (signatures).

Operations of one signature can be done as one batch. What a batch does is either a list of element-wise steps, written
as formulas here and compiled as kernels, or one operation on whole matrices (see :mod:`..execution.matrices`).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....expr import Call, Constant, Expr, Operand, Side, derivative, operands_of, renumber
from ....kernels.cpu.dynamic import program
from ....kernels.cpu.dynamic.kernels import step_kernel
from ....kernels.render.rows import StepSpec
from ....locks import new_lock
from .kinds import DTYPES, TensorKind

if TYPE_CHECKING:
    from ..execution.matrices import TorchCall

_RESULT, _GRAD = 1000, 2000
Template = list[int]


class ColumnRun(NamedTuple):
    """A run of a formula's columns: of argument ``slot`` from element ``start`` on; ``spread`` if it is one value."""

    slot: int
    start: int = 0
    spread: bool = False


class PointwiseFormulas(NamedTuple):
    """Formulas over parts of the arguments, each ``width`` columns of the result. A formula may use those before it."""

    formulas: tuple[Expr, ...]
    parts: tuple[ColumnRun, ...]
    width: int
    dtype: torch.dtype


@dataclass(eq=False)
class Signature:
    """What a recorded operation does. ``number`` is 0 or more where all sessions share it, else below 0.

    Signatures of one ``key`` do the same in different sessions, but for the values, graphs and numbers that they are
    given. Those of one ``form`` do the same to more or fewer rows, as many as ``lengths`` tells.
    """

    name: str
    arity: int
    nbytes: int
    forward: list[Template] = field(default_factory=list)
    backward: list[Template] = field(default_factory=list)
    matrices: TorchCall | None = None
    number: int = 0
    formulas: PointwiseFormulas | None = None
    key: Any = None
    form: Any = None
    lengths: tuple[int, ...] = ()

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The tensors that an operation on matrices reads besides its inputs."""
        return () if self.matrices is None else self.matrices.tensors

    def __repr__(self) -> str:
        return self.name


_numbering = new_lock()
shared: list[Signature] = []
"""Signatures without parameters, by number. The first is that of what is given."""
shared_arities = array("q")
"""How many arguments each of them has."""


def shared_signature(signature: Signature) -> Signature:
    """Give a signature without parameters its number."""
    with _numbering:
        signature.number = len(shared)
        shared.append(signature)
        shared_arities.append(signature.arity)
    return signature


shared_signature(Signature("given", 0, 0))
ARGUMENT = shared_signature(Signature("argument of a cell", 0, 0))
"""The signature of what stands for any sample's value while a cell is traced; it has none."""


# -- templates of steps ------------------------------------------------------------------------------------------------
def operand(number: int) -> Operand:
    """Return the formula's operand for its ``number``-th part."""
    return Operand(Side.E, number)


def result(number: int) -> Operand:
    """Return the operand for the ``number``-th formula's result."""
    return Operand(Side.E, _RESULT + number)


OperandRows = tuple[int, int, int, bool]
"""Role, slot, place in bytes, and whether one value serves all columns."""


def _template(
    formulas: Sequence[Expr],
    width: int,
    dtype: torch.dtype,
    into: Sequence[OperandRows],
    places: Mapping[int, OperandRows],
    add: bool = False,
    total: bool = False,
    gather: int = 0,
) -> Template:
    """Return the words of one step; ``into`` are the rows of the results, ``places`` those of each operand."""
    slots = list(dict.fromkeys(operand.slot for formula in formulas for operand in operands_of(formula)))
    rows = [*into, *(places[slot] for slot in slots)]
    if len(rows) > program.MOST_ROWS:
        raise ValueError(f"formulas of {len(rows)} results and operands; at most {program.MOST_ROWS} fit")
    compacted = tuple(renumber(formula, {slot: i for i, slot in enumerate(slots)}) for formula in formulas)
    spread = tuple(places[slot][3] for slot in slots)
    kernel = step_kernel(StepSpec(compacted, spread, add, total, DTYPES[dtype]))
    words = [kernel, width, int(total), len(into), len(slots), dtype.itemsize, gather]
    words += [int(word) for row in rows for word in row]
    return words + [0] * (program.TEMPLATE_WORDS - len(words))


def pointwise(name: str, arity: int, formulas: PointwiseFormulas, total: bool = False) -> Signature:
    """Return the signature of formulas, which all sessions share.

    With ``total`` the one formula's columns are summed. Raises ``ValueError`` where a step takes more operands than
    fit.
    """
    key = formulas, arity, total
    if key not in _pointwise:
        count = 1 if total else len(formulas.formulas) * formulas.width
        signature = Signature(
            f"{name}[{count}]", arity, count * formulas.dtype.itemsize, formulas=None if total else formulas
        )
        _add_steps(signature, formulas, total=total)
        _pointwise[key] = shared_signature(signature)
    return _pointwise[key]


_pointwise: dict[Any, Signature] = {}


def _add_steps(
    signature: Signature, pointwise_formulas: PointwiseFormulas, start: int = 0, total: bool = False
) -> None:
    """Add the steps of formulas, whose results are from byte ``start`` on, and those of their gradients."""
    formulas, parts, width, dtype = pointwise_formulas
    item, each = dtype.itemsize, [start + j * width * dtype.itemsize for j in range(len(formulas))]
    values: dict[int, OperandRows] = {i: (program.ARG, p.slot, p.start * item, p.spread) for i, p in enumerate(parts)}
    values |= {_RESULT + j: (program.OWN, 0, place, False) for j, place in enumerate(each)}
    values |= {_GRAD + j: (program.OWN_GRAD, 0, place, total) for j, place in enumerate(each)}
    written: list[Expr] = []
    for formula in formulas:
        written.append(replaced(formula, {result(j): value for j, value in enumerate(written)}))
    into = [values[_RESULT + j] for j in range(len(formulas))]
    signature.forward += _steps(written, into, width, dtype, values, total=total)
    slopes = _slopes(formulas, total)
    targets = {slot: (program.ARG_GRAD, *values[slot][1:3], False) for slot in slopes}
    whole = [slot for slot in slopes if not values[slot][3]]
    signature.backward += _steps(
        [slopes[slot] for slot in whole], [targets[slot] for slot in whole], width, dtype, values, add=True
    )
    for slot in slopes:
        if values[slot][3]:
            signature.backward += _steps([slopes[slot]], [targets[slot]], width, dtype, values, add=True, total=True)


def _steps(
    formulas: Sequence[Expr],
    into: Sequence[OperandRows],
    width: int,
    dtype: torch.dtype,
    places: Mapping[int, OperandRows],
    add: bool = False,
    total: bool = False,
) -> list[Template]:
    """Return one step for all formulas, or one for each where together they have too many operands."""
    try:
        return [_template(formulas, width, dtype, into, places, add, total)] if formulas else []
    except ValueError:
        if len(formulas) == 1:
            raise
    pairs = zip(formulas, into, strict=True)
    return [_template([formula], width, dtype, [row], places, add, total) for formula, row in pairs]


def _slopes(formulas: Sequence[Expr], total: bool) -> dict[int, Expr]:
    """Return the gradient by each part, written with the formulas' own results where they occur."""
    grads: dict[int, Expr] = {_RESULT + j: operand(_GRAD + j) for j in range(len(formulas))}
    for j in reversed(range(len(formulas))):
        grad, formula = grads.pop(_RESULT + j), formulas[j]
        for part in operands_of(formula):
            slope = grad * derivative(formula, part)
            if slope != Constant(0.0):
                slope = slope if total else replaced(slope, {formula: result(j)})
                grads[part.slot] = grads[part.slot] + slope if part.slot in grads else slope
    return grads


def replaced(expr: Expr, instead: Mapping[Expr, Expr]) -> Expr:
    """Return the expression with others in the places of some of its parts."""
    if expr in instead:
        return instead[expr]
    if isinstance(expr, Call):
        return Call(expr.op, tuple(replaced(arg, instead) for arg in expr.args))
    return expr


def copies(name: str, widths: Sequence[int], dtype: torch.dtype) -> Signature:
    """Return the signature of arguments put side by side, which all sessions share; those of equal widths together."""
    signature, start = Signature(name, len(widths), sum(widths) * dtype.itemsize), 0
    for width, group in groupby(range(len(widths)), widths.__getitem__):
        slots = list(group)
        for first in range(0, len(slots) if width else 0, _MOST_COPIES):
            parts = tuple(ColumnRun(slot) for slot in slots[first : first + _MOST_COPIES])
            copied = PointwiseFormulas(tuple(operand(i) for i in range(len(parts))), parts, width, dtype)
            _add_steps(signature, copied, start)
            start += len(parts) * width * dtype.itemsize
    return shared_signature(signature)


_MOST_COPIES = program.MOST_ROWS // 2
"""How many values a step copies: each is an operand and a result."""


def places_of(kinds: Sequence[TensorKind]) -> list[int]:
    """Return where values that lie one after the other begin, in bytes, and where the last one ends."""
    several = len(kinds) > 1
    return [0, *accumulate((kind.nbytes + 7) // 8 * 8 if several else kind.nbytes for kind in kinds)]


def on_matrices(name: str, matrices: TorchCall) -> Signature:
    """Return the signature of an operation on matrices, with steps that copy arguments into rows one after the other.

    Its number is that which a session gives it.
    """
    signature = Signature(name, len(matrices.kinds), places_of(matrices.results)[-1], matrices=matrices)
    for slot, kind in enumerate(matrices.kinds):
        if not kind.numel:
            continue
        there, back = _moves(slot, kind)
        signature.forward.append(there)
        if kind.dtype in DTYPES:
            signature.backward.append(back)
    return signature


@cache
def _moves(slot: int, kind: TensorKind) -> tuple[Template, Template]:
    """Return the steps that copy an argument into rows, and that add the rows' gradient to its gradient."""
    moved = MOVED_AS[kind.item]
    formula, rows = [operand(0)], slot + 1
    into, place = [(program.INPUT, slot, 0, False)], {0: (program.ARG, slot, 0, False)}
    there = _template(formula, kind.numel, moved, into, place, gather=rows)
    into, place = [(program.ARG_GRAD, slot, 0, False)], {0: (program.INPUT_GRAD, slot, 0, False)}
    return there, _template(formula, kind.numel, moved, into, place, add=True, gather=rows)


MOVED_AS = {4: torch.float32, 8: torch.float64}
"""What values of a size are moved as: 8 bytes (or 4) are 8 bytes, whatever they mean."""


def template_table(templates: Sequence[Sequence[Template]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of several signatures' templates, one after the other, and where each signature's begin."""
    key = tuple(tuple(map(id, several)) for several in templates)
    entry = _tables.get(key)
    if entry is None:
        if len(_tables) >= 1000:
            _tables.clear()
        rows = [template for several in templates for template in several]
        table = np.array(rows, np.int64).reshape(-1)
        entry = _tables[key] = table, np.cumsum([0, *map(len, templates)]), rows
    return entry[:2]


_tables: dict[Any, tuple[np.ndarray, np.ndarray, list[Template]]] = {}
"""Tables by the identities of templates, which they keep alive: batches of one model mostly have the same ones."""
