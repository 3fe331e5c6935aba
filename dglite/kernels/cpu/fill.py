"""What a vertex program's script needs for one graph, in one call: addresses, tables, words and lines.

Memory is cut up by *kinds* of counts: for C classes of vertices, kind c is the rows of class c, C + c its edges, 2 C
all rows, and 2 C + 1 all rows and one more, which is zeros. Serial, and it releases the lock.
"""

from __future__ import annotations

import numpy as np

from .cached import njit
from .levels import addresses, child_table
from .schedule import arrange
from .simd import storer

__all__ = ["AS_IT_IS", "LAST_ROW_ZERO", "ORDER", "TEAM_WORDS", "ZERO", "fill", "needed_bytes"]

ORDER = ("nodes", "places", "children", "parents", "bounds", "parent bounds", "child table")
"""Tables of a graph's order whose addresses words may need."""
AS_IT_IS, LAST_ROW_ZERO, ZERO = range(3)
"""What is to be done to memory first."""
TEAM_WORDS = 9
_ALIGNMENT = 64

_jit = njit(nogil=True)
_store8 = storer("int64", 1)


@_jit
def _count(kind: int, classes: np.ndarray, class_bounds: np.ndarray, num_nodes: int) -> tuple[int, int]:
    """Return how many rows or edges there are of a kind, and the number of the first."""
    num = len(classes) - 1
    if kind < num:
        return classes[kind + 1] - classes[kind], classes[kind]
    if kind < 2 * num:
        return class_bounds[kind - num + 1] - class_bounds[kind - num], class_bounds[kind - num]
    return num_nodes + (kind - 2 * num), 0


