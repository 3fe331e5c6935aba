"""g-SpMM in panels of columns: against the oracle, and when that way is taken."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
import torch

import dglite
from dglite import ops
from dglite.expr import Operand, Side
from dglite.kernels.cpu.graph import panels
from dglite.kernels.cpu.graph.panels import near_cache
from dglite.kernels.cpu.graph.sparse import bind_epilogue, bind_several, bind_spmm
from dglite.kernels.cpu.run import launch
from dglite.kernels.spec import REDUCED, Prefetch
from dglite.ops import core
from dglite.opspec import Reducer
from dglite.structure import Adjacency
from tests import reference
from tests.kernels.sparse_cases import (
    DTYPES,
    GRAPHS,
    IDS,
    TORCH,
    assert_close,
    expression,
    graph,
    operands,
    set_cache_bytes,
)
from tests.pairs import cases

KINDS = [kind for kind in GRAPHS if kind != "no nodes"]  # without sources they do not pay
OPS = {"copy_u": ("full",), "u_mul_e": ("full", "one"), "u_div_v": ("full", "full"), "u_sub_v": ("full", "one")}


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let panels of small graphs have one cache line of each source, and return to Python between them."""
    set_cache_bytes(monkeypatch, 3000)
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)
    monkeypatch.setattr(launch, "WORK_PER_CALL", 5000)


def in_panels(coo, index, dtype, bound, values, threads, argmax=0, order=True):
    """Return the result of a bound kernel, made in panels, as float64, and the operands as they were rounded."""
    tensors = [torch.from_numpy(value).to(TORCH[dtype]).contiguous() for value in values]
    indptr, indices, edge_ids = coo.csc(index)
    ids = edge_ids.ctypes.data if order else 0
    words = array("q", (indptr.ctypes.data, indices.ctypes.data, ids, coo.num_dst, len(coo.src)))
    out = torch.full((coo.num_dst, *bound.layout.shape), 99.0, dtype=TORCH[dtype])
    way = bound.panels
    size = threads * way.bytes_of_thread(coo.num_src) + len(way.of_edges) * len(coo.src) * out.itemsize
    scratch = torch.full((size + 64,), 77, dtype=torch.uint8)
    addresses = [tensor.data_ptr() for tensor in tensors]
    bound.in_panels(words, coo.num_src, addresses, out.data_ptr(), threads, argmax, scratch.data_ptr())
    assert (scratch[size:] == 77).all(), "wrote behind its memory"
    return out.double().numpy(), [tensor.double().numpy() for tensor in tensors]


@pytest.mark.parametrize(
    ("op", "reducer", "dtype", "index", "width", "kind", "threads"),
    cases(list(OPS), ["sum", "mean", "max", "min"], DTYPES, IDS, [33, 64, 100, 130], KINDS, [1, 3]),
)
def test_panels_equal_the_oracle(op, reducer, dtype, index, width, kind, threads):
    expr, coo = expression(op), graph(kind)
    values = operands(expr, coo, tuple((width,) if shape == "full" else (1,) for shape in OPS[op]))
    bound = bind_spmm(expr, Reducer(reducer), dtype, index, tuple(value.shape[1:] for value in values))
    result, rounded = in_panels(coo, index, dtype, bound, values, threads)
    want = reference.spmm(expr, Reducer(reducer), coo.src, coo.dst, coo.num_dst, rounded)
    assert_close(result, want, dtype)


@pytest.mark.parametrize("index", IDS)
def test_argmax_lies_in_the_columns_of_their_panel(index):
    coo, expr = graph("star"), expression("copy_u")
    values = [np.round(operands(expr, coo, ((100,),))[0])]  # many ties
    bound = bind_spmm(expr, Reducer.MAX, "float32", index, ((100,),), argmax=True)
    argmax = np.full((coo.num_dst, 100), -9, index)
    in_panels(coo, index, "float32", bound, values, 2, argmax.ctypes.data)
    indptr, indices, _ = coo.csc(index)
    for node in range(coo.num_dst):
        messages = values[0][indices[indptr[node] : indptr[node + 1]]]
        best = indptr[node] + messages.argmax(0) if len(messages) else -1
        assert (argmax[node] == best).all()


