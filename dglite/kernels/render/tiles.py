"""What the attention kernels share: their specification, their arguments, and common parts of their source.

A kernel works on one row of a compressed matrix: a node, with the *near* operands, and its entries, each with a node at
the other end, the *far* operands. It takes a tile of entries at a time. The tile's scores, (entries, heads), lie in the
kernel's own memory; only then are the far features, the costly part, gathered once for each block of columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...opspec import HashedById
from ..spec import ITEM_BYTES, compute_dtype, pieces_of
from ..words import EDGE_IDS, FIRST_OPERAND, INDICES, NUM_ENTRIES
from .common import distance_line


class Score(HashedById):
    """How the score of an edge u -> v for one head is made of the two nodes' features."""

    ADDITIVE = "leaky_relu(left[u] + right[v])"
    GATV2 = "sum of attn * leaky_relu(x[u] + right[v])"
    DOT = "scale * sum of x[u] * right[v]"

    @property
    def of_features(self) -> bool:
        """Whether a score is made of the features of both nodes, not of a number for each."""
        return self is not Score.ADDITIVE


class Phase(HashedById):
    """The kernels of one attention: rows are destinations in the first two, sources in the last."""

    FORWARD = "attention"
    DESTINATION = "gradients at destinations"
    SOURCE = "gradients at sources"