@_jit
def needed_bytes(own: np.ndarray, classes: np.ndarray, class_bounds: np.ndarray, num_nodes: int) -> int:
    """Return how much memory all of ``own``, (kind, bytes of a row, what is to be done), takes."""
    total = 0
    for i in range(len(own)):
        count, _ = _count(own[i, 0], classes, class_bounds, num_nodes)
        total += (count * own[i, 1] + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    return total


@_jit
def _lay(
    own: np.ndarray, own_at: np.ndarray, classes: np.ndarray, class_bounds: np.ndarray, num_nodes: int, block: int,
    bases: np.ndarray,
) -> None:  # fmt: skip
    """Cut up a block of memory; write the addresses of row (or edge) 0."""
    at = block
    for i in range(len(own)):
        count, first = _count(own[i, 0], classes, class_bounds, num_nodes)
        row, size = own[i, 1], count * own[i, 1]
        bases[own_at[i]] = at - first * row
        if own[i, 2] != AS_IT_IS:
            begin = at if own[i, 2] == ZERO else at + size - row
            for place in range(begin, at + size - 7, 8):
                _store8(place, 0)
            if (at + size - begin) % 8:
                _store8(at + size - 8 if at + size - 8 >= begin else begin, 0)
        at += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


@_jit
def _pick(
    nodes: np.ndarray, rows_of: np.ndarray, lengths: np.ndarray, picked_at: np.ndarray, bases: np.ndarray
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
        bases[picked_at[i, 0]] = picked.ctypes.data + 8 * i * len(nodes)
        bases[picked_at[i, 1]] = inverse.ctypes.data + 8 * first
        first += lengths[i]
    return picked, inverse


@_jit
def _left(
    tables: np.ndarray, table_at: np.ndarray, parent_entries: np.ndarray, parents: np.ndarray, bounds: np.ndarray,
    classes: np.ndarray, bases: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return, for each table, where every parent of a vertex leaves that vertex's share of a state's gradient."""
    left = np.empty((len(tables), len(parents)), np.int64)
    for i in range(len(tables)):
        by_slot = tables[i, 3, 0, 0] != 0
        known = np.zeros((len(classes) - 1, tables.shape[3] if by_slot else 1), np.int64)
        for c in range(len(known)):
            for slot in range(known.shape[1]):
                if tables[i, 0, c, slot] != 0:
                    known[c, slot] = bases[tables[i, 0, c, slot]] + tables[i, 1, c, slot]
        made = addresses(parent_entries, parents, bounds, classes, known, tables[i, 2], by_slot)
        for j in range(len(made)):
            left[i, j] = made[j]
        bases[table_at[i]] = left.ctypes.data + 8 * i * len(parents)
    return left


@_jit
def _words(indices: np.ndarray, constants: np.ndarray, processors: int, bases: np.ndarray) -> np.ndarray:
    """Return the words of each processor."""
    words = np.empty((processors, len(constants)), np.int64)
    for p in range(processors):
        bases[1] = words.ctypes.data + 8 * p * len(constants)
        for i in range(len(constants)):
            words[p, i] = bases[indices[i]] + constants[i]
    return words


@_jit
def _rows_of_classes(classes: np.ndarray, class_bounds: np.ndarray, num_nodes: int, lengths: np.ndarray) -> np.ndarray:
    """Return where rows and edges of classes start; then come all rows, and those of each input, two numbers each."""
    num = len(classes) - 1
    found = np.zeros((2, num + 3 + 2 * len(lengths)), np.int64)
    for c in range(num + 1):
        found[0, c], found[1, c] = classes[c], class_bounds[c]
    found[0, num + 2] = num_nodes
    for i in range(len(lengths)):
        found[0, num + 4 + 2 * i] = lengths[i]
    return found


@_jit
def _parts(parts: np.ndarray, bases: np.ndarray, classes: np.ndarray, class_bounds: np.ndarray) -> np.ndarray:
    """Return (number of rows, address and row stride of the left rows, of the right ones) for each part.

    Rows of ``parts``: kind of count, then (source, constant, stride) of both sides.
    """
    found = np.empty((len(parts), 5), np.int64)
    for i in range(len(parts)):
        found[i, 0], first = _count(parts[i, 0], classes, class_bounds, 0)
        for side in range(2):
            source, constant, stride = parts[i, 1 + 3 * side], parts[i, 2 + 3 * side], parts[i, 3 + 3 * side]
            found[i, 1 + 2 * side], found[i, 2 + 2 * side] = bases[source] + constant + first * stride, stride
    return found


@_jit
def _team(
    d: int, many: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], ends: np.ndarray, segments: np.ndarray,
    segment_edges: np.ndarray, words: np.ndarray, functions: tuple[int, int], teams: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Write the words of a direction's kernel; return its lines and their marks."""
    stages, bounds, classes, directions = many
    own = classes[directions[d, 0] : directions[d + 1, 0]]
    rows, starts = stages[directions[d, 1] : directions[d + 1, 1]], bounds[directions[d, 2] : directions[d + 1, 2]]
    lines, _, _, _ = arrange(rows, starts, own, ends[0], ends[1], segments, segment_edges, d == 1, 0)
    marks = np.zeros((len(lines), 2), np.int64)
    teams[d, 0], teams[d, 1], teams[d, 2] = words.ctypes.data, 8 * words.shape[1], lines.ctypes.data
    teams[d, 3], teams[d, 4], teams[d, 5], teams[d, 6] = 0, len(lines), len(words), marks.ctypes.data
    for i in range(len(functions)):
        teams[d, 7 + i] = functions[i]
    return lines, marks


@_jit
def fill(
    nodes: np.ndarray, places: np.ndarray, classes: np.ndarray, bounds: np.ndarray, children: np.ndarray,
    parents: np.ndarray, parent_bounds: np.ndarray, parent_entries: np.ndarray, class_bounds: np.ndarray,
    segments: np.ndarray, segment_edges: np.ndarray,
    rows_of: np.ndarray, lengths: np.ndarray,
    own: np.ndarray, own_at: np.ndarray, order_at: np.ndarray, picked_at: np.ndarray, given_at: np.ndarray,
    given: np.ndarray, table_at: np.ndarray, tables: np.ndarray, parts: np.ndarray,
    indices: np.ndarray, constants: np.ndarray, num_bases: int,
    stages: np.ndarray, stage_bounds: np.ndarray, stage_classes: np.ndarray, directions: np.ndarray,
    slots: int, block: int, processors: int, functions: tuple[int, int], teams: np.ndarray,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Return (parts, see :func:`_parts`, then what ``teams``, the words of both kernels, refer to).

    The first arguments are a graph's order; ``rows_of`` (inputs, nodes) the row of each input that a node pulls, or -1;
    ``lengths`` how many rows inputs have. Then come the script's: memory; the numbers of bases of what the order has,
    of what picks inputs' rows and puts them back, of what is ``given``; tables of what parents leave,
    (tables, 4, classes, slots): source, constant, stride, and whether it is by slot; parts of gradients; words; and
    stages, those of direction d with classes from ``directions[d, 0]``, rows from ``directions[d, 1]`` and bounds from
    ``directions[d, 2]`` on.
    """
    bases = np.zeros(num_bases, np.int64)
    _lay(own, own_at, classes, class_bounds, len(nodes), block, bases)
    for i in range(len(given)):
        bases[given_at[i]] = given[i]
    picked, inverse = _pick(nodes, rows_of, lengths, picked_at, bases)
    by_slot = child_table(bounds, children, slots, len(nodes))
    for i, table in enumerate((nodes, places, children, parents, bounds, parent_bounds, by_slot.reshape(-1))):
        bases[order_at[i]] = table.ctypes.data
    left = _left(tables, table_at, parent_entries, parents, bounds, classes, bases)
    words = _words(indices, constants, processors, bases)
    ends = _rows_of_classes(classes, class_bounds, len(nodes), lengths)
    many = stages, stage_bounds, stage_classes, directions
    lines, marks = _team(0, many, ends, segments, segment_edges, words, functions, teams)
    lines_back, marks_back = lines, marks
    if len(directions) > 2:
        lines_back, marks_back = _team(1, many, ends, segments, segment_edges, words, functions, teams)
    found = _parts(parts, bases, classes, class_bounds)
    return found, words, left, by_slot, lines, lines_back, marks, marks_back, picked, inverse
