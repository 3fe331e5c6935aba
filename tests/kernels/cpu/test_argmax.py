"""Gather and scatter by argmax, with targets that lie in a core's cache and with targets that do not."""

import numpy as np
import pytest

from dglite.kernels.cpu.graph import argmax as kernels


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["far", "near"])
@pytest.mark.parametrize(("rows", "width"), [(0, 3), (1, 1), (7, 1), (300, 3), (40, 16), (400, 100)])
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("by_lookup", [True, False])
def test_scatter_adds_what_gather_takes(monkeypatch, cache_bytes, rows, width, index, by_lookup):
    monkeypatch.setattr(kernels, "cache_level", lambda level: (cache_bytes, 1))
    generator = np.random.default_rng(rows + width)
    lookup = generator.integers(0, 9, 50).astype(index)
    argmax = generator.integers(-1, 50 if by_lookup else 9, (rows, width)).astype(index)
    x, source = generator.standard_normal((rows, width)), generator.standard_normal((9, width))
    place = np.where(argmax >= 0, lookup[argmax] if by_lookup else argmax, -1)
    address = lookup.ctypes.data if by_lookup else 0

    taken = np.full((rows, width), np.nan)
    kernels.gather("float64", index, (rows, width), argmax.ctypes.data, address, *_addresses(source, taken), 2, 7)
    columns = np.broadcast_to(np.arange(width), (rows, width))
    np.testing.assert_array_equal(taken, np.where(place >= 0, source[place, columns], 7))

    sums, expected = np.zeros((9, width)), np.zeros((9, width))
    kernels.scatter("float64", index, (rows, width), argmax.ctypes.data, address, *_addresses(x, sums), 2, 9)
    np.add.at(expected, (place[place >= 0], columns[place >= 0]), x[place >= 0])
    np.testing.assert_array_equal(sums, expected)


def _addresses(*arrays):
    return [array.ctypes.data for array in arrays]
