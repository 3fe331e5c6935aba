"""What a vertex program's script needs for one graph: addresses, tables, words and lines.

Memory is cut up by *kinds* of counts: for C classes of vertices, kind c is the rows of class c, C + c its edges, 2 C
all rows, and 2 C + 1 all rows and one more, which is zeros. Serial, and it releases the lock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.simd import storer
from .schedule import STAGE_COLUMNS, StageTables, arrange


class OrderTables(NamedTuple):
    """The order of a graph's vertices, see :class:`dglite.dynamic.execution.order.VertexOrder`; matrices by rows."""

    nodes: np.ndarray
    places: np.ndarray
    children: np.ndarray
    parents: np.ndarray
    bounds: np.ndarray
    parent_bounds: np.ndarray
    parent_entries: np.ndarray
    classes: np.ndarray
    class_bounds: np.ndarray
    segments: np.ndarray
    segment_edges: np.ndarray


TABLES_OF_ORDER = OrderTables._fields[:6]
"""Those that words may need."""


class ScriptTables(NamedTuple):
    """A script: memory, (kind, bytes of a row, what is done to it first) each; tables of what parents leave, (tables,
    4, classes, slots): base, constant, stride, and whether it is by slot; parts of gradients, see :func:`_list_parts`;
    words: number of a base, and constant; stages, those of direction d with classes from ``directions[d, 0]``, rows
    from ``directions[d, 1]`` and bounds from ``directions[d, 2]`` on; and the number of slots. Matrices by rows.

    *Bases* are addresses that words count from: 0 and the words' own; the first tables of the order and that of
    children; for each input what picks its rows and what puts them back; what is given; tables of what parents leave;
    memory."""

    memory: np.ndarray
    tables: np.ndarray
    parts: np.ndarray
    indices: np.ndarray
    constants: np.ndarray
    stages: np.ndarray
    bounds: np.ndarray
    classes: np.ndarray
    directions: np.ndarray
    slots: np.ndarray


AS_IT_IS, LAST_ROW_ZERO, ZERO = range(3)
"""What is done to memory first."""
TEAM_WORDS = 9
_ALIGNMENT = 64
_WORDS, _ORDER = 1, 2
_CHILD_TABLE = _ORDER + len(TABLES_OF_ORDER)
_PICKED = _CHILD_TABLE + 1

Pair = tuple[np.ndarray, np.ndarray]

_store8 = storer("int64", 1)


class _CallTables(NamedTuple):
    """What is made for one call: bases; the children of each row, by slot; the row of each input that each row pulls,
    and, inputs one after the other, the reverse; tables of what parents leave; where rows and edges of classes start,
    then of all rows and of each input, two numbers each; and room for a number for each row."""

    bases: np.ndarray
    by_slot: np.ndarray
    picked: np.ndarray
    inverse: np.ndarray
    left: np.ndarray
    ends: np.ndarray
    owner: np.ndarray


@Kernel
def _count(kind: int, order: OrderTables) -> int:
    """Return how many rows or edges there are of a kind."""
    num = len(order.classes) - 1
    if kind < num:
        return order.classes[kind + 1] - order.classes[kind]
    if kind < 2 * num:
        return order.class_bounds[kind - num + 1] - order.class_bounds[kind - num]
    return len(order.nodes) + (kind - 2 * num)


@Kernel
def _first(kind: int, order: OrderTables) -> int:
    """Return the number of the first row or edge of a kind."""
    num = len(order.classes) - 1
    if kind < num:
        return order.classes[kind]
    return order.class_bounds[kind - num] if kind < 2 * num else 0


