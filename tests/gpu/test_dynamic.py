"""Vertex programs, prop_nodes_topo and lazy batching on a real GPU. The same runs on tests/fake_device."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

import dglite
from dglite import dynamic
from tests.dynamic.batching.models import Tagger, TreeLSTM
from tests.dynamic.programs import BinaryTreeLSTM, Mixed
from tests.dynamic.test_propagation import Cell, featured
from tests.fake_device.test_dynamic import DAG, PROGRAMS, TREES, WIDTH, batch_of, check, outputs_and_gradients
from tests.fake_device.test_lazy import of_sentences, of_trees, trained

GPU = "cuda:0"


@pytest.fixture(autouse=True)
def full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


@pytest.mark.parametrize(("make", "edges"), PROGRAMS)
def test_programs(make, edges):
    torch.manual_seed(0)
    x = torch.randn(batch_of(edges).num_nodes(), WIDTH, requires_grad=True)
    check(make(WIDTH, 8), edges, GPU, x)


@pytest.mark.parametrize("size", [64, 300])
def test_wide_states_of_many_trees(size):
    torch.manual_seed(0)
    x = torch.randn(batch_of(TREES * 50).num_nodes(), WIDTH, requires_grad=True)
    check(BinaryTreeLSTM(WIDTH, size), TREES * 50, GPU, x)


@pytest.mark.parametrize("switches", [{"eager": False}, {"lazy": False}, {"fuse": False}])
def test_without_optimisations(switches):
    torch.manual_seed(0)
    x = torch.randn(batch_of(DAG).num_nodes(), WIDTH, requires_grad=True)
    with dynamic.options(**switches):
        check(Mixed(WIDTH, 8), DAG, GPU, x)


def test_a_step_waits_for_nothing():
    program = BinaryTreeLSTM(WIDTH, 8).to(GPU)
    optimizer = torch.optim.SGD(program.parameters(), lr=0.1)

    def step(trees: Any) -> None:
        g = batch_of(trees, GPU)
        x = torch.zeros(g.num_nodes(), WIDTH, device=GPU)
        optimizer.zero_grad()
        program(g, x).sum().backward()
        optimizer.step()

    step(TREES)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for trees in (TREES, TREES[:2], TREES * 3):
            step(trees)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(x.grad.isfinite().all() for x in program.parameters())


def test_autocast_computes_in_float32():
    torch.manual_seed(0)
    program, g = BinaryTreeLSTM(WIDTH, 8), batch_of(TREES)
    there, x = copy.deepcopy(program).to(GPU), torch.randn(g.num_nodes(), WIDTH)
    want = outputs_and_gradients(program, g, x.bfloat16().float())
    with torch.autocast("cuda", torch.bfloat16):
        out = there(g.to(GPU), x.to(GPU).bfloat16())
    assert out.dtype is torch.float32
    torch.testing.assert_close(out.cpu(), want[0], rtol=1e-4, atol=1e-4)


def test_propagation():
    cell = Cell(4).double()

    def propagated(cell: Cell, device: str) -> list[torch.Tensor]:
        g = featured(([0, 1, 2, 3, 5, 6], [2, 2, 4, 4, 7, 7])).to(device)
        cell.zero_grad()
        assert dglite.explain(g, cell.message, cell.reduce, cell.apply, order="topo").is_program
        dglite.prop_nodes_topo(g, cell.message, cell.reduce, apply_node_func=cell.apply)
        results = [g.ndata[name] for name in ("h", "c", "iou")]
        sum(x.sum() for x in results).backward()
        return [x.cpu() for x in (*results, *(p.grad for p in cell.parameters()))]

    want = propagated(cell, "cpu")
    torch.testing.assert_close(propagated(copy.deepcopy(cell).to(GPU), GPU), want)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(("make", "losses_of"), [(TreeLSTM, of_trees), (Tagger, of_sentences)])
def test_lazy_batching(make, losses_of, wrapped):
    torch.manual_seed(0)
    model = make(dynamic.cell) if wrapped else make()
    want = trained(model, losses_of)
    there = (make(dynamic.cell) if wrapped else make()).to(GPU)
    there.load_state_dict(model.state_dict())
    for _ in range(2):
        actual = [x.cpu() for x in trained(there, losses_of)]
        torch.testing.assert_close(actual, want, rtol=1e-4, atol=1e-5)
