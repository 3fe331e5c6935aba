"""Source of softmax and of losses of classification over rows, and of their gradients, for one processor's share.

Each form reads rows x and, where it has labels, a class for each row, and writes rows or numbers y. Words of
``args``: 0 the kernel, 1 number of rows, 2 width, then address and stride in bytes of x (3, 4), of the labels, int64
(5, 6), and of y (7, 8); for a gradient those of the gradient of y (9, 10) and of x (11, 12), and 13 is not 0 where it
is added to what is there. 14 is the address of a word in which a label out of range is reported, as 2 label + 1.

:func:`loss_source` is cross entropy and its gradient in one pass, for a gradient of y that is known before.
"""

from __future__ import annotations

from ..spec import ITEM_BYTES
from .sparse import indent

__all__ = ["FORMS", "IGNORED", "LABELLED", "loss_source", "rowwise_source"]

LABELLED = ("cross_entropy", "nll_loss")
FORMS = (*LABELLED, "softmax", "log_softmax")
IGNORED = -100
"""The label that torch leaves out."""

_HEAD = '''"""{form}{what} ({dtype})."""
from dglite.kernels.cpu.lanes import simd

ITEM, LANES = {item}, {lanes}
word, exp, log, maximum, reduce_add, reduce_max = (
    simd.word, simd.exp, simd.log, simd.maximum, simd.reduce_add, simd.reduce_max
)
load, store, splat = simd.loader("{dtype}", LANES), simd.storer("{dtype}", LANES), simd.splat("{dtype}", LANES)
load1, store1, splat1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1), simd.splat("{dtype}", 1)
store_word = simd.storer("int64", 1)


def kernel(args, task, num_tasks):
    if task < 0:
        return
    rows, width = word(args, 1), word(args, 2)
    whole, end = width // LANES * LANES * ITEM, width * ITEM
    for row in range(rows * task // num_tasks, rows * (task + 1) // num_tasks):
        x, y = word(args, 3) + row * word(args, 4), word(args, 7) + row * word(args, 8)
'''
_GRADIENT = """
        g, d = word(args, 9) + row * word(args, 10), word(args, 11) + row * word(args, 12)
"""
_LABEL = """
        label = word(word(args, 5) + row * word(args, 6), 0)
        known = 0 <= label < width
        if not known and label != {ignored}:
            store_word(word(args, 14), 2 * label + 1)
"""
_HIGH = """high = splat1(float("-inf"))
if whole > 0:
    highs = splat(float("-inf"))
    for k in range(0, whole, LANES * ITEM):
        highs = maximum(highs, load(x + k))
    high = reduce_max(highs)
for k in range(whole, end, ITEM):
    high = maximum(high, load1(x + k))
"""
_LOG_SUM = f"""{_HIGH}sums, rest = splat(0.0), splat1(0.0)
for k in range(0, whole, LANES * ITEM):
    sums = sums + exp(load(x + k) - splat(high))
for k in range(whole, end, ITEM):
    rest = rest + exp(load1(x + k) - high)
log_sum = high + log(rest + reduce_add(sums))
"""


def rowwise_source(form: str, gradient: bool, dtype: str, lanes: int) -> str:
    """Return the kernel of one of :data:`FORMS`, or of its gradient."""
    what = ", gradient" if gradient else ""
    head = _HEAD.format(form=form, what=what, dtype=dtype, item=ITEM_BYTES[dtype], lanes=lanes)
    label = _LABEL.format(ignored=IGNORED) if form in LABELLED else ""
    if gradient:
        return head + _GRADIENT + label + indent("\n".join(_gradient(form)), 8)
    return head + label + _forward(form)