def test_weights_in_the_order_of_entries_are_read_where_they_lie():
    expr, coo = expression("u_mul_e"), graph("random")
    coo.src, coo.dst = (ends[np.argsort(coo.dst, kind="stable")] for ends in (coo.src, coo.dst))
    values = operands(expr, coo, ((64,), (1,)))
    bound = bind_spmm(expr, Reducer.SUM, "float32", "int32", ((64,), (1,)))
    result, rounded = in_panels(coo, "int32", "float32", bound, values, 2, order=False)
    assert_close(result, reference.spmm(expr, Reducer.SUM, coo.src, coo.dst, coo.num_dst, rounded), "float32")


def test_an_epilogue_reads_the_columns_of_its_panel():
    coo, expr, bias = graph("random"), Operand(Side.U, 0), Operand(Side.G, 1)
    x = operands(expr, coo, ((100,),))[0]
    given = np.random.default_rng(0).random((1, 100))
    bound = bind_epilogue(expr, Reducer.SUM, REDUCED + bias, "float64", "int32", ((100,), (100,)))
    result, _ = in_panels(coo, "int32", "float64", bound, [x, given], 2)
    assert_close(result, reference.spmm(expr, Reducer.SUM, coo.src, coo.dst, coo.num_dst, [x]) + given, "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reducer", ["sum", "max"])
def test_numbers_of_sources_are_multiplied_in_the_copy_or_after_it(dtype, reducer):
    coo, x, left, right = graph("random"), Operand(Side.U, 0), Operand(Side.U, 1), Operand(Side.V, 2)
    values = operands(x * left * right, coo, ((100,), (1,), (1,)))
    for expr in (x * left * right, right * (left * x), x * left * left, x / left, x * right + left, x * left):
        bound = bind_spmm(expr, Reducer(reducer), dtype, "int32", ((100,), (1,), (1,)))
        result, rounded = in_panels(coo, "int32", dtype, bound, values, 2)
        assert_close(result, reference.spmm(expr, Reducer(reducer), coo.src, coo.dst, coo.num_dst, rounded), dtype)
        is_factor = dtype in ("float32", "float64") and reducer == "sum" and expr not in (x / left, x * right + left)
        assert (bound.panels.factor is not None) == is_factor


@pytest.mark.parametrize(
    ("expr", "shapes"),
    [
        (expression("u_mul_e"), ((4, 16), (4, 1))),  # weights of heads
        (expression("u_mul_e"), ((64,), (64,))),  # rows of edges
        (expression("copy_e"), ((64,),)),
        (expression("u_mul_v"), ((3, 1), (1, 64))),  # groups
    ],
)
def test_other_kernels_have_no_panels(expr, shapes):
    assert bind_spmm(expr, Reducer.SUM, "float32", "int32", shapes).panels is None


def test_several_reductions_have_no_panels():
    parts = ((Operand(Side.U, 0), Reducer.SUM), (Operand(Side.U, 0), Reducer.MAX))
    assert bind_several(parts, "float32", "int32", ((64,),)).panels is None


def test_panels_are_of_what_a_cache_holds(monkeypatch):
    set_cache_bytes(monkeypatch, 1 << 21)
    way = bind_spmm(expression("copy_u"), Reducer.SUM, "float32", "int32", ((128,),)).panels
    assert way.pay(20_000, 20_000, 1_000_000)
    assert not way.pay(4_000, 20_000, 1_000_000)  # all of it lies in the cache
    assert way.pay(40_000, 20_000, 1_600_000)  # most of a line of each does, and is read often
    assert not way.pay(40_000, 20_000, 700_000)
    assert not way.pay(120_000, 20_000, 100_000_000)  # little does
    assert not way.pay(20_000, 20_000, 100_000)  # read too seldom
    assert way.columns(20_000) == (16, 8) and way.columns(8_000) == (32, 4)
    set_cache_bytes(monkeypatch, 0)  # unknown
    way = bind_spmm(expression("copy_u"), Reducer.SUM, "float32", "int32", ((128,),)).panels
    assert not way.pay(20_000, 20_000, 1_000_000)


def test_maxima_may_fill_the_share_of_a_cache_that_memory_lies_behind(monkeypatch):
    monkeypatch.setattr(panels, "near_cache", lambda: panels.Cache(1 << 24, 1 << 23, panels.FITTING, 1 << 20))
    for reducer in (Reducer.SUM, Reducer.MAX):
        bind_spmm.cache_clear()
        way = bind_spmm(expression("copy_u"), reducer, "float32", "int32", ((128,),)).panels
        assert way.pay(50_000, 50_000, 2_500_000) and not way.pay(30_000, 30_000, 1_500_000)
        assert way.pay(100_000, 100_000, 5_000_000) == (reducer is Reducer.MAX)
        assert not way.pay(200_000, 200_000, 20_000_000)
        assert way.prefetch(8_000, 32) is Prefetch.NOTHING and way.prefetch(9_000, 32) is Prefetch.ROWS
        assert way.prefetch(200_000, 32) is Prefetch.ALL


