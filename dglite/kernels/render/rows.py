"""Source of row kernels: element-wise formulas over rows, and reductions of rows.

What occurs in several formulas is computed once. There are three kinds.

A *cell* kernel of a vertex program computes formulas for each of a run of rows. Its operands are rows at the same
place, rows that an index picks (a child's state), or one row that all share (a bias). All operands are loaded before
anything is stored, so that a result may take the place of an operand. Words of its ``args``: first row, last row,
width; then for each operand (address, row stride in bytes, address of the index, step of the index); then for each
result (address, row stride in bytes). Addresses are those of row 0, wherever the run of rows starts.

A *reduction* takes, for each row, the sum or the maximum of the rows of its entries; without entries it gives 0. Words
of its ``args``: :class:`ReduceWords`.

A *step* kernel computes formulas over the rows of a batch that was grouped at run time. Rows lie anywhere: each operand
has its rows at equal distances, or has a list of their addresses. A task computes some of the columns of every row: so
a thread that runs its tasks of several steps in order reads only what it has written itself, and the steps need no
barrier between them. (What sums columns runs as one task.) Words of its ``args``: 0 the kernel, 1 number of rows, 2
number of columns; then for each result and for each operand (address, distance between rows in bytes, address of the
list of addresses or 0). Rows with all results at 0 are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...expr import Call, Constant, Expr, Operand, Side, write_out_powers
from ...opspec import OPERATORS
from ..spec import ITEM_BYTES, compute_dtype, pieces_of
from ..words import read_words
from .common import called_functions, indent, is_fused, number_text

FIRST_PLACE, WORDS_PER_PLACE, WORDS_PER_OPERAND, WORDS_PER_RESULT = 3, 3, 4, 2


class RowAccess(Enum):
    """Which row of an operand belongs to a kernel's row, or which rows a sum takes.

    ``ADDRESSED`` rows are left out where their address is 0.
    """

    SAME = "same"
    INDEXED = "indexed"
    SHARED = "shared"
    ADDRESSED = "addressed"


@dataclass(frozen=True)
class StepSpec:
    """What a step's kernel is compiled for.

    ``spread[slot]`` tells that an operand has one value for all columns. With ``add`` each formula is added to what its
    result holds, unless that is at 0. With ``total`` there is one formula, and its result has one column, the sum over
    the columns.
    """

    formulas: tuple[Expr, ...]
    spread: tuple[bool, ...]
    add: bool
    total: bool
    dtype: str


_KERNEL = """def kernel(args, task, num_tasks):
    if task < 0:
        return
"""


class ReduceWords(NamedTuple):
    """The words of a reduction, rows ``first`` to before ``last``; a cell kernel's first three are the same.

    ``bounds`` is the address of the bounds of each row's entries, ``index`` that of the entries' numbers of rows, or of
    their addresses. Of the operand and of the result: address, and bytes from row to row.
    """

    first: int
    last: int
    width: int
    bounds: int
    x: int
    x_stride: int
    index: int  # type: ignore[assignment]  # hides a method of tuples that nobody calls
    y: int
    y_stride: int


_WORDS = ReduceWords._fields
_RUN = f"""    {read_words(_WORDS, "first", "last", "width")}
    start, stop = first + (last - first) * task // num_tasks, first + (last - first) * (task + 1) // num_tasks
