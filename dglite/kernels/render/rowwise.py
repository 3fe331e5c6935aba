"""Source of row-wise softmax, classification losses and their gradients, for one share of the rows.

Each form reads rows x and, where it has labels, a class for each row, and writes rows or numbers y; a gradient reads
the gradient g of y and writes the gradient d of x. See :class:`RowwiseWords` for ``args``.

:func:`loss_source` is cross entropy and its gradient in one pass, for a gradient of y that is known beforehand.
"""

from __future__ import annotations

from typing import NamedTuple

from ..spec import ITEM_BYTES
from ..words import read_words, word_of
from .common import indent

LABELLED = ("cross_entropy", "nll_loss")
FORMS = (*LABELLED, "softmax", "log_softmax")
IGNORED = -100
"""The label that torch leaves out."""


class RowwiseWords(NamedTuple):
    """The arguments of a kernel: addresses, counts, and strides in bytes from row to row."""

    kernel: int
    rows: int
    width: int
    x: int
    x_stride: int
    labels: int
    """Classes, int64."""
    label_stride: int
    y: int
    y_stride: int
    g: int
    g_stride: int
    d: int
    d_stride: int
    adds: int
    """Whether the gradient is added to ``d``."""
    fault: int
    """Address of a word in which a label out of range is reported, as 2 label + 1."""
    parts: int = 0
    """Parts of the rows, which tasks take whole, for :func:`loss_source`."""


_AT = {name: word_of(RowwiseWords._fields, name) for name in RowwiseWords._fields}
_IMPORTS = '''"""{form}{variant} ({dtype})."""
from dglite.kernels.cpu.lanes import simd

ITEM, LANES = {item}, {lanes}
STEP = LANES * ITEM
word, exp, log, maximum, reduce_add, reduce_max = (
    simd.word, simd.exp, simd.log, simd.maximum, simd.reduce_add, simd.reduce_max
)
load_low = simd.part_loader("{dtype}", LANES, float("-inf"))
load, store = simd.part_loader("{dtype}", LANES, 0.0), simd.part_storer("{dtype}", LANES)
splat = simd.splat("{dtype}", LANES)
load1, store1, splat1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1), simd.splat("{dtype}", 1)
store_word = simd.storer("int64", 1)
'''
_KERNEL = f"""

def kernel(args, task, num_tasks):
    {read_words(RowwiseWords._fields, "rows", "width")}
"""
_BEGINNING = f"""{_KERNEL}    if task < 0:
        return
"""
_ROW = f"""    for row in range(rows * task // num_tasks, rows * (task + 1) // num_tasks):
        x, y = {_AT["x"]} + row * {_AT["x_stride"]}, {_AT["y"]} + row * {_AT["y_stride"]}
"""
_GRADIENT = f"""
        g, d = {_AT["g"]} + row * {_AT["g_stride"]}, {_AT["d"]} + row * {_AT["d_stride"]}
"""
_LABEL = f"""
        label = word({_AT["labels"]} + row * {_AT["label_stride"]}, 0)
        known = 0 <= label < width
        if not known and label != {{ignored}}:
            store_word({_AT["fault"]}, 2 * label + 1)
"""
_COLUMNS = "for k in range(0, width, LANES):\n    left = width - k\n    at = k * ITEM\n"
"""Over the vectors of a row: ``left`` values from the byte ``at`` on."""
_HIGH = f"""highs = splat(float("-inf"))
{_COLUMNS}    highs = maximum(load_low(x + at, left), highs)
high = reduce_max(highs)
"""
_LOG_SUM = f"""{_HIGH}sums = splat(0.0)
{_COLUMNS}    sums = sums + exp(load_low(x + at, left) - splat(high))
log_sum = high + log(reduce_add(sums))
"""


def rowwise_source(form: str, gradient: bool, dtype: str, lanes: int) -> str:
    """Return the kernel of one of :data:`FORMS`, or of its gradient."""
    variant = ", gradient" if gradient else ""
    head = (
        _IMPORTS.format(form=form, variant=variant, dtype=dtype, item=ITEM_BYTES[dtype], lanes=lanes)
        + _BEGINNING
        + _ROW
    )
    label = _LABEL.format(ignored=IGNORED) if form in LABELLED else ""
    if gradient:
        return head + _GRADIENT + label + indent(_gradient(form), 8)
    return head + label + indent(_forward(form), 8)


