"""Source of g-SpMM and g-SDDMM kernels: pure functions from a specification to text.

A kernel's shape (g-SpMM, g-SDDMM) is a template; the expression, the reducer, the dtypes and the register blocks are
filled in. The text is ordinary Python over the vector type of ``kernels/cpu/lanes/simd.py``, fit to be read in a
debugger.

A feature axis of ``inner`` elements is swept in blocks of ``lanes`` elements, then in one last pass over pieces of 64,
32, ... 1 elements that add up to the rest: all accumulators of a pass stay in registers while a row's edges go by.
"""

from __future__ import annotations

from ...expr import Call, Constant, Expr, Side, operands_of
from ...opspec import OPERATORS, Reducer
from ..spec import ITEM_BYTES, KernelSpec, Prefetch, SddmmSpec, SpmmSpec, compute_dtype
from ..words import EDGE_IDS, GROUPS, INDICES, INDPTR, INNER, NUM_ENTRIES, NUM_ROWS, PITCH, operand_word
from .common import (
    OF_ROW,
    called_functions,
    distance_line,
    entries_ahead,
    entry_lines,
    indent,
    lines_of_row,
    offset,
    reads,
    values_of,
)

ROLLED_LINES = {Prefetch.ALL: (1, 0), Prefetch.ROWS: (1, 2), Prefetch.NOTHING: (2, 2)}
"""Lengths of rows, in cache lines, whose loop over entries LLVM must not unroll: such rows wait for memory, and
unrolling needs a second loop for the rest. Longer rows compute more; a row of one line in L2 is one instruction."""


# -- g-SpMM ------------------------------------------------------------------------------------------------------------
def spmm_source(spec: SpmmSpec) -> str:
    """Return the source of the kernel that reduces ``spec.expr`` over the entries of each of a run of rows.

    Of those rows it takes the entries from ``begin`` to ``end``, or none where ``begin`` is -1. It is called by
    ``kernels/cpu/run/driver.py``, which lays down the words of ``args``.
    """
    names = [repr(operand) for operand in spec.operands]
    scale = _ROW_SCALE if any(reducer is Reducer.MEAN for _, reducer in spec.parts) else ""
    title = ", ".join(f"{reducer.value} of {expr}" for expr, reducer in spec.parts)
    passes = _group_offsets(spec, names) + _spmm_passes(spec)
    row = _bounds(spec) + scale + _apart(spec) + _finished(spec) + _in_groups(spec, passes) + _next_row(spec)
    return f'''"""g-SpMM: {title} ({spec.dtype}, {spec.index} ids)."""
{_header(spec)}
def kernel(args, row, stop, begin, end, out, argmax):
{_read_operands(spec)}    indptr, pitch = word(args, {INDPTR}), word(args, {PITCH})
    for row in range(row, stop):
{indent(row, 4)}'''


_ROW_SCALE = """    count = index(indptr, row + 1) - index(indptr, row)
    scale = splat1(1.0 / max(count, 1))
"""


def _bounds(spec: SpmmSpec) -> str:
    """Return what finds the entries of a row: ``first`` to ``last``."""
    text = "    first, last = max(index(indptr, row), begin), min(index(indptr, row + 1), end)\n"
    if spec.epilogue is not None:
        text += "    if begin < 0:\n        first, last = -1, -1\n"
    return text if spec.prefetch is Prefetch.NOTHING else text + indent(distance_line(entries_ahead(spec)), 4)


def _next_row(spec: SpmmSpec) -> str:
    return "    out = out + pitch * ITEM\n" + ("    argmax = argmax + pitch * INDEX\n" if spec.argmax else "")


def _finished(spec: SpmmSpec) -> str:
    """Return what finds whether a row is whole: its entries are all here or, where ``first`` is -1, in ``out``."""
    if spec.epilogue is None:
        return ""
    return """    finished = first < 0
    if first == index(indptr, row):
        finished = last == index(indptr, row + 1)
"""


def _apart(spec: SpmmSpec) -> str:
    """Return the lines that set ``apart``: the number of elements from the rows of one result to those of the next.

    In ``out`` it is all rows; in the carry buffer, which continues a row of the previous task, it is one.
    """
    if not spec.more:
        return ""
    return f"""    apart = pitch
    if index(indptr, row) == first:
        apart = pitch * word(args, {NUM_ROWS})
"""


