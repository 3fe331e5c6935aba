"""Edge softmax on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ....opspec import Reducer
from ...render.softmax import softmax_source
from ...words import NUM_ENTRIES
from ..compile.jit import block_lanes, compile_kernels
from ..run.driver import mode_word, whole_row_driver
from ..run.launch import launch, tasks_for

Structure = tuple[int, int, int, int, int]


@cache
def _addresses(dtype: str, index: str, heads: int) -> tuple[int, int]:
    # One register per vector: the exponential needs the rest for its own intermediate values.
    addresses = compile_kernels("softmax", softmax_source(dtype, index, heads, block_lanes(dtype) // 8))
    return addresses["forward"], addresses["backward"]


def edge_softmax(structure: Structure, index: str, dtype: str, heads: int, logits: int, out: int, threads: int) -> None:
    """Normalise ``logits`` (num_edges, heads) among the entries of each row; both in edge-id order."""
    _run(0, structure, index, dtype, heads, [logits], out, threads)


def edge_softmax_gradient(
    structure: Structure, index: str, dtype: str, heads: int, softmax: int, grad: int, out: int, threads: int
) -> None:
    """Write softmax * (grad - sum over the row of softmax * grad)."""
    _run(1, structure, index, dtype, heads, [softmax, grad], out, threads)


def _run(
    direction: int,
    structure: Structure,
    index: str,
    dtype: str,
    heads: int,
    operands: Sequence[int],
    out: int,
    threads: int,
) -> None:
    kernel = _addresses(dtype, index, heads)[direction]
    words = [*structure, heads, 1, kernel, out, 0, 0, mode_word(dtype, index, Reducer.SUM), heads]
    for address in operands:
        words += (address, heads, 0)
    launch(whole_row_driver.address, words, *tasks_for(4 * structure[NUM_ENTRIES] * heads, threads))