_MEMORY = """from dglite.kernels.cpu.lanes import tiles

load_all, store_all = simd.loader("{dtype}", LANES), simd.storer("{dtype}", LANES)
memory, RUN = tiles.scratch(4 * STEP), 64
"""
_GROUP = f"""store_all(totals, splat(1.0))
store_all(losses, splat(0.0))
for i in range(count):
    x = {_AT["x"]} + (begin + i) * {_AT["x_stride"]}
    highs = load_low(x + whole, rest)
    for at in range(0, whole, STEP):
        highs = maximum(load_all(x + at), highs)
    store1(tops + i * ITEM, reduce_max(highs))
for i in range(count):
    x, d = {_AT["x"]} + (begin + i) * {_AT["x_stride"]}, {_AT["d"]} + (begin + i) * {_AT["d_stride"]}
    label = word({_AT["labels"]} + (begin + i) * {_AT["label_stride"]}, 0)
    if 0 <= label < width:
        end = load_low(x + whole, rest)
        high = load1(tops + i * ITEM)
        sums = splat(0.0)
        if rest > 0:
            end = exp(end - splat(high))
            sums = end
        for at in range(0, whole, STEP):
            term = exp(load_all(x + at) - splat(high))
            store_all(d + at, term)
            sums = sums + term
        total = reduce_add(sums)
        store1(totals + i * ITEM, total)
        store1(losses + i * ITEM, high - load1(x + label * ITEM))
        g = load1({_AT["g"]} + (begin + i) * {_AT["g_stride"]})
        scale = splat(g / total)
        for at in range(0, whole, STEP):
            store_all(d + at, load_all(d + at) * scale)
        place = d + label * ITEM
        if label * ITEM >= whole:
            store_all(tail, end * scale)
            place = tail + label * ITEM - whole
        wanted = load1(place) - g
        if rest > 0:
            store(d + whole, end * scale, rest)
        store1(d + label * ITEM, wanted)
    else:
        if label != {IGNORED}:
            store_word({_AT["fault"]}, 2 * label + 1)
{indent(_COLUMNS, 8)}
            store(d + at, splat(0.0), left)
"""
"""Some rows at a time: their losses without the logarithms of ``totals``, and their gradients."""
_WITH_GRADIENT = f"""    shares, parts = {_AT["y"]}, {_AT["parts"]}
    whole, rest = width // LANES * STEP, width % LANES
    tail = memory()
    totals, losses, tops = tail + STEP, tail + 2 * STEP, tail + 3 * STEP
    for part in range(parts * max(task, 0) // num_tasks, parts * (task + 1) // num_tasks):
        last = rows if part + 1 == parts else rows // LANES * (part + 1) // parts * LANES
        own = splat1(0.0)
        for start in range(rows // LANES * part // parts * LANES, last, RUN * LANES):
            loss = splat(0.0)
            for begin in range(start, min(start + RUN * LANES, last), LANES):
                count = min(LANES, last - begin)
{indent(_GROUP, 16)}
                loss = loss + (load_all(losses) + log(load_all(totals)))
            own = own + reduce_add(loss)
        store1(shares + part * ITEM, own)
    if task < 0 or num_tasks == 1:
        for part in range(1, parts):
            store1(shares, load1(shares) + load1(shares + part * ITEM))
"""


def loss_source(dtype: str, lanes: int) -> str:
    """Return the kernel of the sum of all rows' cross entropy, with its gradient; rows whose label is left out have 0.

    It takes as many rows at a time as a vector has lanes: one logarithm for all of them. Each part has a
    place in y for its sum, made in runs of rows for accuracy; the first becomes the sum of all.
    """
    fields = {"form": "cross_entropy", "variant": " with its gradient"}
    imports = _IMPORTS.format(dtype=dtype, item=ITEM_BYTES[dtype], lanes=lanes, **fields)
    return imports + _MEMORY.format(dtype=dtype) + _KERNEL + _WITH_GRADIENT


def _forward(form: str) -> str:
    if form == "nll_loss":
        return "store1(y, -load1(x + label * ITEM) if known else 0.0)"
    if form == "cross_entropy":
        return _LOG_SUM + "store1(y, log_sum - load1(x + label * ITEM) if known else 0.0)"
    value = "load(x + at, left) - splat(log_sum)"
    return f"{_LOG_SUM}{_COLUMNS}    store(y + at, {f'exp({value})' if form == 'softmax' else value}, left)"


_OF_LABEL = "if known:\n    store1(d + label * ITEM, load1(d + label * ITEM) - load1(g))"


def _gradient(form: str) -> str:
    """Return the lines that write d, the gradient of x, from g, the gradient of y."""
    if form == "nll_loss":
        return f"if {_AT['adds']} == 0:\n{indent(_COLUMNS, 4)}\n        store(d + at, splat(0.0), left)\n{_OF_LABEL}"
    if form == "cross_entropy":
        first = f"{_LOG_SUM}scale = load1(g) if known else splat1(0.0)\n"
        term, after = "exp(load_low(x + at, left) - splat(log_sum)) * splat(scale)", _OF_LABEL
    else:
        product = "load(g + at, left) * load(y + at, left)" if form == "softmax" else "load(g + at, left)"
        first = f"sums = splat(0.0)\n{_COLUMNS}    sums = sums + {product}\ntotal = splat(reduce_add(sums))\n"
        term, after = "load(y + at, left) * (load(g + at, left) - total)", ""
        if form == "log_softmax":
            term = "load(g + at, left) - exp(load(y + at, left)) * total"
    return f"""{first}{_COLUMNS}    change = {term}
    if {_AT["adds"]} != 0:
        change = change + load(d + at, left)
    store(d + at, change, left)
{after}"""