def _header(spec: KernelSpec) -> str:
    """Return the imports and the loaders for every width in use."""
    widths = {*spec.pieces, *((spec.lanes,) if spec.blocks else ())}
    argmax = isinstance(spec, SpmmSpec) and spec.argmax
    nontemporal = ", nontemporal=True" if isinstance(spec, SddmmSpec) and spec.nontemporal else ""
    lines = [
        "from dglite.kernels.cpu.lanes import simd",
        "",
        f"ITEM, INDEX = {ITEM_BYTES[spec.dtype]}, {8 if spec.index == 'int64' else 4}",
        "word, prefetch, differs, select = simd.word, simd.prefetch_l2, simd.differs, simd.select",
        *(["prefetch_write = simd.prefetch_write"] if isinstance(spec, SddmmSpec) and spec.dot else []),
        "maximum, minimum, reduce_add = simd.maximum, simd.minimum, simd.reduce_add",
        *(f"{name} = simd.{name}" for name in sorted(set().union(*map(called_functions, spec.exprs)))),
        f'index, edge_index = simd.index_loader("{spec.index}"), simd.edge_index_loader("{spec.index}")',
    ]
    for width in sorted(widths | {1}, reverse=True):
        lines.append(f'load{width} = simd.loader("{spec.dtype}", {width})')
        lines.append(f'store{width} = simd.storer("{spec.dtype}", {width}{nontemporal})')
        lines.append(f'splat{width} = simd.splat("{compute_dtype(spec.dtype)}", {width})')
        if spec.repeat and spec.repeat <= width:
            lines.append(f'repeat{width} = simd.repeat_loader("{spec.dtype}", {width}, {spec.repeat})')
        if argmax:
            lines.append(f'ids{width} = simd.splat("{spec.index}", {width})')
            lines.append(f'store_ids{width} = simd.storer("{spec.index}", {width})')
    return "\n".join([*lines, "", ""])


def _read_operands(spec: KernelSpec) -> str:
    places = f"word(args, {INDICES}), word(args, {EDGE_IDS}), word(args, {NUM_ENTRIES})"
    sizes = (
        f"inner, groups = word(args, {INNER}), word(args, {GROUPS})" if spec.grouped else f"inner = word(args, {INNER})"
    )
    lines = [f"indices, edge_ids, num_entries = {places}", sizes]
    for i, operand in enumerate(spec.operands):
        at = operand_word(i)
        lines.append(f"{operand!r}, {operand!r}_stride = word(args, {at}), word(args, {at + 1})")
        if spec.grouped:
            lines.append(f"{operand!r}_table = word(args, {at + 2})")
    return indent("\n".join(lines), 4)


def _in_groups(spec: KernelSpec, body: str) -> str:
    """Return ``body`` in a loop over the groups, or once when there is one group."""
    if not spec.grouped:
        return indent(body, 4)
    return "    for group in range(groups):\n" + indent("base = group * inner\n" + body, 8)


def _group_offsets(spec: KernelSpec, names: list[str]) -> str:
    if not spec.grouped:
        return ""
    return "".join(f"{name}_base = {name} + word({name}_table, group) * ITEM\n" for name in names)


def _spmm_passes(spec: SpmmSpec) -> str:
    """Return the sweep over whole blocks, then the one over the remaining pieces."""
    text = ""
    if spec.blocks:
        text += f"for k in range(0, inner - {spec.lanes - 1}, {spec.lanes}):\n"
        text += indent(_spmm_pass(spec, (spec.lanes,), "k"), 4)
    if spec.pieces:
        text += _rest_start(spec) + _spmm_pass(spec, spec.pieces, "rest" if spec.blocks else "")
    return text


def _rest_start(spec: KernelSpec) -> str:
    return f"rest = inner - {sum(spec.pieces)}\n" if spec.blocks else ""


def _spmm_pass(spec: SpmmSpec, pieces: tuple[int, ...], k: str) -> str:
    """Return the loop over a row's entries that keeps one accumulator per piece and reduction in registers."""
    lines = []
    for total, _, reducer, width in _totals(spec, pieces):
        identity = "0.0" if reducer.identity == 0 else f'float("{reducer.identity}")'
        lines.append(f"total{total} = splat{width}({identity})")
        if spec.argmax and reducer.selects:
            lines.append(f"argmax{total} = ids{width}(first)")
    if spec.epilogue:
        lines.append("if first < 0:")
        lines += [f"    total{p} = load{width}({_out(spec, pieces, p, k)})" for p, width in enumerate(pieces)]
    least, most = ROLLED_LINES[spec.prefetch]
    rolled = least <= lines_of_row(spec, pieces) <= most
    lines.append(f"for j in range(first, last{', 1' * rolled}):")
    body = entry_lines(spec, pieces, k)
    summed = tuple(_row_factors(expr, reducer)[0] for expr, reducer in spec.parts)
    for p in range(len(pieces)):
        shared, values = values_of(spec, summed, p, pieces, k)
        body += shared
        for (total, _, reducer, width), value in zip(_totals(spec, pieces)[p :: len(pieces)], values, strict=True):
            body += _accumulated(spec, total, reducer, width, value)
    lines += ["    " + line for line in body]
    lines += _spmm_stores(spec, pieces, k)
    return "\n".join(lines) + "\n"


