"""Layer-neighbour sampling (Balin and Catalyurek 2023, arXiv 2210.13339): one random number per vertex, for all seeds.

Seed s takes its neighbour t when ``r_t <= c_s * a_ts * q_t``: a_ts is the edge's weight, q_t the vertex's importance,
and c_s makes the variance of s's estimate equal to the variance of ``fanout`` independent draws:

    sum over t of a_ts**2 / min(1, c_s * a_ts * q_t)  =  (sum over t of a_ts)**2 / fanout

Candidates are one flat array: row i has ``offsets[i]`` up to ``offsets[i + 1]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compile.written import Kernel
from .counter import draw, fraction, stream, trailing_zeros, unit
from .sample import TOGETHER, Rows, ask_for, far_end, read_entries

_AHEAD = 4
"""Rows between asking for a row's first entries and reading them."""
_WORD = 64
"""Candidates whose marks are the bits of one word."""


@Kernel
def solve_rows(
    offsets: np.ndarray,
    weights: np.ndarray,
    importance: np.ndarray,
    fanout: int,
    factors: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Set each row's c_s; where ``fanout`` (-1: all) reaches the number of candidates, one that takes all of them.

    Entries that are taken for certain add a_ts**2. The more of them, the larger c_s; so c_s is found from the others,
    and found anew while that makes further entries certain.
    """
    for i in range(first, last):
        total, squares, certain = 0.0, 0.0, 0.0
        for at in range(offsets[i], offsets[i + 1]):
            weight = weights[at]
            if weight > 0:
                total += weight
                squares += weight * weight
                certain = max(certain, 1 / (weight * importance[at]))
        target = total * total / fanout if fanout > 0 else 0.0
        if fanout == 0 or total == 0:
            factors[i] = 0.0
            continue
        if target <= squares * (1 + 1e-9):
            factors[i] = certain
            continue
        factor, num_certain = 0.0, -1
        while True:
            rest, selected, count = 0.0, 0.0, 0
            for at in range(offsets[i], offsets[i + 1]):
                weight = weights[at]
                if weight > 0:
                    if factor * weight * importance[at] >= 1:
                        selected += weight * weight
                        count += 1
                    else:
                        rest += weight / importance[at]
            if count == num_certain:
                break
            factor, num_certain = rest / (target - selected), count
        factors[i] = factor


@Kernel
def largest_by_vertex(offsets: np.ndarray, vertices: np.ndarray, factors: np.ndarray, largest: np.ndarray) -> None:
    """Set ``largest[t]``, which holds zeros, to the largest c_s among the rows that have vertex t."""
    for i in range(len(factors)):
        for at in range(offsets[i], offsets[i + 1]):
            largest[vertices[at]] = max(largest[vertices[at]], factors[i])


@Kernel
def _variate(key: int, second: int, mixing: np.ndarray, vertex: int) -> float:
    """Return r_t; with a second key, the distribution function of a normal variate mixed from one of either key."""
    if mixing[1] == 0:
        return unit(draw(stream(key, vertex), 0))
    # Two roundings: as one operation it would depend on the machine.
    mixed, other = mixing[0] * _normal(stream(key, vertex)), mixing[1] * _normal(stream(second, vertex))
    mixed += other
    return 0.5 * (1 + math.erf(mixed / np.sqrt(2.0)))


@Kernel
def _normal(random: Any) -> float:
    return np.sqrt(-2 * np.log(unit(draw(random, 0)))) * np.cos(2 * np.pi * unit(draw(random, 1)))


@Kernel
def take_rows(
    offsets: np.ndarray,
    vertices: np.ndarray,
    weights: np.ndarray,
    importance: np.ndarray,
    factors: np.ndarray,
    key: int,
    second: int,
    mixing: np.ndarray,
    selected: np.ndarray,
    results: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Set ``selected`` for candidates taken, and ``results`` to a_ts / p_ts scaled to a mean of 1 over its row."""
    for i in range(first, last):
        total, count = 0.0, 0
        for at in range(offsets[i], offsets[i + 1]):
            selected[at] = 0
            if weights[at] > 0:
                chance = min(1.0, factors[i] * weights[at] * importance[at])
                if chance >= 1 - 1e-12 or _variate(key, second, mixing, vertices[at]) <= chance:
                    selected[at] = 1
                    results[at] = weights[at] / chance
                    total += results[at]
                    count += 1
        for at in range(offsets[i], offsets[i + 1]):
            if selected[at]:
                results[at] *= count / total


# -- weights and importances of 1 --------------------------------------------------------------------------------------
@Kernel
def mark_rows(rows: Rows, fanout: int, key: int, marks: np.ndarray, counts: np.ndarray, first: int, last: int) -> None:
    """Mark which candidates are taken where all weights and importances are 1, and count them.

    Then c_s is fanout / degree. A row that has no more than ``fanout`` (-1: all) takes all and has no marks; others
    have a bit for each candidate, from word ``offsets[i] // 64 + i`` on.
    """
    variates = np.empty(_WORD, np.int64)
    for i in range(first, last):
        if i + _AHEAD < last:
            ask_for(rows, rows.starts[i + _AHEAD])
        start, offset = rows.starts[i], rows.offsets[i]
        degree, word = rows.offsets[i + 1] - offset, offset // _WORD + i
        counts[i] = degree
        if fanout < 0 or degree <= fanout:
            continue
        # The bits that a variate <= c_s is made of. Rounded as ``solve_rows`` does, which takes the same edges.
        most, count = int(np.floor(degree / (degree * degree / fanout) * 4503599627370496.0 - 0.5)), 0
        for at in range(start, start + degree, _WORD):
            size = min(_WORD, start + degree - at)
            if len(rows.heads) > 0:
                for j in range(size):
                    variates[j] = fraction(draw(stream(key, far_end(rows, at + j)), 0))
            else:
                vertices = rows.indices[at : at + size]
                for j in range(size):
                    variates[j] = fraction(draw(stream(key, vertices[j]), 0))
            bits = 0
            for j in range(size):
                selected = 1 if variates[j] <= most else 0
                bits |= selected << j
                count += selected
            marks[word] = bits
            word += 1
        counts[i] = count


@Kernel
def list_marked(
    rows: Rows,
    marks: np.ndarray,
    offsets: np.ndarray,
    far: np.ndarray,
    edges: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Write the far ends and edge ids of the candidates that :func:`mark_rows` took, from ``offsets[i]`` on."""
    for chunk in range(first, last, TOGETHER):
        end = min(chunk + TOGETHER, last)
        for i in range(chunk, end):
            start, to = rows.starts[i], offsets[i]
            degree, count = rows.offsets[i + 1] - rows.offsets[i], offsets[i + 1] - to
            if count == degree:
                for j in range(count):
                    edges[to + j] = start + j
                ask_for(rows, start)
                continue
            word, at = rows.offsets[i] // _WORD + i, start
            while to < offsets[i + 1]:
                bits = marks[word]
                while bits != 0:
                    edges[to] = at + trailing_zeros(bits)
                    ask_for(rows, edges[to])
                    to += 1
                    bits &= bits - 1
                word += 1
                at += _WORD
        read_entries(rows, far, edges, offsets[chunk], offsets[end])
