"""A reduction with its epilogue is the reduction, then the steps: values and gradients of any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dglite.backend import torch_memory
from dglite.errors import DGLError
from dglite.expr import Operand, Side
from dglite.kernels.cpu.run import launch
from dglite.ops import biases, core, epilogue
from dglite.opspec import Reducer
from dglite.structure.adjacency import Adjacency

U0, E1, V1 = Operand(Side.U, 0), Operand(Side.E, 1), Operand(Side.V, 1)
NUM_SRC, NUM_DST, NUM_EDGES = 6, 5, 23
KINDS = list(itertools.product([False, True], repeat=3))


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go parallel from the first element on, so that rows are cut."""
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1 if request.param == 2 else 10**9)


def relation(hub: bool = False) -> Adjacency:
    rng = np.random.default_rng(0)
    dst = np.full(NUM_EDGES, 2) if hub else rng.integers(0, NUM_DST - 1, NUM_EDGES)
    return Adjacency.from_coo(NUM_SRC, NUM_DST, rng.integers(0, NUM_SRC, NUM_EDGES), dst)


def double(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def plain(total: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, relu: bool) -> torch.Tensor:
    for x in (bias, residual):
        total = total if x is None else total + x
    return total.relu() if relu else total


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("with_bias", "with_residual", "relu"), KINDS)
@pytest.mark.parametrize("reducer", [Reducer.SUM, Reducer.MEAN])
@pytest.mark.parametrize("hub", [False, True])
@pytest.mark.parametrize(("width", "dtype"), [(3, torch.float64), (64, torch.float32), (37, torch.bfloat16)])
def test_it_is_the_steps(
    hub: bool, reducer: Reducer, width: int, dtype: torch.dtype, with_bias: bool, with_residual: bool, relu: bool
) -> None:
    adj, expr = relation(hub), U0 * V1
    x, scale = double(NUM_SRC, width).to(dtype), double(NUM_DST, 1, seed=1).to(dtype)
    bias = double(width, seed=2).to(dtype) if with_bias else None
    residual = double(NUM_DST, width, seed=3).to(dtype) if with_residual else None
    expected = plain(core.spmm(adj, expr, reducer, (x, scale)), bias, residual, relu)
    result = core.spmm_epilogue(adj, expr, reducer, (x, scale), bias, residual, relu)
    tolerance = {"rtol": 2e-2, "atol": 1e-1} if dtype is torch.bfloat16 else {}
    torch.testing.assert_close(result, expected, **tolerance)


