"""Random numbers by position: known answers, uniform, and as good as independent across streams."""

from __future__ import annotations

import numpy as np

from dglite.kernels.cpu.compile.written import Kernel
from dglite.kernels.cpu.sample.counter import below, draw, stream, unit
from tests.sampling.graphs import assert_distributed


@Kernel
def _draw_bits(key: int, streams: int, draws: int, result: np.ndarray) -> None:
    for i in range(streams):
        start = stream(key, i)
        for n in range(draws):
            result[i * draws + n] = draw(start, n)


def bits(key: int, streams: int, draws: int) -> np.ndarray:
    result = np.empty(streams * draws, np.uint64)
    _draw_bits(key, streams, draws, result)
    return result.reshape(streams, draws)


@Kernel
def _draw_numbers(key: int, bound: int, result: np.ndarray, floats: np.ndarray) -> None:
    for i in range(len(result)):
        number = draw(stream(key, i), 0)
        result[i] = below(number, bound)
        floats[i] = unit(number)


def numbers(key: int, bound: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    result, floats = np.empty(count, np.int64), np.empty(count)
    _draw_numbers(key, bound, result, floats)
    return result, floats


@Kernel
def _below_and_unit(bits: np.ndarray, numbers: np.ndarray, floats: np.ndarray) -> None:
    for i in range(len(bits)):
        numbers[i], floats[i] = below(bits[i], 7), unit(bits[i])


@Kernel
def _draw_from(start: int, result: np.ndarray) -> None:
    for n in range(len(result)):
        result[n] = draw(start, n)


def test_known_answers():
    # The first outputs of SplitMix64 started at 1234567, as published with its reference implementation.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    result = np.empty(4, np.uint64)
    _draw_from(1234567, result)
    assert result.tolist() == expected


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
    numbers, floats = np.empty(2, np.int64), np.empty(2)
    _below_and_unit(np.array([2**64 - 1, 0], np.uint64), numbers, floats)
    assert numbers.tolist() == [6, 0]
    assert 0 < floats[1] < floats[0] < 1
