"""Tensors in shared memory: by name, replaced, released, and refused where they do not fit."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
import torch

from dglite import DGLError
from dglite.io.shared_arrays import create_shared_array, get_shared_array, has_shared_array
from tests.patience import PATIENCE

READER = """
import torch
from dglite.io.shared_arrays import get_shared_array
x = get_shared_array("test-a", (2, 3), torch.float32)
x[1] = x[0] + 1
"""


def test_another_process_reads_and_writes() -> None:
    x = create_shared_array("test-a", (2, 3), torch.float32)
    assert not x.any() and x.dtype is torch.float32 and x.shape == (2, 3)
    x[0] = torch.tensor([1.0, 2.0, 3.0])
    subprocess.run([sys.executable, "-c", READER], check=True, timeout=PATIENCE)
    assert x[1].tolist() == [2, 3, 4]


def test_memory_lives_as_long_as_a_tensor_over_it() -> None:
    x = create_shared_array("test-b", (4,), torch.int64)
    part = x[1:]
    del x
    gc.collect()
    assert has_shared_array("test-b") and get_shared_array("test-b", [4], torch.int64).tolist() == [0] * 4
    newer = create_shared_array("test-b", (2,), torch.float16)
    part += 1  # what was replaced is there for those who have it
    assert get_shared_array("test-b", (2,), torch.float16).tolist() == [0, 0] and part.tolist() == [1, 1, 1]
    del part
    gc.collect()
    assert has_shared_array("test-b")
    del newer
    gc.collect()
    assert not has_shared_array("test-b")


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_shapes_without_rows(shape: tuple[int, ...]) -> None:
    x = create_shared_array("test-c", shape, torch.bool)
    assert x.shape == shape == get_shared_array("test-c", shape, torch.bool).shape


def test_mistakes() -> None:
    with pytest.raises(DGLError, match="'absent' on this machine"):
        get_shared_array("absent", (1,), torch.int64)
    with pytest.raises(DGLError, match="bfloat16"):
        create_shared_array("test-d", (1,), torch.bfloat16)
    with pytest.raises(DGLError, match="not empty"):
        create_shared_array("", (1,), torch.int64)
    kept = create_shared_array("test-e", (2,), torch.int64)
    with pytest.raises(DGLError, match=r"'test-e' has 16 bytes, not \(3,\) of int64"):
        get_shared_array("test-e", (3,), torch.int64)
    with pytest.raises(DGLError, match="no shared memory for 'test-f'"):
        create_shared_array("test-f", (1 << 60,), torch.int64)
    assert not has_shared_array("test-f") and kept.tolist() == [0, 0]