@pytest.mark.parametrize(("with_bias", "with_residual", "relu"), KINDS[1:])
@pytest.mark.parametrize(("expr", "rows"), [(U0 * E1, NUM_EDGES), (U0 * V1, NUM_DST)])
def test_gradients_of_any_order(expr, rows: int, with_bias: bool, with_residual: bool, relu: bool) -> None:
    adj, reducer = relation(), Reducer.MEAN if with_bias else Reducer.SUM
    more = [double(3, seed=2)] * with_bias + [double(NUM_DST, 3, seed=3)] * with_residual

    def function(x: torch.Tensor, y: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        bias = given[0] if with_bias else None
        return core.spmm_epilogue(adj, expr, reducer, (x, y), bias, given[-1] if with_residual else None, relu)

    inputs = (double(NUM_SRC, 3), double(rows, 1, seed=1), *more)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_it_is_one_kernel_where_features_have_one_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = epilogue.run_spmm
    monkeypatch.setattr(epilogue, "run_spmm", lambda bind, *rest: seen.append(bind) or run(bind, *rest))
    adj, bias = relation(), double(3, seed=2)
    for x in (double(NUM_SRC, 3), double(NUM_SRC, 2, 3)):
        expected = plain(core.spmm(adj, U0, Reducer.SUM, (x,)), bias, None, True)
        torch.testing.assert_close(core.spmm_epilogue(adj, U0, Reducer.SUM, (x,), bias, relu=True), expected)
    assert seen == ["bind_epilogue"]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("reducer", [Reducer.SUM, Reducer.MEAN])
@pytest.mark.parametrize(("expr", "numbers"), [(U0, ()), (U0 * V1, (NUM_DST,)), (U0 * E1, (NUM_EDGES,))])
@pytest.mark.parametrize("width", [16, 3])  # a kernel of ours, a GEMM
def test_a_product_before_it_is_part_of_the_call(
    expr, numbers: tuple[int, ...], reducer: Reducer, relu: bool, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_memory, "LARGE", 1)
    adj, others = relation(), [double(rows, 1, seed=5).detach() for rows in numbers]
    given = double(NUM_SRC, 16), double(16, width, seed=1), double(width, seed=2)

    def together(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return core.spmm_epilogue(adj, expr, reducer, (x, *others), bias, relu=relu, weight=weight)

    result = together(*given)
    assert type(result.grad_fn.op).__name__ == "_SpmmOfProduct"
    expected = plain(core.spmm(adj, expr, reducer, (given[0] @ given[1], *others)), given[2], None, relu)
    torch.testing.assert_close(result, expected)
    for target in itertools.product([False, True], repeat=3):
        if any(target):
            leaves = [x.detach().requires_grad_(needed) for x, needed in zip(given, target, strict=True)]
            assert torch.autograd.gradcheck(together, leaves, fast_mode=not all(target))
    assert torch.autograd.gradgradcheck(together, given, fast_mode=True)


def test_with_gradients_of_other_operands_the_product_is_a_call_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_memory, "LARGE", 1)
    adj, given = relation(), (double(NUM_SRC, 16), double(16, 16, seed=1), double(NUM_EDGES, 1, seed=2))

    def function(x: torch.Tensor, weight: torch.Tensor, on_edges: torch.Tensor) -> torch.Tensor:
        return core.spmm_epilogue(adj, U0 * E1, Reducer.SUM, (x, on_edges), relu=True, weight=weight)

    assert torch.autograd.gradcheck(function, given, fast_mode=True)


@pytest.mark.parametrize("with_residual", [False, True])
def test_gradients_are_multiplied_by_a_factor_as_they_are_summed(
    with_residual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless there is a residual, whose gradient has no factor."""
    monkeypatch.setattr(torch_memory, "LARGE", 1)
    factors, over_rows = [], biases._over_rows
    monkeypatch.setattr(biases, "_over_rows", lambda *given: factors.append(given[4]) or over_rows(*given))
    adj, scale = relation(), double(NUM_DST, 1, seed=1).detach()
    x, bias, residual = double(NUM_SRC, 5), double(5, seed=2), double(NUM_DST, 5, seed=3)

    def function(x: torch.Tensor, bias: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        return core.spmm_epilogue(adj, U0 * V1, Reducer.MEAN, (x, scale), bias, *more, relu=True)

    assert torch.autograd.gradcheck(function, (x, bias, residual)[: 2 + with_residual], fast_mode=True)
    assert factors and all((factor is None) == with_residual for factor in factors)


def test_nan_passes_and_no_edges_leave_the_bias() -> None:
    adj = Adjacency.from_coo(2, 3, np.array([0]), np.array([1]))
    x, bias = torch.tensor([[float("nan")], [1.0]]), torch.tensor([2.0])
    result = core.spmm_epilogue(adj, U0, Reducer.SUM, (x,), bias, relu=True)
    assert result[0] == 2 and result[1].isnan() and result[2] == 2
    empty = Adjacency.from_coo(2, 3, np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert core.spmm_epilogue(empty, U0, Reducer.SUM, (x,), -bias, relu=True).tolist() == [[0.0]] * 3


def test_a_wider_residual_widens_the_result() -> None:
    adj, x, residual = relation(), double(NUM_SRC, 3).float(), double(NUM_DST, 3, seed=1)
    result = core.spmm_epilogue(adj, U0, Reducer.SUM, (x,), residual=residual)
    torch.testing.assert_close(result, core.spmm(adj, U0, Reducer.SUM, (x,)) + residual)


@pytest.mark.parametrize("reducer", [Reducer.MAX, Reducer.LOGSUMEXP])
def test_other_reducers_go_step_by_step(reducer: Reducer) -> None:
    adj, bias = relation(), double(3, seed=2)

    def function(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return core.spmm_epilogue(adj, U0, reducer, (x,), bias)

    x = double(NUM_SRC, 3)
    assert torch.autograd.gradcheck(function, (x, bias), fast_mode=True)


def test_calls_that_come_again_are_told_apart() -> None:
    """By shapes, dtypes, operands that are not given, and whether gradients are recorded."""
    adj, ways = relation(), itertools.product([3, 5], [torch.float32, torch.float64], [True, False], [True, False])
    for width, dtype, recorded, as_residual in [*ways] * 2:
        x = torch.randn(NUM_SRC, width, dtype=dtype, requires_grad=recorded)
        y = torch.randn((NUM_DST, width) if as_residual else (width,), dtype=dtype)
        bias, residual = (None, y) if as_residual else (y, None)
        result = core.spmm_epilogue(adj, U0, Reducer.SUM, (x,), bias, residual, True)
        torch.testing.assert_close(result, plain(core.spmm(adj, U0, Reducer.SUM, (x,)), bias, residual, True))
        assert result.requires_grad == recorded and result.dtype == dtype
        with torch.no_grad():
            assert not core.spmm_epilogue(adj, U0, Reducer.SUM, (x,), bias, residual, True).requires_grad


def test_what_does_not_fit_is_refused_each_time() -> None:
    adj, weight, bias = relation(), torch.randn(8, 4, requires_grad=True), torch.zeros(4)
    for rows in (NUM_SRC, NUM_SRC + 1, NUM_SRC + 1, NUM_SRC - 1):
        x, large = torch.ones(rows, 8), torch.ones(rows, 1 << 17)
        both = (x, weight, bias), (large, torch.ones(1 << 17, 4, requires_grad=True), bias)
        for given, matrix, added in both:
            if rows == NUM_SRC:
                core.spmm_epilogue(adj, U0, Reducer.SUM, (given,), added, weight=matrix)
                continue
            with pytest.raises(DGLError, match=f"expected {NUM_SRC} rows"):
                core.spmm_epilogue(adj, U0, Reducer.SUM, (given,), added, weight=matrix)
