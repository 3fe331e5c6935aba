"""The random generator of dglite: random graphs, sampling, walks. Tensor libraries have their own.

A forked process goes on with a stream of its own, derived from the seed and from how many forks came before; without
that, every loader worker would draw the same samples.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .errors import DGLError

_generator = np.random.default_rng()
_forked: np.random.SeedSequence | None = None


class _Here(threading.local):
    """What the draws of one thread are keyed by, if they are, and the generator made of that."""

    key: tuple[int, ...] | None = None
    generator: np.random.Generator | None = None


_here = _Here()


def seed(val: int) -> None:
    """Seed the generator, for repeatable draws. Layers draw from the tensor library: seed that, too."""
    global _generator
    try:
        _generator = np.random.default_rng(operator.index(val))
    except (TypeError, ValueError, RuntimeError):
        raise DGLError(f"a seed must be an integer >= 0, got {val!r:.60}") from None


def generator() -> np.random.Generator:
    """Return the generator in use, in this thread."""
    local = _here.generator
    return _generator if local is None else local


def draw_key() -> int:
    """Return a number in [0, 2**62) from the generator, the key of one call's random choices."""
    return int(generator().integers(1 << 62))


@contextmanager
def draws_keyed_by(*key: int) -> Iterator[None]:
    """Key this thread's draws by some numbers >= 0, so that they do not depend on earlier draws.

    A loader's batches are drawn so: by their place in an epoch, in whatever order and thread they are made.
    """
    before = _here.key, _here.generator
    _here.key, _here.generator = key, np.random.default_rng(key)
    try:
        yield
    finally:
        _here.key, _here.generator = before


def key_here() -> tuple[int, ...] | None:
    """Return the numbers that this thread's draws are keyed by, None where they follow :func:`seed`."""
    return _here.key


def _before_fork() -> None:
    global _forked
    seeds = _generator.bit_generator.seed_seq
    assert isinstance(seeds, np.random.SeedSequence), "default_rng makes no other kind"
    _forked = seeds.spawn(1)[0]


def _after_fork_in_child() -> None:
    global _generator
    _generator = np.random.default_rng(_forked)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
