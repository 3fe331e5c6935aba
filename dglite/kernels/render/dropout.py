"""Dropout of attention weights, by the kernel that writes their multipliers to a tensor, and of features."""

from __future__ import annotations

from typing import NamedTuple

from ..spec import ITEM_BYTES
from ..words import read_words, word_of


class DropoutWords(NamedTuple):
    """The words of the kernel that writes multipliers, (num_edges, heads) at ``out``."""

    out: int
    num_edges: int
    heads: int
    seed: int
    threshold: int
    keep_scale: int
    """The multiplier of a value that is not dropped, the bits of a float64."""


class FeatureDropoutWords(NamedTuple):
    """The words of the kernel that writes ``size`` values at ``out``, those at ``x`` times their multipliers."""

    x: int
    out: int
    size: int
    seed: int
    threshold: int
    keep_scale: int


_EDGES, _FEATURES = DropoutWords._fields, FeatureDropoutWords._fields
_DRAWS = ", ".join(word_of(_EDGES, name) for name in ("seed", "threshold"))
_DRAWS = f"seed, threshold, keep_scale = {_DRAWS}, number(args + {8 * _EDGES.index('keep_scale')})"
"""The line that reads the last three words, which both have."""


def dropout_words(probability: float, seed: int) -> dict[str, int | float]:
    """Return the arguments of a dropout: a word drawn below ``threshold`` drops, what is kept grows to make up."""
    threshold = min(round(probability * 2**32), 2**32 - 1)
    scale = 1.0 / (1.0 - probability) if probability < 1 else 0.0
    return {"seed": seed % 2**64, "threshold": threshold, "keep_scale": scale}


def dropout_source(dtype: str) -> str:
    """Return the source of the kernel that writes (num_edges, heads) multipliers of ``dtype``, a task some edges."""
    return f'''"""Dropout multipliers of all edges and heads ({dtype})."""
from dglite.kernels.cpu.lanes import philox, simd, tiles

ITEM = {ITEM_BYTES[dtype]}
word, number = simd.word, simd.loader("float64", 1)
get, put = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)
draw, memory = philox.multiplier_drawer("{dtype}", "int64"), tiles.scratch(32 * ITEM)


def kernel(args, task, num_tasks):
    if task < 0:
        return
    {read_words(_EDGES, "out", "num_edges", "heads")}
    {_DRAWS}
    drawn = memory()
    end = num_edges * (task + 1) // num_tasks
    for edge in range(num_edges * task // num_tasks, end, 8):
        for group in range((heads + 3) // 4):
            draw(drawn, 4 * ITEM, 0, edge, num_edges, group, seed, threshold, keep_scale)
            for i in range(min(8, end - edge)):
                for head in range(4 * group, min(4 * group + 4, heads)):
                    at = out + ((edge + i) * heads + head) * ITEM
                    put(at, get(drawn + (4 * i + head - 4 * group) * ITEM))
'''


def features_source(dtype: str, lanes: int) -> str:
    """Return the source of the kernel that multiplies a run of values, four of them an entry of one group.

    ``lanes`` divides 32, the values of a draw.
    """
    return f'''"""Dropout of features ({dtype})."""
from dglite.kernels.cpu.lanes import philox, simd, tiles

ITEM, LANES, DRAWN = {ITEM_BYTES[dtype]}, {lanes}, 32
word, number = simd.word, simd.loader("float64", 1)
load, store = simd.part_loader("{dtype}", LANES, 0.0), simd.part_storer("{dtype}", LANES)
draw, memory = philox.multiplier_drawer("{dtype}", "int64"), tiles.scratch(DRAWN * ITEM)


def kernel(args, task, num_tasks):
    if task < 0:
        return
    {read_words(_FEATURES, "x", "out", "size")}
    {_DRAWS}
    drawn = memory()
    blocks = (size + DRAWN - 1) // DRAWN
    for block in range(blocks * task // num_tasks, blocks * (task + 1) // num_tasks):
        draw(drawn, 4 * ITEM, 0, 8 * block, 8 * blocks, 0, seed, threshold, keep_scale)
        for k in range(0, DRAWN, LANES):
            at, left = DRAWN * block + k, size - DRAWN * block - k
            if left > 0:
                store(out + at * ITEM, load(x + at * ITEM, left) * load(drawn + k * ITEM, LANES), left)
'''
