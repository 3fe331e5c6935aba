"""What a vertex program's script needs for one graph, in one call: addresses, tables, words and lines.

Memory is cut up by *kinds* of counts: for C classes of vertices, kind c is the rows of class c, C + c its edges, 2 C
all rows, and 2 C + 1 all rows and one more, which is zeros. Serial, and it releases the lock.

What stays the same from call to call comes as two *records*, (address, length) of arrays of int64: that of a graph's
order and that of a script. Numba takes as long to look at an argument as to copy a small array.
"""

from __future__ import annotations

import numpy as np

from ..compile.cached import njit
from ..lanes.simd import storer
from ..run.rows import array_at
from .schedule import STAGE_COLUMNS, arrange

__all__ = ["AS_IT_IS", "LAST_ROW_ZERO", "ORDER", "SCRIPT", "TEAM_WORDS", "ZERO", "fill", "needed_bytes", "record"]

ORDER = (
    *("nodes", "places", "children", "parents", "bounds", "parent_bounds", "parent_entries", "classes"),
    *("class_bounds", "segments", "segment_edges"),
)
"""Fields of the record of an order; see :class:`dglite.dynamic.execution.order.Order`. Words may need the first six."""
SCRIPT = ("own", "tables", "parts", "indices", "constants", "stages", "bounds", "classes", "directions", "slots")
"""Fields of the record of a script: memory, (kind, bytes of a row, what is to be done first) each; tables of what
parents leave, (tables, 4, classes, slots): base, constant, stride, and whether it is by slot; parts of gradients, see
:func:`_parts`; words: number of a base, and constant; stages, those of direction d with classes from ``directions[d,
0]``, rows from ``directions[d, 1]`` and bounds from ``directions[d, 2]`` on; and the number of slots.

*Bases* are addresses that words count from: 0 and the words' own; the first tables of the order and that of children;
for each input what picks its rows and what puts them back; what is given; tables of what parents leave; memory."""
NODES, PLACES, CHILDREN, PARENTS, BOUNDS, PARENT_BOUNDS, PARENT_ENTRIES, CLASSES = range(8)
CLASS_BOUNDS, SEGMENTS, SEGMENT_EDGES = range(8, 11)
OWN, TABLES, PARTS, INDICES, CONSTANTS, STAGES, STAGE_BOUNDS, STAGE_CLASSES, DIRECTIONS, SLOTS = range(10)
AS_IT_IS, LAST_ROW_ZERO, ZERO = range(3)
"""What is to be done to memory first."""
TEAM_WORDS = 9
_ALIGNMENT = 64
TABLES_OF_ORDER = 6
_WORDS, _ORDER = 1, 2
_PICKED = _ORDER + TABLES_OF_ORDER + 1

Pair = tuple[np.ndarray, np.ndarray]

_jit = njit(nogil=True)
_store8 = storer("int64", 1)


def record(*arrays: np.ndarray) -> np.ndarray:
    """Return (address, length) of arrays of int64, which are to be kept."""
    made: np.ndarray = _record(tuple([x.reshape(-1) for x in arrays]))
    return made


