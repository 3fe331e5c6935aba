"""Source of the kernels of a vertex program: element-wise formulas over rows, and sums of rows.

A cell kernel computes several formulas for each of a run of rows. Its operands are rows at the same place, rows that an
index picks (a child's state), or one row that all share (a bias). What occurs in several formulas is computed once, and
all operands are loaded before anything is stored, so that a result may take the place of an operand.

Words of a cell kernel's ``args``: first row, last row, width; then for each operand (address, row stride in bytes,
address of the index, step of the index); then for each result (address, row stride in bytes). Addresses are those of
row 0, wherever the run of rows starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..expr import Expr
from .render import indent
from .render_formula import KERNEL, formula_lines, functions_of, header
from .spec import pieces_of

__all__ = ["CellSpec", "RowAccess", "SumSpec", "cell_source", "cell_spec", "sum_source", "sum_spec"]

FIRST_OPERAND, WORDS_PER_OPERAND, WORDS_PER_RESULT = 3, 4, 2


class RowAccess(Enum):
    """Which row of an operand belongs to a kernel's row, or which rows a sum takes."""

    SAME = "same"
    INDEXED = "indexed"
    SHARED = "shared"
    ADDRESSED = "addressed"


@dataclass(frozen=True)
class CellSpec:
    """What a cell kernel is compiled for: formulas, the rows of each operand, the vectors that a row is cut into."""

    formulas: tuple[Expr, ...]
    rows: tuple[RowAccess, ...]
    dtype: str
    lanes: int
    blocks: bool
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class SumSpec:
    """What a kernel that sums rows is compiled for. ``ADDRESSED`` rows are left out where their address is 0."""

    rows: RowAccess
    dtype: str
    lanes: int
    blocks: bool
    pieces: tuple[int, ...]


def cell_spec(formulas: tuple[Expr, ...], rows: tuple[RowAccess, ...], dtype: str, width: int, lanes: int) -> CellSpec:
    """Return what is compiled for rows of ``width`` values."""
    return CellSpec(formulas, rows, dtype, lanes, width >= lanes, pieces_of(width % lanes))


def sum_spec(rows: RowAccess, dtype: str, width: int, lanes: int) -> SumSpec:
    """Return what is compiled for sums of rows of ``width`` values."""
    return SumSpec(rows, dtype, lanes, width >= lanes, pieces_of(width % lanes))


def _header(spec: CellSpec | SumSpec, title: str, functions: set[str]) -> list[str]:
    return header(title, spec.dtype, {1, *spec.pieces, *((spec.lanes,) if spec.blocks else ())}, functions)


_ROWS = """    first, last, width = word(args, 0), word(args, 1), word(args, 2)
    start, stop = first + (last - first) * task // num_tasks, first + (last - first) * (task + 1) // num_tasks
"""


def _passes(spec: CellSpec | SumSpec) -> list[tuple[str, int, str]]:
    """Return, for the blocks and each remaining piece: the loop line, the number of lanes, the first column."""
    passes = []
    if spec.blocks:
        passes.append((f"for k in range(0, width - {spec.lanes - 1}, {spec.lanes}):", spec.lanes, "k"))
    rest = sum(spec.pieces)
    for lanes in spec.pieces:
        passes.append(("", lanes, f"width - {rest}"))
        rest -= lanes
    return passes


# -- formulas ----------------------------------------------------------------------------------------------------------
def cell_source(spec: CellSpec) -> str:
    """Return the source of the kernel that computes ``spec.formulas`` for a run of rows."""
    title = f"{len(spec.formulas)} formulas over {len(spec.rows)} operands"
    lines = _header(spec, title, functions_of(spec.formulas))
    body, row = [], []
    for i, rows in enumerate(spec.rows):
        at = FIRST_OPERAND + WORDS_PER_OPERAND * i
        body.append(
            f"x{i}, x{i}_stride, x{i}_index, x{i}_step = " + ", ".join(f"word(args, {at + j})" for j in range(4))
        )
        place = {
            RowAccess.SAME: f" + row * x{i}_stride",
            RowAccess.INDEXED: f" + word(x{i}_index, row * x{i}_step) * x{i}_stride",
            RowAccess.SHARED: "",
        }[rows]
        row.append(f"x{i}_row = x{i}{place}")
    for i in range(len(spec.formulas)):
        at = FIRST_OPERAND + WORDS_PER_OPERAND * len(spec.rows) + WORDS_PER_RESULT * i
        body.append(f"y{i}, y{i}_stride = word(args, {at}), word(args, {at + 1})")
        row.append(f"y{i}_row = y{i} + row * y{i}_stride")
    for head, lanes, column in _passes(spec):
        chunk = _formulas(spec, lanes, column)
        row += [head, *(f"    {line}" for line in chunk)] if head else chunk
    body += ["for row in range(start, stop):", *(f"    {line}" for line in row)]
    return "\n".join(lines) + KERNEL + _ROWS + indent("\n".join(body), 4)


def _formulas(spec: CellSpec, lanes: int, column: str) -> list[str]:
    """Return the lines that load, compute and store the columns from ``column`` on."""
    lines = [f"at = ({column}) * ITEM"]
    lines += [f"v{i} = load{lanes}(x{i}_row + at)" for i in range(len(spec.rows))]
    computed, values = formula_lines(spec.formulas, spec.dtype, lanes, lambda operand: f"v{operand.slot}")
    stores = [f"store{lanes}(y{i}_row + at, {value})" for i, value in enumerate(values)]
    return lines + computed + stores


# -- sums --------------------------------------------------------------------------------------------------------------
def sum_source(spec: SumSpec) -> str:
    """Return the source of the kernel that sums, for each row, the rows of its entries; without entries it gives 0.

    Words of ``args``: first row, last row, width, address of the bounds of each row's entries, address and row stride
    of what is summed, address of the index (of the rows' numbers, or of their addresses), address and row stride of the
    result.
    """
    lines = _header(spec, f"Sums of {spec.rows.value} rows", set())
    row = ["bounds, x, x_stride, index = word(args, 3), word(args, 4), word(args, 5), word(args, 6)"]
    row += ["y, y_stride = word(args, 7), word(args, 8)", "for row in range(start, stop):"]
    row += ["    begin, end = word(bounds, row), word(bounds, row + 1)"]
    at = {
        RowAccess.SAME: "x + entry * x_stride",
        RowAccess.INDEXED: "x + word(index, entry) * x_stride",
        RowAccess.ADDRESSED: "word(index, entry)",
    }[spec.rows]
    for head, lanes, column in _passes(spec):
        chunk = [f"at = ({column}) * ITEM", f"total = splat{lanes}(0.0)", "for entry in range(begin, end):"]
        chunk.append(f"    source = {at}")
        add = f"total = total + load{lanes}(source + at)"
        chunk += ["    if source != 0:", f"        {add}"] if spec.rows is RowAccess.ADDRESSED else [f"    {add}"]
        chunk.append(f"store{lanes}(y + row * y_stride + at, total)")
        row += [f"    {line}" for line in ([head, *(f"    {c}" for c in chunk)] if head else chunk)]
    return "\n".join(lines) + KERNEL + _ROWS + indent("\n".join(row), 4)
