"""A g-SpMM that was called before goes straight to its kernel, and gives what a checked call gives."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import ops
from dglite.errors import DGLError
from dglite.expr import Operand, Side
from dglite.kernels.cpu.graph import panels
from dglite.ops import core, epilogue, run
from dglite.ops.call_cache import CALLS, MAX_CALLS
from dglite.opspec import Reducer

pytestmark = pytest.mark.usefixtures("one_library")


@pytest.fixture
def g() -> dglite.DGLGraph:
    return dglite.graph(([0, 1, 2, 3, 0, 0], [1, 2, 3, 0, 2, 2]), num_nodes=5)


def expected(g: dglite.DGLGraph, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    src, dst = g.edges()
    return torch.zeros(5, x.shape[1], dtype=x.dtype).index_add(0, dst, x[src] * w)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 3, 8, 70_000])
def test_each_call_computes_with_its_own_operands(g: dglite.DGLGraph, dtype: torch.dtype, width: int) -> None:
    results = []
    for _ in range(4):
        x, w = torch.randn(5, width, dtype=dtype), torch.rand(6, 1, dtype=dtype)
        results.append((ops.u_mul_e_sum(g, x, w), expected(g, x, w)))
    for actual, target in results:
        torch.testing.assert_close(actual, target)


def test_operands_of_other_shapes_are_checked(g: dglite.DGLGraph) -> None:
    for _ in range(3):
        ops.copy_u_sum(g, torch.randn(5, 4))
    assert ops.copy_u_sum(g, torch.randn(5, 2)).shape == (5, 2)
    assert ops.copy_u_sum(g, torch.randn(5, 4, dtype=torch.float64)).dtype == torch.float64
    with pytest.raises(DGLError, match="expected 5 rows"):
        ops.copy_u_sum(g, torch.randn(4, 4))
    with pytest.raises(DGLError, match="dtype int64"):
        ops.copy_u_sum(g, torch.ones(5, 4, dtype=torch.int64))


def test_strided_operands_and_gradients_are_seen(g: dglite.DGLGraph) -> None:
    ones = torch.ones(6, 1)
    x = torch.randn(5, 4)
    for _ in range(3):
        ops.copy_u_sum(g, x)
    strided = torch.randn(4, 5).t()
    torch.testing.assert_close(ops.copy_u_sum(g, strided), expected(g, strided.contiguous(), ones))
    leaf = torch.randn(5, 4, requires_grad=True)
    ops.copy_u_sum(g, leaf).sum().backward()
    torch.testing.assert_close(leaf.grad, g.out_degrees().float()[:, None].expand(5, 4))
    with torch.no_grad():
        assert not ops.copy_u_sum(g, leaf).requires_grad
    assert ops.copy_u_sum(g, leaf).requires_grad


def test_other_kinds_of_graphs(g: dglite.DGLGraph) -> None:
    empty, single = dglite.graph(([], []), num_nodes=3), dglite.graph(([], []), num_nodes=0)
    block = dglite.create_block(([0, 1, 2], [0, 0, 1]), num_src_nodes=4, num_dst_nodes=3)
    for _ in range(3):
        assert not ops.copy_u_sum(empty, torch.randn(3, 2)).any()
        assert ops.copy_u_sum(single, torch.randn(0, 2)).shape == (0, 2)
        x = torch.randn(4, 2)
        torch.testing.assert_close(ops.copy_u_sum(block, x), torch.stack([x[0] + x[1], x[2], torch.zeros(2)]))


def test_a_changed_graph_is_another_structure(g: dglite.DGLGraph) -> None:
    x = torch.randn(5, 2)
    for _ in range(3):
        ops.copy_u_sum(g, x)
    g.add_edges([4], [4])
    torch.testing.assert_close(ops.copy_u_sum(g, x)[4], x[4])


def test_few_calls_are_kept(g: dglite.DGLGraph) -> None:
    for width in range(1, 2 * MAX_CALLS):
        x = torch.randn(5, width)
        torch.testing.assert_close(ops.copy_u_sum(g, x), expected(g, x, torch.ones(6, 1)))
    assert len(g.adjacency().cache[CALLS]) <= MAX_CALLS


def test_a_graph_that_was_used_can_be_copied_and_pickled(g: dglite.DGLGraph) -> None:
    import copy
    import pickle

    x = torch.randn(5, 2)
    expected = [ops.copy_u_sum(g, x) for _ in range(3)][-1]
    for other in (copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        torch.testing.assert_close(ops.copy_u_sum(other, x), expected)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_sum_of_scaled_sources_with_what_follows_is_chosen_once(
    g: dglite.DGLGraph, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of the sources, the kernel and its gradients belong to the call that is kept."""
    monkeypatch.setattr(panels.Panels, "multiplies_before", lambda way, *sizes: way.factor is not None)
    chosen = []
    for module, name in ((epilogue, "_planned"), (run, "device_of")):
        choose = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, choose=choose: chosen.append(choose) or choose(*a))
    adj, expr = g.adjacency(), Operand(Side.U, 0) * Operand(Side.U, 1)
    for call in range(4):
        x, factor, bias = torch.randn(5, 16, requires_grad=recorded), torch.rand(5, 1), torch.randn(16)
        chosen.clear()
        result = core.spmm_epilogue(adj, expr, Reducer.SUM, (x, factor), bias, relu=True)
        assert bool(chosen) == (call == 0)
        target = (expected(g, x * factor, torch.ones(6, 1)) + bias).relu()
        torch.testing.assert_close(result, target)
        if recorded:
            grad = torch.randn(5, 16)
            ours, theirs = (torch.autograd.grad(y, x, grad)[0] for y in (result, target))
            torch.testing.assert_close(ours, theirs)
