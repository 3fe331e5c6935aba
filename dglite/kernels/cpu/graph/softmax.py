"""Edge softmax on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def bind_softmax(
    structure: Structure, index: str, dtype: str, heads: int, backward: bool, threads: Callable[[], int]
) -> Callable[..., None]:
    """Return a function of the addresses of operands and result, (num_edges, heads) in edge-id order, that runs.

    It normalises logits among the entries of each row; ``backward``, of a softmax and the gradient behind it, it writes
    softmax * (grad - sum over the row of softmax * grad).
    """
    kernel, mode = _addresses(dtype, index, heads)[backward], mode_word(dtype, index, Reducer.SUM)
    before, work = (*structure, heads, 1, kernel), 4 * structure[NUM_ENTRIES] * heads

    def run(operands: Sequence[int], out: int, aux: int = 0) -> None:
        words = [*before, out, 0, 0, mode, heads]
        for address in operands:
            words += (address, heads, 0)
        launch(whole_row_driver.address, words, *tasks_for(work, threads()))

    return run
