"""The fake device itself: what a GPU would refuse fails on it, and what it would wait for is noted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import dglite
from dglite.backend import active
from dglite.errors import DGLError
from dglite.kernels.cuda.graph import convert
from dglite.ops import devices
from tests.fake_device.device import DEVICE, limited_memory, recorded

TOUCH = """
import ctypes, os, torch
from tests.fake_device.device import DEVICE, install
install()
x = torch.ones(3, device="{device}")
print(ctypes.string_at(x.data_ptr(), 4), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(("device", "status"), [("cpu", 0), (DEVICE, -signal.SIGSEGV)])
def test_the_host_cannot_touch_its_memory(device, status):
    script = TOUCH.format(device=device)
    done = subprocess.run([sys.executable, "-c", script], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr


def test_kernels_cannot_touch_the_hosts_memory():
    gpu, keys = devices.device_of(torch.ones(1, device=DEVICE)).queue, np.arange(5)
    with pytest.raises(DGLError, match="word 0 is an address in the host's memory"):
        convert.running_sums(gpu, "int64", keys.ctypes.data, 5)


def test_tensors_of_both_are_not_mixed():
    x, y = torch.ones(3, device=DEVICE), torch.ones(3)
    with pytest.raises(RuntimeError, match=r"same device|of the host and of the device"):
        x + y
    with pytest.raises(TypeError, match="can't convert fake_device:0"):
        x.numpy()


@pytest.mark.parametrize(
    ("work", "copies", "waits"),
    [
        (lambda x: torch.ones(3).to(DEVICE), ["to device 12"], ["copy to device"]),
        (lambda x: torch.ones(3).pin_memory().to(DEVICE, non_blocking=True), ["to device 12"], []),
        (lambda x: torch.ones(3).pin_memory().to(DEVICE), ["to device 12"], ["copy to device"]),
        (lambda x: x.cpu(), ["to host 16"], ["copy to host"]),
        (lambda x: float(x.sum()), [], ["item"]),
        (lambda x: x.nonzero(), [], ["aten::nonzero"]),
        (lambda x: x[x > 1], [], ["aten::nonzero", "aten::index by a mask"]),
        (lambda x: x[torch.tensor([1, 2], device=DEVICE)].exp().sum(), ["to device 16"], ["copy to device"]),
        (lambda x: torch.relu(x * 2).argsort(), [], []),
    ],
)
def test_copies_and_waits_are_noted(work, copies, waits):
    x = torch.arange(4, dtype=torch.float32, device=DEVICE)
    with recorded() as events:
        work(x)
    assert events.copies == copies and events.waits == waits


def test_its_memory_comes_to_an_end():
    x = torch.ones(1000, device=DEVICE)
    with limited_memory(1 << 20), pytest.raises(torch.OutOfMemoryError, match="out of memory: 40000000 bytes"):
        torch.ones(10_000_000, device=DEVICE)
    assert float((x + 1).sum()) == 2000


def test_a_step_that_runs_out_of_memory_leaves_the_graph_as_it_was():
    g = dglite.rand_graph(1000, 20000).to(DEVICE)
    g.ndata["x"] = torch.rand(1000, 64, device=DEVICE)
    before = g.ndata["x"].cpu()
    with limited_memory(1 << 16), pytest.raises(torch.OutOfMemoryError):
        g.update_all(dglite.function.copy_u("x", "m"), dglite.function.sum("m", "h"))
    assert list(g.ndata) == ["x"] and torch.equal(g.ndata["x"].cpu(), before)
    g.update_all(dglite.function.copy_u("x", "m"), dglite.function.sum("m", "h"))
    assert torch.allclose(g.ndata["h"].sum().cpu(), (before * g.out_degrees().cpu()[:, None]).sum())


def test_streams_are_torchs():
    x, queue = torch.ones(1, device=DEVICE), devices.device_of(torch.ones(1, device=DEVICE)).queue
    with torch.Stream(DEVICE):
        assert active.stream(x.device) > 0
        assert devices.device_of(x).queue is not queue
    assert devices.device_of(x).queue is queue
