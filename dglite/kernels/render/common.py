"""What the templates share: expressions over the lanes of a vector, the addresses of rows, prefetching, indentation."""

from __future__ import annotations

import math
from functools import lru_cache

from ...expr import Call, Constant, Expr, Operand, Side, write_out_powers
from ..layout import Pattern
from ..spec import ITEM_BYTES, REDUCED, KernelSpec, Prefetch, SpmmSpec

OF_ROW = (Side.V, Side.G)
"""Sides whose operands are the same for all entries of a row."""
LINES_IN_FLIGHT, LEAST_AHEAD, MOST_AHEAD = 128, 8, 32
"""Target number of cache lines in flight, and the least and most entries to prefetch ahead; narrow rows more. Lines go
to the second cache, see docs/decisions/0188-rows-are-prefetched-into-the-second-cache.md."""
INDICES_AHEAD = 512
"""Prefetch distance of indices in bytes, where rows come from a cache. CPUs prefetch sequential reads themselves, but
not among this many other lines: then 16 entries wait for each line of indices."""
_ROW = {Side.U: "source", Side.E: "edge", Side.V: "row", Side.G: "0"}


# -- expressions -------------------------------------------------------------------------------------------------------
def called_functions(expr: Expr) -> set[str]:
    """Return the names of the functions that the sources of the expression's operators call."""
    visited, pending = set[Expr](), [write_out_powers(expr)]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node not in visited:
            visited.add(node)
            pending.extend(node.args)
    names = {node.op.source.partition("(")[0] for node in visited if isinstance(node, Call)}
    return names - {""}


def values_of(
    spec: KernelSpec, exprs: tuple[Expr, ...], piece: int, pieces: tuple[int, ...], k: str
) -> tuple[list[str], list[str]]:
    """Return ``exprs`` over the lanes of one piece: lines that name what occurs several times, and their texts."""
    exprs = tuple(map(write_out_powers, exprs))
    repeated, names, lines = _repeated(exprs), dict[Expr, str](), list[str]()

    def text(node: Expr, whole: bool = False) -> str:
        if isinstance(node, Constant):
            return number_text(node.value)
        if node not in repeated or whole:
            if isinstance(node, Operand):
                return _loaded(spec, node, piece, pieces, k)
            assert isinstance(node, Call)
            return node.op.source.format(*(text(arg, is_fused(node, arg)) for arg in node.args))
        if node not in names:
            line = text(node, True)
            names[node] = f"shared{piece}_{len(names)}"
            lines.append(f"{names[node]} = {line}")
        return names[node]

    return lines, [text(expr) for expr in exprs]


def is_fused(node: Call, arg: Expr) -> bool:
    """Whether ``arg`` is a product that is rounded together with the sum ``node``, wherever that is computed.

    It stands in the sum in full then, though it may have a name: so the last bit of an expression's value does not
    depend on what else a kernel computes.
    """
    return node.op.name in ("add", "sub") and isinstance(arg, Call) and arg.op.name == "mul"


def number_text(value: float) -> str:
    """Return a number of the type that is computed in: a single value and a vector's lanes are rounded alike."""
    return f"splat1({value!r})" if math.isfinite(value) else f'splat1(float("{value}"))'


@lru_cache(maxsize=4096)
def _repeated(exprs: tuple[Expr, ...]) -> frozenset[Expr]:
    """Return the operator calls that occur more than once in ``exprs``, and of several the operands that do."""
    visited, repeated, pending = set[Expr](), set[Expr](), list(exprs)
    while pending:
        node = pending.pop()
        if isinstance(node, Constant) or (isinstance(node, Operand) and len(exprs) == 1):
            continue
        if node in visited:
            repeated.add(node)
        else:
            visited.add(node)
            pending.extend(node.args if isinstance(node, Call) else ())
    return frozenset(repeated)


def _loaded(spec: KernelSpec, operand: Operand, piece: int, pieces: tuple[int, ...], k: str) -> str:
    """Return what loads an operand's values for the lanes of one piece."""
    if operand == REDUCED:
        return f"total{piece}"
    name, width = repr(operand), pieces[piece]
    row = _row_start(spec, operand, _ROW[operand.side])
    pattern = spec.patterns[operand.slot]
    if pattern is Pattern.FULL:
        return f"load{width}({_base(spec, name)} + ({offset(k, pieces, piece, row)}) * ITEM)"
    if pattern is Pattern.SCALAR:
        return f"load1({_base(spec, name)} + {row} * ITEM)"
    run = f"{row} + ({offset(k, pieces, piece)}) // {spec.repeat}"
    return f"{f'repeat{width}' if spec.repeat <= width else 'load1'}({name} + ({run}) * ITEM)"


