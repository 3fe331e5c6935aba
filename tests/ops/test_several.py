"""Several reductions in one pass: values against the oracle, gradients by finite differences, calls by counting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from dglite.errors import DGLError
from dglite.expr import Operand, Side
from dglite.kernels.cpu.run import launch
from dglite.nn import functional
from dglite.ops import core, fallback, several, sparse
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests import reference
from tests.kernels.sparse_cases import assert_close, graph, operands
from tests.versions import compiles_whole

U0, V1, E1 = Operand(Side.U, 0), Operand(Side.V, 1), Operand(Side.E, 1)
SUM, MEAN, MAX, MIN = Reducer.SUM, Reducer.MEAN, Reducer.MAX, Reducer.MIN


def parts_of(message):
    return ((message, MEAN), (message * message, MEAN), (message, MAX), (message, MIN), (message, SUM))


def relation(kind: str) -> tuple[Adjacency, np.ndarray, np.ndarray, int]:
    coo = graph(kind)
    return Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst), coo.src, coo.dst, coo.num_dst


def small() -> Adjacency:
    src, dst = np.array([0, 1, 1, 2, 2, 2, 4, 0]), np.array([0, 0, 0, 2, 3, 3, 1, 3])
    return Adjacency.from_coo(6, 5, src, dst)


def expected(parts, src, dst, num_dst, values):
    feat = np.broadcast_shapes(*(value.shape[1:] for value in values))
    each = (reference.spmm(expr, reducer, src, dst, num_dst, values) for expr, reducer in parts)
    return [np.broadcast_to(x, (num_dst, *feat)) for x in each]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float64) + 0.5).requires_grad_()


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reductions each run of a kernel makes."""
    results: list[int] = []
    run = several.run_spmm

    def counted(bind, adj, reduction, *more):
        parts = reduction[0] if bind == "bind_several" else (reduction,)
        results.append(len(parts))
        return run(bind, adj, reduction, *more)

    monkeypatch.setattr(several, "run_spmm", counted)
    monkeypatch.setattr(sparse, "run_spmm", counted)
    return results


@pytest.mark.parametrize("kind", ["random", "star", "no edges", "no nodes", "one edge"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_values_equal_the_oracle(dtype, kind, monkeypatch):
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)
    adj, src, dst, num_dst = relation(kind)
    coo, message = graph(kind), U0 * E1
    xs = [torch.from_numpy(x).to(getattr(torch, dtype)) for x in operands(message, coo, ((2, 3), (2, 1)))]
    want = expected(parts_of(message), src, dst, num_dst, [x.double().numpy() for x in xs])
    for actual, value in zip(core.spmm_several(adj, parts_of(message), xs), want, strict=True):
        assert str(actual.dtype) == f"torch.{dtype}" and actual.is_contiguous()
        assert_close(actual.double().numpy(), value, dtype)


MESSAGES = {
    "copy": (U0, ((6, 3),)),
    "sum of ends": (U0 + V1, ((6, 3), (5, 3))),
    "weighted": (U0 * E1, ((6, 2, 3), (8, 2, 1))),
    "quotient": (U0 / E1, ((6, 1), (8, 3))),
    "one row for all": (U0 * Operand(Side.G, 1), ((6, 3), (1, 3))),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_gradients_of_any_order(name):
    message, shapes = MESSAGES[name]
    adj, xs = small(), [random(*shape, seed=i) for i, shape in enumerate(shapes)]

    def run(*xs):
        return tuple(core.spmm_several(adj, parts_of(message), xs))

    assert gradcheck(run, xs, fast_mode=True) and gradgradcheck(run, xs, fast_mode=True)


def test_an_operand_that_one_part_reads_alone():
    adj, xs = small(), [random(6, 3), random(8, 1, seed=1)]
    parts = ((U0, MAX), (U0 * E1, SUM), (E1 * E1, MIN))

    def run(*xs):
        return tuple(core.spmm_several(adj, parts, xs))

    assert gradcheck(run, xs, fast_mode=True) and gradgradcheck(run, xs, fast_mode=True)
    for unread in (((U0, MAX), (U0, MIN)), ((U0, SUM), (U0 * U0, MEAN))):
        total = sum(x.sum() for x in core.spmm_several(adj, unread, xs))
        (grad,) = torch.autograd.grad(total, xs[1:], allow_unused=True)
        assert grad is None or not grad.any()


def test_one_pass_forward_and_one_for_the_gradient_of_all_sums(passes):
    adj, x, y = small(), random(6, 3), random(5, 3, seed=1).detach()
    result = core.spmm_several(adj, ((U0 + V1, MEAN), ((U0 + V1) * (U0 + V1), MEAN), (U0 + V1, SUM)), (x, y))
    assert passes == [3]
    sum(part.sum() for part in result).backward()
    assert passes == [3, 1]


def test_more_than_fit_one_kernel_are_cut(passes):
    adj, x = small(), random(6, 3)
    parts = tuple((U0 * float(i + 1), reducer) for i in range(5) for reducer in (SUM, MAX))
    result = core.spmm_several(adj, parts, (x.detach(),))
    assert passes == [8, 2]
    for actual, (expr, reducer) in zip(result, parts, strict=True):
        torch.testing.assert_close(actual, core.spmm(adj, expr, reducer, (x.detach(),)))
    assert core.spmm_several(adj, (), (x,)) == []


def test_wrong_operands_are_refused():
    with pytest.raises(DGLError, match="expected 8 rows, one per edge"):
        core.spmm_several(small(), ((U0, SUM), (E1, MAX)), (random(6, 3), random(7, 3)))


def test_without_kernels_the_same(monkeypatch):
    adj, xs = small(), [random(6, 3), random(8, 1, seed=1)]
    parts = ((E1, MAX), *parts_of(U0 * E1))
    want = core.spmm_several(adj, parts, xs)
    monkeypatch.setattr(fallback, "lacks_kernels", lambda tensor: True)
    for ours, theirs in zip(core.spmm_several(adj, parts, xs), want, strict=True):
        torch.testing.assert_close(ours, theirs)


@compiles_whole
def test_compiled_without_a_break_forward_and_backward():
    torch._dynamo.reset()
    adj = small()

    def step(x, y):
        return torch.cat(core.spmm_several(adj, parts_of(U0 + V1), (x * 2, y)), 1).sin()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    xs = [random(6, 3), random(5, 3, seed=1)]
    want, result = step(*xs), compiled(*xs)
    torch.testing.assert_close(result, want)
    for ours, theirs in zip(torch.autograd.grad(result.sum(), xs), torch.autograd.grad(want.sum(), xs), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_statistics_of_a_layer_take_one_pass(passes):
    adj, left, right = small(), random(6, 4).detach(), random(5, 4, seed=1).detach()
    names = ["mean", "sum", "max", "min", "std", "var"]
    functional.statistics(adj, (left, right), names)
    assert passes == [5]
    functional.statistics(adj, (left, right), ["moment3", "max"])
    assert passes == [5, 2, 1]
    assert functional.statistics(adj, (left, right), []) == []


@pytest.mark.parametrize("differentiable", [True, False])
def test_a_result_may_be_written_to_and_the_others_keep_their_gradient(differentiable):
    adj, x = small(), random(6, 3).requires_grad_(differentiable)
    weight = random(5, 3, seed=2)
    mean, largest = core.spmm_several(adj, ((U0, MEAN), (U0, MAX)), (x,))
    want = mean.detach() ** 2
    product = mean * mean * weight
    largest *= weight
    product.sum().backward()
    torch.testing.assert_close(weight.grad, want)
