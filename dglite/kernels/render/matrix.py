"""Source of small matrix kernels: products of some rows with a matrix or its transpose, and outer products.

A task is one of ``num_tasks`` threads that work on the same matrix M (height, width), which lies by rows. Its
rows are dealt to them round-robin, ``DEALT`` at a time: ``dots`` reads the rows that it owns, ``outer`` changes them,
so that they stay in the cache of their owner's core. As many results of ``dots`` fill a cache line (two, of float64),
so no line is written by two of them. ``sums`` needs all rows, and is shared out by columns.

    dots    y[r, i] = start[r, i] + sum over j of x[r, j] M[i, j]
    sums    y[r, j] = start[r, j] + sum over i of x[r, i] M[i, j]
    outer   M[i, j] = keep M[i, j] + scale (sum over r of x[r, i] y[r, j])
    totals  M[0, j] = keep M[0, j] + scale (sum over r of y[r, j])

Words of ``args``: :class:`MatrixWords`. Of ``dots`` and ``sums`` for a run of rows (:func:`run_source`) the first two
are the first row and the row behind the last; addresses of rows are those of row 0, wherever the run starts, and there
is no start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..spec import ITEM_BYTES, pieces_of
from ..words import read_words, word_of
from .common import indent


class MatrixWords(NamedTuple):
    """The words of a product: of each operand the address, and bytes from row to row."""

    kernel: int
    count: int  # type: ignore[assignment]  # hides a method of tuples that nobody calls
    """Number of rows of x and y."""
    height: int
    width: int
    x: int
    x_stride: int
    m: int
    m_stride: int
    y: int
    y_stride: int
    start: int
    """Of ``dots`` and ``sums`` what the result starts from, 0 for zeros; of ``outer`` and ``totals`` the address of two
    numbers, keep and scale. Where it keeps 0, M is not read."""
    start_stride: int


DEALT = 16
_AT_ONCE = 4
"""Rows of the matrix that are worked on at a time."""
_ACCUMULATORS = 8
"""Vectors that are summed up at a time: enough to hide the latency of a multiply-add, and half of the registers. With
AVX-512, which has twice as many, twice as many."""

_CHUNK = 128
"""Rows of the matrix that are added up before others are, where they are used more than once."""

_HEAD = '''"""{title} ({dtype})."""
from dglite.kernels.cpu.lanes import simd

ITEM, LANES = {item}, {lanes}
word, reduce_add = simd.word, simd.reduce_add
{loads}


def kernel(args, task, num_tasks):
    if task < 0:
        return
    {sizes}
    {operands}
    {result}
'''
_WORDS = MatrixWords._fields
_START = [read_words(_WORDS, "start", "start_stride")]
_SCALES = f"keep, scale = load1({word_of(_WORDS, 'start')}), load1({word_of(_WORDS, 'start')} + ITEM)"
_RUN = [f"first_row = {word_of(_WORDS, 'kernel')}", "count = count - first_row"]
_RUN += ["x, y = x + first_row * x_stride, y + first_row * y_stride", "start, start_stride = 0, 0"]


def run_source(form: str, dtype: str, lanes: int) -> str:
    """Return the kernel of ``dots`` or ``sums`` for a run of rows."""
    return _source(f"{form} of a run", _RUN, form, dtype, lanes)


def matrix_source(form: str, dtype: str, lanes: int) -> str:
    """Return the kernel of a form, for matrices of any width."""
    return _source(form, _START if form in ("dots", "sums") else [], form, dtype, lanes)


def _source(title: str, start: list[str], form: str, dtype: str, lanes: int) -> str:
    # What remains of the columns is done in smaller vectors. Told apart when it runs: kernels take long to compile.
    pieces = pieces_of(lanes - 1)
    loads = [
        f'load{n}, store{n}, splat{n} = simd.loader("{dtype}", {n}), simd.storer("{dtype}", {n}), '
        f'simd.splat("{dtype}", {n})'
        for n in sorted({1, lanes, *pieces})
    ]
    loads.append(
        f'load_part, store_part = simd.part_loader("{dtype}", {lanes}, 0.0), simd.part_storer("{dtype}", {lanes})'
    )
    words = {
        "sizes": read_words(_WORDS, "count", "height", "width"),
        "operands": read_words(_WORDS, "x", "x_stride", "m", "m_stride"),
        "result": read_words(_WORDS, "y", "y_stride"),
    }
    item = ITEM_BYTES[dtype]
    head = _HEAD.format(title=title, dtype=dtype, item=item, lanes=lanes, loads="\n".join(loads), **words)
    accumulators = _ACCUMULATORS * (2 if lanes * item == 64 else 1)
    body = _FORMS[form](lanes, pieces, accumulators)
    return head + indent("\n".join([*start, *body]), 4)


def _in_groups(name: str, end: str, sizes: tuple[int, ...], body: Callable[[int], list[str]]) -> list[str]:
    """Return loops that go from ``name`` to ``end`` in steps of the largest size that fits."""
    lines = []
    for size in sizes:
        inner = "\n".join([*body(size), f"{name} += {size}"])
        loop = f"while {name} + {size} <= {end}:" if size > 1 else f"while {name} < {end}:"
        lines += [loop, *indent(inner, 4).splitlines()]
    return lines


# -- rows of the matrix with rows --------------------------------------------------------------------------------------
def _dots(lanes: int, pieces: tuple[int, ...], accumulators: int) -> list[str]:
    def rows(dealt: int) -> list[str]:
        lines = [f"m{j} = m + (i + {j}) * m_stride" for j in range(dealt)]
        groups = (accumulators // _AT_ONCE, 1)

        def body(n: int) -> list[str]:
            return _dots_of(n, dealt, lanes, pieces, accumulators)

        return [*lines, "row = 0", *_in_groups("row", "count", groups, body)]

    return _owned_rows(rows)


def _owned_rows(body: Callable[[int], list[str]]) -> list[str]:
    """Return a loop over the rows of the matrix that a task owns; ``body(n)`` does rows i to i + n - 1."""
    return [
        f"for dealt in range(task * {DEALT}, height, num_tasks * {DEALT}):",
        f"    until = min(dealt + {DEALT}, height)",
        "    i = dealt",
        *indent("\n".join(_in_groups("i", "until", (_AT_ONCE, 1), body)), 4).splitlines(),
    ]


def _dots_of(rows: int, dealt: int, lanes: int, pieces: tuple[int, ...], accumulators: int) -> list[str]:
    pairs = [(r, j) for r in range(rows) for j in range(dealt)]
    vectors = max(1, accumulators // len(pairs))
    lines = [f"x{r} = x + (row + {r}) * x_stride" for r in range(rows)]
    lines += [f"s{r}{j}_{v} = splat{lanes}(0.0)" for r, j in pairs for v in range(vectors)]
    lines += ["k = 0"]
    for many in sorted({vectors, 1}, reverse=True):
        lines += [f"while k + {many * lanes} * ITEM <= width * ITEM:"]
        for v in range(many):
            at = f"k + {v * lanes} * ITEM"
            lines += [f"    v{j} = load{lanes}(m{j} + {at})" for j in range(dealt)]
            for r in range(rows):
                lines.append(f"    u{r} = load{lanes}(x{r} + {at})")
                lines += [f"    s{r}{j}_{v} = s{r}{j}_{v} + u{r} * v{j}" for j in range(dealt)]
        lines += [f"    k += {many * lanes} * ITEM"]
    for r, j in pairs:
        lines.append(f"t{r}{j} = reduce_add({' + '.join(f's{r}{j}_{v}' for v in range(vectors))})")
    for n in pieces:
        lines.append(f"if width & {n}:")
        for r, j in pairs:
            product = f"load{n}(x{r} + k) * load{n}(m{j} + k)"
            lines.append(f"    t{r}{j} = t{r}{j} + {f'reduce_add({product})' if n > 1 else product}")
        lines.append(f"    k += {n} * ITEM")
    lines += ["if start != 0:"]
    lines += [f"    t{r}{j} = t{r}{j} + load1(start + (row + {r}) * start_stride + (i + {j}) * ITEM)" for r, j in pairs]
    lines += [f"store1(y + (row + {r}) * y_stride + (i + {j}) * ITEM, t{r}{j})" for r, j in pairs]
    return lines


# -- sums of the matrix's rows -----------------------------------------------------------------------------------------
def _sums(lanes: int, pieces: tuple[int, ...], accumulators: int) -> list[str]:
    """Return the lines that go through the matrix in chunks of rows, which stay in the cache for all rows of x."""

    def columns(vectors: int, groups: tuple[int, ...], part: bool = False) -> list[str]:
        return ["row = 0", *_in_groups("row", "count", groups, lambda rows: _sums_of(rows, vectors, lanes, part))]

    def blocks(wide: int, rows: tuple[int, ...]) -> list[str]:
        lines = ["k = first"]
        for vectors, groups in ((wide, rows), (1, rows)):
            lines += [f"while k + {vectors * lanes} * ITEM <= last:"]
            lines += [f"    {line}" for line in (*columns(vectors, groups), f"k += {vectors * lanes} * ITEM")]
        return lines

    many = tuple(rows for rows in (8, 4, 2, 1) if 2 * rows <= accumulators)
    body = ["end = min(begin + chunk, height)"]
    cases = (("if count == 1:", 8, (1,)), ("elif count < 4:", 4, (2, 1)), ("else:", 2, many))
    for case, wide, rows in cases:
        body += [case, *(f"    {line}" for line in blocks(wide, rows))]
    body += ["k, left = width // LANES * LANES * ITEM, width % LANES", "if task == num_tasks - 1 and left > 0:"]
    body += [f"    {line}" for line in columns(1, (many[0], 1), part=True)]
    body += ["start, start_stride = y, y_stride"]
    return [
        *_shared_columns(),
        f"chunk = {_CHUNK} if count > 4 else height",
        "for begin in range(0, height, chunk):",
        *(f"    {line}" for line in body),
    ]


def _shared_columns() -> list[str]:
    return [
        "blocks = width // LANES",
        "first, last = blocks * task // num_tasks * LANES * ITEM, blocks * (task + 1) // num_tasks * LANES * ITEM",
    ]


def _sums_of(rows: int, vectors: int, lanes: int, part: bool) -> list[str]:
    """Return the lines for some rows and vectors of columns; of a ``part`` only ``left`` columns are there."""
    pairs = [(r, v) for r in range(rows) for v in range(vectors)]
    load, store, left = ("load_part", "store_part", ", left") if part else (f"load{lanes}", f"store{lanes}", "")
    lines = [f"a{r}{v} = splat{lanes}(0.0)" for r, v in pairs]
    lines += ["if start != 0:"]
    lines += [
        f"    a{r}{v} = {load}(start + (row + {r}) * start_stride + k + {v * lanes} * ITEM{left})" for r, v in pairs
    ]
    lines += ["at = m + begin * m_stride + k", "for i in range(begin * ITEM, end * ITEM, ITEM):"]
    lines += [f"    v{v} = {load}(at + {v * lanes} * ITEM{left})" for v in range(vectors)]
    for r in range(rows):
        lines.append(f"    c{r} = splat{lanes}(load1(x + (row + {r}) * x_stride + i))")
        lines += [f"    a{r}{v} = a{r}{v} + c{r} * v{v}" for v in range(vectors)]
    lines += ["    at += m_stride"]
    return [
        *lines,
        *(f"{store}(y + (row + {r}) * y_stride + k + {v * lanes} * ITEM, a{r}{v}{left})" for r, v in pairs),
    ]


# -- outer products ----------------------------------------------------------------------------------------------------
def _outer(lanes: int, pieces: tuple[int, ...], accumulators: int) -> list[str]:
    def rows(dealt: int) -> list[str]:
        wide = accumulators // _AT_ONCE
        lines = ["k = 0"]
        for vectors in (wide, 1):
            lines += [f"while k + {vectors * lanes} * ITEM <= width * ITEM:"]
            block = (*_outer_of(dealt, vectors, lanes), f"k += {vectors * lanes} * ITEM")
            lines += [f"    {line}" for line in block]
        for piece in pieces:
            block = (*_outer_of(dealt, 1, piece, f"_{piece}"), f"k += {piece} * ITEM")
            lines += [f"if width & {piece}:", *(f"    {line}" for line in block)]
        return lines

    return [_SCALES, *_owned_rows(rows)]


def _outer_of(dealt: int, vectors: int, lanes: int, suffix: str = "") -> list[str]:
    pairs = [(j, v) for j in range(dealt) for v in range(vectors)]
    lines = [f"a{j}{v}{suffix} = splat{lanes}(0.0)" for j, v in pairs]
    lines += ["x_row, y_row = x + i * ITEM, y + k", "for row in range(count):"]
    lines += [f"    v{v}{suffix} = load{lanes}(y_row + {v * lanes} * ITEM)" for v in range(vectors)]
    for j in range(dealt):
        lines.append(f"    c{j}{suffix} = splat{lanes}(load1(x_row + {j} * ITEM))")
        lines += [f"    a{j}{v}{suffix} = a{j}{v}{suffix} + c{j}{suffix} * v{v}{suffix}" for v in range(vectors)]
    lines += ["    x_row += x_stride", "    y_row += y_stride"]
    return lines + _add_to_matrix(
        [(f"m + (i + {j}) * m_stride + k + {v * lanes} * ITEM", f"a{j}{v}{suffix}") for j, v in pairs], lanes
    )


def _add_to_matrix(places: list[tuple[str, str]], lanes: int) -> list[str]:
    """Return the lines that add sums, scaled, to what is kept of the matrix."""
    lines = ["if keep == 0.0:", *(f"    store{lanes}({at}, {value} * scale)" for at, value in places), "else:"]
    return lines + [f"    store{lanes}({at}, load{lanes}({at}) * keep + {value} * scale)" for at, value in places]


def _totals(lanes: int, pieces: tuple[int, ...], accumulators: int) -> list[str]:
    def columns(n: int, suffix: str = "") -> list[str]:
        lines = [f"a{suffix} = splat{n}(0.0)", "for row in range(count):"]
        lines += [f"    a{suffix} = a{suffix} + load{n}(y + row * y_stride + k)"]
        return lines + _add_to_matrix([("m + k", f"a{suffix}")], n)

    lines = [_SCALES, *_shared_columns()]
    lines += ["for k in range(first, last, LANES * ITEM):", *(f"    {line}" for line in columns(lanes))]
    lines += ["if task == num_tasks - 1:", "    k = width // LANES * LANES * ITEM"]
    for piece in pieces:
        block = (*columns(piece, f"_{piece}"), f"k += {piece} * ITEM")
        lines += [f"    if width & {piece}:", *(f"        {line}" for line in block)]
    return lines


_FORMS = {"dots": _dots, "sums": _sums, "outer": _outer, "totals": _totals}
