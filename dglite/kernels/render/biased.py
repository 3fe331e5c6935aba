"""Source of the kernels of a layer's bias and activation: a formula over all rows, and sums of columns.

See :class:`BiasedWords` for ``args``. Operands that the formula does not read are not looked at. The factors multiply
the values that are written, not the sums.

Sums are made in runs of rows, for accuracy; each part has room for its own and for those of a run.
"""

from __future__ import annotations

from typing import NamedTuple

from ...expr import Expr, Operand, operands_of
from ..spec import ITEM_BYTES
from ..words import read_words, word_of
from .common import indent
from .rows import formula_lines, functions_of

SHARED = 2
"""The slot of the operand that all rows share."""

RUN = 256
"""Rows of a run: they are summed before their sum is added to their part's; parts have whole runs if possible."""


class BiasedWords(NamedTuple):
    """The arguments of a kernel: addresses, counts, and bytes."""

    rows: int
    row_bytes: int
    x0: int
    x1: int
    x2: int
    """One row, which all rows share."""
    y: int
    """The rows of the formula."""
    sums: int
    factors: int
    """A number for each row."""
    parts: int
    """Parts of the rows, which tasks take whole."""


_HEAD = '''"""{title} ({dtype})."""
from dglite.kernels.cpu.lanes import simd

ITEM, LANES, RUN = {item}, {lanes}, {run}
word = simd.word
{functions}
load1, store1, splat1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1), simd.splat("{dtype}", 1)
load{lanes}, store{lanes} = simd.loader("{dtype}", {lanes}), simd.storer("{dtype}", {lanes})
splat{lanes} = simd.splat("{dtype}", {lanes})


def kernel(args, task, num_tasks):
    {operands}
    {results}
    whole = row_bytes // (LANES * ITEM) * LANES * ITEM
    unit = RUN if rows >= parts * RUN else 1
    for part in range(parts * max(task, 0) // num_tasks, parts * (task + 1) // num_tasks):
        last = rows if part + 1 == parts else rows // unit * (part + 1) // parts * unit
{begin}        for begin in range(rows // unit * part // parts * unit, last, RUN):
{begin_run}            for row in range(begin, min(begin + RUN, last)):
                start = row * row_bytes
{factor}                for k in range(0, whole, LANES * ITEM):
{vectors}                for k in range(whole, row_bytes, ITEM):
{numbers}{end_run}{merge}'''
_SUMS = {
    "merge": """if task < 0 or num_tasks == 1:
    for part in range(1, parts):
        for k in range(0, row_bytes, ITEM):
            store1(sums + k, load1(sums + k) + load1(sums + 2 * part * row_bytes + k))
""",
    "begin": """own, run = sums + 2 * part * row_bytes, sums + (2 * part + 1) * row_bytes
for k in range(0, row_bytes, ITEM):
    store1(own + k, 0.0)
""",
    "begin_run": """for k in range(0, row_bytes, ITEM):
    store1(run + k, 0.0)
""",
    "end_run": """for k in range(0, row_bytes, ITEM):
    store1(own + k, load1(own + k) + load1(run + k))
""",
}
_DEPTHS = {"merge": 4, "begin": 8, "begin_run": 12, "end_run": 12}


def biased_source(formula: Expr, summed: bool, scaled: bool, dtype: str, lanes: int) -> str:
    """Return the kernel of ``formula`` over operands 0 and 1, rows, and :data:`SHARED`, with a factor if ``scaled``.

    A bare operand is written only if it is scaled.
    """
    functions = [f"{name} = simd.{name}" for name in sorted(functions_of([formula]))]
    text = {name: indent(part, _DEPTHS[name]) if summed else "" for name, part in _SUMS.items()}
    text["factor"] = (
        indent(f"factor = load1({word_of(BiasedWords._fields, 'factors')} + row * ITEM)", 16) if scaled else ""
    )
    for name, n in (("vectors", lanes), ("numbers", 1)):
        text[name] = indent("\n".join(_chunk(formula, summed, scaled, n)), 20)
    title = f"{formula} over rows{', and its sums' if summed else ''}"
    fields = {"title": title, "dtype": dtype, "item": ITEM_BYTES[dtype], "lanes": lanes, "run": RUN}
    fields["operands"] = read_words(BiasedWords._fields, "rows", "row_bytes", "x0", "x1", "x2")
    fields["results"] = read_words(BiasedWords._fields, "y", "sums", "parts")
    return _HEAD.format(functions="\n".join(functions), **fields, **text)


def _chunk(formula: Expr, summed: bool, scaled: bool, lanes: int) -> list[str]:
    slots = sorted({operand.slot for operand in operands_of(formula)})
    lines = [f"v{slot} = load{lanes}(x{slot} + {'k' if slot == SHARED else 'start + k'})" for slot in slots]
    computed, (value,) = formula_lines((formula,), lanes, lambda operand: f"v{operand.slot}")
    lines += [*computed, f"value = {value}"]
    if scaled or not isinstance(formula, Operand):
        lines.append(f"store{lanes}(y + start + k, value{' * factor' if scaled else ''})")
    return [*lines, f"store{lanes}(run + k, load{lanes}(run + k) + value)"] if summed else lines
