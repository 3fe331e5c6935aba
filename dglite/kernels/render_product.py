"""Source of products of a few rows with a matrix: what is left of a GEMM when a level of a tree has few vertices.

Such a product only reads the matrix, and is as fast as that goes; a GEMM would first copy it into another order. The
matrix lies by rows and is gone through once, in pairs or fours of rows.

Words of ``args``: number of rows, rows and columns of the matrix, address and row stride in bytes of the rows, the
matrix, and the result.
"""

from __future__ import annotations

from .render import indent
from .spec import ITEM_BYTES

__all__ = ["product_source"]

_HEAD = '''"""Products of a few rows with {what} ({dtype})."""
from numba import cfunc

from dglite.kernels.cpu import simd

ITEM, LANES = {item}, {lanes}
word, reduce_add = simd.word, simd.reduce_add
load, store, splat = simd.loader("{dtype}", LANES), simd.storer("{dtype}", LANES), simd.splat("{dtype}", LANES)
load1, store1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)


@cfunc("void(int64, int64, int64)", cache=True, error_model="numpy")
def kernel(args, task, num_tasks):
    if task < 0:
        return
    count, height, width = word(args, 0), word(args, 1), word(args, 2)
    x, x_stride, w, w_stride = word(args, 3), word(args, 4), word(args, 5), word(args, 6)
    y, y_stride = word(args, 7), word(args, 8)
'''


def product_source(dtype: str, lanes: int, turned: bool) -> str:
    """Return the kernel of ``y = x @ w``, or of ``y = x @ w.T`` where it is ``turned``; the width is full vectors."""
    head = _HEAD.format(
        what="a matrix" if not turned else "a matrix, turned", dtype=dtype, item=ITEM_BYTES[dtype], lanes=lanes
    )
    return head + indent("\n".join(_dots() if turned else _sums()), 4)


def _dots() -> list[str]:
    """Return the lines that multiply each row with rows of the matrix; a task has some of these."""
    lines = ["start, stop = height * task // num_tasks, height * (task + 1) // num_tasks", "n = start"]
    for pair in (2, 1):
        lines += [f"while n + {pair} <= stop:", "    row = 0"]
        for rows in (4, 2, 1):
            body = [f"a{j} = w + (n + {j}) * w_stride" for j in range(pair)]
            body += [f"x{i} = x + (row + {i}) * x_stride" for i in range(rows)]
            body += [f"s{i}{j} = splat(0.0)" for i in range(rows) for j in range(pair)]
            body += ["for k in range(0, width * ITEM, LANES * ITEM):"]
            body += [f"    v{j} = load(a{j} + k)" for j in range(pair)]
            for i in range(rows):
                body.append(f"    u{i} = load(x{i} + k)")
                body += [f"    s{i}{j} = s{i}{j} + u{i} * v{j}" for j in range(pair)]
            for i in range(rows):
                for j in range(pair):
                    body.append(f"store1(y + (row + {i}) * y_stride + (n + {j}) * ITEM, reduce_add(s{i}{j}))")
            lines += [f"    while row + {rows} <= count:", *(f"        {line}" for line in (*body, f"row += {rows}"))]
        lines.append(f"    n += {pair}")
    return lines


def _sums() -> list[str]:
    """Return the lines that add up rows of the matrix, in the columns of a task."""
    lines = [
        "blocks = width // LANES",
        "start = blocks * task // num_tasks * LANES * ITEM",
        "stop = blocks * (task + 1) // num_tasks * LANES * ITEM",
        "for row in range(count):",
        "    for k in range(start, stop, LANES * ITEM):",
        "        store(y + row * y_stride + k, splat(0.0))",
        "n = 0",
    ]
    for many in (4, 1):
        lines += [f"while n + {many} <= height:", "    row = 0"]
        for rows in (2, 1):
            body = [f"a{j} = w + (n + {j}) * w_stride" for j in range(many)]
            body += [f"y{i} = y + (row + {i}) * y_stride" for i in range(rows)]
            body += [
                f"c{i}{j} = splat(load1(x + (row + {i}) * x_stride + (n + {j}) * ITEM))"
                for i in range(rows)
                for j in range(many)
            ]
            body += ["for k in range(start, stop, LANES * ITEM):", *(f"    v{j} = load(a{j} + k)" for j in range(many))]
            for i in range(rows):
                total = " + ".join(f"c{i}{j} * v{j}" for j in range(many))
                body.append(f"    store(y{i} + k, load(y{i} + k) + {total})")
            lines += [f"    while row + {rows} <= count:", *(f"        {line}" for line in (*body, f"row += {rows}"))]
        lines.append(f"    n += {many}")
    return lines
