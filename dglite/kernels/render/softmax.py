"""Source of the edge-softmax kernels: a softmax over the entries of each row, and its gradient.

With one score per edge the lanes of a vector are neighbouring entries; with several heads they are heads.
"""

from __future__ import annotations

from ..spec import ITEM_BYTES, compute_dtype, pieces_of
from ..words import EDGE_IDS, NUM_ENTRIES, operand_word
from .common import MOST_AHEAD, distance_line


def softmax_source(dtype: str, index: str, heads: int, lanes: int) -> str:
    """Return the source with two row kernels, ``forward`` and ``backward``.

    Operand words: forward (logits), backward (softmax, grad); ``out`` is (num_edges, heads), in edge-id order.
    """
    widths = (lanes, 1) if heads == 1 else tuple(sorted({lanes, *pieces_of(heads % lanes)}, reverse=True))
    lines = [
        f'"""Edge softmax over {heads} head(s) and its gradient ({dtype}, {index} ids)."""',
        "from dglite.kernels.cpu.lanes import simd",
        "",
        f"ITEM = {ITEM_BYTES[dtype]}",
        "word, prefetch, maximum, exp = simd.word, simd.prefetch, simd.maximum, simd.exp",
        "reduce_add, reduce_max = simd.reduce_add, simd.reduce_max",
        f'edge_index = simd.edge_index_loader("{index}")',
    ]
    for width in widths:
        lines.append(f'load{width}, store{width} = simd.loader("{dtype}", {width}), simd.storer("{dtype}", {width})')
        lines.append(f'splat{width} = simd.splat("{compute_dtype(dtype)}", {width})')
    if heads == 1:
        lines.append(f'gather{lanes} = simd.edge_gather("{dtype}", "{index}", {lanes})')
        lines.append(f'scatter{lanes} = simd.edge_scatter("{dtype}", "{index}", {lanes})')
    body = _by_entries(lanes) if heads == 1 else _by_heads(heads, lanes)
    return "\n".join(lines) + "\n" + body


_HEAD = f"""

def {{name}}(args, row, first, last, out, unused):
    edge_ids, num_entries = word(args, {EDGE_IDS}), word(args, {NUM_ENTRIES})
    {distance_line(MOST_AHEAD)}
    {{operands}}
"""


_LOGITS = f"logits = word(args, {operand_word(0)})"
_SOFTMAX = f"softmax, grad = word(args, {operand_word(0)}), word(args, {operand_word(1)})"


def _by_entries(lanes: int) -> str:
    """Return the kernels for one head: vectors of ``lanes`` entries, then single ones."""
    return (
        _HEAD.format(name="forward", operands=_LOGITS)
        + f"""    rest = last - (last - first) % {lanes}
    wide = splat{lanes}(float("-inf"))
    for j in range(first, rest, {lanes}):
        prefetch(logits + edge_index(edge_ids, j + distance) * ITEM)
        value = gather{lanes}(logits, edge_ids, j)
        wide = maximum(value, wide)
    top = reduce_max(wide)
    for j in range(rest, last):
        one = load1(logits + edge_index(edge_ids, j) * ITEM)
        top = maximum(one, top)
    wide = splat{lanes}(0.0)
    for j in range(first, rest, {lanes}):
        value = exp(gather{lanes}(logits, edge_ids, j) - top)
        scatter{lanes}(out, edge_ids, j, value)
        wide = wide + value
    total = reduce_add(wide)
    for j in range(rest, last):
        at = edge_index(edge_ids, j) * ITEM
        one = exp(load1(logits + at) - top)
        store1(out + at, one)
        total += one
    scale = splat1(1.0 / total)
    for j in range(first, rest, {lanes}):
        scatter{lanes}(out, edge_ids, j, gather{lanes}(out, edge_ids, j) * scale)
    for j in range(rest, last):
        at = edge_index(edge_ids, j) * ITEM
        store1(out + at, load1(out + at) * scale)
"""
        + _HEAD.format(name="backward", operands=_SOFTMAX)
        + f"""    rest = last - (last - first) % {lanes}
    wide = splat{lanes}(0.0)
    for j in range(first, rest, {lanes}):
        wide = wide + gather{lanes}(softmax, edge_ids, j) * gather{lanes}(grad, edge_ids, j)
    total = reduce_add(wide)
    for j in range(rest, last):
        at = edge_index(edge_ids, j) * ITEM
        total += load1(softmax + at) * load1(grad + at)
    for j in range(first, rest, {lanes}):
        value = gather{lanes}(softmax, edge_ids, j) * (gather{lanes}(grad, edge_ids, j) - total)
        scatter{lanes}(out, edge_ids, j, value)
    for j in range(rest, last):
        at = edge_index(edge_ids, j) * ITEM
        store1(out + at, load1(softmax + at) * (load1(grad + at) - total))
"""
    )


def _by_heads(heads: int, lanes: int) -> str:
    """Return the kernels for several heads: for each run of heads, a vector of them per entry."""
    text = {"forward": "", "backward": ""}
    runs = [lanes] * (heads // lanes) + list(pieces_of(heads % lanes))
    for i, width in enumerate(runs):
        at = f"at = (edge_index(edge_ids, j) * {heads} + {sum(runs[:i])}) * ITEM"
        ahead = f"prefetch({{}} + edge_index(edge_ids, j + distance) * {heads} * ITEM)" if i == 0 else ""
        text["forward"] += f"""    top{i} = splat{width}(float("-inf"))
    for j in range(first, last):
        {at}
        {ahead.format("logits")}
        value{i} = load{width}(logits + at)
        top{i} = maximum(value{i}, top{i})
    total{i} = splat{width}(0.0)
    for j in range(first, last):
        {at}
        value{i} = exp(load{width}(logits + at) - top{i})
        store{width}(out + at, value{i})
        total{i} = total{i} + value{i}
    scale{i} = splat{width}(1.0) / total{i}
    for j in range(first, last):
        {at}
        store{width}(out + at, load{width}(out + at) * scale{i})
"""
        text["backward"] += f"""    total{i} = splat{width}(0.0)
    for j in range(first, last):
        {at}
        {ahead.format("softmax")}
        {ahead.format("grad")}
        total{i} = total{i} + load{width}(softmax + at) * load{width}(grad + at)
    for j in range(first, last):
        {at}
        store{width}(out + at, load{width}(softmax + at) * (load{width}(grad + at) - total{i}))
"""
    return (
        _HEAD.format(name="forward", operands=_LOGITS)
        + text["forward"]
        + _HEAD.format(name="backward", operands=_SOFTMAX)
        + text["backward"]
    )
