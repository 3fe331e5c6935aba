"""The torch backend keeps the contract."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dglite.backend import Backend, active
from dglite.backend.torch import TorchBackend


def test_a_backend_that_lacks_a_method_cannot_be_constructed():
    class Half(Backend):
        name = "half"

    with pytest.raises(TypeError, match="abstract method"):
        Half()
    assert isinstance(active, TorchBackend)


def test_exchange_with_numpy_shares_memory():
    array = np.arange(6.0).reshape(2, 3)
    tensor = active.from_numpy(array)
    array[0, 0] = 9
    assert tensor[0, 0] == 9 and active.to_numpy(tensor)[0, 0] == 9
    assert active.to_numpy(torch.ones(2, dtype=torch.bfloat16, requires_grad=True)).dtype == np.float32


def test_facts():
    x = torch.zeros(2, 3, dtype=torch.float16, requires_grad=True)
    assert (active.shape(x), active.dtype(x), str(active.device(x))) == ((2, 3), "float16", "cpu")
    assert active.requires_grad(x) and active.on_cpu(x)
    with torch.no_grad():
        assert not active.requires_grad(x)
    y = torch.zeros(1)
    before = active.version(y)
    y.add_(1)
    assert active.version(y) != before


def test_rows_and_shapes():
    x = torch.arange(6.0).reshape(3, 2)
    assert active.take(x, np.array([2, 0])).tolist() == [[4, 5], [0, 1]]
    put = active.put(x, np.array([1]), torch.tensor([[7.0, 8.0]]))
    assert put.tolist() == [[0, 1], [7, 8], [4, 5]] and x[1].tolist() == [2, 3]
    assert active.broadcast_to(x, (4, 2)).shape == (3, 4, 2)
    assert [part.shape[0] for part in active.split(x, [1, 2])] == [1, 2]
    assert active.concat([x, x]).shape == (6, 2) and active.stack([x, x]).shape == (2, 3, 2)
    assert active.sum(x, (0, 1)).item() == 15 and active.prod(x, 0).tolist() == [0, 15]
    assert active.max(x, 0).tolist() == [4, 5] and active.min(x, 0).tolist() == [0, 1]