def _totals(spec: SpmmSpec, pieces: tuple[int, ...]) -> list[tuple[int, int, Reducer, int]]:
    """Return (its number, its piece, how it reduces, its width) of every accumulator, one reduction after the other."""
    accumulators = [(p, reducer, width) for _, reducer in spec.parts for p, width in enumerate(pieces)]
    return [(total, *rest) for total, rest in enumerate(accumulators)]


def _accumulated(spec: SpmmSpec, total: int, reducer: Reducer, width: int, value: str) -> list[str]:
    """Return the lines that take one entry's ``value`` into an accumulator."""
    if not reducer.selects:
        return [f"total{total} = total{total} + {value}"]
    larger = "maximum" if reducer is Reducer.MAX else "minimum"
    if not spec.argmax:
        return [f"total{total} = {larger}(splat{width}({value}), total{total})"]
    # By what has changed: the next entry waits for a maximum, which takes a fraction of the time of a comparison.
    return [
        f"before, total{total} = total{total}, {larger}(splat{width}({value}), total{total})",
        f"argmax{total} = select(differs(total{total}, before), ids{width}(j), argmax{total})",
    ]


def _spmm_stores(spec: SpmmSpec, pieces: tuple[int, ...], k: str) -> list[str]:
    empty, scaled, ends, stores, selecting = list[str](), list[str](), list[str](), list[str](), list[int]()
    for total, p, reducer, width in _totals(spec, pieces):
        part = total // len(pieces)
        for source, factor in _row_factors(*spec.parts[part])[1]:
            shared, (value,) = values_of(spec, (factor,), p, pieces, k)
            scaled += [f"    {line}" for line in (*shared, f"total{total} = {source.format(f'total{total}', value)}")]
        scale = " * scale" if reducer is Reducer.MEAN else ""
        at = offset(k, pieces, p, *(["base"] if spec.grouped else []))
        if spec.epilogue:
            scaled += [f"    total{total} = total{total}{scale}"] if scale else []
            shared, (value,) = values_of(spec, (spec.epilogue,), p, pieces, k)
            ends += [f"    {line}" for line in (*shared, f"total{total} = splat{width}({value})")]
            scale = ""
        stores.append(f"store{width}(out + ({_later(part)}{at}) * ITEM, total{total}{scale})")
        if not reducer.selects:
            continue
        empty.append(f"    total{total} = splat{width}(0.0)")
        if spec.argmax:
            selecting += [] if part in selecting else [part]
            empty.append(f"    argmax{total} = ids{width}(-1)")
            where = f"{_later(selecting.index(part))}{at}"
            stores.append(f"store_ids{width}(argmax + ({where}) * INDEX, argmax{total})")
    lines = ["if first == last:", *empty] if empty else []
    # a row without entries stays 0, whatever its factor is
    lines += ["if first < last:", *scaled] if scaled else []
    return [*lines, *(["if finished:", *ends] if ends else []), *stores]


def _out(spec: SpmmSpec, pieces: tuple[int, ...], piece: int, k: str) -> str:
    """Return the address of a piece of the result."""
    return f"out + ({offset(k, pieces, piece, *(['base'] if spec.grouped else []))}) * ITEM"


def _later(count: int) -> str:
    """Return how far the result number ``count`` lies behind the first."""
    return f"{count} * apart + " if count else ""


# -- factors that all entries of a row share: the row's sum is multiplied once, instead of every message ---------------
def _row_factors(expr: Expr, reducer: Reducer) -> tuple[Expr, list[tuple[str, Expr]]]:
    """Split ``expr`` into what is summed and the (operator source, operand) pairs that one row shares.

    A sum of products with the destination's own factor is that factor times the sum: one multiplication per row, not
    one per edge. Normalised aggregation, ``u0 * u1 * v2``, reads like this.
    """
    if reducer.selects:
        return expr, []
    inner, factors = _split_factors(expr)
    return Constant(1.0) if inner is None else inner, factors


