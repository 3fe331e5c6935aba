"""Drawings of plans. matplotlib is imported only when something is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Tile = tuple[str, tuple[int, ...], list[tuple[int | None, int]]]


def draw_tiles(tiles: Sequence[Tile]) -> Any:
    """Draw tensors as rectangles that are cut into the workers' parts, and return the figure.

    Rows are the first dimension, columns the second; cuts of others are written below.

    Parameters
    ----------
    tiles : sequence of (name, shape, cuts)
        ``cuts`` has the dimension and the number of parts of each step; the dimension is None where nothing is cut.
    """
    import matplotlib.pyplot as plt

    columns = min(len(tiles), 6) or 1
    rows = max(1, math.ceil(len(tiles) / columns))
    figure, axes = plt.subplots(rows, columns, figsize=(2.2 * columns, 2.4 * rows), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, (name, shape, cuts) in zip(axes.flat, tiles, strict=False):
        parts = [math.prod(k for dim, k in cuts if dim == d) for d in range(len(shape))]
        height, width = (*parts, 1, 1)[:2]
        for y in range(height):
            for x in range(width):
                box = (x / width, 1 - (y + 1) / height)
                shade = 0.45 + 0.5 * ((x + y) % 2)
                axis.add_patch(plt.Rectangle(box, 1 / width, 1 / height, fc=(shade, shade, 1.0), ec="black"))
        copies = math.prod(k for dim, k in cuts if dim is None)
        others = [f"dim {d} / {n}" for d, n in enumerate(parts[2:], 2) if n > 1]
        notes = ", ".join(others + ([f"{copies} copies"] if copies > 1 else []))
        axis.set_title(f"{name}\n{' x '.join(map(str, shape))}\n{notes}".strip(), fontsize=7)
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
    figure.tight_layout()
    return figure


def draw_bars(sent: Mapping[str, float], memory: Mapping[str, float]) -> Any:
    """Draw the bytes of several plans as bars, with the memory of a worker written above, and return the axes."""
    import matplotlib.pyplot as plt

    axis = plt.gca()
    bars = axis.bar(list(sent), [count / 1e9 for count in sent.values()])
    axis.bar_label(bars, [f"{count / 1e9:.3g} GB\nheld" for count in memory.values()], fontsize=7)
    axis.set_ylabel("GB received per training step")
    axis.tick_params(axis="x", rotation=30)
    return axis
