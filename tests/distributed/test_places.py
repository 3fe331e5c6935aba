"""A place in an epoch of shared batches is the same for any number of ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dglite import DGLError
from dglite.dataloading.loader import Progress
from dglite.distributed import DistNodeDataLoader


def loader(world: int, position: int = 0, shared: bool = True) -> Any:
    """Return as much of a loader as knows its place."""
    result: Any = object.__new__(DistNodeDataLoader)
    result.exchange, result.shared = SimpleNamespace(world=world, rank=0), shared
    result._seed, result._next, result._now = 7, Progress(1, position), None
    return result


def test_shared_batches_are_counted_over_all_ranks() -> None:
    state = loader(2, 6).state_dict()
    assert state == {"seed": 7, "epoch": 1, "position": 12}
    for world, position in ((1, 12), (4, 3), (2, 6)):
        other = loader(world)
        other.load_state_dict(state)
        assert (other._next.epoch, other._next.position) == (1, position)
        assert other.state_dict() == state


def test_what_is_no_whole_step_is_refused() -> None:
    other = loader(5)
    with pytest.raises(DGLError, match="after 12 shared batches, which are no whole steps of 5 ranks"):
        other.load_state_dict({"seed": 0, "epoch": 0, "position": 12})
    assert other.state_dict()["seed"] == 7
    with pytest.raises(DGLError, match="seed, epoch and position"):
        other.load_state_dict({"epoch": 0})


def test_own_batches_are_counted_by_rank() -> None:
    state = loader(2, 6, shared=False).state_dict()
    assert state["position"] == 6
    other = loader(4, shared=False)
    other.load_state_dict(state)
    assert other._next.position == 6
