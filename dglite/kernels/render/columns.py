"""How attention kernels loop over the columns of a node's features: sums over entries, and over a head's columns.

Columns are taken in blocks whose accumulators stay in vector registers while a tile's entries go by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..spec import ITEM_BYTES, compute_dtype, pieces_of
from .tiles import AttentionSpec, Score, block, operand_words, runs_of

AHEAD = "index(indices, j + distance)"
FAR_X = "x + {far} * x_stride * ITEM"
FAR_RIGHT = "right + {far} * right_stride * ITEM"
"""Templates of addresses of far rows."""


@dataclass(frozen=True)
class Piece:
    """A vector of neighbouring columns: of one head, or of several whole heads with ``repeat`` columns each.

    ``column`` and ``head`` count from the sweep's first, which for a sweep inside loops is found at run time.
    ``inner`` counts from the first column of the head; it is None where that is the loop's ``k``.
    """

    number: int
    width: int
    column: int
    head: int
    repeat: int
    dtype: str
    looped: bool
    inner: int | None = 0

    def load(self, base: str) -> str:
        """Return the given values at a row."""
        return f"load{self.width}({self._at(base, 'given', self.column * ITEM_BYTES[self.dtype])})"

    def get(self, base: str) -> str:
        """Return the computed values at a row."""
        return f"get{self.width}({self._computed(base)})"

    def put(self, base: str, value: str) -> str:
        """Return the statement that stores computed values at a row."""
        return f"put{self.width}({self._computed(base)}, {value})"

    def shared(self, base: str) -> str:
        """Return the given values at a row that all heads share; not of a piece of several heads."""
        start = (
            " + k * ITEM" if self.inner is None else f" + {self.inner * ITEM_BYTES[self.dtype]}" if self.inner else ""
        )
        return f"load{self.width}({base}{start})"

    def weight(self, base: str) -> str:
        """Return the value of each column's head, from computed values by head."""
        name = f"repeat{self.width}" if self.repeat and self.width > 1 else "get1"
        return f"{name}({self.of_head(base)})"

    def of_head(self, base: str) -> str:
        """Return the address of the first head's value, among computed values by head."""
        return self._at(base, "by_heads", self.head * ITEM_BYTES[compute_dtype(self.dtype)])

    def _computed(self, base: str) -> str:
        return self._at(base, "computed", self.column * ITEM_BYTES[compute_dtype(self.dtype)])

    def _at(self, base: str, start: str, offset: int) -> str:
        # Sums are folded here: each operation left in the text takes as long to compile as a vector's.
        return base + (f" + {start}" if self.looped else "") + (f" + {offset}" if offset else "")


@dataclass(frozen=True)
class ColumnPass:
    """A block of columns that one pass over the entries takes, inside loops over the blocks like it.

    ``head`` and ``column`` are those that its pieces count from, ``span`` its number of columns.
    """

    loops: tuple[str, ...]
    head: str
    column: str
    span: int
    pieces: tuple[Piece, ...]

    def inside(self, lines: Iterable[str]) -> list[str]:
        """Return the lines inside the loops."""
        if not self.loops:
            return list(lines)
        head = ["    " * depth + loop for depth, loop in enumerate(self.loops)]
        starts = f"given, computed, by_heads = ({self.column}) * ITEM, ({self.column}) * COMPUTE, {self.head} * COMPUTE"
        return head + block([starts, *lines], len(self.loops))


def sweeps_of(spec: AttentionSpec, lanes: int) -> Iterator[ColumnPass]:
    """Yield blocks of at most ``lanes`` columns that together cover all heads."""
    features, heads = spec.features, spec.heads
    if features > lanes:
        loops, rest, start = (f"for head in range({heads}):",), features % lanes, f"head * {features}"
        blocks = (*loops, f"for k in range(0, {features - lanes + 1}, {lanes}):")
        yield ColumnPass(blocks, "head", f"{start} + k", lanes, (Piece(0, lanes, 0, 0, 0, spec.dtype, True, None),))
        if rest:
            pieces = tuple(replace(p, inner=features - rest + p.column) for p in _pieces(spec, 0, 1, rest, True))
            yield ColumnPass(loops, "head", f"{start} + {features - rest}", rest, pieces)
        return
    many = lanes // features
    full = heads // many * many
    span = many * features
    if full == many:
        yield ColumnPass((), "0", "0", span, _pieces(spec, 0, many, features, False))
    elif full:
        loop, pieces = f"for head in range(0, {full}, {many}):", _pieces(spec, 0, many, features, True)
        yield ColumnPass((loop,), "head", f"head * {features}", span, pieces)
    if heads > full:
        yield ColumnPass((), "0", "0", (heads - full) * features, _pieces(spec, full, heads - full, features, False))


def _pieces(spec: AttentionSpec, first: int, count: int, features: int, looped: bool) -> tuple[Piece, ...]:
    """Return the pieces of ``count`` heads from ``first`` on, ``features`` columns of each."""
    if spec.grouped:
        runs = [(first * features, count * features)]
    else:
        runs = [((first + head) * features, features) for head in range(count)]
    pieces: list[Piece] = []
    for column, size in runs:
        for width in pieces_of(size):
            repeat = features if spec.grouped else 0
            place = column, column // features, repeat, spec.dtype, looped, column % features
            pieces.append(Piece(len(pieces), width, *place))
            column += width
    return tuple(pieces)


