"""Weights that come again are read in a copy in the order of entries: never one of other weights."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import dglite
from dglite import ops
from dglite.kernels.cpu.run import launch
from dglite.ops import ordered
from tests.kernels.sparse_cases import set_cache_bytes

EDGES = 601  # float32 weights do not fill the last word


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "LEAST", 4)
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)


def relation(in_order: bool = False) -> tuple[Any, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(0, 20, (2, EDGES), generator=generator)
    dst = dst.sort().values if in_order else dst
    return dglite.graph((src, dst), num_nodes=20), src, dst


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)).to(dtype) + 0.5


def keeps_copies(g: Any) -> bool:
    result = g.adjacency().cache.get(ordered.ORDERED_WEIGHTS)
    return result is not None and result.copies is not None


def check(g: Any, src: torch.Tensor, dst: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
    want = torch.zeros_like(x).index_add_(0, dst, x[src] * w)
    torch.testing.assert_close(ops.u_mul_e_sum(g, x, w), want)


def through_numpy(w: torch.Tensor, at: int) -> None:
    w.numpy()[at] = 7


def through_data(w: torch.Tensor, at: int) -> None:
    w.data[at] = 7


def in_place(w: torch.Tensor, at: int) -> None:
    w[at].fill_(7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("at", [0, 150, EDGES - 2, EDGES - 1])
@pytest.mark.parametrize("write", [through_numpy, through_data, in_place])
def test_weights_that_were_written_to_are_new(write, at, dtype):
    (g, src, dst), x, w = relation(), numbers(20, 6, dtype=dtype), numbers(EDGES, 1, dtype=dtype)
    for _ in range(3):
        check(g, src, dst, x, w)
    assert keeps_copies(g)
    write(w, at)
    check(g, src, dst, x, w)
    assert not keeps_copies(g)
    check(g, src, dst, x, w)


@pytest.mark.parametrize("width", [6, 80])
def test_the_gradients_read_what_is_kept(width, monkeypatch):
    set_cache_bytes(monkeypatch, 2500)  # 80 columns are taken in panels
    g, src, dst = relation()
    x, w = (a.double().requires_grad_() for a in (numbers(20, width), numbers(EDGES, 1)))
    want = torch.zeros_like(x).index_add(0, dst, x[src] * w).square().sum()
    expected = torch.autograd.grad(want, (x, w))
    for _ in range(4):
        loss = ops.u_mul_e_sum(g, x, w).square().sum()
        torch.testing.assert_close(torch.autograd.grad(loss, (x, w)), expected)
    assert keeps_copies(g) and g.adjacency().reverse().cache[ordered.ORDERED_WEIGHTS].copies is not None


def test_signs_of_zeros_and_nan_are_told_apart():
    g, _, dst = relation()
    x, w = torch.ones(20, 1), torch.zeros(EDGES, 1)
    for _ in range(3):
        ops.u_div_e_max(g, x, w)
    assert keeps_copies(g)
    w.copy_(-w)
    met = torch.zeros(20, dtype=torch.bool).index_fill(0, dst, True)
    assert (ops.u_div_e_max(g, x, w)[met] == -torch.inf).all()
    w.fill_(torch.nan)
    for _ in range(4):
        assert ops.u_mul_e_sum(g, x, w)[met].isnan().all()
    assert keeps_copies(g)  # the same NaN are the same weights


def test_weights_of_another_step_are_not_kept():
    (g, src, dst), x = relation(), numbers(20, 6)
    for step in range(6):
        check(g, src, dst, x, numbers(EDGES, 1) + step)
        assert not keeps_copies(g)


def test_each_change_asks_for_twice_as_many_calls_without_one():
    (g, src, dst), x, w = relation(), numbers(20, 6), numbers(EDGES, 1)
    calls = []
    for _ in range(3):
        w += 1
        calls.append(0)
        while not keeps_copies(g):
            check(g, src, dst, x, w)
            calls[-1] += 1
        w += 1
        check(g, src, dst, x, w)
    assert calls == [2, 3, 5]


def test_weights_in_the_order_of_entries_need_no_copy():
    (g, src, dst), x, w = relation(in_order=True), numbers(20, 6), numbers(EDGES, 1)
    for _ in range(3):
        check(g, src, dst, x, w)
    assert ordered.ORDERED_WEIGHTS not in g.adjacency().cache


def test_threads_with_weights_of_their_own():
    (g, src, dst), x = relation(), numbers(20, 6)

    def work(own: float) -> None:
        for i in range(30):
            w = numbers(EDGES, 1) + own
            for _ in range(1 + i % 4):
                check(g, src, dst, x, w)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