@Kernel
def needed_bytes(order: OrderTables, script: ScriptTables) -> int:
    """Return how much memory a script takes on a graph."""
    total, memory = 0, script.memory
    for i in range(len(memory) // 3):
        total += (_count(memory[3 * i], order) * memory[3 * i + 1] + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    return total


@Kernel
def _list_children(order: OrderTables, slots: int, by_slot: np.ndarray) -> None:
    """Write the row of each row's child at each slot; there is already that of no row."""
    for row in range(len(order.nodes)):
        first = order.bounds[row]
        for slot in range(min(order.bounds[row + 1] - first, slots)):
            by_slot[row * slots + slot] = order.children[first + slot]


@Kernel
def _lay(order: OrderTables, script: ScriptTables, block: int, bases: np.ndarray) -> None:
    """Cut up a block of memory; write the addresses of row (or edge) 0."""
    at, memory = block, script.memory
    for i in range(len(memory) // 3):
        kind, row, action = memory[3 * i], memory[3 * i + 1], memory[3 * i + 2]
        size = _count(kind, order) * row
        bases[i] = at - _first(kind, order) * row
        if action != AS_IT_IS:
            begin = at if action == ZERO else at + size - row
            for place in range(begin, at + size - 7, 8):
                _store8(place, 0)
            if (at + size - begin) % 8 != 0:
                _store8(at + size - 8 if at + size - 8 >= begin else begin, 0)
        at += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


@Kernel
def _pick(nodes: np.ndarray, rows_of: np.ndarray, lengths: np.ndarray, bases: np.ndarray, tables: _CallTables) -> None:
    """Write the row of each input that each row of the order pulls, and the reverse."""
    first, num_nodes = 0, len(nodes)
    for i in range(len(lengths)):
        for row in range(num_nodes):
            pulled = rows_of[i * num_nodes + nodes[row]]
            tables.picked[i * num_nodes + row] = pulled
            if pulled >= 0:
                tables.inverse[first + pulled] = row
        bases[2 * i] = address_of(tables.picked, i * num_nodes)
        bases[2 * i + 1] = address_of(tables.inverse, first)
        first += lengths[i]


@Kernel
def _leave(order: OrderTables, tables: np.ndarray, slots: int, first: int, lists: _CallTables) -> None:
    """Write, for each table, where every parent of a vertex leaves that vertex's share of a state's gradient, or 0.

    Rows are those of parents when a slot hands on, of entries when all children do (then there is one slot).
    """
    owner, num_classes, num_entries = lists.owner, len(order.classes) - 1, len(order.parent_entries)
    for c in range(num_classes):
        for row in range(order.classes[c], order.classes[c + 1]):
            owner[row] = c
    size = num_classes * slots
    for i in range(len(tables) // (4 * size)):
        lists.bases[first + i] = address_of(lists.left, i * num_entries)
        table = tables[4 * size * i : 4 * size * (i + 1)]
        by_slot = table[3 * size] != 0
        for k in range(num_entries):
            entry = order.parent_entries[k]
            row = order.parents[entry]
            slot = entry - order.bounds[row] if by_slot else 0
            at = owner[row] * slots + slot
            if slot < slots and table[at] != 0:
                place = row if by_slot else entry
                lists.left[i * num_entries + k] = (
                    lists.bases[table[at]] + table[size + at] + place * table[2 * size + at]
                )


@Kernel
def _list_ends(order: OrderTables, lengths: np.ndarray, ends: np.ndarray) -> None:
    """Write where rows and edges of classes start, and of what comes after them."""
    num, width = len(order.classes) - 1, len(ends) // 2
    for c in range(num + 1):
        ends[c], ends[width + c] = order.classes[c], order.class_bounds[c]
    ends[num + 2] = len(order.nodes)
    for i in range(len(lengths)):
        ends[num + 4 + 2 * i] = lengths[i]


@Kernel
def _lay_bases(
    order: OrderTables,
    script: ScriptTables,
    rows_of: np.ndarray,
    lengths: np.ndarray,
    outside: np.ndarray,
    block: int,
    tables: _CallTables,
) -> None:
    """Write all bases but that of the words, and what they refer to."""
    bases, slots, num_classes = tables.bases, script.slots[0], len(order.classes) - 1
    first_given = _PICKED + 2 * len(lengths)
    first_left = first_given + len(outside)
    first_own = first_left + len(script.tables) // (4 * num_classes * slots)
    bases[_ORDER], bases[_ORDER + 1] = address_of(order.nodes, 0), address_of(order.places, 0)
    bases[_ORDER + 2], bases[_ORDER + 3] = address_of(order.children, 0), address_of(order.parents, 0)
    bases[_ORDER + 4], bases[_ORDER + 5] = address_of(order.bounds, 0), address_of(order.parent_bounds, 0)
    _list_children(order, slots, tables.by_slot)
    bases[_CHILD_TABLE] = address_of(tables.by_slot, 0)
    _pick(order.nodes, rows_of, lengths, bases[_PICKED:], tables)
    for i in range(len(outside)):
        bases[first_given + i] = outside[i]
    _lay(order, script, block, bases[first_own:])
    _leave(order, script.tables, slots, first_left, tables)
    _list_ends(order, lengths, tables.ends)


@Kernel
def _write_words(script: ScriptTables, bases: np.ndarray, words: np.ndarray) -> None:
    """Write the words of each processor."""
    count = len(script.constants)
    for p in range(len(words) // count if count > 0 else 0):
        bases[_WORDS] = address_of(words, p * count)
        for i in range(count):
            words[p * count + i] = bases[script.indices[i]] + script.constants[i]


@Kernel
def _list_parts(order: OrderTables, script: ScriptTables, bases: np.ndarray, parts: np.ndarray) -> None:
    """Write (number of rows, address and row stride of the left rows, of the right ones) for each part.

    Rows of ``parts``: kind of count, then (source, constant, stride) of both sides.
    """
    for i in range(len(script.parts) // 7):
        part = script.parts[7 * i : 7 * (i + 1)]
        first = _first(part[0], order)
        parts[5 * i] = _count(part[0], order)
        for side in range(2):
            stride = part[3 + 3 * side]
            parts[5 * i + 1 + 2 * side] = bases[part[1 + 3 * side]] + part[2 + 3 * side] + first * stride
            parts[5 * i + 2 + 2 * side] = stride


@Kernel
def _enter(
    team: np.ndarray,
    words: np.ndarray,
    stride: int,
    lines: np.ndarray,
    marks: np.ndarray,
    shares: int,
    number: int,
    yield_: int,
) -> None:
    """Write the words of a direction's kernel; ``number`` and ``yield_`` are the functions that it calls."""
    team[0], team[1], team[2], team[3] = address_of(words, 0), 8 * stride, address_of(lines, 0), 0
    team[4], team[5], team[6], team[7], team[8] = len(marks) // 2, shares, address_of(marks, 0), number, yield_


def _arranged(
    d: int, order: OrderTables, script: ScriptTables, ends: np.ndarray, limited: bool
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the lines of a direction, those of its owner, and the work in one."""
    first_class, first_row, first_bound, class_end, row_end, bound_end = script.directions[3 * d : 3 * d + 6].tolist()
    stages = script.stages[first_row * STAGE_COLUMNS : row_end * STAGE_COLUMNS]
    bounds, classes = script.bounds[first_bound:bound_end], script.classes[first_class:class_end]
    return arrange(StageTables(stages, bounds, classes, ends, order.segments, order.segment_edges), d == 1, limited)


def fill(
    order: OrderTables,
    script: ScriptTables,
    rows_of: np.ndarray,
    lengths: np.ndarray,
    outside: np.ndarray,
    block: int,
    processors: int,
    shared_from: int,
    functions: tuple[int, int],
    teams: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, Pair, Pair, np.ndarray, tuple[np.ndarray, ...]]:
    """Return (parts, see :func:`_list_parts`; bases; lines of both directions, and those of their owner; the row of
    each input that each row of the order pulls; what else ``teams``, the words of both kernels, refer to).

    ``rows_of`` (inputs, nodes) is the row of each input that a node pulls, or -1; ``lengths`` how many rows inputs
    have; ``outside`` are the addresses of what a call is given, ``block`` that of its memory. With ``shared_from``
    above 0 one of the ``processors`` does it all where lines are of less work, and the owner runs stages of too many
    rows.
    """
    num_nodes, num_inputs, slots = len(order.nodes), len(lengths), int(script.slots[0])
    num_classes, num_constants = len(order.classes) - 1, len(script.constants)
    num_tables = len(script.tables) // (4 * num_classes * slots)
    tables = _CallTables(
        np.zeros(_PICKED + 2 * num_inputs + len(outside) + num_tables + len(script.memory) // 3, np.int64),
        np.full(num_nodes * slots, num_nodes),
        np.empty(num_inputs * num_nodes, np.int64),
        np.zeros(int(lengths.sum()) + 1, np.int64),
        np.zeros(num_tables * len(order.parent_entries), np.int64),
        np.zeros(2 * (num_classes + 3 + 2 * num_inputs), np.int64),
        np.empty(num_nodes, np.int64),
    )
    _lay_bases(order, script, rows_of.reshape(-1), lengths, outside, block, tables)
    directions = [_arranged(0, order, script, tables.ends, shared_from > 0)]
    if len(script.directions) > 6:
        directions.append(_arranged(1, order, script, tables.ends, shared_from > 0))
    else:
        directions.append((directions[0][0][:0], directions[0][1][:0], 0))
    shares = processors if max(work for _, _, work in directions) >= shared_from else 1
    words = np.empty(shares * num_constants, np.int64)
    _write_words(script, tables.bases, words)
    marks = [np.zeros(2 * len(lines), np.int64) for lines, _, _ in directions]
    for team, (lines, _, _), of_lines in zip(teams, directions, marks, strict=True):
        _enter(team, words, num_constants, lines.reshape(-1), of_lines, shares, *functions)
    parts = np.empty((len(script.parts) // 7, 5), np.int64)
    _list_parts(order, script, tables.bases, parts.reshape(-1))
    (lines, by_python, _), (lines_back, own_back, _) = directions
    arrays = words, tables.left, tables.by_slot, *marks, tables.inverse
    return (
        parts,
        tables.bases,
        (lines, lines_back),
        (by_python, own_back),
        tables.picked.reshape(num_inputs, num_nodes),
        arrays,
    )