def test_sources_are_copied_times_their_factors_where_all_threads_read_them(monkeypatch):
    monkeypatch.setattr(panels, "near_cache", lambda: panels.Cache(1 << 24, 1 << 23, panels.FITTING, 1 << 20))
    x, number = Operand(Side.U, 0), Operand(Side.U, 1)
    bind_spmm.cache_clear()
    way = bind_spmm(x * number, Reducer.SUM, "float32", "int32", ((32,), (1,))).panels
    assert way.multiplies_before(30_000, 800_000)
    assert not way.multiplies_before(30_000, 400_000)  # each is read too seldom
    assert not way.multiplies_before(16_000, 800_000)  # it lies in the caches of the threads that have written it
    assert not way.multiplies_before(70_000, 8_000_000)  # it does not lie in a cache
    way = bind_spmm(x, Reducer.SUM, "float32", "int32", ((32,),)).panels
    assert not way.multiplies_before(30_000, 800_000)


@pytest.mark.parametrize("index", IDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_sum_of_scaled_sources_is_the_sum(kind, dtype, index, monkeypatch):
    monkeypatch.setattr(panels.Panels, "multiplies_before", lambda way, *sizes: way.factor is not None)
    coo, x, number, weight = graph(kind), Operand(Side.U, 0), Operand(Side.U, 1), Operand(Side.E, 2)
    adj = Adjacency.from_coo(coo.num_src, coo.num_dst, coo.src.astype(index), coo.dst.astype(index))
    for width, reducer in ((1, Reducer.SUM), (5, Reducer.MEAN), (64, Reducer.SUM)):
        for expr in (x * number, number * x * weight, x * number * Operand(Side.V, 2)):
            values = operands(expr, coo, ((width,), (1,), (1,)))
            given = [torch.from_numpy(value).to(TORCH[dtype]) for value in values]
            before = [value.double().numpy() for value in given]
            result = core.spmm(adj, expr, reducer, given).double().numpy()
            assert_close(result, reference.spmm(expr, reducer, coo.src, coo.dst, coo.num_dst, before), dtype)
            assert all(np.array_equal(value.double().numpy(), old) for value, old in zip(given, before, strict=True))


def test_panels_are_made_for_the_third_cache_where_that_is_near(monkeypatch):
    monkeypatch.setattr(panels, "cache_level", {2: (1 << 20, 1), 3: (1 << 25, 16)}.get)
    monkeypatch.setattr(panels, "cpu", lambda: ("znver5", ""))
    for cores, share in ((1, 1 << 24), (2, 1 << 23), (64, 1 << 20)):
        monkeypatch.setattr(panels, "num_cores", lambda cores=cores: cores)
        assert near_cache.__wrapped__() == (1 << 24, share, panels.FITTING, 1 << 20)
    monkeypatch.setattr(panels, "cpu", lambda: ("sapphirerapids", ""))
    assert near_cache.__wrapped__() == (1 << 20, 1 << 20, 1.6, 1 << 20)


def test_operations_take_panels_where_they_pay(monkeypatch):
    taken = []
    run = panels.Panels.run
    monkeypatch.setattr(panels.Panels, "run", lambda self, *args: (taken.append(self.spec.expr), run(self, *args))[1])
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(0, 40, (2, 500), generator=generator)
    x = torch.rand(40, 80, dtype=torch.float64, generator=generator, requires_grad=True)
    e = torch.rand(500, 1, dtype=torch.float64, generator=generator, requires_grad=True)
    results = []
    for size in (0, 40 * 64 * 2):
        set_cache_bytes(monkeypatch, size)
        g = dglite.graph((src, dst), num_nodes=40)  # one of its own: calls that come again keep their kernel
        out = ops.u_mul_e_sum(g, x, e)
        results.append((out, *torch.autograd.grad(out.square().sum(), (x, e))))
    assert len(taken) == 2  # forward, and the gradient of x
    torch.testing.assert_close(*results)