def _split_factors(expr: Expr) -> tuple[Expr | None, list[tuple[str, Expr]]]:
    """Return the factors of ``expr`` that differ between a row's entries as one expression, and the others."""
    if _is_of_row(expr):
        return None, [(OPERATORS["mul"].source, expr)]
    if not isinstance(expr, Call) or expr.op.name not in ("mul", "div"):
        return expr, []
    left, factors = _split_factors(expr.args[0])
    right = expr.args[1]
    if expr.op.name == "div":
        if _is_of_row(right):
            return left, [*factors, (expr.op.source, right)]
        return (Constant(1.0) if left is None else left) / right, factors
    right_inner, right_factors = _split_factors(right)
    factors += right_factors
    if left is None or right_inner is None:
        return right_inner if left is None else left, factors
    return Call(OPERATORS["mul"], (left, right_inner)), factors


def _is_of_row(expr: Expr) -> bool:
    return bool(operands_of(expr)) and all(operand.side in OF_ROW for operand in operands_of(expr))


# -- g-SDDMM -----------------------------------------------------------------------------------------------------------
def sddmm_source(spec: SddmmSpec) -> str:
    """Return the source of the kernel that computes ``spec.expr`` for a row's entries, each written at its edge's row.

    With ``dot`` a group's inner run is summed to one value. ``out`` is the address of the whole result. The row of a
    listed entry is read in the loop.
    """
    names = [repr(operand) for operand in spec.operands]
    body = "edge = edge_index(edge_ids, j)\n" if not reads(spec, Side.E) else ""
    body += f"row = index(word(args, {INDPTR}), j)\n" if spec.listed and reads(spec, Side.V) else ""
    body += "\n".join(entry_lines(spec, (spec.lanes,) if spec.blocks else spec.pieces, "")) + "\n"
    if spec.dot:  # a number for each edge, anywhere: else each store waits for its line
        body += f"prefetch_write(out + edge_index(edge_ids, j + distance) * {'groups * ' * spec.grouped}ITEM)\n"
    passes = _group_offsets(spec, names) + (_dot_passes(spec) if spec.dot else _map_passes(spec))
    grouped = (
        passes if not spec.grouped else "for group in range(groups):\n" + indent("base = group * inner\n" + passes, 4)
    )
    return f'''"""g-SDDMM: {"sum of " if spec.dot else ""}{spec.expr} ({spec.dtype}, {spec.index} ids)."""
{_header(spec)}
def kernel(args, row, first, last, out, argmax):
{_read_operands(spec)}    {distance_line(entries_ahead(spec))}
    for j in range(first, last):
{indent(body + grouped, 8)}'''


def _map_passes(spec: SddmmSpec) -> str:
    row = "edge * (groups * inner) + base" if spec.grouped else "edge * inner"
    text = ""
    for head, k, pieces in _sweeps(spec):
        lines = []
        for p, width in enumerate(pieces):
            shared, (value,) = values_of(spec, spec.exprs, p, pieces, k)
            lines += [*shared, f"store{width}(out + ({offset(k, pieces, p, row)}) * ITEM, {value})"]
        text += head + indent("\n".join(lines), 4 if head.startswith("for") else 0)
    return text


def _dot_passes(spec: SddmmSpec) -> str:
    text = f"wide = splat{spec.lanes}(0.0)\n" if spec.blocks else ""
    sums = ["reduce_add(wide)"] if spec.blocks else []
    for head, k, pieces in _sweeps(spec):
        shared, values = [], []
        for p in range(len(pieces)):
            lines, (value,) = values_of(spec, spec.exprs, p, pieces, k)
            shared += lines
            values.append(value)
        if head.startswith("for"):
            text += head + indent("\n".join([*shared, f"wide = wide + {values[0]}"]), 4)
        else:
            # A value without a lane-wise operand is a plain number: it counts once for each lane.
            text += head + "".join(f"{line}\n" for line in shared)
            sums += [f"reduce_add(splat{pieces[p]}({value}))" for p, value in enumerate(values)]
    at = "edge * groups + group" if spec.grouped else "edge"
    return text + f"store1(out + ({at}) * ITEM, {' + '.join(sums)})\n"


def _sweeps(spec: SddmmSpec) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return, for the blocks and for the rest, the line before it, the name of its start and its pieces."""
    sweeps: list[tuple[str, str, tuple[int, ...]]] = []
    if spec.blocks:
        sweeps.append((f"for k in range(0, inner - {spec.lanes - 1}, {spec.lanes}):\n", "k", (spec.lanes,)))
    if spec.pieces:
        sweeps.append((_rest_start(spec), "rest" if spec.blocks else "", spec.pieces))
    return sweeps
