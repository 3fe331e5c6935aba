"""Random numbers by position: known answers, uniform, and as good as independent across streams."""

from __future__ import annotations

import numba
import numpy as np

from dglite.kernels.cpu.sample.counter import below, draw, stream, unit
from tests.sampling.graphs import assert_distributed


@numba.njit
def bits(key, streams, draws):
    result = np.empty((streams, draws), np.uint64)
    for i in range(streams):
        start = stream(key, i)
        for n in range(draws):
            result[i, n] = draw(start, n)
    return result


@numba.njit
def numbers(key, bound, count):
    result, floats = np.empty(count, np.int64), np.empty(count)
    for i in range(count):
        number = draw(stream(key, i), 0)
        result[i] = below(number, bound)
        floats[i] = unit(number)
    return result, floats


@numba.njit
def extremes():
    return below(np.uint64(2**64 - 1), 7), below(np.uint64(0), 7), unit(np.uint64(2**64 - 1)), unit(np.uint64(0))


@numba.njit
def from_start(start, n):
    return draw(np.uint64(start), n)


def test_known_answers():
    # The first outputs of SplitMix64 started at 1234567, as published with its reference implementation.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(from_start(1234567, n)) for n in range(4)] == expected


def test_streams_and_draws_differ():
    drawn = bits(3, 300, 300)
    assert len(np.unique(drawn)) == drawn.size
    assert not np.isin(bits(4, 300, 300), drawn).any()
    ones = np.unpackbits(drawn.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(drawn.size * 64)


def test_first_numbers_of_streams_are_uniform():
    result, floats = numbers(5, 13, 50_000)
    assert_distributed(np.bincount(result, minlength=13), np.ones(13))
    assert_distributed(np.histogram(floats, 20, (0, 1))[0], np.ones(20))


def test_neighbouring_draws_are_uncorrelated():
    drawn = bits(6, 400, 400) / 2.0**64
    for a, b in ((drawn[1:], drawn[:-1]), (drawn[:, 1:], drawn[:, :-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5 / np.sqrt(a.size)


def test_the_ends_of_the_range():
    last, first, high, low = extremes()
    assert (last, first) == (6, 0)
    assert 0 < low < high < 1
