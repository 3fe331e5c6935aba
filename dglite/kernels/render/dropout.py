"""Dropout of attention weights, by the kernel that writes their multipliers to a tensor, and of features."""

from __future__ import annotations

from ..spec import ITEM_BYTES


def dropout_words(probability: float, seed: int) -> dict[str, int | float]:
    """Return the arguments of a dropout: a word drawn below ``threshold`` drops, what is kept grows to make up."""
    threshold = min(round(probability * 2**32), 2**32 - 1)
    scale = 1.0 / (1.0 - probability) if probability < 1 else 0.0
    return {"seed": seed % 2**64, "threshold": threshold, "keep_scale": scale}


def dropout_source(dtype: str) -> str:
    """Return the source of the kernel that writes (num_edges, heads) multipliers of ``dtype``, a task some edges.

    Words of ``args``: out, num_edges, heads, seed, threshold, the multiplier of what is kept (a double).
    """
    return f'''"""Dropout multipliers of all edges and heads ({dtype})."""
from dglite.kernels.cpu.lanes import philox, simd, tiles

ITEM = {ITEM_BYTES[dtype]}
word, number = simd.word, simd.loader("float64", 1)
get, put = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)
draw, memory = philox.multiplier_drawer("{dtype}", "int64"), tiles.scratch(32 * ITEM)


def kernel(args, task, num_tasks):
    if task < 0:
        return
    out, num_edges, heads, drawn = word(args, 0), word(args, 1), word(args, 2), memory()
    seed, threshold, keep_scale = word(args, 3), word(args, 4), number(args + 40)
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

    ``lanes`` divides 32, the values of a draw. Words of ``args``: x, out, number of values, then as above.
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
    x, out, size, drawn = word(args, 0), word(args, 1), word(args, 2), memory()
    seed, threshold, keep_scale = word(args, 3), word(args, 4), number(args + 40)
    blocks = (size + DRAWN - 1) // DRAWN
    for block in range(blocks * task // num_tasks, blocks * (task + 1) // num_tasks):
        draw(drawn, 4 * ITEM, 0, 8 * block, 8 * blocks, 0, seed, threshold, keep_scale)
        for k in range(0, DRAWN, LANES):
            at, left = DRAWN * block + k, size - DRAWN * block - k
            if left > 0:
                store(out + at * ITEM, load(x + at * ITEM, left) * load(drawn + k * ITEM, LANES), left)
'''