@dataclass(frozen=True)
class AttentionSpec:
    """Everything that an attention kernel is compiled for.

    ``lanes`` is how many values a block of accumulators holds, ``register`` how many one vector register does. With
    ``training`` the forward kernel keeps what the gradients need. ``projected``: the additive scores are products of x
    with the vectors ``attn`` and ``attn_right``, destinations being the first ``num_right`` sources, and the gradient
    of x is made whole. ``edges``: the additive scores have a term of the edge, (num_edges, heads). Then
    ``edge_features`` of the edge, the same for all heads, are weighted and added up beside x; with
    ``edge_gradient`` their gradient is wanted.
    """

    score: Score
    phase: Phase
    dtype: str
    index: str
    heads: int
    features: int
    lanes: int
    register: int
    dropout: bool = False
    weighted: bool = False
    weight_gradient: bool = False
    training: bool = False
    projected: bool = False
    edges: bool = False
    edge_features: int = 0
    edge_gradient: bool = False

    @property
    def sloped(self) -> bool:
        """Whether the forward kernel keeps sums with sloped weights, from which gradients of scores follow."""
        return self.training and self.score is Score.ADDITIVE and not self.edges

    @property
    def of_edges(self) -> AttentionSpec:
        """What the sums of the edges' features are swept by: no vector spans heads, whose features are the same."""
        return replace(self, features=self.edge_features, register=1)

    @property
    def width(self) -> int:
        """Elements of a node's features."""
        return self.heads * self.features

    @property
    def compute(self) -> str:
        """The dtype of scores, sums and results."""
        return compute_dtype(self.dtype)

    @property
    def grouped(self) -> bool:
        """Whether heads are so narrow that a vector takes several."""
        return self.features in (1, 2, 4) and self.features < self.register

    @property
    def tile(self) -> int:
        """Entries taken at a time, a multiple of 8. Where their features are read twice they fit in the cache."""
        fitting = 1024 // self.heads
        if self.score is not Score.ADDITIVE:
            fitting = min(fitting, 16384 // (ITEM_BYTES[self.dtype] * self.width))
        return max(8, min(64, fitting // 8 * 8))


NUMBERS = ("slope", "keep_scale", "score_scale")
WORDS = {
    name: FIRST_OPERAND + i
    for i, name in enumerate(
        (
            *("x", "x_stride", "left", "left_stride", "right", "right_stride", "attn", "weight"),
            *("log_sum", "out", "sloped_out", "sloped_sum", "grad", "state"),
            *("x_grad", "x_grad_stride", "left_grad", "left_grad_stride", "right_grad", "right_grad_stride"),
            *("attn_grad", "weight_grad", "attn_right", "num_right", "seed", "threshold"),
            *NUMBERS,
            *("edge", "edge_grad", "edge_feat", "edge_feat_grad", "edge_out", "edge_out_grad"),
        )
    )
}
"""Position of each argument. Strides count elements from row to row; ``NUMBERS`` are doubles."""
STATE = {Score.ADDITIVE: 3, Score.GATV2: 2, Score.DOT: 2}
"""What a source needs to know of a destination, for each head: log of the sum, grad . out, and the additive score."""


def operand_words(names: Iterable[str]) -> list[str]:
    """Return the lines that read arguments into variables of the same name."""
    return [
        f"{name} = number(args + {8 * WORDS[name]})" if name in NUMBERS else f"{name} = word(args, {WORDS[name]})"
        for name in names
    ]


def block(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Return the lines indented."""
    return ["    " * depth + line for line in lines]


# -- heads: vectors of neighbouring heads ------------------------------------------------------------------------------
def runs_of(spec: AttentionSpec) -> list[tuple[int, int]]:
    """Return (first head, number of heads) of the vectors that cover all heads."""
    widths = [spec.register] * (spec.heads // spec.register) + list(pieces_of(spec.heads % spec.register))
    return [(sum(widths[:i]), width) for i, width in enumerate(widths)]


def per_head(spec: AttentionSpec, *templates: str) -> list[str]:
    """Return the templates for each vector of heads.

    ``{i}`` is its number, ``{w}`` its width, ``{o}`` and ``{t}`` the offset in bytes of computed and of given values.
    """
    item, compute = ITEM_BYTES[spec.dtype], ITEM_BYTES[spec.compute]
    return [
        template.format(i=i, w=width, o=first * compute, t=first * item)
        for i, (first, width) in enumerate(runs_of(spec))
        for template in templates
    ]


# -- parts of every kernel ---------------------------------------------------------------------------------------------
def header(spec: AttentionSpec, most_ahead: int) -> list[str]:
    """Return the imports, the loaders for every width in use, and the kernel's own memory."""
    item, compute, lanes = ITEM_BYTES[spec.dtype], ITEM_BYTES[spec.compute], max(spec.lanes, spec.register)
    widths = [1 << bit for bit in range(lanes.bit_length())]
    draw_bytes = -(-spec.heads // 4) * 4 * compute
    lines = [
        f'"""{spec.phase.value.capitalize()}: {spec.score.value}, {spec.heads} head(s) of {spec.features} '
        f'({spec.dtype}, {spec.index} ids)."""',
        "from dglite.kernels.cpu.lanes import philox, simd, tiles",
        "",
        f"ITEM, COMPUTE, HEADS, DRAWN = {item}, {compute}, {spec.heads * compute}, {draw_bytes}",
        "word, prefetch, greater, select = simd.word, simd.prefetch_l2, simd.greater, simd.select",
        "exp, log, maximum, reduce_add, steep = simd.exp, simd.log, simd.maximum, simd.reduce_add, tiles.steep",
        'number = simd.loader("float64", 1)',
        f'index, edge_index = simd.index_loader("{spec.index}"), simd.edge_index_loader("{spec.index}")',
        f'draw = philox.multiplier_drawer("{spec.compute}", "{spec.index}")',
        f"by_head = tiles.scratch({spec.heads * compute + 64})",
        f"by_entry = tiles.scratch({spec.tile * spec.heads * compute + 512})",
        f"by_draw = tiles.scratch({spec.tile * draw_bytes})",
    ]
    for width in widths:
        lines.append(
            f'load{width}, get{width} = simd.loader("{spec.dtype}", {width}), simd.loader("{spec.compute}", {width})'
        )
        lines.append(
            f'put{width}, splat{width} = simd.storer("{spec.compute}", {width}), simd.splat("{spec.compute}", {width})'
        )
        if spec.grouped and width > 1 and width >= spec.features:
            lines.append(f'repeat{width} = simd.repeat_loader("{spec.compute}", {width}, {spec.features})')
            if spec.features > 1:
                lines.append(f'sums{width} = tiles.run_sums("{spec.compute}", {width}, {spec.features})')
    places = f"word(args, {INDICES}), word(args, {EDGE_IDS}), word(args, {NUM_ENTRIES})"
    return [
        *lines,
        "",
        "",
        "def kernel(args, row, first, last, unused_out, unused):",
        f"    indices, edge_ids, num_entries = {places}",
        f"    {distance_line(most_ahead)}",
    ]


def in_tiles(spec: AttentionSpec, body: Iterable[str]) -> list[str]:
    """Return ``body`` for entries ``start`` to ``stop``, tile after tile."""
    head = [f"for start in range(first, last, {spec.tile}):", f"    stop = min(start + {spec.tile}, last)"]
    return [*head, *block(body)]


def exponentials(spec: AttentionSpec, shift: str = "") -> list[str]:
    """Return the lines that turn the tile's scores, less ``shift`` of their head, into exponentials."""
    text = []
    if shift:
        text = ["for j in range(start, stop):", "    at = scores + (j - start) * HEADS"]
        text += block(per_head(spec, "put{w}(at + {o}, get{w}(at + {o}) - " + shift + ")"))
    step = spec.register
    # The last vector reaches beyond the tile's scores, into memory that is there for it.
    text.append(f"for at in range(scores, scores + (stop - start) * HEADS, {step} * COMPUTE):")
    text.append(f"    put{step}(at, exp(get{step}(at)))")
    return text


def draw_multipliers(spec: AttentionSpec) -> list[str]:
    """Return the lines that draw the tile's dropout multipliers."""
    if not spec.dropout:
        return []
    groups = -(-spec.heads // 4)
    return [
        f"for group in range({groups}):",
        "    for j in range(start, stop, 8):",
        "        at = drawn + (j - start) * DRAWN + group * 4 * COMPUTE",
        "        draw(at, DRAWN, edge_ids, j, num_entries, group, seed, threshold, keep_scale)",
    ]


def multiplier(spec: AttentionSpec) -> tuple[list[str], str, str]:
    """Return the lines before an entry's heads, the dropout multiplier of a vector of heads, and the edge's weight."""
    before, dropped, weight = ["at = (j - start) * HEADS"], "", ""
    if spec.dropout:
        before.append("kept = drawn + (j - start) * DRAWN")
        dropped = " * get{w}(kept + {o})"
    if spec.weighted:
        before.append("factor = load1(weight + edge_index(edge_ids, j) * ITEM)")
        weight = " * factor"
    return before, dropped, weight