"""


def _source(title: str, dtype: str, widths: Iterable[int], functions: Iterable[str], head: str, body: list[str]) -> str:
    """Return a kernel that loads, stores and fills vectors of the given ``widths``."""
    lines = [
        f'"""{title} ({dtype})."""',
        "from dglite.kernels.cpu.lanes import simd",
        "",
        f"ITEM = {ITEM_BYTES[dtype]}",
        "word = simd.word",
        *(f"{name} = simd.{name}" for name in sorted(functions)),
    ]
    for width in sorted(widths):
        lines.append(f'load{width}, store{width} = simd.loader("{dtype}", {width}), simd.storer("{dtype}", {width})')
        lines.append(f'splat{width} = simd.splat("{compute_dtype(dtype)}", {width})')
    return "\n".join([*lines, "", ""]) + _KERNEL + head + indent("\n".join(body), 4)


def formula_lines(
    formulas: Sequence[Expr], lanes: int, operand_text: Callable[[Operand], str]
) -> tuple[list[str], list[str]]:
    """Return (lines that compute, the text of each formula's value). What occurs several times is computed once."""
    lines: list[str] = []
    names: dict[Expr, str] = {}

    def text(node: Expr, whole: bool = False) -> str:
        if isinstance(node, Constant):
            return number_text(node.value)
        if isinstance(node, Operand):
            return operand_text(node)
        assert isinstance(node, Call)
        if node not in names or whole:
            value = node.op.source.format(*(text(arg, is_fused(node, arg)) for arg in node.args))
            if node.op.source.startswith("where"):
                value = f"where({text(node.args[0])}, {', '.join(f'splat{lanes}({text(x)})' for x in node.args[1:])})"
            if whole:
                return value
            names[node] = f"t{len(names)}"
            lines.append(f"{names[node]} = {value}")
        return names[node]

    return lines, [text(write_out_powers(formula)) for formula in formulas]


def functions_of(formulas: Iterable[Expr]) -> set[str]:
    """Return the names of the functions that formulas call."""
    return set[str]().union(*map(called_functions, formulas))


# -- runs of rows ------------------------------------------------------------------------------------------------------
def _columns(width: int, lanes: int, chunk: Callable[[int], list[str]]) -> tuple[set[int], list[str]]:
    """Return the widths of the vectors that a row is cut into, and lines: ``chunk(n)`` does n columns, at ``at``."""
    pieces = pieces_of(width % lanes)
    text, rest = [], sum(pieces)
    if width >= lanes:
        text += [f"for k in range(0, width - {lanes - 1}, {lanes}):"]
        text += [f"    {line}" for line in ("at = (k) * ITEM", *chunk(lanes))]
    for piece in pieces:
        text += [f"at = (width - {rest}) * ITEM", *chunk(piece)]
        rest -= piece
    return {1, *pieces, *((lanes,) if width >= lanes else ())}, text


def cell_source(formulas: tuple[Expr, ...], rows: tuple[RowAccess, ...], dtype: str, width: int, lanes: int) -> str:
    """Return the kernel that computes ``formulas`` for a run of rows of ``width`` values."""
    body, row = [], []
    for i, access in enumerate(rows):
        at = FIRST_PLACE + WORDS_PER_OPERAND * i
        body.append(
            f"x{i}, x{i}_stride, x{i}_index, x{i}_step = " + ", ".join(f"word(args, {at + j})" for j in range(4))
        )
        place = {
            RowAccess.SAME: f" + row * x{i}_stride",
            RowAccess.INDEXED: f" + word(x{i}_index, row * x{i}_step) * x{i}_stride",
            RowAccess.SHARED: "",
        }[access]
        row.append(f"x{i}_row = x{i}{place}")
    for i in range(len(formulas)):
        at = FIRST_PLACE + WORDS_PER_OPERAND * len(rows) + WORDS_PER_RESULT * i
        body.append(f"y{i}, y{i}_stride = word(args, {at}), word(args, {at + 1})")
        row.append(f"y{i}_row = y{i} + row * y{i}_stride")

    def chunk(lanes: int) -> list[str]:
        lines = [f"v{i} = load{lanes}(x{i}_row + at)" for i in range(len(rows))]
        computed, values = formula_lines(formulas, lanes, lambda operand: f"v{operand.slot}")
        return lines + computed + [f"store{lanes}(y{i}_row + at, {value})" for i, value in enumerate(values)]

    widths, columns = _columns(width, lanes, chunk)
    body += ["for row in range(start, stop):", *(f"    {line}" for line in (*row, *columns))]
    title = f"{len(formulas)} formulas over {len(rows)} operands"
    return _source(title, dtype, widths, functions_of(formulas), _RUN, body)


def reduce_source(rows: RowAccess, dtype: str, width: int, lanes: int, reducer: str = "sum") -> str:
    """Return the kernel that takes the ``"sum"``, ``"max"`` or ``"min"`` of rows of ``width`` values; 0 of no rows."""
    place = {
        RowAccess.SAME: "x + entry * x_stride",
        RowAccess.INDEXED: "x + word(index, entry) * x_stride",
        RowAccess.ADDRESSED: "word(index, entry)",
    }[rows]
    operator = {"sum": "add", "max": "maximum", "min": "minimum"}[reducer]
    formula = Call(OPERATORS[operator], (Operand(Side.E, 0), Operand(Side.E, 1)))

    def chunk(lanes: int) -> list[str]:
        lines = [f"total = splat{lanes}(0.0)", "for entry in range(begin, end):", f"    source = {place}"]
        computed, (value,) = formula_lines((formula,), lanes, lambda operand: ("total", "value")[operand.slot])
        update = [f"value = load{lanes}(source + at)", *computed, f"total = {value}"]
        if rows is RowAccess.ADDRESSED:
            lines += ["    if source != 0:", *(f"        {line}" for line in update)]
        elif reducer == "sum":
            lines += [f"    {line}" for line in update]
        else:  # the first row is compared with nothing
            lines += [f"    {update[0]}", "    if entry == begin:", "        total = value", "    else:"]
            lines += [f"        {line}" for line in update[1:]]
        return [*lines, f"store{lanes}(y + row * y_stride + at, total)"]

    widths, columns = _columns(width, lanes, chunk)
    body = [read_words(_WORDS, "bounds", "x", "x_stride", "index")]
    body += [read_words(_WORDS, "y", "y_stride"), "for row in range(start, stop):"]
    body += [f"    {line}" for line in ("begin, end = word(bounds, row), word(bounds, row + 1)", *columns)]
    return _source(f"The {reducer} of {rows.value} rows", dtype, widths, functions_of((formula,)), _RUN, body)


# -- steps -------------------------------------------------------------------------------------------------------------
def step_source(spec: StepSpec, lanes: int) -> str:
    """Return the kernel of a step."""
    title, widths = f"{len(spec.formulas)} formulas over {len(spec.spread)} operands", {1, lanes}
    functions = functions_of(spec.formulas) | ({"reduce_add"} if spec.total else set())
    return _source(title, spec.dtype, widths, functions, "", _step(spec, lanes))


def _step(spec: StepSpec, lanes: int) -> list[str]:
    results = [f"y{i}" for i in range(len(spec.formulas))]
    names = [*results, *(f"x{slot}" for slot in range(len(spec.spread)))]
    lines = ["rows, width = word(args, 1), word(args, 2)"]
    for i, name in enumerate(names):
        at = FIRST_PLACE + WORDS_PER_PLACE * i
        lines.append(f"{name}, {name}_step, {name}_list = word(args, {at}), word(args, {at + 1}), word(args, {at + 2})")
    row = [f"{name}_row = word({name}_list, row) if {name}_list != 0 else {name} + row * {name}_step" for name in names]
    row += [f"if {' | '.join(f'{name}_row' for name in results)} == 0:", "    continue", *_step_columns(spec, lanes)]
    return [
        *lines,
        f"blocks = width // {lanes}",
        f"first, last = blocks * task // num_tasks * {lanes}, blocks * (task + 1) // num_tasks * {lanes}",
        "stop = width if task + 1 == num_tasks else last",
        "for row in range(rows):",
        *(f"    {line}" for line in row),
    ]


def _step_columns(spec: StepSpec, lanes: int) -> list[str]:
    lines = [f"s{slot} = load1(x{slot}_row)" for slot, spread in enumerate(spec.spread) if spread]
    if spec.total:
        lines += [f"sums, rest = splat{lanes}(0.0), {'load1(y0_row)' if spec.add else 'splat1(0.0)'}"]
    for start, end, step in (("first", "last", lanes), ("last", "stop", 1)):
        lines += [f"for k in range({start}, {end}, {step}):", *(f"    {line}" for line in _values(spec, step))]
    if spec.total:
        lines += ["store1(y0_row, rest + reduce_add(sums))"]
    return lines


def _values(spec: StepSpec, lanes: int) -> list[str]:
    lines = ["at = k * ITEM"]
    loaded = [slot for slot, spread in enumerate(spec.spread) if not spread]
    lines += [f"v{slot}_{lanes} = load{lanes}(x{slot}_row + at)" for slot in loaded]

    def operand_text(operand: Operand) -> str:
        return f"s{operand.slot}" if spec.spread[operand.slot] else f"v{operand.slot}_{lanes}"

    computed, values = formula_lines(spec.formulas, lanes, operand_text)
    lines += computed
    if spec.total:
        return [*lines, f"rest = rest + {values[0]}" if lanes == 1 else f"sums = sums + {values[0]}"]
    for i, value in enumerate(values):
        if spec.add:
            lines += [f"if y{i}_row != 0:", f"    store{lanes}(y{i}_row + at, load{lanes}(y{i}_row + at) + {value})"]
        else:
            lines.append(f"store{lanes}(y{i}_row + at, {value})")
    return lines
