"""Dropout of attention weights: the random mask, and the kernel that writes its multipliers to a tensor."""

from __future__ import annotations

from ..spec import ITEM_BYTES

__all__ = ["dropout_source", "dropout_words"]


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
