"""Dropout of features: each value times what is drawn for its place."""

from __future__ import annotations

from functools import cache

from ...render.dropout import FeatureDropoutWords, dropout_words, features_source
from ..compile.jit import block_lanes, compile_kernel
from ..run.launch import as_word, launch, tasks_for

_COST = 4
"""Elements of a sum that take as long as drawing for a value."""


def drop(dtype: str, x: int, out: int, size: int, probability: float, seed: int, threads: int) -> None:
    """Write ``size`` values at ``out``: 0 with a probability, else those at ``x`` divided by what is left of it."""
    dropout = {name: as_word(value) for name, value in dropout_words(probability, seed).items()}
    words = FeatureDropoutWords(x, out, size, **dropout)
    launch(_address(dtype), words, *tasks_for(_COST * size, threads))


@cache
def _address(dtype: str) -> int:
    return compile_kernel("dropout", features_source(dtype, block_lanes(dtype) // 8))
