"""Source of a step's kernel: element-wise formulas over the rows of a batch that was grouped at run time.

Rows lie anywhere: each operand has its rows at equal distances, or has a list of their addresses. A task computes some
of the columns of every row: so a thread that runs its tasks of several steps in order reads only what it has written
itself, and the steps need no barrier between them. (What sums columns runs as one task.) Where there are barriers, a
task computes some of the rows, which memory serves better: it is called with the number of tasks negated then.

Words of ``args``: 0 the kernel, 1 number of rows, 2 number of columns; then for each result and for each operand
(address, distance between rows in bytes, address of the list of addresses or 0). Rows with all results at 0 are left
out.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import Expr, Operand
from .render import indent
from .render_formula import KERNEL, formula_lines, functions_of, header

__all__ = ["FIRST_PLACE", "WORDS_PER_PLACE", "StepSpec", "step_source"]

FIRST_PLACE, WORDS_PER_PLACE = 3, 3


@dataclass(frozen=True)
class StepSpec:
    """What a kernel is compiled for.

    ``spread[slot]`` tells that an operand has one value for all columns. With ``add`` each formula is added to what its
    result holds, unless that is at 0. With ``total`` there is one formula, and its result has one column, the sum over
    the columns.
    """

    formulas: tuple[Expr, ...]
    spread: tuple[bool, ...]
    add: bool
    total: bool
    dtype: str
    lanes: int


def step_source(spec: StepSpec) -> str:
    """Return the source of the kernel."""
    title = f"{len(spec.formulas)} formulas over {len(spec.spread)} operands"
    sums = {"reduce_add"} if spec.total else set()
    lines = header(title, spec.dtype, {1, spec.lanes}, functions_of(spec.formulas) | sums)
    return "\n".join(lines) + KERNEL + indent("\n".join(_body(spec)), 4)


def _body(spec: StepSpec) -> list[str]:
    results = [f"y{i}" for i in range(len(spec.formulas))]
    names = [*results, *(f"x{slot}" for slot in range(len(spec.spread)))]
    lines = ["rows, width = word(args, 1), word(args, 2)"]
    for i, name in enumerate(names):
        at = FIRST_PLACE + WORDS_PER_PLACE * i
        lines.append(f"{name}, {name}_step, {name}_list = word(args, {at}), word(args, {at + 1}), word(args, {at + 2})")
    row = [f"{name}_row = word({name}_list, row) if {name}_list != 0 else {name} + row * {name}_step" for name in names]
    row += [f"if {' | '.join(f'{name}_row' for name in results)} == 0:", "    continue", *_columns(spec)]
    return [
        *lines,
        f"blocks = width // {spec.lanes}",
        f"begin, end, first, last, stop = 0, rows, 0, blocks * {spec.lanes}, width",
        "if num_tasks < 0:",
        "    begin, end = rows * task // -num_tasks, rows * (task + 1) // -num_tasks",
        "else:",
        f"    first, last = blocks * task // num_tasks * {spec.lanes}, blocks * (task + 1) // num_tasks * {spec.lanes}",
        "    stop = width if task + 1 == num_tasks else last",
        "for row in range(begin, end):",
        *(f"    {line}" for line in row),
    ]


def _columns(spec: StepSpec) -> list[str]:
    lines = [f"s{slot} = load1(x{slot}_row)" for slot, spread in enumerate(spec.spread) if spread]
    if spec.total:
        lines += [f"sums, rest = splat{spec.lanes}(0.0), {'load1(y0_row)' if spec.add else 'splat1(0.0)'}"]
    for start, end, step, lanes in (("first", "last", spec.lanes, spec.lanes), ("last", "stop", 1, 1)):
        lines += [f"for k in range({start}, {end}, {step}):", *(f"    {line}" for line in _values(spec, lanes))]
    if spec.total:
        lines += ["store1(y0_row, rest + reduce_add(sums))"]
    return lines


def _values(spec: StepSpec, lanes: int) -> list[str]:
    lines = ["at = k * ITEM"]
    loaded = [slot for slot, spread in enumerate(spec.spread) if not spread]
    lines += [f"v{slot}_{lanes} = load{lanes}(x{slot}_row + at)" for slot in loaded]

    def operand_text(operand: Operand) -> str:
        return f"s{operand.slot}" if spec.spread[operand.slot] else f"v{operand.slot}_{lanes}"

    computed, values = formula_lines(spec.formulas, spec.dtype, lanes, operand_text)
    lines += computed
    if spec.total:
        return [*lines, f"rest = rest + {values[0]}" if lanes == 1 else f"sums = sums + {values[0]}"]
    for i, value in enumerate(values):
        if spec.add:
            lines += [f"if y{i}_row != 0:", f"    store{lanes}(y{i}_row + at, load{lanes}(y{i}_row + at) + {value})"]
        else:
            lines.append(f"store{lanes}(y{i}_row + at, {value})")
    return lines
