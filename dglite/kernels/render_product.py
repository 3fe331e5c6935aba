"""Source of products of a few rows with a matrix, and of their gradients: what is left of a GEMM when levels are small.

Such a product mostly reads the matrix, and is as fast as that goes; a GEMM would first copy it into another order.
Tasks share out the columns of the result where rows are few and the rows where they are not, so no two write one row
at a time: a processor that fetches ahead what another one writes slows both down.

Words of a product's ``args``: first row, last row, rows and columns of the matrix, then address and row stride in bytes
of the rows, the matrix, the result, and of rows that are added to it, or 0 (a bias is a row at distance 0, and what is
there already is the result's own). Addresses of rows are those of row 0, wherever the run of rows starts.
"""

from __future__ import annotations

from .render import indent
from .spec import ITEM_BYTES

__all__ = ["column_sum_source", "outer_source", "product_source"]

_HEAD = '''"""{title} ({dtype})."""
from dglite.kernels.cpu import simd, tiles

ITEM, LANES, SCRATCH = {item}, {lanes}, {scratch}
word, prefetch, reduce_add, memory = simd.word, simd.prefetch, simd.reduce_add, tiles.scratch(SCRATCH)
load, store, splat = simd.loader("{dtype}", LANES), simd.storer("{dtype}", LANES), simd.splat("{dtype}", LANES)
load1, store1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)


def kernel(args, task, num_tasks):
    if task < 0:
        return
    first, last = word(args, 0), word(args, 1)
'''
_SHAPE = """height, width = word(args, 2), word(args, 3)
x, x_stride, w, w_stride = word(args, 4), word(args, 5), word(args, 6), word(args, 7)
y, y_stride = word(args, 8), word(args, 9)"""

_TILE_ROWS, _TILE_BYTES = 8, 2048
_ROWS_PER_TASK = 4


def _head(title: str, dtype: str, lanes: int) -> str:
    item = ITEM_BYTES[dtype]
    return _HEAD.format(title=title, dtype=dtype, item=item, lanes=lanes, scratch=_TILE_ROWS * _TILE_BYTES)


def product_source(dtype: str, lanes: int, turned: bool) -> str:
    """Return the kernel of ``y = x @ w + b``, or of ``y = x @ w.T + b`` where it is ``turned``.

    The width is full vectors.
    """
    title = f"Products of a few rows with a matrix{', turned' if turned else ''}"
    columns = "height" if turned else "width // LANES"
    body = _SHAPE.split("\n") + [
        "b, b_stride = word(args, 10), word(args, 11)",
        f"start, stop = 0, {columns}",
        f"if last - first >= {_ROWS_PER_TASK} * num_tasks:",
        "    count = last - first",
        "    first, last = first + count * task // num_tasks, first + count * (task + 1) // num_tasks",
        "else:",
        f"    start, stop = {columns} * task // num_tasks, {columns} * (task + 1) // num_tasks",
        *(_dots() if turned else _sums()),
    ]
    return _head(title, dtype, lanes) + indent("\n".join(body), 4)


def _nested(head: str, body: list[str]) -> list[str]:
    return [head, *(f"    {line}" for line in body)]


