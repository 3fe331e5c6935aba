"""Differentiable operations: values against the oracle, gradients and second gradients by finite differences."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from dglite.backend import active
from dglite.errors import DGLError
from dglite.expr import Expr, Operand, Side, compact, operands_of
from dglite.kernels.cpu.graph import gather, sparse
from dglite.kernels.cpu.run import launch
from dglite.ops import core
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests import reference
from tests.kernels.sparse_cases import assert_close, expression, graph, operands
from tests.pairs import cases, turns

OPS = ["copy_u", "copy_e", "u_add_e", "u_mul_e", "u_div_e", "u_sub_v", "u_mul_v", "e_div_v"]
SHAPES = {
    "equal": ((3,), (3,)),
    "one number": ((), ()),
    "weight": ((4,), (1,)),
    "heads": ((2, 4), (2, 1)),
    "odd heads": ((2, 3), (2, 1)),
    "outer": ((2, 1), (1, 3)),
    "narrow left": ((1,), (3,)),
}
U0, E1 = Operand(Side.U, 0), Operand(Side.E, 1)


def small() -> tuple[Adjacency, np.ndarray, np.ndarray]:
    """Return a multigraph with self-loops, parallel edges and nodes without edges on either side."""
    src, dst = np.array([0, 1, 1, 2, 2, 2, 4, 0]), np.array([0, 0, 0, 2, 3, 3, 1, 3])
    return Adjacency.from_coo(6, 5, src, dst), src, dst


def tensors(op: str, shape: str, seed: int = 0) -> list[torch.Tensor]:
    """Return float64 operands whose messages differ, so that max and min are differentiable at them."""
    generator, expr = torch.Generator().manual_seed(seed), expression(op)
    rows = {"u": 6, "e": 8, "v": 5}
    sides = op.split("_")[1:] if op.startswith("copy") else op.split("_")[::2]
    results = []
    for side, feat in zip(sides, SHAPES[shape], strict=False):
        x = torch.rand(rows[side], *feat, generator=generator, dtype=torch.float64) + 0.5
        results.append(x.requires_grad_())
    assert len(results) == len(expr.args if hasattr(expr, "args") else [expr])
    return results


def with_shapes(*axes: list[Any]) -> list[tuple[Any, ...]]:
    """Return every combination; shapes take turns, unless all are wanted."""
    if os.environ.get("DGLITE_TEST_FULL") == "1":
        return cases(*axes, list(SHAPES))
    shapes = itertools.cycle(SHAPES)
    return [(*case, next(shapes)) for case in itertools.product(*axes)]


@pytest.mark.parametrize(("op", "reducer", "shape"), with_shapes(OPS, ["sum", "mean", "max", "min"]))
def test_spmm_value_and_gradients(op, reducer, shape):
    adj, src, dst = small()
    expr, xs = expression(op), tensors(op, shape)

    def run(*xs):
        return core.spmm(adj, expr, Reducer(reducer), xs)

    want = reference.spmm(expr, Reducer(reducer), src, dst, 5, [x.detach().numpy() for x in xs])
    assert_close(run(*xs).detach().numpy(), want, "float64")
    assert gradcheck(run, xs) and gradgradcheck(run, xs, fast_mode=True)


@pytest.mark.parametrize(
    ("op", "dot", "shape"),
    [
        *cases(["u_add_v", "u_div_e"], [False, True], list(SHAPES)),
        *with_shapes(["copy_u", "u_mul_v", "e_sub_v"], [False, True]),
    ],
)
def test_sddmm_value_and_gradients(op, dot, shape):
    adj, src, dst = small()
    expr, xs = expression(op), tensors(op, shape)

    def run(*xs):
        return core.sddmm(adj, expr, xs, dot)

    want = reference.sddmm(expr, src, dst, [x.detach().numpy() for x in xs], dot)
    assert_close(run(*xs).detach().numpy(), want, "float64")
    assert gradcheck(run, xs) and gradgradcheck(run, xs, fast_mode=True)


@pytest.mark.parametrize("feat", [(), (1,), (8,), (2, 3)])
def test_edge_softmax_value_and_gradients(feat):
    adj, _, dst = small()
    logits = (torch.randn(8, *feat, dtype=torch.float64) * 10).requires_grad_()
    assert_close(
        core.edge_softmax(adj, logits).detach().numpy(), reference.edge_softmax(dst, logits.detach().numpy()), "float64"
    )
    logits = torch.randn(8, *feat, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: core.edge_softmax(adj, x), (logits,))
    assert gradgradcheck(lambda x: core.edge_softmax(adj, x), (logits,), fast_mode=True)


@pytest.mark.parametrize(
    ("dtype", "kind", "heads"),
    cases(["float32", "float64", "float16", "bfloat16"], ["random", "star", "no edges", "one edge"], [1, 3, 8, 20]),
)
def test_edge_softmax_equals_the_oracle(dtype, kind, heads):
    coo = graph(kind)
    adj = Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst)
    logits = (torch.randn(len(coo.src), heads, dtype=torch.float64) * 4).to(getattr(torch, dtype))
    want = reference.edge_softmax(coo.dst, logits.double().numpy())
    assert_close(core.edge_softmax(adj, logits).double().numpy(), want, dtype)


def test_edge_softmax_does_not_overflow():
    adj = Adjacency.from_coo(2, 1, np.array([0, 1]), np.array([0, 0]))
    weights = core.edge_softmax(adj, torch.tensor([1e30, -1e30]))
    assert weights.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "permutation"), [([1, 1, 6, 2], False), ([], False), ([0, 2, 6], False), ([3, 1, 0, 2, 6, 5, 4], True)]
)
def test_take_rows(rows, permutation):
    x, rows = torch.randn(7, 2, dtype=torch.float64, requires_grad=True), np.array(rows, np.int64)

    def run(x):
        return core.take_rows(x, rows, permutation) ** 2

    assert torch.equal(run(x), x[rows] ** 2)
    assert gradcheck(run, (x,)) and gradgradcheck(run, (x,), fast_mode=True)


@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("offsets", [[0, 2, 2, 7], [0], [0, 0], [0, 7]])
def test_segment_reduce(offsets, reducer):
    offsets = np.array(offsets)
    lengths = np.diff(offsets)
    x = torch.randn(int(offsets[-1]), 3, dtype=torch.float64, requires_grad=True)
    want = reference.segment_reduce(Reducer(reducer), offsets, x.detach().numpy())
    assert_close(core.segment_reduce(lengths, x, Reducer(reducer)).detach().numpy(), want, "float64")
    if x.numel():
        assert gradcheck(lambda x: core.segment_reduce(lengths, x, Reducer(reducer)), (x,))


def test_segments_of_few_elements_are_made_once():
    few, same, other = (core.segments(np.array(lengths)) for lengths in ([2, 0, 3], [2, 0, 3], [2, 3, 0]))
    assert few is same and few is not other
    assert [x.in_degrees().tolist() for x in (few, other)] == [[2, 0, 3], [2, 3, 0]]
    assert core.segments(np.array([1 << 17])) is not core.segments(np.array([1 << 17]))


def test_operands_need_not_be_contiguous():
    coo = graph("random")
    adj = Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst)
    wide = torch.randn(10, coo.num_src, dtype=torch.float64)
    result = core.spmm(adj, U0, Reducer.SUM, (wide.t()[:, ::2],))
    assert_close(
        result.numpy(),
        reference.spmm(U0, Reducer.SUM, coo.src, coo.dst, coo.num_dst, (wide.numpy().T[:, ::2],)),
        "float64",
    )
    expanded = torch.randn(1, 3, dtype=torch.float64).expand(coo.num_src, 3)
    result = core.spmm(adj, U0, Reducer.SUM, (expanded,))
    assert_close(
        result.numpy(), reference.spmm(U0, Reducer.SUM, coo.src, coo.dst, coo.num_dst, (expanded.numpy(),)), "float64"
    )


@pytest.mark.parametrize("feat", [(0,), (3, 0)])
def test_features_of_width_zero(feat):
    adj, _, _ = small()
    x = torch.zeros(6, *feat, requires_grad=True)
    out = core.spmm(adj, U0, Reducer.MAX, (x,))
    assert out.shape == (5, *feat)
    out.sum().backward()
    assert x.grad.shape == x.shape
    assert core.sddmm(adj, U0 * E1, (x, torch.zeros(8, *feat)), dot=True).shape == (8, *feat[:-1], 1)
    assert core.edge_softmax(adj, torch.zeros(8, *feat)).shape == (8, *feat)


def test_the_gradient_of_a_linear_message_keeps_no_features_alive():
    adj, _, _ = small()
    x, w = torch.randn(6, 4, requires_grad=True), torch.randn(8, 1)
    assert core.spmm(adj, U0, Reducer.SUM, (x,)).grad_fn.saved_tensors == ()
    assert len(core.spmm(adj, U0 * E1, Reducer.SUM, (x, w)).grad_fn.saved_tensors) == 1


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ((torch.zeros(5, 2),), r"shape \(5, 2\); expected 6 rows, one per source node"),
        ((torch.zeros(()),), "expected 6 rows"),
        ((torch.zeros(6, 2, dtype=torch.int64),), "dtype int64; expected one of float32"),
        (([[0.0, 0.0]] * 6,), "got list; expected a tensor"),
    ],
)
def test_an_operand_that_does_not_fit_is_refused(operands, message):
    with pytest.raises(DGLError, match=message):
        core.spmm(small()[0], U0, Reducer.SUM, operands)


def test_operands_that_do_not_fit_each_other_are_refused():
    adj = small()[0]
    with pytest.raises(DGLError, match="dtypes float32 and float64; convert"):
        core.spmm(adj, U0 * E1, Reducer.SUM, (torch.zeros(6, 2), torch.zeros(8, 2, dtype=torch.float64)))
    with pytest.raises(DGLError, match=r"feature shapes \(2,\) and \(3,\) do not broadcast"):
        core.spmm(adj, U0 * E1, Reducer.SUM, (torch.zeros(6, 2), torch.zeros(8, 3)))


def test_threads_other_than_the_main_one_run_serially_and_right():
    import threading

    coo = graph("random")
    adj = Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src, coo.dst)
    x = torch.from_numpy(operands(U0, coo, ((3000,),))[0])
    results: list[torch.Tensor] = []
    workers = [threading.Thread(target=lambda: results.append(core.spmm(adj, U0, Reducer.SUM, (x,)))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    want = core.spmm(adj, U0, Reducer.SUM, (x,))
    assert len(results) == 4
    for result in results:
        torch.testing.assert_close(result, want)


@pytest.mark.parametrize("reducer", ["sum", "mean"])
def test_a_node_without_edges_gets_0_whatever_its_own_factor(reducer):
    adj = Adjacency.from_coo(2, 2, np.array([0, 1]), np.array([0, 0]))
    x, v = torch.ones(2, 3), torch.tensor([[2.0], [0.0]])
    out = core.spmm(adj, U0 / Operand(Side.V, 1), Reducer(reducer), (x, v))
    assert out[1].tolist() == [0, 0, 0] and out[0, 0] == (1 if reducer == "sum" else 0.5)


@pytest.mark.parametrize("width", [3, 16, 64])
@pytest.mark.parametrize("num_src", [40, 5000])
def test_the_gradient_of_max_is_the_same_on_any_number_of_threads(width, num_src, monkeypatch):
    """Wide columns are dealt out to threads, narrow ones are not."""
    rng = np.random.default_rng(0)
    adj = Adjacency.from_coo(num_src, 50, rng.integers(0, num_src, 600), rng.integers(0, 50, 600))
    x = torch.randn(num_src, width, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(50, width, dtype=torch.float64)

    def gradient() -> torch.Tensor:
        return torch.autograd.grad((core.spmm(adj, U0, Reducer.MAX, (x,)) * weight).sum(), x)[0]

    alone = gradient()
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)
    monkeypatch.setattr(type(active), "num_threads", lambda self: 3)
    torch.testing.assert_close(gradient(), alone)


G1, V2 = Operand(Side.G, 1), Operand(Side.V, 2)


def formulas() -> dict[str, Expr]:
    """Return expressions over a source column, a row that all edges share and a destination column."""
    return {
        "weight": U0 * G1,
        "shift": G1 - U0,
        "quotient": U0 / G1,
        "exp": (U0 * G1).call("exp"),
        "log": (U0 + G1).call("log") * V2,
        "sqrt": (U0 * V2).call("sqrt") + G1,
        "abs": (U0 - G1 * 1.5).call("abs"),
        "tanh": (U0 * G1 + V2).call("tanh"),
        "sigmoid": (U0 - G1).call("sigmoid") * V2,
        "softplus": (U0 * G1 - V2).call("softplus"),
        "power": (U0 * G1).call("power", 1.7),
        "maximum": U0.call("maximum", G1 * 1.1),
        "minimum": U0.call("minimum", V2 * 1.3) * G1,
        "where": U0.call("gt", V2).call("where", U0 * G1, V2),
        "only compared": U0.call("lt", G1).call("where", V2, V2 * V2),
        "sign": (U0 - V2).call("sign") * G1,
        "shared alone": G1 * G1,
    }


def shared_operands(expr: Expr, feats: tuple[tuple[int, ...], ...]) -> list[torch.Tensor]:
    """Return the operands of an expression of ``formulas``, with compact slots."""
    generator = torch.Generator().manual_seed(7)
    rows = {Side.U: 6, Side.G: 1, Side.V: 5}
    return [
        (torch.rand(rows[operand.side], *feat, generator=generator, dtype=torch.float64) + 0.5).requires_grad_()
        for operand, feat in zip(operands_of(expr), feats, strict=False)
    ]


FEATS = [((3,), (3,), (3,)), ((1,), (3,), (1,)), ((2, 3), (3,), (2, 1))]


@pytest.mark.parametrize(("name", "reducer", "feats"), turns(list(formulas()), ["sum", "mean", "max", "min"], FEATS))
def test_spmm_with_a_row_that_all_edges_share(name, reducer, feats):
    adj, src, dst = small()
    expr, _ = compact(formulas()[name])
    xs = shared_operands(expr, feats)

    def run(*xs):
        return core.spmm(adj, expr, Reducer(reducer), xs)

    want = reference.spmm(expr, Reducer(reducer), src, dst, 5, [x.detach().numpy() for x in xs])
    assert_close(run(*xs).detach().numpy(), want, "float64")
    assert gradcheck(run, xs)


@pytest.mark.parametrize(("name", "dot", "feats"), turns(list(formulas()), [False, True], FEATS))
def test_sddmm_with_a_row_that_all_edges_share(name, dot, feats):
    adj, src, dst = small()
    expr, _ = compact(formulas()[name])
    xs = shared_operands(expr, feats)

    def run(*xs):
        return core.sddmm(adj, expr, xs, dot)

    want = reference.sddmm(expr, src, dst, [x.detach().numpy() for x in xs], dot)
    assert_close(run(*xs).detach().numpy(), want, "float64")
    assert gradcheck(run, xs)


@pytest.mark.parametrize("name", ["weight", "exp", "log", "tanh", "power", "maximum", "where", "only compared", "sign"])
def test_second_derivatives_of_the_operators(name):
    adj = small()[0]
    expr, _ = compact(formulas()[name])
    xs = shared_operands(expr, FEATS[0])
    assert gradgradcheck(lambda *xs: core.spmm(adj, expr, Reducer.SUM, xs), xs)


@pytest.mark.parametrize("reducer", ["mean", "max", "min"])
def test_second_derivatives_with_a_shared_row(reducer):
    adj = small()[0]
    expr, _ = compact(formulas()["exp"])
    xs = shared_operands(expr, FEATS[0])
    assert gradgradcheck(lambda *xs: core.spmm(adj, expr, Reducer(reducer), xs), xs, fast_mode=True)
    assert gradgradcheck(lambda *xs: core.sddmm(adj, expr, xs, True), xs, fast_mode=True)


@pytest.mark.parametrize("reducer", ["sum", "mean", "max", "min"])
def test_without_edges_a_shared_row_gets_no_gradient(reducer):
    adj = Adjacency.from_coo(6, 5, np.zeros(0, np.int64), np.zeros(0, np.int64))
    x, shared = torch.ones(6, 3, requires_grad=True), torch.ones(1, 3, requires_grad=True)
    out = core.spmm(adj, U0 * G1, Reducer(reducer), (x, shared))
    assert torch.equal(out, torch.zeros(5, 3))
    out.sum().backward()
    assert not shared.grad.any() and not x.grad.any() and shared.grad.shape == (1, 3)
    edges = core.sddmm(adj, U0 * G1, (x, shared))
    assert edges.shape == (0, 3)
    assert not torch.autograd.grad(edges.sum(), shared)[0].any()


def test_a_shared_operand_has_one_row():
    with pytest.raises(DGLError, match="expected 1 rows, one per relation"):
        core.spmm(small()[0], U0 * G1, Reducer.SUM, (torch.zeros(6, 2), torch.zeros(3, 2)))


def test_rows_that_are_taken_again_keep_the_structure_of_their_gradient(monkeypatch):
    rows, weight = np.array([2, 0, 2]), torch.arange(1.0, 4.0, dtype=torch.float64)[:, None]
    index, result = core.RowIndex(rows), []
    from_coo = Adjacency.from_coo
    monkeypatch.setattr(Adjacency, "from_coo", lambda *args, **kwargs: result.append(args) or from_coo(*args, **kwargs))
    for size in (3, 3, 4, 3):
        x = torch.zeros(size, 1, dtype=torch.float64, requires_grad=True)
        (core.take_rows(x, index) * weight).sum().backward()
        assert x.grad.ravel().tolist() == [2, 0, 4, 0][:size]
    assert len(result) == 2


@pytest.mark.parametrize(("rows", "num_relations"), [([0, 2, 3], 0), ([1], 0), ([2, 2], 1), ([2, 0], 1)])
def test_rows_that_ascend_need_no_structure_for_their_gradient(monkeypatch, rows, num_relations):
    x, result, from_coo = torch.zeros(4, 2, requires_grad=True), [], Adjacency.from_coo
    monkeypatch.setattr(Adjacency, "from_coo", lambda *args, **kwargs: result.append(args) or from_coo(*args, **kwargs))
    core.take_rows(x, np.array(rows)).sum().backward()
    assert len(result) == num_relations
    assert x.grad[:, 0].tolist() == np.bincount(rows, minlength=4).tolist()


@pytest.mark.parametrize("reducer", [Reducer.SUM, Reducer.MAX])
@pytest.mark.parametrize("hub", [0, 1])
def test_rows_are_cut_by_a_driver_that_graphs_without_long_rows_do_not_need(monkeypatch, reducer, hub):
    launched = []
    monkeypatch.setattr(
        sparse, "launch_at", lambda driver, *args: launched.append(driver) or launch.launch_at(driver, *args)
    )
    src, dst = (np.random.default_rng(seed).integers(0, 3_000, 40_000) for seed in (0, 1))
    dst[: 5_000 * hub] = 7
    adj, x = Adjacency.from_coo(3_000, 3_000, src, dst), torch.rand(3_000, 32)
    result = core.spmm(adj, U0, reducer, (x,))
    assert launched == [(sparse.cut_rows_driver if hub else sparse.rows_driver).address]
    how = "sum" if reducer is Reducer.SUM else "amax"
    index = torch.from_numpy(dst)[:, None].expand(-1, 32)
    expected = torch.zeros(3_000, 32).scatter_reduce(0, index, x[src], how, include_self=False)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 16)])
def test_many_rows_are_taken_by_a_kernel(shape, dtype, monkeypatch):
    monkeypatch.setattr("dglite.ops.rows._LEAST_BYTES", 1)
    monkeypatch.setattr("dglite.ops.rows._LEAST_ROWS", 1)
    calls, take = [], gather.take_rows
    monkeypatch.setattr(gather, "take_rows", lambda *args: calls.append(args) or take(*args))
    wide = torch.arange(2 * 50 * int(np.prod(shape))).reshape(50, *shape, 2).to(dtype)
    rows = np.random.default_rng(0).integers(50, size=1000)
    for x in (wide[..., 0], wide[..., 1].contiguous(), wide[::2, ..., 0], wide[:0, ..., 0]):
        mine = rows % len(x) if len(x) else rows[:0]
        calls.clear()
        assert torch.equal(core.take_rows(x, mine), x[torch.from_numpy(mine)])
        assert len(calls) == (dtype.is_floating_point and len(x) > 0)
        for bad in (-1, len(x)) if len(x) else ():
            with pytest.raises(IndexError):
                core.take_rows(x, np.append(mine, bad))
    if dtype.is_floating_point:
        leaf = wide[..., 0].clone().requires_grad_()
        core.take_rows(leaf, rows).sum().backward()
        assert torch.equal(leaf.grad.reshape(50, -1)[:, 0], torch.from_numpy(np.bincount(rows, minlength=50)).to(dtype))
