"""Batches for a GPU: gathered into page-locked memory, copied by workers on a stream of their own."""

from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

import dglite
from dglite.dataloading import DataLoader, NeighborSampler, buffers, dataloader, transfer


def wide():
    """Return a graph of which a batch's features are not small."""
    g = dglite.rand_graph(500, 4000)
    g.ndata["x"] = torch.arange(500.0 * 128).reshape(500, 128)
    return g


@pytest.mark.parametrize("alternate", [None, False])
def test_workers_copy_on_a_stream_of_their_own(monkeypatch, alternate):
    """The calls that reach CUDA are written down; "meta" stands for the device."""
    calls, inside, locked = [], threading.local(), []

    class Stream:
        def __init__(self, device):
            calls.append(("made", device))

        def wait_stream(self, other):
            calls.append(("waits for", other))

        def synchronize(self):
            assert inside.stream is self
            calls.append(("copied", threading.current_thread().name[:6]))

    @contextmanager
    def stream(x):
        inside.stream = x
        yield
        inside.stream = None

    def page_locked(size):
        locked.append(size)
        return ctypes.create_string_buffer(size), 0

    cuda = SimpleNamespace(Stream=Stream, stream=stream, current_stream=lambda device: "trainer's")
    monkeypatch.setattr(transfer, "framework", SimpleNamespace(cuda=cuda, device=torch.device))
    monkeypatch.setattr(dataloader, "on_gpu", lambda device: device == "meta")
    monkeypatch.setattr(buffers, "_page_locked", page_locked)
    recorded = []
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda x, s: recorded.append((x, s)))
    sampler = NeighborSampler([4], prefetch_node_feats=["x"])
    options = {
        "batch_size": 100,
        "device": "meta",
        "num_workers": 2,
        "use_uva": True,
        "use_alternate_streams": alternate,
    }
    loader = DataLoader(wide(), torch.arange(300), sampler, **options)
    for inputs, seeds, (block,) in loader:
        of_batch = [inputs, seeds, block.srcdata["x"]]
        assert all(x.device.type == "meta" for x in of_batch)
        kept = {id(x) for x, to in recorded if to == "trainer's"}
        assert all((id(x) in kept) == (alternate is None) for x in of_batch)
    assert locked
    expected = [("made", "meta"), ("waits for", "trainer's"), *[("copied", "dglite")] * 3] if alternate is None else []
    assert calls == expected


def test_what_is_a_gpu():
    assert [transfer.on_gpu(x) for x in (None, "cpu", torch.device("cpu"), "cuda", "cuda:1")] == [False] * 3 + [
        True
    ] * 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_arrive_on_a_gpu(num_workers):
    g, results = wide(), []
    sampler = NeighborSampler([4], prefetch_node_feats=["x"])
    loader = DataLoader(g, torch.arange(300), sampler, batch_size=50, device="cuda", num_workers=num_workers)
    for _ in range(5):
        for inputs, _, (block,) in loader:
            x = block.srcdata["x"]
            assert x.is_cuda
            results.append((inputs.cpu(), (x * 2).cpu()))
    for inputs, doubled in results:
        assert torch.equal(doubled, g.ndata["x"][inputs] * 2)
    blocks = loader._buffers.pool.blocks()
    assert blocks and all(torch.from_numpy(block.bytes).is_pinned() for block in blocks)