def _dots() -> list[str]:
    """Return the lines that multiply each row with the rows ``start`` to ``stop`` of the matrix.

    These come in blocks that stay in the cache for all rows; the fewer rows, the more of a block at a time, since a sum
    waits for itself.
    """
    lines = ["n = start"]
    for block in (8, 1):
        step = ["row = first"]
        for rows in (4, 2, 1):
            many = min(8 // rows, block)
            body = _dot_tile(rows, many)
            inner = _nested(f"for m in range(n, n + {block}, {many}):", body)
            step += _nested(f"while row + {rows} <= last:", [*inner, f"row += {rows}"])
        lines += _nested(f"while n + {block} <= stop:", [*step, f"n += {block}"])
    return lines


def _dot_tile(rows: int, many: int) -> list[str]:
    """Return the lines that multiply some rows with some rows of the matrix, from ``row`` and from ``m`` on."""
    places = [(i, j) for i in range(rows) for j in range(many)]
    lines = [f"a{j} = w + (m + {j}) * w_stride" for j in range(many)]
    lines += [f"x{i} = x + (row + {i}) * x_stride" for i in range(rows)]
    lines += [f"s{i}{j} = splat(0.0)" for i, j in places]
    loop = [f"v{j} = load(a{j} + k)" for j in range(many)] if rows > 1 else []
    for i in range(rows):
        loop.append(f"u{i} = load(x{i} + k)")
        loop += [f"s{i}{j} = s{i}{j} + u{i} * {f'v{j}' if rows > 1 else f'load(a{j} + k)'}" for j in range(many)]
    lines += _nested("for k in range(0, width * ITEM, LANES * ITEM):", loop)
    lines += [f"d{i}{j} = reduce_add(s{i}{j})" for i, j in places]
    lines += _nested(
        "if b != 0:",
        [f"d{i}{j} = d{i}{j} + load1(b + (row + {i}) * b_stride + (m + {j}) * ITEM)" for i, j in places],
    )
    return lines + [f"store1(y + (row + {i}) * y_stride + (m + {j}) * ITEM, d{i}{j})" for i, j in places]


def _sums() -> list[str]:
    """Return the lines that add up rows of the matrix, in the vectors ``start`` to ``stop`` of the result.

    Sums are made in memory of the kernel's own, a few rows and columns at a time. The matrix is asked for ahead: runs
    of columns are too short for the processor to see them coming.
    """
    inner = ["n = 0"]
    for many in (4, 1):
        step = [f"a{j} = w + (n + {j}) * w_stride + column" for j in range(many)]
        if many > 1:
            ahead = [f"prefetch(a{j} + {_AHEAD} * w_stride + k)" for j in range(many)]
            step += _nested(f"if n + {_AHEAD + many} <= height:", _nested("for k in range(0, size, 64):", ahead))
        step.append("row = 0")
        for rows in (2, 1):
            step += _nested(f"while row + {rows} <= count:", [*_sum_tile(rows, many), f"row += {rows}"])
        inner += _nested(f"while n + {many} <= height:", [*step, f"n += {many}"])
    added = "load(b + (begin + row) * b_stride + column + k)"
    clear = []
    for head, value in (("if b == 0:", "splat(0.0)"), ("else:", added)):
        row = _nested(_EACH, [f"store(tile + row * {_TILE_BYTES} + k, {value})"])
        clear += _nested(head, _nested("for row in range(count):", row))
    put = f"store(y + (begin + row) * y_stride + column + k, load(tile + row * {_TILE_BYTES} + k))"
    block = [f"count = min(last - begin, {_TILE_ROWS})", *clear, *inner]
    block += _nested("for row in range(count):", _nested(_EACH, [put]))
    columns = [f"size = min(stop * LANES * ITEM - column, {_TILE_BYTES})"]
    columns += _nested(f"for begin in range(first, last, {_TILE_ROWS}):", block)
    return [
        "tile = memory()",
        *_nested(f"for column in range(start * LANES * ITEM, stop * LANES * ITEM, {_TILE_BYTES}):", columns),
    ]


def _sum_tile(rows: int, many: int) -> list[str]:
    """Return the lines that add some rows of the matrix to some rows of the tile."""
    lines = [f"y{i} = tile + (row + {i}) * {_TILE_BYTES}" for i in range(rows)]
    for i in range(rows):
        at = f"x + (begin + row + {i}) * x_stride + n * ITEM"
        lines += [f"c{i}{j} = splat(load1({at} + {j} * ITEM))" for j in range(many)]
    loop = [f"v{j} = load(a{j} + k)" for j in range(many)]
    for i in range(rows):
        total = " + ".join(f"c{i}{j} * v{j}" for j in range(many))
        loop.append(f"store(y{i} + k, load(y{i} + k) + ({total}))")
    return lines + _nested(_EACH, loop)


_AHEAD = 8
_EACH = "for k in range(0, size, LANES * ITEM):"


def outer_source(dtype: str, lanes: int) -> str:
    """Return the kernel of ``w = x.T @ y``, the gradient of a matrix, whose width is full vectors.

    Words of ``args`` are those of a product, then whether it adds to what is in ``w``, whose rows tasks share out.
    """
    body = _SHAPE.split("\n") + [
        "adds = word(args, 10)",
        "n, stop = height * task // num_tasks, height * (task + 1) // num_tasks",
    ]
    for many in (4, 1):
        step = [f"x{j} = x + (n + {j}) * ITEM" for j in range(many)]
        step += [f"a{j} = w + (n + {j}) * w_stride" for j in range(many)] + ["k = 0"]
        for vectors in (3, 1):
            places = [(j, v) for j in range(many) for v in range(vectors)]
            tile = [f"s{j}{v} = splat(0.0)" for j, v in places]
            tile += _nested("if adds:", [f"s{j}{v} = load(a{j} + k + {v} * LANES * ITEM)" for j, v in places])
            row = [f"u{v} = load(y + row * y_stride + k + {v} * LANES * ITEM)" for v in range(vectors)]
            row += [f"c{j} = splat(load1(x{j} + row * x_stride))" for j in range(many)]
            row += [f"s{j}{v} = s{j}{v} + c{j} * u{v}" for j, v in places]
            tile += _nested("for row in range(first, last):", row)
            tile += [f"store(a{j} + k + {v} * LANES * ITEM, s{j}{v})" for j, v in places]
            tile.append(f"k += {vectors} * LANES * ITEM")
            step += _nested(f"while k + {vectors} * LANES * ITEM <= width * ITEM:", tile)
        body += _nested(f"while n + {many} <= stop:", [*step, f"n += {many}"])
    return _head("Sums over rows of outer products", dtype, lanes) + indent("\n".join(body), 4)


def column_sum_source(dtype: str, lanes: int) -> str:
    """Return the kernel that sums rows, whose width is full vectors.

    Words of ``args``: first row, last row, width, address and row stride of the rows, address of the result, whether it
    adds to what is there. Tasks share out the columns.
    """
    body = [
        "width, x, x_stride, y, adds = word(args, 2), word(args, 3), word(args, 4), word(args, 5), word(args, 6)",
        "start = width // LANES * task // num_tasks * LANES * ITEM",
        "stop = width // LANES * (task + 1) // num_tasks * LANES * ITEM",
    ]
    zero = _nested("for k in range(start, stop, LANES * ITEM):", ["store(y + k, splat(0.0))"])
    body += _nested("if not adds:", zero) + ["row = first"]
    for rows in (8, 1):
        terms = [f"load(x + (row + {i}) * x_stride + k)" for i in range(rows)]
        total = _sum_of(["load(y + k)", *terms])
        loop = _nested("for k in range(start, stop, LANES * ITEM):", [f"store(y + k, {total})"])
        body += _nested(f"while row + {rows} <= last:", [*loop, f"row += {rows}"])
    return _head("Sums of rows", dtype, lanes) + indent("\n".join(body), 4)


def _sum_of(terms: list[str]) -> str:
    """Return a sum that pairs its terms, so that additions need not wait for each other."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return f"({_sum_of(terms[:half])} + {_sum_of(terms[half:])})"