_WITH_GRADIENT = f"""if known:
{indent(_HIGH, 4)}
    sums, rest = splat(0.0), splat1(0.0)
    for k in range(0, whole, LANES * ITEM):
        term = exp(load(x + k) - splat(high))
        store(d + k, term)
        sums = sums + term
    for k in range(whole, end, ITEM):
        term1 = exp(load1(x + k) - high)
        store1(d + k, term1)
        rest = rest + term1
    total = rest + reduce_add(sums)
    store1(y, high + log(total) - load1(x + label * ITEM))
    scale = load1(g) / total
    for k in range(0, whole, LANES * ITEM):
        store(d + k, load(d + k) * splat(scale))
    for k in range(whole, end, ITEM):
        store1(d + k, load1(d + k) * scale)
    store1(d + label * ITEM, load1(d + label * ITEM) - load1(g))
else:
    store1(y, 0.0)
    for k in range(0, end, ITEM):
        store1(d + k, 0.0)
"""


def loss_source(dtype: str, lanes: int) -> str:
    """Return the kernel of cross entropy with its gradient; both are 0 in rows whose label is left out."""
    head = _HEAD.format(
        form="cross_entropy", what=" with its gradient", dtype=dtype, item=ITEM_BYTES[dtype], lanes=lanes
    )
    return head + _GRADIENT + _LABEL.format(ignored=IGNORED) + indent(_WITH_GRADIENT, 8)


def _forward(form: str) -> str:
    if form == "nll_loss":
        return indent("store1(y, -load1(x + label * ITEM) if known else 0.0)", 8)
    if form == "cross_entropy":
        return indent(_LOG_SUM + "store1(y, log_sum - load1(x + label * ITEM) if known else 0.0)", 8)
    lines = []
    for bounds, n in (("0, whole, LANES * ITEM", ""), ("whole, end, ITEM", "1")):
        value = f"load{n}(x + k) - {'log_sum' if n else 'splat(log_sum)'}"
        value = f"exp({value})" if form == "softmax" else value
        lines += [f"for k in range({bounds}):", f"    store{n}(y + k, {value})"]
    return indent(_LOG_SUM + "\n".join(lines), 8)


def _gradient(form: str) -> list[str]:
    """Return the lines that write d, the gradient of x, from g, that of y."""
    lines = []
    if form == "nll_loss":
        return [
            "if word(args, 13) == 0:",
            "    for k in range(0, end, ITEM):",
            "        store1(d + k, 0.0)",
            "if known:",
            "    store1(d + label * ITEM, load1(d + label * ITEM) - load1(g))",
        ]
    if form == "cross_entropy":
        lines += [
            *_LOG_SUM.splitlines(),
            "scale = load1(g) if known else splat1(0.0)",
        ]
        terms = {"": "exp(load(x + k) - splat(log_sum)) * scale", "1": "exp(load1(x + k) - log_sum) * scale"}
    else:
        product = "load{n}(g + k) * load{n}(y + k)" if form == "softmax" else "load{n}(g + k)"
        lines += ["sums, rest = splat(0.0), splat1(0.0)"]
        lines += ["for k in range(0, whole, LANES * ITEM):", f"    sums = sums + {product.format(n='')}"]
        lines += ["for k in range(whole, end, ITEM):", f"    rest = rest + {product.format(n='1')}"]
        lines += ["total = rest + reduce_add(sums)"]
        if form == "softmax":
            terms = {"": "load(y + k) * (load(g + k) - splat(total))", "1": "load1(y + k) * (load1(g + k) - total)"}
        else:
            terms = {"": "load(g + k) - exp(load(y + k)) * total", "1": "load1(g + k) - exp(load1(y + k)) * total"}
    for bounds, n in (("0, whole, LANES * ITEM", ""), ("whole, end, ITEM", "1")):
        lines += [
            f"for k in range({bounds}):",
            f"    change{n} = {terms[n]}",
            "    if word(args, 13) != 0:",
            f"        change{n} = change{n} + load{n}(d + k)",
            f"    store{n}(d + k, change{n})",
        ]
    if form == "cross_entropy":
        lines += ["if known:", "    store1(d + label * ITEM, load1(d + label * ITEM) - load1(g))"]
    return lines
