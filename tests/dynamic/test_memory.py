"""Memory of vertex programs: blocks that calls reuse."""

from __future__ import annotations

import gc

import torch

import dglite
from dglite.dynamic.execution.memory import Arena, empty
from tests.dynamic.programs import BinaryTreeLSTM


def test_a_block_comes_back_when_nobody_refers_to_it() -> None:
    dglite.empty_cache()
    x = empty((100, 200), torch.float32)
    address, part = x.data_ptr(), x[50:]
    assert x.shape == (100, 200) and address % 64 == 0
    del x
    other = empty((100, 200), torch.float32)
    assert other.data_ptr() != address  # a view still shows the first one
    del part
    gc.collect()
    assert empty((90, 200), torch.float32).data_ptr() == address
    assert empty((1, 1000), torch.float32).data_ptr() != address  # too small to tie it up
    assert Arena(200).address % 64 == 0


def test_results_and_gradients_of_a_call_are_its_own() -> None:
    torch.manual_seed(0)
    g, program, x = dglite.graph(([0, 1], [2, 2])), BinaryTreeLSTM(128, 128), torch.randn(3, 128)
    kept = []
    for scale in (1.0, 2.0):
        h = program(g, scale * x)
        h = h[0] if isinstance(h, tuple) else h
        grads = torch.autograd.grad(h.sum(), list(program.parameters()))
        kept.append([h, h.detach().clone(), *((a, a.clone()) for a in grads)])
    for h, copy, *grads in kept:
        torch.testing.assert_close(h, copy)
        for x, y in grads:
            torch.testing.assert_close(x, y)
    assert not torch.equal(kept[0][1], kept[1][1])
