"""Loaders are torch's to those who ask: their class, their attributes, and making another one like them."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler

import dglite
from dglite.dataloading import DataLoader, EdgeDataLoader, GraphDataLoader, NeighborSampler, NodeDataLoader


def _nodes(**options: Any) -> DataLoader:
    g = dglite.graph((torch.arange(10), torch.arange(10).flip(0)))
    return DataLoader(g, torch.arange(10), NeighborSampler([2]), batch_size=3, **options)


def _typed_nodes(**options: Any) -> DataLoader:
    g = dglite.heterograph({("a", "to", "b"): (torch.arange(5), torch.arange(5))})
    return DataLoader(g, {"a": torch.arange(5), "b": torch.arange(5)}, NeighborSampler([2]), batch_size=3, **options)


def _graphs(**options: Any) -> GraphDataLoader:
    return GraphDataLoader([(dglite.rand_graph(2, 1), i) for i in range(10)], batch_size=3, **options)


Make = Callable[..., Any]
MAKERS: dict[str, Make] = {"nodes": _nodes, "typed nodes": _typed_nodes, "graphs": _graphs}


def _seen(loader: Any) -> list[Any]:
    """Return what the batches are of."""
    outputs = [batch[1] for batch in loader]
    return [str({k: v.tolist() for k, v in x.items()} if isinstance(x, dict) else x.tolist()) for x in outputs]


def test_classes_are_torchs() -> None:
    for kind in (DataLoader, GraphDataLoader, NodeDataLoader, EdgeDataLoader):
        assert issubclass(kind, torch.utils.data.DataLoader)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_samplers_say_how_items_are_ordered(make: Make) -> None:
    assert type(make().sampler) is SequentialSampler and type(make(shuffle=True).sampler) is RandomSampler
    loader, order = make(), list(range(10))
    assert len(loader.dataset) == len(loader.sampler) == 10 and loader.batch_sampler is None
    assert make(sampler=order).sampler is order


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_attributes_of_torchs_loader_are_there(make: Make) -> None:
    ours, theirs = make(num_workers=1), torch.utils.data.DataLoader([1])
    for name in vars(theirs):
        if not name.startswith("_") and name != "collate_fn":
            assert hasattr(ours, name), name
    assert ours.multiprocessing_context is None and not ours.persistent_workers


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_another_is_made_as_training_loops_do(make: Make) -> None:
    """Lightning gives the public attributes that differ from the defaults of either signature, and a sampler."""
    loader = make(shuffle=True, num_workers=1)
    known = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
    known = {**known, **inspect.signature(type(loader).__init__).parameters}
    given = {k: v for k, v in vars(loader).items() if k in known and known[k].default is not v} | {
        "dataset": loader.dataset,
        "multiprocessing_context": loader.multiprocessing_context,
        "sampler": SequentialSampler(loader.dataset),
        "shuffle": False,
        "batch_sampler": None,
    }
    again = type(loader)(**given)
    assert _seen(again) == _seen(make()) and again.num_workers == 1 and again.batch_size == 3


def test_no_process_is_started() -> None:
    loader = _nodes(num_workers=2, persistent_workers=True, multiprocessing_context="spawn", pin_memory=True)
    before = set(multiprocessing.active_children())
    batches = iter(loader)
    next(batches)
    assert set(multiprocessing.active_children()) == before
    assert len(list(batches)) == 3


def test_shares_of_processes_are_a_distributed_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    loader = _nodes(use_ddp=True, shuffle=True)
    assert isinstance(loader.sampler, DistributedSampler) and len(loader.sampler) == 5
    assert len(loader) == 2


def test_loaders_are_pickled() -> None:
    loader = pickle.loads(pickle.dumps(_nodes()))
    assert _seen(loader) == _seen(_nodes())


def test_without_torch_loaders_are_dglites_alone() -> None:
    code = """
import sys, dglite, numpy as np
from dglite.dataloading import DataLoader, NeighborSampler
g = dglite.graph(([0, 1], [1, 0]))
loader = DataLoader(g, np.arange(2), NeighborSampler([1]))
assert len(list(loader)) == 2 and loader.sampler is None and 'torch' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "DGLITE_BACKEND": "numpy"})