@_jit
def _record(arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    # Compiled: asking NumPy for an address takes a microsecond.
    found = np.empty((len(arrays), 2), np.int64)
    for i, array in enumerate(arrays):
        found[i, 0], found[i, 1] = array.ctypes.data, len(array)
    return found


@_jit
def _field(fields: np.ndarray, number: int) -> np.ndarray:
    return array_at(fields[number, 0], fields[number, 1], np.int64)


@_jit
def _child_table(bounds: np.ndarray, children: np.ndarray, slots: int, absent: int) -> np.ndarray:
    """Return, for each row and each of ``slots``, the row of that child, or ``absent``."""
    table = np.full((len(bounds) - 1, slots), absent)
    for row in range(len(bounds) - 1):
        for entry in range(bounds[row], min(bounds[row + 1], bounds[row] + slots)):
            table[row, entry - bounds[row]] = children[entry]
    return table


@_jit
def _count(kind: int, order: np.ndarray) -> tuple[int, int]:
    """Return how many rows or edges there are of a kind, and the number of the first."""
    classes, edges = _field(order, CLASSES), _field(order, CLASS_BOUNDS)
    num = len(classes) - 1
    if kind < num:
        return classes[kind + 1] - classes[kind], classes[kind]
    if kind < 2 * num:
        return edges[kind - num + 1] - edges[kind - num], edges[kind - num]
    return order[NODES, 1] + (kind - 2 * num), 0


@_jit
def needed_bytes(order: np.ndarray, script: np.ndarray) -> int:
    """Return how much memory a script takes on a graph."""
    total, own = 0, _field(script, OWN).reshape(-1, 3)
    for i in range(len(own)):
        count, _ = _count(own[i, 0], order)
        total += (count * own[i, 1] + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    return total


@_jit
def _lay(order: np.ndarray, script: np.ndarray, block: int, bases: np.ndarray) -> None:
    """Cut up a block of memory; write the addresses of row (or edge) 0."""
    at, own = block, _field(script, OWN).reshape(-1, 3)
    for i in range(len(own)):
        count, first = _count(own[i, 0], order)
        row, size = own[i, 1], count * own[i, 1]
        bases[i] = at - first * row
        if own[i, 2] != AS_IT_IS:
            begin = at if own[i, 2] == ZERO else at + size - row
            for place in range(begin, at + size - 7, 8):
                _store8(place, 0)
            if (at + size - begin) % 8:
                _store8(at + size - 8 if at + size - 8 >= begin else begin, 0)
        at += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


@_jit
def _pick(
    nodes: np.ndarray, rows_of: np.ndarray, lengths: np.ndarray, bases: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each input that each row of the order pulls, and, inputs one after the other, the reverse."""
    picked, inverse = np.empty((len(lengths), len(nodes)), np.int64), np.zeros(lengths.sum() + 1, np.int64)
    first = 0
    for i in range(len(lengths)):
        for row in range(len(nodes)):
            pulled = rows_of[i, nodes[row]]
            picked[i, row] = pulled
            if pulled >= 0:
                inverse[first + pulled] = row
        bases[2 * i] = picked.ctypes.data + 8 * i * len(nodes)
        bases[2 * i + 1] = inverse.ctypes.data + 8 * first
        first += lengths[i]
    return picked, inverse


@_jit
def _left(order: np.ndarray, tables: np.ndarray, bases: np.ndarray, first: int) -> np.ndarray:
    """Return, for each table, where every parent of a vertex leaves that vertex's share of a state's gradient, or 0.

    Rows are those of parents when a slot hands on, of entries when all children do (then there is one slot).
    """
    parents, bounds, classes = _field(order, PARENTS), _field(order, BOUNDS), _field(order, CLASSES)
    entries, owner = _field(order, PARENT_ENTRIES), np.empty(len(bounds) - 1, np.int64)
    for c in range(len(classes) - 1):
        for row in range(classes[c], classes[c + 1]):
            owner[row] = c
    left = np.zeros((len(tables), len(entries)), np.int64)
    for i in range(len(tables)):
        bases[first + i] = left.ctypes.data + 8 * i * len(entries)
        by_slot = tables[i, 3, 0, 0] != 0
        for k in range(len(entries)):
            entry = entries[k]
            row = parents[entry]
            slot = entry - bounds[row] if by_slot else 0
            if slot < tables.shape[3] and tables[i, 0, owner[row], slot] != 0:
                base, constant, stride = tables[i, :3, owner[row], slot]
                left[i, k] = bases[base] + constant + (row if by_slot else entry) * stride
    return left


@_jit
def _words(script: np.ndarray, processors: int, bases: np.ndarray) -> np.ndarray:
    """Return the words of each processor."""
    indices, constants = _field(script, INDICES), _field(script, CONSTANTS)
    words = np.empty((processors, len(constants)), np.int64)
    for p in range(processors):
        bases[_WORDS] = words.ctypes.data + 8 * p * len(constants)
        for i in range(len(constants)):
            words[p, i] = bases[indices[i]] + constants[i]
    return words


@_jit
def _rows_of_classes(order: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return where rows and edges of classes start; then come all rows, and those of each input, two numbers each."""
    classes, class_bounds = _field(order, CLASSES), _field(order, CLASS_BOUNDS)
    num = len(classes) - 1
    found = np.zeros((2, num + 3 + 2 * len(lengths)), np.int64)
    for c in range(num + 1):
        found[0, c], found[1, c] = classes[c], class_bounds[c]
    found[0, num + 2] = order[NODES, 1]
    for i in range(len(lengths)):
        found[0, num + 4 + 2 * i] = lengths[i]
    return found


@_jit
def _parts(order: np.ndarray, script: np.ndarray, bases: np.ndarray) -> np.ndarray:
    """Return (number of rows, address and row stride of the left rows, of the right ones) for each part.

    Rows of ``parts``: kind of count, then (source, constant, stride) of both sides.
    """
    parts = _field(script, PARTS).reshape(-1, 7)
    found = np.empty((len(parts), 5), np.int64)
    for i in range(len(parts)):
        found[i, 0], first = _count(parts[i, 0], order)
        for side in range(2):
            source, constant, stride = parts[i, 1 + 3 * side], parts[i, 2 + 3 * side], parts[i, 3 + 3 * side]
            found[i, 1 + 2 * side], found[i, 2 + 2 * side] = bases[source] + constant + first * stride, stride
    return found


@_jit
def _arranged(
    d: int, order: np.ndarray, script: np.ndarray, ends: np.ndarray, limited: bool
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the lines of a direction, those of its owner, and the work in one."""
    directions = _field(script, DIRECTIONS).reshape(-1, 3)
    stages = _field(script, STAGES).reshape(-1, STAGE_COLUMNS)[directions[d, 1] : directions[d + 1, 1]]
    classes = _field(script, STAGE_CLASSES)[directions[d, 0] : directions[d + 1, 0]]
    bounds = _field(script, STAGE_BOUNDS)[directions[d, 2] : directions[d + 1, 2]]
    steps, edges = _field(order, SEGMENTS).reshape(-1, 3), _field(order, SEGMENT_EDGES).reshape(-1, 2)
    return arrange(stages, bounds, classes, ends, steps, edges, d == 1, limited)


@_jit
def _enter(team: np.ndarray, words: np.ndarray, lines: np.ndarray, functions: tuple[int, int]) -> np.ndarray:
    """Write the words of a direction's kernel; return the marks of its lines."""
    marks = np.zeros((len(lines), 2), np.int64)
    team[0], team[1], team[2] = words.ctypes.data, 8 * words.shape[1], lines.ctypes.data
    team[3], team[4], team[5], team[6] = 0, len(lines), len(words), marks.ctypes.data
    for i in range(len(functions)):
        team[7 + i] = functions[i]
    return marks


@_jit
def fill(
    order: np.ndarray,
    script: np.ndarray,
    rows_of: np.ndarray,
    lengths: np.ndarray,
    given: np.ndarray,
    block: int,
    processors: int,
    shared_from: int,
    functions: tuple[int, int],
    teams: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, Pair, Pair, np.ndarray, tuple[np.ndarray, ...]]:
    """Return (parts, see :func:`_parts`; bases; lines of both directions, and those of their owner; the row of each
    input that each row of the order pulls; what else ``teams``, the words of both kernels, refer to).

    ``rows_of`` (inputs, nodes) is the row of each input that a node pulls, or -1; ``lengths`` how many rows inputs
    have; ``given`` are the addresses of what a call is given, ``block`` that of its memory. With ``shared_from`` above
    0 one of the ``processors`` does it all where lines are of less work, and the owner runs stages of too many rows.
    """
    nodes, slots, num_classes = _field(order, NODES), _field(script, SLOTS)[0], order[CLASSES, 1] - 1
    tables = _field(script, TABLES).reshape(-1, 4, num_classes, slots)
    first_given = _PICKED + 2 * len(lengths)
    first_left = first_given + len(given)
    first_own = first_left + len(tables)
    bases = np.zeros(first_own + script[OWN, 1] // 3, np.int64)
    for i in range(TABLES_OF_ORDER):
        bases[_ORDER + i] = order[i, 0]
    by_slot = _child_table(_field(order, BOUNDS), _field(order, CHILDREN), slots, len(nodes))
    bases[_ORDER + TABLES_OF_ORDER] = by_slot.ctypes.data
    picked, inverse = _pick(nodes, rows_of, lengths, bases[_PICKED:])
    for i in range(len(given)):
        bases[first_given + i] = given[i]
    _lay(order, script, block, bases[first_own:])
    left = _left(order, tables, bases, first_left)
    ends = _rows_of_classes(order, lengths)
    lines, own, work = _arranged(0, order, script, ends, shared_from > 0)
    lines_back, own_back = lines[:0], own[:0]
    if len(_field(script, DIRECTIONS)) > 6:
        lines_back, own_back, work_back = _arranged(1, order, script, ends, shared_from > 0)
        work = max(work, work_back)
    words = _words(script, processors if work >= shared_from else 1, bases)
    marks = _enter(teams[0], words, lines, functions)
    marks_back = _enter(teams[1], words, lines_back, functions)
    found = _parts(order, script, bases)
    kept = words, left, by_slot, marks, marks_back, inverse
    return found, bases, (lines, lines_back), (own, own_back), picked, kept
