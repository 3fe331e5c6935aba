"""Source of a step's kernel: one element-wise formula over the rows of a batch that was grouped at run time.

Rows lie anywhere: each operand has its rows at equal distances, or has a list of their addresses. A task computes some
of the columns of every row, never some of the rows: so a thread that runs its tasks of several steps in order reads
only what it has written itself, and the steps need no barrier between them. (What sums columns runs as one task.)

Words of ``args``: 0 the kernel, 1 number of rows, 2 number of columns; then for the result and for each operand
(address, distance between rows in bytes, address of the list of addresses or 0). Rows with the result at 0 are left
out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..expr import Call, Constant, Expr, Operand
from .spec import ITEM_BYTES

__all__ = ["FIRST_PLACE", "WORDS_PER_PLACE", "StepSpec", "step_source"]

FIRST_PLACE, WORDS_PER_PLACE = 3, 3
_FUNCTIONS = (
    "abs",
    "exp",
    "log",
    "maximum",
    "minimum",
    "power",
    "sigmoid",
    "sign",
    "softplus",
    "sqrt",
    "tanh",
    "where",
)


@dataclass(frozen=True)
class StepSpec:
    """What a kernel is compiled for.

    ``spread[slot]`` tells that an operand has one value for all columns. With ``add`` the formula is added to what the
    result holds. With ``total`` the result has one column, the formula's sum over the columns.
    """

    formula: Expr
    spread: tuple[bool, ...]
    add: bool
    total: bool
    dtype: str
    lanes: int


def step_source(spec: StepSpec) -> str:
    """Return the source of the kernel."""
    widths = (1, spec.lanes)
    lines = [
        f'"""{spec.formula!r} ({spec.dtype})."""',
        "from numba import cfunc",
        "",
        "from dglite.kernels.cpu import simd",
        "",
        "word, splat, reduce_add = simd.word, simd.splat, simd.reduce_add",
        *(f"{name} = simd.{name}" for name in _FUNCTIONS),
        *(f'load{n}, store{n} = simd.loader("{spec.dtype}", {n}), simd.storer("{spec.dtype}", {n})' for n in widths),
        f'zeros = splat("{spec.dtype}", {spec.lanes})',
        "",
        "",
        '@cfunc("void(int64, int64, int64)", cache=True, error_model="numpy")',
        "def kernel(args, task, num_tasks):",
        "    if task < 0:",
        "        return",
        *(f"    {line}" for line in _body(spec)),
    ]
    return "\n".join(lines) + "\n"


def _body(spec: StepSpec) -> list[str]:
    names = ["y", *(f"x{slot}" for slot in range(len(spec.spread)))]
    lines = ["rows, width = word(args, 1), word(args, 2)"]
    for i, name in enumerate(names):
        at = FIRST_PLACE + WORDS_PER_PLACE * i
        lines.append(f"{name}, {name}_step, {name}_list = word(args, {at}), word(args, {at + 1}), word(args, {at + 2})")
    lines += [
        f"blocks = width // {spec.lanes}",
        f"first, last = (blocks * task // num_tasks) * {spec.lanes}, (blocks * (task + 1) // num_tasks) * {spec.lanes}",
        "stop = width if task + 1 == num_tasks else last",
        "for row in range(rows):",
        *(
            f"    {name}_row = word({name}_list, row) if {name}_list != 0 else {name} + row * {name}_step"
            for name in names
        ),
        "    if y_row == 0:",
        "        continue",
    ]
    return lines + [f"    {line}" for line in _columns(spec)]


def _columns(spec: StepSpec) -> list[str]:
    lines = [f"s{slot} = load1(x{slot}_row)" for slot, spread in enumerate(spec.spread) if spread]
    if spec.total:
        lines += [f"sums, rest = zeros(0.0), {'load1(y_row)' if spec.add else '0.0'}"]
    for start, end, step, lanes in (("first", "last", spec.lanes, spec.lanes), ("last", "stop", 1, 1)):
        lines += [f"for k in range({start}, {end}, {step}):", *(f"    {line}" for line in _values(spec, lanes))]
    if spec.total:
        lines += ["store1(y_row, rest + reduce_add(sums))"]
    return lines


def _values(spec: StepSpec, lanes: int) -> list[str]:
    lines = [f"at = k * {ITEM_BYTES[spec.dtype]}"]
    lines += [f"v{slot}_{lanes} = load{lanes}(x{slot}_row + at)" for slot, once in enumerate(spec.spread) if not once]
    value = _text(spec, lanes, lines)
    if spec.total:
        lines.append(f"rest = rest + {value}" if lanes == 1 else f"sums = sums + {value}")
    else:
        before = f"load{lanes}(y_row + at) + " if spec.add else ""
        lines.append(f"store{lanes}(y_row + at, {before}{value})")
    return lines


def _text(spec: StepSpec, lanes: int, lines: list[str]) -> str:
    """Return the formula's text; each operator's result gets a line of its own, once."""
    names: dict[Expr, str] = {}

    def text(node: Expr) -> str:
        if isinstance(node, Constant):
            return _number(node.value, spec.dtype)
        if isinstance(node, Operand):
            return f"s{node.slot}" if spec.spread[node.slot] else f"v{node.slot}_{lanes}"
        assert isinstance(node, Call)
        if node not in names:
            value = node.op.source.format(*map(text, node.args))
            names[node] = f"t{len(names)}_{lanes}"
            lines.append(f"{names[node]} = {value}")
        return names[node]

    return text(spec.formula)


def _number(value: float, dtype: str) -> str:
    value = float(np.float32(value)) if dtype == "float32" else value
    return repr(value) if math.isfinite(value) else f'float("{value}")'
