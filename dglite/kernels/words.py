"""The 64-bit words that a kernel reads its arguments from: each layout is declared once and used by name.

A kernel is called with the address of an array of words, and reads word ``i`` by ``word(args, i)``. Hand-written
kernels name the constants below; the text of a rendered kernel has their numbers. A layout of one kernel alone is a
named tuple beside it: its template reads the fields by :func:`read_words`, and its caller fills them by name.
"""

from __future__ import annotations

INDPTR, INDICES, EDGE_IDS, NUM_ROWS, NUM_ENTRIES = range(5)
"""A structure, the words of a compressed matrix: three addresses (edge ids: 0 if entry j is edge j) and two counts."""
EDGE_LIST = -1
"""``NUM_ROWS`` of edges in their order: ``INDPTR`` is the address of their destinations, the rows of their entries."""
INNER, GROUPS, KERNEL, OUT, ARGMAX, CARRY, MODE, PITCH = range(5, 13)
"""The words behind a structure, for kernels that a driver calls, see :mod:`.cpu.run.driver`."""
FIRST_OPERAND, WORDS_PER_OPERAND = 13, 3
"""Then each operand: address, row stride in elements, address of its group table."""


def operand_word(place: int) -> int:
    """Return the first word of an operand; the row stride and the group table follow."""
    return FIRST_OPERAND + WORDS_PER_OPERAND * place


def read_words(fields: tuple[str, ...], *names: str) -> str:
    """Return the line that reads words into variables of the same names; ``fields`` name a layout's words in order."""
    return f"{', '.join(names)} = {', '.join(word_of(fields, name) for name in names)}"


def word_of(fields: tuple[str, ...], name: str) -> str:
    """Return the expression that reads one word of a layout."""
    return f"word(args, {fields.index(name)})"
