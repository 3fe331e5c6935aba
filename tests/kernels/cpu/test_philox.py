"""The generator behind attention dropout: published vectors, and the compiled draws bit by bit against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.graph import attention
from dglite.kernels.cpu.run import launch
from tests import reference
from tests.kernels.cpu.calls import compiled

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
KNOWN = [
    (((0,) * 4, (0,) * 2), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (((2**32 - 1,) * 4, (2**32 - 1,) * 2), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
"""Counter, key and words of Philox4x32-10 that its authors published."""


@pytest.mark.parametrize(("given", "words"), KNOWN)
def test_the_reference_gives_the_published_words(given, words):
    counter, key = given
    assert reference.philox(np.array([counter], np.uint32), key).tolist() == [list(words)]


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("seed", [0, 1, 0x299F31D0A4093822, 2**64 - 1])
def test_every_bit_of_a_draw_is_the_references(index, seed):
    """A draw is compared with a threshold: halving the range 32 times reads the whole word."""
    source = f"""draw = philox.multiplier_drawer("float64", "{index}")


def kernel(out, ids, count, group, key, threshold):
    draw(out, 32, ids, 0, count, group, key, threshold, 1.0)
"""
    run = compiled(f"from dglite.kernels.cpu.lanes import philox\n\n{source}", 6)
    largest = 2**31 - 1 if index == "int32" else 2**40 + 12345
    ids = np.array([0, 1, 2, 77, 1000, 65536, largest - 1, largest], index)
    for group in (0, 3):
        counter = np.zeros((8, 4), np.uint32)
        wide = ids.astype(np.int64)
        counter[:, 0], counter[:, 1], counter[:, 2] = wide & 0xFFFFFFFF, wide >> 32, group
        want = reference.philox(counter, (seed % 2**32, seed // 2**32))
        for threshold in {*np.sort(want, axis=None)[::5].tolist(), 1, 2**31, 2**32 - 1}:
            for least in (threshold, min(threshold + 1, 2**32 - 1)):
                out = np.full((8, 4), 9.0)
                run(out.ctypes.data, ids.ctypes.data, 8, group, int(np.uint64(seed).astype(np.int64)), least)
                np.testing.assert_array_equal(out, want >= least)


@pytest.mark.parametrize("heads", [1, 4, 6])
@pytest.mark.parametrize("probability", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multipliers_of_all_edges(heads, probability, threads, dtype, monkeypatch):
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)
    out, seed = np.full((101, heads), 9.0, dtype), 2**40 + 17
    attention.dropout_multipliers(dtype, 101, heads, probability, seed, out.ctypes.data, threads)
    want = reference.dropout_multipliers(np.arange(101), heads, probability, seed)
    np.testing.assert_array_equal(out, want.astype(dtype))


def test_the_share_that_is_dropped_and_neighbours_look_independent():
    kept = reference.dropout_multipliers(np.arange(40000), 8, 0.3, 5) > 0
    assert abs(kept.mean() - 0.7) < 0.005
    for other in (np.roll(kept, 1, axis=0), np.roll(kept, 1, axis=1)):
        assert abs(np.corrcoef(kept.ravel(), other.ravel())[0, 1]) < 0.01


def test_no_edges_and_odd_last_lanes_write_nothing_beyond_the_end():
    out = np.full(12, 9.0)
    attention.dropout_multipliers("float64", 0, 3, 0.5, 1, out.ctypes.data, 1)
    assert (out == 9).all()
    attention.dropout_multipliers("float64", 3, 3, 0.5, 1, out.ctypes.data, 1)
    assert (out[9:] == 9).all() and not (out[:9] == 9).any()
