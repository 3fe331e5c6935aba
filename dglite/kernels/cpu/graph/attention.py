"""Attention on the CPU: compile the kernel of a specification, encode its arguments, launch it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from ....opspec import Reducer
from ...render.attention import attention_source
from ...render.dropout import DropoutWords, dropout_source, dropout_words
from ...render.tiles import WORDS, AttentionSpec, Phase, Score
from ...spec import compute_dtype
from ...words import NUM_ENTRIES, NUM_ROWS
from ..compile.jit import block_lanes, compile_kernel
from ..run.driver import mode_word, whole_row_driver
from ..run.launch import as_word, launch, tasks_for

Structure = tuple[int, int, int, int, int]
PhaseRunner = Callable[[Sequence[int], int], None]
"""Runs a phase on the addresses of tensors, with the seed of dropout."""
WRITES_EVERY_ROW = False
"""Rows without entries are left as they are."""
PROJECTS = False
"""Scores that are projections are made by products of matrices."""


def attention_spec(
    score: Score,
    phase: Phase,
    dtype: str,
    index: str,
    heads: int,
    features: int,
    edge_features: int = 0,
    **flags: bool,
) -> AttentionSpec:
    """Return the specification of a kernel for this machine's vectors."""
    lanes = block_lanes(dtype)
    return AttentionSpec(
        score, phase, dtype, index, heads, features, lanes, lanes // 8, edge_features=edge_features, **flags
    )


def bind_attention(
    spec: AttentionSpec,
    structure: Structure,
    names: Sequence[str],
    numbers: Mapping[str, int | float],
    threads: Callable[[], int],
) -> PhaseRunner:
    """Return a function that runs one phase on the addresses of tensors, ``names`` among ``WORDS``, and a seed.

    ``numbers`` are strides and other numbers, which do not change.
    """
    mode = mode_word(spec.dtype, spec.index, Reducer.SUM)
    before = [*structure, spec.width, 1, _address(spec), 0, 0, 0, mode, spec.width]
    before += [as_word(numbers.get(name, 0)) for name in WORDS]
    places, at_seed = [WORDS[name] for name in names], WORDS["seed"]
    work = (structure[NUM_ENTRIES] + structure[NUM_ROWS]) * spec.width

    def run(addresses: Sequence[int], seed: int) -> None:
        words = before[:]
        for place, address in zip(places, addresses, strict=True):
            words[place] = address
        words[at_seed] = as_word(seed % 2**64)
        launch(whole_row_driver.address, words, *tasks_for(work, threads()))

    return run


def run_attention(bound: PhaseRunner, addresses: Sequence[int], seed: int) -> None:
    """Run one phase; ``seed`` is 0 without dropout."""
    bound(addresses, seed)


@cache
def _address(spec: AttentionSpec) -> int:
    return compile_kernel("attention", attention_source(spec))


def dropout_multipliers(
    dtype: str, num_edges: int, heads: int, probability: float, seed: int, out: int, threads: int
) -> None:
    """Write the multipliers of all edges and heads, (num_edges, heads), as the attention kernels draw them."""
    dropout = {name: as_word(value) for name, value in dropout_words(probability, seed).items()}
    words = DropoutWords(out, num_edges, heads, **dropout)
    launch(_dropout_address(compute_dtype(dtype)), words, *tasks_for(8 * num_edges * heads, threads))


@cache
def _dropout_address(dtype: str) -> int:
    return compile_kernel("dropout", dropout_source(dtype))