def accumulate(
    spec: AttentionSpec,
    lanes: int,
    sums: dict[str, str],
    rows: dict[str, str],
    stores: dict[str, str],
    ahead: str = "",
    again: str = "",
    products: tuple[str, str] | None = None,
    result: str = "result",
) -> list[str]:
    """Return the passes that add up, over the tile's entries, vectors of columns.

    ``sums`` names the accumulators and what is added for an entry, ``rows`` the rows of far operands and their
    addresses; ``ahead`` is the address of a later entry's row, which is prefetched. ``stores`` tells what goes where;
    there ``again`` multiplies what earlier tiles left. ``products`` (target, value) adds the sums over each head's
    columns of a value. See :func:`fill` for the templates. Where a kernel adds up twice by columns of different widths,
    sums and ``result`` have separate names: a variable keeps its type.
    """
    text = []
    for sweep in sweeps_of(spec, lanes):
        body = [f"{name}{piece.number} = splat{piece.width}(0.0)" for piece in sweep.pieces for name in sums]
        loop = ["far = index(indices, j)", "at = (j - start) * HEADS"]
        if ahead:
            first = sweep.pieces[0].column * ITEM_BYTES[spec.dtype]
            loop.append(f"ahead = {ahead} + {'given' if sweep.loops else first}")
            loop += [f"prefetch(ahead + {64 * i})" for i in range(-(-sweep.span * ITEM_BYTES[spec.dtype] // 64))]
        loop += [f"{name} = {address}" for name, address in rows.items()]
        loop += [
            f"{name}{piece.number} = {name}{piece.number} + {fill(value, piece)}"
            for piece in sweep.pieces
            for name, value in sums.items()
        ]
        body += ["for j in range(start, stop):", *block(loop)]
        places = [(base, value, p) for base, value in stores.items() for p in sweep.pieces]
        results = [f"{result}{i}" for i in range(len(places))]
        body += [f"{name} = {fill(value, p)}" for name, (_, value, p) in zip(results, places, strict=True)]
        body.append("if start > first:")
        for name, (base, _, piece) in zip(results, places, strict=True):
            body.append(f"    {name} = {name} + {piece.get(base)}{f' * {fill(again, piece)}' if again else ''}")
        body += [piece.put(base, name) for name, (base, _, piece) in zip(results, places, strict=True)]
        if products:
            body += _head_sums(spec, sweep, products[1], products[0], True)
        text += sweep.inside(body)
    return text


def fill(template: str, piece: Piece) -> str:
    """Return a template's text for one piece: such as ``{load:base}``, ``{n}`` the number, ``{w}`` the width."""

    class _Reader:
        def __init__(self, read: str) -> None:
            self.read = read

        def __format__(self, base: str) -> str:
            return str(getattr(piece, self.read)(base))

    readers = {name: _Reader(name) for name in ("load", "get", "weight", "shared")}
    return template.format(n=piece.number, w=piece.width, **readers)


def dots(spec: AttentionSpec, value: str, target: str, add: bool = False) -> list[str]:
    """Return the lines that store, or ``add``, for each head at ``target``, the sum of ``value`` over its columns."""
    text, cut = [], spec.features > spec.lanes
    if cut and not add:
        text += [f"for head in range({spec.heads}):", f"    put1({target} + head * COMPUTE, 0.0)"]
    for sweep in sweeps_of(spec, spec.lanes):
        text += sweep.inside(_head_sums(spec, sweep, value, target, cut or add))
    return text


def _head_sums(spec: AttentionSpec, sweep: ColumnPass, value: str, target: str, add: bool) -> list[str]:
    """Return the lines that store, or ``add``, the sum of ``value`` over each head's columns in a sweep."""
    sums_at: dict[str, tuple[int, list[str]]] = {}
    for piece in sweep.pieces:
        summed, count = f"reduce_add({fill(value, piece)})", 1
        if piece.repeat:
            count = piece.width // piece.repeat
            summed = fill(value, piece) if piece.repeat == 1 else f"sums{piece.width}({fill(value, piece)})"
        sums_at.setdefault(piece.of_head(target), (count, []))[1].append(summed)
    return [
        f"put{count}({at}, {f'get{count}({at}) + ' if add else ''}{' + '.join(sums)})"
        for at, (count, sums) in sums_at.items()
    ]


# -- operands and far rows ---------------------------------------------------------------------------------------------
def operands(spec: AttentionSpec, *names: str) -> list[str]:
    """Return the lines that read the operands of the score and ``names``."""
    needed = ["x", "x_stride", "right", "right_stride", *names]
    if spec.score is Score.ADDITIVE:
        needed += ["left", "left_stride"]
    needed += ["edge"] if spec.edges else []
    needed += ["edge_feat"] if spec.edge_features else []
    if spec.score is Score.GATV2:
        needed += ["attn"]
    needed += ["score_scale"] if spec.score is Score.DOT else ["slope"]
    needed += ["weight"] if spec.weighted else []
    needed += ["seed", "threshold", "keep_scale"] if spec.dropout else []
    lines = operand_words(needed)
    lines += ["scores, second, drawn = by_entry(), by_entry(), by_draw()"]
    widths = {width for _, width in runs_of(spec)} | {spec.register, 1}
    for lanes in (spec.lanes, spec.lanes // 2):
        widths |= {piece.width for sweep in sweeps_of(spec, lanes) for piece in sweep.pieces}
    constant = ("scale", "score_scale") if spec.score is Score.DOT else ("slope", "slope")
    for width in sorted(widths):
        lines.append(f"zero{width}, one{width} = splat{width}(0.0), splat{width}(1.0)")
        lines.append(f"{constant[0]}{width} = splat{width}({constant[1]})")
    return lines


def far_grad(spec: AttentionSpec) -> str:
    """Return the template of the address of a far row of the result's gradient."""
    return f"grad + {{far}} * {spec.width} * ITEM"


def addresses(far_rows: dict[str, str]) -> dict[str, str]:
    """Return the addresses of the rows of ``far``."""
    return {name: address.format(far="far") for name, address in far_rows.items()}
