"""Integers packed in blocks of 64, each of which is read without the others.

A block has a base and a width: 64 codes of that many bits, each the difference from the base. The largest code stands
for an integer that is stored after the codes, in full: of a few neighbours that are far away the others stay short.
Nothing is assumed of their order. A block is a base, ``2 * width`` words of codes, and full integers, all of 32 bits;
``heads`` has for each block its position in ``words``, shifted by 6, and its width.
"""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.memory import prefetch


@Kernel
def measure_blocks(values: np.ndarray, bases: np.ndarray, heads: np.ndarray, first: int, last: int) -> None:
    """Choose base and width of blocks ``first`` to ``last``; ``heads`` get the number of words in place of positions.

    ``values`` are below 2**32, and an escape costs 32 bits: the width is that of the smallest block.
    """
    ordered = np.empty(64, np.int64)
    for block in range(first, last):
        begin = block * 64
        count = min(64, len(values) - begin)
        for i in range(count):
            value = values[begin + i]
            at = i
            while at > 0 and ordered[at - 1] > value:
                ordered[at] = ordered[at - 1]
                at -= 1
            ordered[at] = value
        size, best, base = 1 + count, 0, 0
        for width in range(1, 33):
            left, most, lowest = 0, 0, 0
            for right in range(count):
                while ordered[right] - ordered[left] > (1 << width) - 2:
                    left += 1
                if right - left >= most:
                    most = right - left + 1
                    lowest = ordered[left]
            if 1 + 2 * width + count - most < size:
                size, best, base = 1 + 2 * width + count - most, width, lowest
            if most == count:
                break
        bases[block] = base
        heads[block] = size << 6 | best


@Kernel
def pack_blocks(
    values: np.ndarray, bases: np.ndarray, heads: np.ndarray, words: np.ndarray, first: int, last: int
) -> None:
    """Write blocks ``first`` to ``last`` to their positions in ``words``."""
    for block in range(first, last):
        at, width, base = heads[block] >> 6, heads[block] & 63, bases[block]
        begin, escape = block * 64, (1 << width) - 1
        codes, extra = at + 1, at + 1 + 2 * width
        words[at] = base
        for word in range(codes, extra):
            words[word] = 0
        for j in range(min(64, len(values) - begin)):
            value = values[begin + j]
            code = value - base
            if code < 0 or code >= escape:
                words[extra] = value
                extra += 1
                code = escape
            if width > 0:
                word, shift = codes + (j * width >> 5), j * width & 31
                words[word] = (words[word] | code << shift) & 0xFFFFFFFF
                if shift + width > 32:
                    words[word + 1] = words[word + 1] | code >> 32 - shift


@Kernel
def code_at(words: np.ndarray, at: int, width: int, j: int) -> int:
    """Return code ``j`` of the block at a position of ``words``, both inside."""
    bit = j * width
    word = at + 1 + (bit >> 5)
    return (words[word] | words[word + 1] << 32) >> (bit & 31) & (1 << width) - 1


@Kernel
def packed_at(words: np.ndarray, heads: np.ndarray, bound: int, bad: np.ndarray, entry: int) -> int:
    """Return an integer, which is below ``bound``.

    Where damaged arrays say otherwise, or lead outside of themselves, ``bad[0]`` becomes the entry, and 0 is returned.
    """
    block, j = entry >> 6, entry & 63
    if entry >= 0 and block + 1 < len(heads):
        at, width = heads[block] >> 6, heads[block] & 63
        if at >= 0 and width <= 32 and at + 2 * width + 1 < len(words):
            code = code_at(words, at, width, j)
            if code < (1 << width) - 1:
                value = words[at] + code
                if value < bound:
                    return value
            else:
                place = at + 1 + 2 * width + (j if width == 0 else _escapes(words, at, width, j))
                if place < len(words) and words[place] < bound:
                    return words[place]
    bad[0] = max(entry, 0)
    return 0


@Kernel
def _escapes(words: np.ndarray, at: int, width: int, j: int) -> int:
    """Return how many codes before code ``j`` of a block stand for full integers."""
    count, escape = 0, (1 << width) - 1
    for other in range(j):
        count += 1 if code_at(words, at, width, other) == escape else 0
    return count


@Kernel
def ask_for_block(words: np.ndarray, heads: np.ndarray, entry: int) -> None:
    """Ask for the words that :func:`packed_at` reads, where the block has no full integers."""
    block = entry >> 6
    if entry >= 0 and block + 1 < len(heads):
        at, width = heads[block] >> 6, heads[block] & 63
        prefetch(address_of(words, at))
        prefetch(address_of(words, at + 1 + ((entry & 63) * width >> 5)))


@Kernel
def unpack_blocks(
    words: np.ndarray, heads: np.ndarray, bound: int, bad: np.ndarray, out: np.ndarray, first: int, last: int
) -> None:
    """Write the integers of blocks ``first`` to ``last`` to ``out``, those of all blocks; errors as in packed_at."""
    for block in range(first, last):
        begin, at, width = block * 64, heads[block] >> 6, heads[block] & 63
        count, escape, extra = min(64, len(out) - begin), (1 << width) - 1, at + 1 + 2 * width
        if at < 0 or width > 32 or extra >= len(words):
            bad[0] = begin
            count = 0
        for j in range(count):
            code = code_at(words, at, width, j)
            value = words[at] + code
            if code == escape:
                value = words[extra] if extra < len(words) else bound
                extra += 1
            if value >= bound:
                bad[0] = begin + j
                value = 0
            out[begin + j] = value