# -- addresses ---------------------------------------------------------------------------------------------------------
def _row_start(spec: KernelSpec, operand: Operand, row: str) -> str:
    """Return how many elements lie before a row: a multiplication less for each entry where the width is known."""
    if spec.grouped or spec.blocks or operand.side in OF_ROW:
        return f"{row} * {operand!r}_stride"
    inner, pattern = sum(spec.pieces), spec.patterns[operand.slot]
    return row if pattern is Pattern.SCALAR else f"{row} * {inner if pattern is Pattern.FULL else inner // spec.repeat}"


def _base(spec: KernelSpec, name: str) -> str:
    return f"{name}_base" if spec.grouped else name


def offset(k: str, pieces: tuple[int, ...], piece: int, *terms: str) -> str:
    """Return the sum of ``terms``, ``k`` and the piece's start, leaving out what is empty."""
    start = sum(pieces[:piece])
    return " + ".join([*terms, *([k] if k else []), *([str(start)] if start else [])]) or "0"


# -- entries and prefetching -------------------------------------------------------------------------------------------
def reads(spec: KernelSpec, side: Side) -> bool:
    """Whether an operand of that side is read."""
    return any(operand.side is side for operand in spec.operands)


def entry_lines(spec: KernelSpec, pieces: tuple[int, ...], k: str) -> list[str]:
    """Return the lines that find an entry's source and edge, and prefetch the rows of an entry further on."""
    lines = []
    if reads(spec, Side.U):
        lines.append("source = index(indices, j)")
    if reads(spec, Side.E):
        lines.append("edge = edge_index(edge_ids, j)")
    prefetch = spec.prefetch if isinstance(spec, SpmmSpec) else Prefetch.ALL
    if prefetch is Prefetch.NOTHING:
        return lines + [f"prefetch(indices + j * INDEX + {INDICES_AHEAD})"] * (lines_of_row(spec, pieces) > 1)
    if reads(spec, Side.U):
        lines.append("source_ahead = index(indices, j + distance)")
    if reads(spec, Side.E):
        lines.append("edge_ahead = edge_index(edge_ids, j + distance)")
    for operand in spec.operands:
        if operand.side in OF_ROW or (prefetch is Prefetch.ROWS and _is_number_of_source(spec, operand)):
            continue
        name, full = repr(operand), spec.patterns[operand.slot] is Pattern.FULL
        base = _base(spec, name) if isinstance(spec, SpmmSpec) else name
        start = offset(k if full else "", (), 0, _row_start(spec, operand, f"{_ROW[operand.side]}_ahead"))
        lines.append(f"{name}_ahead = {base} + ({start}) * ITEM")
        lines += [f"prefetch({name}_ahead + {64 * line})" for line in range(_cache_lines(spec, operand, pieces))]
    return lines


def _is_number_of_source(spec: KernelSpec, operand: Operand) -> bool:
    return operand.side is Side.U and spec.patterns[operand.slot] is Pattern.SCALAR


def lines_of_row(spec: KernelSpec, pieces: tuple[int, ...]) -> int:
    """Return how many cache lines of each row a pass reads."""
    return -(-sum(pieces) * ITEM_BYTES[spec.dtype] // 64)


def _cache_lines(spec: KernelSpec, operand: Operand, pieces: tuple[int, ...]) -> int:
    return lines_of_row(spec, pieces) if spec.patterns[operand.slot] is Pattern.FULL else 1


def entries_ahead(spec: KernelSpec) -> int:
    """Return how many entries ahead of its use a row is prefetched, but for the last ones."""
    pieces = (spec.lanes,) if spec.blocks else spec.pieces
    lines = sum(_cache_lines(spec, operand, pieces) for operand in spec.operands if operand.side not in OF_ROW)
    return min(max(LINES_IN_FLIGHT // max(lines, 1), LEAST_AHEAD), MOST_AHEAD)


def distance_line(most: int) -> str:
    """Return the line that finds how many entries ahead of its use a row is prefetched.

    The last entries look less far ahead, down to themselves, so that no entry has to be compared with the last one.
    """
    return f"distance = min({most}, num_entries - last)"


def indent(text: str, spaces: int) -> str:
    """Return the lines moved right; empty lines stay empty."""
    pad = " " * spaces
    return "".join(pad + line + "\n" if line.strip() else "\n" for line in text.rstrip("\n").split("\n"))
